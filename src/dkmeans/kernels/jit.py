"""Compile loops with numba: lazily, without the GIL, cached on disk."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import CellType, FunctionType
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function, **options: Any) -> _Function:
    """Compile lazily, without the GIL, and cache the result on disk if a folder is writable."""
    keyed = _keyed_by_sources(cast(FunctionType, function))
    try:
        jitted = numba.njit(nogil=True, cache=True, **options)(keyed)
    except RuntimeError:  # no writable cache folder
        jitted = numba.njit(nogil=True, **options)(keyed)
    return cast(_Function, jitted)


def _keyed_by_sources(function: FunctionType) -> FunctionType:
    """Make the sources of all kernels part of numba's cache key of a function.

    By default numba checks the function's own file only, and would reuse code generated from an
    older version of another file. Closure variables are part of the key.
    """
    code = function.__code__.replace(co_freevars=("sources",))
    closure = (CellType(_SOURCES),)
    keyed = FunctionType(code, function.__globals__, function.__name__, closure=closure)
    keyed.__module__, keyed.__qualname__ = function.__module__, function.__qualname__
    keyed.__doc__ = function.__doc__
    return keyed


def _digest_of_sources() -> str:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


_SOURCES = _digest_of_sources()
