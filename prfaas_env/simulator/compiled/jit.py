"""How the kernels are compiled, and where the machine code is kept."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config as numba_config

__all__ = ["bind", "c_entry", "entry", "kernel", "small"]

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def _cache_folder(*more: Path) -> str:
    """A writable folder named after the content of every source of the kernels (the simulator's, and those in the
    folders ``more``): new sources never meet old machine code.

    numba's own stamp is the one file that a function stands in, not those that it calls. ``PRFAAS_CACHE_DIR`` overrides
    the place; the default is the user's cache folder, so a read-only installation works.
    """
    here = Path(__file__).resolve().parent
    sources = sorted(source for folder in (here, here.parent, *more) for source in folder.glob("*.py"))
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sources:
        digest.update(source.read_bytes())
    home = os.environ.get("PRFAAS_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    for root in (Path(home) / "prfaas_env", Path(tempfile.gettempdir()) / f"prfaas_env-{os.getuid()}"):
        folder = root / f"kernels-{digest.hexdigest()[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return str(folder)
        except OSError:
            continue
    return tempfile.mkdtemp(prefix="prfaas_env-")


def kernel(function: F) -> F:
    """Compile a function of the kernel, to be called from other kernel functions only."""
    # No reference counts (_nrt): kernels allocate nothing, and counting every array of the state would cost more than
    # the work. No wrappers: each would unpack the whole state, and compiling that is what takes the time.
    return numba.njit(nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )


def small(function: F) -> F:
    """Compile a function of the kernel that belongs inside its callers."""
    return numba.njit(
        nogil=True,
        error_model="numpy",
        _nrt=False,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        forceinline=True,
    )(function)


@contextmanager
def _own_cache(*sources: Path) -> Iterator[None]:
    """The cache folder is set only while numba looks at it, so that a user's own functions keep theirs."""
    before = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = _cache_folder(*sources)
    try:
        yield
    finally:
        numba_config.CACHE_DIR = before


def c_entry(signature: str) -> Callable[[F], Any]:
    """Compile a function of the kernel with a C signature: it is compiled once, and called by its address.

    ``numba.njit`` would compile all that it calls again into every function that calls it.
    """

    def compile_it(function: F) -> Any:
        with _own_cache():
            return numba.cfunc(signature, cache=True, nogil=True, error_model="numpy", _nrt=False)(function)

    return compile_it


def entry(function: F, *, sources: tuple[Path, ...] = ()) -> F:
    """Compile a function that Python calls and that may make arrays; its machine code is kept in the cache.

    ``sources``: the folders, besides the simulator's, of all that it calls.
    """
    with _own_cache(*sources):
        return numba.njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)


def bind(law: F, **compiled: Any) -> F:
    """A shared law whose calls of other laws go to their compiled forms."""
    names = {**law.__globals__, **compiled}
    return types.FunctionType(law.__code__, names, law.__name__, law.__defaults__)  # type: ignore[return-value]
