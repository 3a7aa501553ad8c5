"""Public traces: where each can be had, at which revision, and a download that resumes and is checked.

The traces are others' work under their own licences; the project contains none of them. Revisions are pinned: a file
that changes upstream is not picked up unseen.
"""

from __future__ import annotations

import hashlib
import http
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prfaas_env.config import ConfigError, nearest
from prfaas_env.workload.traces.formats import FormatName

__all__ = ["PUBLIC_TRACES", "PublicTrace", "fetch", "public_trace"]

TIMEOUT_S = 30.0
_PIECE_BYTES = 1 << 18

# Told after each piece: bytes there so far, and of how many (None: the server does not say).
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class PublicTrace:
    """A trace file of others. ``path`` is its place below the cache folder, and its ``path`` in a scenario.

    ``size_bytes`` and ``sha256`` of ``None`` are not known to us; what came is then taken as it is, and its sum told.
    """

    name: str
    url: str
    path: str
    format: FormatName
    licence: str
    cite: str
    sha256: str | None
    size_bytes: int | None = None


_MOONCAKE = "https://raw.githubusercontent.com/kvcache-ai/Mooncake/3b5a594133958449a1feaf1c9e0fc1b553e34a28"
_AZURE = "https://raw.githubusercontent.com/Azure/AzurePublicDataset/b469a113cedca53ddc3bdea71a143dc4b7d8700c"
_BURSTGPT = "https://media.githubusercontent.com/media/HPMLL/BurstGPT"  # large files are served from here (Git LFS)


def _mooncake(which: str, sha256: str, size_bytes: int) -> PublicTrace:
    file = f"{which}_trace.jsonl"
    url = f"{_MOONCAKE}/FAST25-release/traces/{file}"
    cite = "Qin et al., Mooncake, FAST 2025"
    return PublicTrace(
        f"mooncake-{which}", url, f"mooncake-fast25/{file}", "mooncake", "Apache-2.0", cite, sha256, size_bytes
    )


def _azure(which: str, sha256: str, size_bytes: int | None) -> PublicTrace:
    file = f"AzureLLMInferenceTrace_{which}.csv"
    cite = "Patel et al., Splitwise, ISCA 2024"
    return PublicTrace(
        f"azure-2023-{which}",
        f"{_AZURE}/data/{file}",
        f"azure-llm-2023/{file}",
        "azure",
        "CC-BY-4.0",
        cite,
        sha256,
        size_bytes,
    )


def _burstgpt(name: str, commit: str, file: str, sha256: str, size_bytes: int) -> PublicTrace:
    cite = "Wang et al., BurstGPT, arXiv 2401.17644"
    url = f"{_BURSTGPT}/{commit}/data/{file}"
    return PublicTrace(name, url, f"burstgpt/{file}", "burstgpt", "see repository", cite, sha256, size_bytes)


# Sums: conversation and conv from the files themselves; BurstGPT from the Git LFS pointers at the pinned commits;
# toolagent, synthetic and code as several independent users of the files have published them.
PUBLIC_TRACES = {
    trace.name: trace
    for trace in (
        _mooncake("conversation", "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df", 3_029_533),
        _mooncake("toolagent", "48a2db1a13d3bc05e6330140c64f604ba366df20d3c9e128b5c35a01c1fa5f71", 3_536_999),
        _mooncake("synthetic", "bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131", 1_022_025),
        _azure("conv", "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8", 719_188),
        _azure("code", "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6", None),
        _burstgpt(
            "burstgpt-1",
            "5d93d820d9b6bee4e26914df003e5713538164ae",
            "BurstGPT_without_fails_1.csv",
            "a4d068a7113ec0290e74063a1b3447dc6001a30e4298eb313581b71006dda1f4",
            51_429_517,
        ),
        _burstgpt(
            "burstgpt-2",
            "1f52bc81aab7392cc30cc10b244396d9480b245d",
            "BurstGPT_without_fails_2.csv",
            "56193aa9b2bb26128ded43d2d29a960df6bf5af062bcfc9b005f3fcaa4e6e501",
            142_376_815,
        ),
    )
}


