"""Fetching public traces, from a server on this machine: whole, resumed, cut off, altered, absent."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import click.testing
import pytest

from prfaas_env.cli import fetching
from prfaas_env.config import ConfigError
from prfaas_env.workload import fetch as fetching_module
from prfaas_env.workload.fetch import PUBLIC_TRACES, PublicTrace, fetch, public_trace
from prfaas_env.workload.traces import TraceWorkload, cache_folder, find_trace, read_trace
from prfaas_env.workload.traces.files import digest
from prfaas_env.workload.traces.formats import FORMATS

CONTENT = (Path(__file__).parent / "data" / "mooncake_sample.jsonl").read_bytes()


@dataclass
class Server:
    """What it sends, how it behaves, and the ranges that it was asked for."""

    content: bytes = CONTENT
    ranges: bool = True  # whether it serves parts
    cut_after: int | None = None  # bytes of an answer before the connection ends
    status: int = 200
    asked: list[str | None] = field(default_factory=list)
    url: str = ""

    def trace(self, **fields: object) -> PublicTrace:
        known = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "size_bytes": len(CONTENT)}
        made = PublicTrace("own", self.url, "own/sample.jsonl", "mooncake", "none", "nobody", **known)  # type: ignore[arg-type]
        return replace(made, **fields)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.asked.append(asked)
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and state.ranges else 0
            status = 206 if start else state.status
            if start >= len(state.content):
                status = 416
            self.send_response(status)
            body = state.content[start:] if status in (200, 206) else b""
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{len(state.content) - 1}/{len(state.content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.cut_after])

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as listening:
        state.url = f"http://127.0.0.1:{listening.server_port}/sample.jsonl"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield state
        listening.shutdown()
        thread.join(timeout=5.0)


def part_of(folder: Path) -> Path:
    part = folder / "own" / "sample.jsonl.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    return part


def test_a_trace_is_fetched_once_and_found(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRFAAS_CACHE", str(tmp_path))
    steps: list[tuple[int, int | None]] = []
    path, sha256 = fetch(server.trace(), cache_folder(), lambda done, total: steps.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert [p.name for p in path.parent.iterdir()] == ["sample.jsonl"]
    assert fetch(server.trace(), cache_folder()) == (path, sha256)
    assert server.asked == [None]  # the second time nothing was asked for
    workload = TraceWorkload(path="own/sample.jsonl.gz", rate_scale=1.0, length_scale=1.0, sha256=sha256)
    assert len(workload.trace()) == 20  # a scenario may name it compressed


def test_an_interrupted_download_goes_on(server: Server, tmp_path: Path) -> None:
    server.cut_after = 700
    with pytest.raises(ConfigError, match=rf"ended after 700 of {len(CONTENT):,} bytes; run again"):
        fetch(server.trace(), tmp_path)
    assert not (tmp_path / "own" / "sample.jsonl").exists()
    server.cut_after = None
    path, _ = fetch(server.trace(), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=700-"]


def test_a_server_without_ranges_sends_it_anew(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    part_of(tmp_path).write_bytes(b"x" * 700)
    path, _ = fetch(server.trace(), tmp_path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("size_bytes", [len(CONTENT), None])
def test_a_part_that_is_whole_or_too_long(server: Server, tmp_path: Path, size_bytes: int | None) -> None:
    part_of(tmp_path).write_bytes(CONTENT)
    assert fetch(server.trace(size_bytes=size_bytes), tmp_path)[0].read_bytes() == CONTENT
    (tmp_path / "own" / "sample.jsonl").unlink()
    part_of(tmp_path).write_bytes(CONTENT + b"more")
    assert fetch(server.trace(size_bytes=size_bytes), tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[:-1] + b"x", "expected sha256 .* what came has been deleted"),
        (CONTENT + b"more", "bytes, got more; what came has been deleted"),
    ],
)
def test_another_file_is_not_taken(server: Server, tmp_path: Path, content: bytes, message: str) -> None:
    server.content = content
    with pytest.raises(ConfigError, match=message):
        fetch(server.trace(), tmp_path)
    assert list((tmp_path / "own").iterdir()) == []


def test_a_changed_file_in_the_cache_is_named(server: Server, tmp_path: Path) -> None:
    path, _ = fetch(server.trace(), tmp_path)
    path.write_bytes(b"changed")
    with pytest.raises(ConfigError, match=r"not the file that was fetched .* delete it"):
        fetch(server.trace(), tmp_path)


def test_an_unknown_sum_is_told(server: Server, tmp_path: Path) -> None:
    _, sha256 = fetch(server.trace(sha256=None, size_bytes=None), tmp_path)
    assert sha256 == hashlib.sha256(CONTENT).hexdigest()


def test_refusals_say_what_to_do(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.status = 404
    with pytest.raises(ConfigError, match=r"the server says 404 .*put it at .*sample.jsonl"):
        fetch(server.trace(), tmp_path)
    monkeypatch.setattr(fetching_module, "TIMEOUT_S", 2.0)
    with pytest.raises(ConfigError, match=r"no connection .*without a network, download it elsewhere and put it at"):
        fetch(server.trace(url="http://127.0.0.1:9/sample.jsonl"), tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be written"):
        fetch(server.trace(), blocked)


def test_the_command(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = click.testing.CliRunner().invoke
    monkeypatch.setenv("PRFAAS_CACHE", str(tmp_path))
    monkeypatch.setitem(PUBLIC_TRACES, "own", server.trace())
    said = run(fetching.command, ["own"])
    assert said.exit_code == 0, said.output
    assert str(tmp_path / "traces" / "own" / "sample.jsonl") in said.output
    assert "format: mooncake, path: own/sample.jsonl" in said.output
    listed = run(fetching.command, [])
    assert all(name in listed.output for name in PUBLIC_TRACES)
    assert [line.split()[-2] for line in listed.output.splitlines() if " own " in line] == ["yes"]
    elsewhere = run(fetching.command, ["own", "--folder", str(tmp_path / "else")])
    assert (tmp_path / "else" / "own" / "sample.jsonl").is_file(), elsewhere.output
    with pytest.raises(ConfigError, match="did you mean 'mooncake-conversation'"):
        public_trace("mooncake-conversations")


def test_the_cache_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRFAAS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "prfaas_env" / "traces"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
    assert cache_folder() == Path.home() / ".cache" / "prfaas_env" / "traces"


def test_the_registry_is_pinned() -> None:
    assert len({trace.path for trace in PUBLIC_TRACES.values()}) == len(PUBLIC_TRACES)
    for trace in PUBLIC_TRACES.values():
        assert trace.format in FORMATS
        assert any(
            len(part) == 40 and int(part, 16) for part in trace.url.split("/") if set(part) <= set("0123456789abcdef")
        )
        assert trace.sha256 is not None
        assert len(trace.sha256) == 64
        assert int(trace.sha256, 16)


@pytest.mark.parametrize(("name", "rows"), [("mooncake-conversation", 12_031), ("azure-2023-conv", 19_366)])
def test_the_registry_knows_the_real_files(name: str, rows: int, real_trace: Callable[[str], Path]) -> None:
    trace = PUBLIC_TRACES[name]
    path = real_trace(trace.path)
    assert find_trace(trace.path) == path
    assert digest(path) == trace.sha256
    assert len(read_trace(path, form=trace.format, strict=True)) == rows
