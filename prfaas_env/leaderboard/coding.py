"""The controls of an episode as text: columns, byte by byte of all steps together, compressed, in base 64."""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.controls import CONTROL_DTYPE, control_of

__all__ = ["pack", "unpack"]


def pack(controls: np.ndarray) -> str:
    """``CONTROL_DTYPE`` rows as text. The bytes of like weight lie together: controls that move little take little."""
    columns = (np.ascontiguousarray(controls[name]).view(np.uint8) for name in CONTROL_DTYPE.names or ())
    plain = b"".join(column.reshape(len(controls), -1).T.tobytes() for column in columns)
    return base64.b64encode(zlib.compress(plain, 9)).decode("ascii")


def unpack(text: str, steps: int) -> np.ndarray:
    """``CONTROL_DTYPE``, shape (steps,), from :func:`pack`; nothing longer is ever unfolded.

    Raises :class:`ConfigError` if the text is damaged, is of another number of steps, or holds what is no control.
    """
    size = steps * CONTROL_DTYPE.itemsize
    unfolding = zlib.decompressobj()
    try:
        plain = unfolding.decompress(base64.b64decode(text, validate=True), size + 1)
    except (ValueError, binascii.Error, zlib.error):
        raise ConfigError("controls: damaged: expected base 64 of compressed controls") from None
    if len(plain) != size or not unfolding.eof or unfolding.unused_data:
        raise ConfigError(f"controls: expected those of {steps} control steps")
    controls, start = np.empty(steps, CONTROL_DTYPE), 0
    for name in CONTROL_DTYPE.names or ():
        width = CONTROL_DTYPE[name].itemsize
        planes = np.frombuffer(plain, np.uint8, steps * width, start).reshape(width, steps)
        if CONTROL_DTYPE[name].kind == "b" and planes.max(initial=0) > 1:
            raise ConfigError(f"controls: {name}: expected 0 or 1")
        controls[name] = np.ascontiguousarray(planes.T).view(CONTROL_DTYPE[name]).reshape(steps)
        start += steps * width
    for row in controls:
        control_of(row)
    return controls
