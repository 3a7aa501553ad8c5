"""Text files in pieces: plain or gzip-compressed, whole lines, never more than a block in memory."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from prfaas_env.config import ConfigError

__all__ = ["Lines", "digest", "line_blocks"]

BLOCK_BYTES = 8 << 20  # also the longest line: a million tokens in blocks of 16 are 62,500 ids, some 1.3 MB
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Lines(NamedTuple):
    """Consecutive lines without their ends: the numbers of those that are not blank, and their text.

    ``cut``: the file ends with the last of them, and not by an end of line.
    """

    numbers: list[int]
    texts: list[str]
    cut: bool

    @property
    def cut_line(self) -> int | None:
        return self.numbers[-1] if self.cut and self.numbers else None


def digest(path: Path) -> str:
    """SHA-256 of the content, decompressed if it is gzip. Raises :class:`ConfigError`."""
    found = hashlib.sha256()
    for piece in _pieces(path):
        found.update(piece)
    return found.hexdigest()


def line_blocks(path: Path) -> Iterator[Lines]:
    """The lines of a file, some megabytes at a time.

    Raises :class:`ConfigError` where the file cannot be read, is not UTF-8, is a truncated or broken gzip, or has a
    line that no trace can have.
    """
    number, rest = 1, b""
    for piece in _pieces(path):
        whole, end, rest = (rest + piece).rpartition(b"\n")
        if len(rest) > BLOCK_BYTES:
            line = number + whole.count(b"\n") + len(end)
            raise ConfigError(f"{path}: line {line} is longer than {BLOCK_BYTES >> 20} MiB: not one request a line")
        if end:
            yield _lines(path, whole, number, cut=False)
            number += whole.count(b"\n") + 1
    if rest:
        yield _lines(path, rest, number, cut=True)


def _lines(path: Path, raw: bytes, first: int, cut: bool) -> Lines:
    try:
        text = raw.removeprefix(_BYTE_ORDER_MARK if first == 1 else b"").decode("utf-8")
    except UnicodeDecodeError as error:
        line = first + raw.count(b"\n", 0, error.start)
        raise ConfigError(f"{path}: not a text file: line {line} is not UTF-8") from None
    lines = text.replace("\r\n", "\n").removesuffix("\r").split("\n")
    numbers = list(range(first, first + len(lines)))
    if not all(lines) or any(map(str.isspace, lines)):
        numbers = [number for number, line in zip(numbers, lines, strict=True) if line and not line.isspace()]
        lines = [lines[number - first] for number in numbers]
    return Lines(numbers, lines, cut)


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as raw:
            compressed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if compressed else raw
            while piece := stream.read(BLOCK_BYTES):
                yield piece
    except EOFError:
        raise ConfigError(f"{path}: the trace is truncated: the gzip stream ends early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ConfigError(f"{path}: not a valid gzip file ({error})") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
