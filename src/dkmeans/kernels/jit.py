"""How loops are compiled: lazily, without the GIL, kept on disk."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function, **options: Any) -> _Function:
    """Compile lazily, without the GIL, and keep the result on disk if there is a place for it."""
    try:
        jitted = numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # nowhere to write
        jitted = numba.njit(nogil=True, **options)(function)
    return jitted
