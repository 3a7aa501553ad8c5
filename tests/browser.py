"""Pages in tests: what one carries, and a real browser, Chromium through its DevTools pipe; without it tests skip."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from prfaas_env.pages.packing import unpacked_json

__all__ = ["Browser", "carried", "chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome")


def carried(page: str, name: str) -> Any:
    """What a page carries packed: its ``charts``, or what its ``explorer`` shows."""
    return unpacked_json(re.findall(rf'id="{name}">(.*?)</script>', page, flags=re.S)[0])


def chromium() -> str:
    """Its path; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine: the page cannot be opened")
    return found


class Browser:
    """One page in a headless window of ``width`` × ``height`` pixels, dark or light by the system's wish.

    ``complaints`` are what the page wrote to its console, or threw.
    """

    def __init__(self, profile: Path, width: int = 1300, height: int = 900, *, dark: bool = False) -> None:
        self.complaints: list[str] = []
        self._number, self._session, self._buffer = 0, None, b""
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]
        command = [chromium(), *flags, f"--user-data-dir={profile}", "about:blank"]
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]

        def place() -> None:
            """Chromium reads commands from descriptor 3 and writes to 4."""
            for end, number in zip(theirs, (3, 4), strict=True):
                os.dup2(end, number)

        self._process = subprocess.Popen(command, preexec_fn=place, pass_fds=(3, 4), stderr=subprocess.DEVNULL)
        for end in (to_read, to_write, *theirs):
            os.close(end)
        try:
            page = self.call("Target.createTarget", url="about:blank")["targetId"]
        except (BrokenPipeError, EOFError):
            self.close()
            pytest.skip(f"{command[0]} does not start on this machine: the page cannot be opened")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        mobile = width < 500
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the browser, however it fares."""
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._hear(answer)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, condition: str, seconds: float = 60.0) -> None:
        """Until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < end, f"not in {seconds} s: {condition}; {self.complaints}"
            time.sleep(0.05)

    def open(self, page: Path, fragment: str = "") -> None:
        self.call("Page.navigate", url=page.absolute().as_uri() + fragment)
        self.wait(f"document.readyState === 'complete' && location.pathname === {json.dumps(str(page.absolute()))}")

    def press(self, key: str, code: int, text: str = "") -> None:
        """A key of the keyboard, down and up."""
        said = {"key": key, "code": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **said)
        self.call("Input.dispatchKeyEvent", type="keyUp", **said)

    def choose(self, select: str, value: str) -> None:
        """A choice in a drop-down, as a reader makes it."""
        found = f"document.querySelector({json.dumps(select)})"
        event = "new Event('change', { bubbles: true })"
        self.evaluate(f"{found}.value = {json.dumps(value)}; {found}.dispatchEvent({event}); true")

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._read, 1 << 20)
            if not read:
                raise EOFError("Chromium has ended")
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def _hear(self, event: dict[str, Any]) -> None:
        said = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                self.complaints.append(" ".join(str(one.get("value", one.get("description"))) for one in said["args"]))
            case "Runtime.exceptionThrown":
                details = said["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            case "Log.entryAdded":
                self.complaints.append(said["entry"]["text"])