def public_trace(name: str) -> PublicTrace:
    """A public trace by name. Raises :class:`ConfigError` with the nearest valid one."""
    if name not in PUBLIC_TRACES:
        raise ConfigError(f"unknown trace {name!r}{nearest(name, PUBLIC_TRACES)}")
    return PUBLIC_TRACES[name]


def fetch(trace: PublicTrace, folder: Path, progress: Progress = lambda done, total: None) -> tuple[Path, str]:
    """Download a trace into its place below ``folder``; what is there already is kept. Its path and its SHA-256.

    An interrupted download is taken up where it ended. The file appears under its name only when it is whole and its
    sum is right. Raises :class:`ConfigError` where the server cannot be reached or sends something else.
    """
    target = folder / trace.path
    part = target.with_name(target.name + ".part")
    try:
        if target.is_file():
            found = _sha256(target)
            if trace.sha256 in (None, found):
                return target, found
            raise ConfigError(
                f"{target}: not the file that was fetched (sha256 {found[:12]}…): delete it to fetch anew"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        if trace.size_bytes is None or not part.is_file() or part.stat().st_size != trace.size_bytes:
            _download(trace, part, target, progress)
        found = _sha256(part)
        if trace.sha256 not in (None, found):
            part.unlink()
            raise ConfigError(
                f"{trace.url}: expected sha256 {trace.sha256[:12]}…, got {found[:12]}…; what came has been deleted"
            )
        os.replace(part, target)
    except OSError as error:
        raise ConfigError(f"{error.filename or target}: cannot be written ({error.strerror or error})") from None
    return target, found


def _download(trace: PublicTrace, part: Path, target: Path, progress: Progress) -> None:
    """All of the file into ``part``, from the byte on where it ends. Raises :class:`ConfigError`."""
    try:
        with _opened(trace.url, part.stat().st_size if part.is_file() else 0) as (response, start):
            length = response.headers.get("Content-Length")
            total = start + int(length) if length is not None else trace.size_bytes
            done = start
            with part.open("ab" if start else "wb") as file:
                while piece := response.read(_PIECE_BYTES):
                    file.write(piece)
                    done += len(piece)
                    progress(done, total)
                    if trace.size_bytes is not None and done > trace.size_bytes:
                        break
    except urllib.error.HTTPError as error:
        raise ConfigError(f"{trace.url}: the server says {error.code} {error.reason}; {_by_hand(target)}") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(f"{trace.url}: no connection ({reason}); {_by_hand(target)}") from None
    if total is not None and done < total:
        raise ConfigError(f"{trace.url}: the connection ended after {done:,} of {total:,} bytes; run again to go on")
    if trace.size_bytes is not None and done > trace.size_bytes:
        part.unlink()
        raise ConfigError(f"{trace.url}: expected {trace.size_bytes:,} bytes, got more; what came has been deleted")


@contextmanager
def _opened(url: str, start: int) -> Iterator[tuple[http.client.HTTPResponse, int]]:
    """The answer to a request for ``url`` from byte ``start`` on, and the byte that it really begins with."""
    if start:
        try:
            with _get(url, start) as response:
                began = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
                if response.status == http.HTTPStatus.PARTIAL_CONTENT and began:
                    yield response, start
                    return
                if response.status == http.HTTPStatus.OK:  # the server does not serve parts
                    yield response, 0
                    return
        except urllib.error.HTTPError as error:
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
    with _get(url, 0) as response:
        yield response, 0


def _get(url: str, start: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": "prfaas_env", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    answer: http.client.HTTPResponse = urllib.request.urlopen(
        urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S
    )
    return answer


def _by_hand(target: Path) -> str:
    return f"without a network, download it elsewhere and put it at {target} (plain, or compressed as {target.name}.gz)"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
