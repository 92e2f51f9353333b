"""Decide when to use the compiled loops: if numba is installed and the data are large.

Small problems wait neither for a compiler nor for the import of numba; loops that are
loaded already are used sooner. With NUMBA_DISABLE_JIT=1 in the environment, NumPy does all the
work.
"""

import os
import sys
from functools import cache
from types import ModuleType

import scipy.sparse as sp

from dkmeans.kernels.block import Matrix

# Thresholds for the data as a whole: blocks of the same data always use the same kernels.
ENOUGH = 1 << 22  # values
ENOUGH_PAIRS = 1 << 28  # values times centres
ENOUGH_LOADED = 1 << 24  # values times centres, if the loops have been used before
ENOUGH_TO_SCAN = 1 << 19  # the same, for the nearest of all centres
# Of so many centres, matrix products find the nearest sooner than loops. (Of two, the loops only
# read the rows; of more, they fill their registers.)
SOME_CENTERS = range(3, 24)


def loops_for(X: Matrix, n_centers: int = 1) -> ModuleType | None:
    """Return `kernels.loops`, or None if NumPy should do the work."""
    values = X.nnz if sp.issparse(X) else X.shape[0] * X.shape[1]
    return loops_if(compiled=is_worth_it_now(values, n_centers))


def loops_for_nearest(X: Matrix, n_centers: int) -> ModuleType | None:
    """Do the same as `loops_for`, for a search for the nearest of all centres."""
    if sp.issparse(X):
        return loops_for(X, n_centers)
    if n_centers in SOME_CENTERS:
        return None
    n_values = X.shape[0] * X.shape[1]
    loaded = n_centers >= SOME_CENTERS.stop and loops_in_use() is not None
    return loops_if(
        compiled=is_worth_it(n_values, n_centers)
        or (loaded and n_values * n_centers >= ENOUGH_TO_SCAN)
    )


def is_worth_it(n_values: int, n_centers: int = 1) -> bool:
    """Return whether the data are large enough for compiled loops."""
    return n_values >= ENOUGH or n_values * n_centers >= ENOUGH_PAIRS


def is_worth_it_now(n_values: int, n_centers: int = 1) -> bool:
    """Return whether they are, given that the loops may have been loaded before."""
    loaded = loops_in_use() is not None and n_values * n_centers >= ENOUGH_LOADED
    return loaded or is_worth_it(n_values, n_centers)


def loops_if(*, compiled: bool) -> ModuleType | None:
    """Return `kernels.loops` if `compiled` is true and numba is available, else None."""
    return _loops() if compiled else None


def loops_in_use() -> ModuleType | None:
    """Return `kernels.loops` if something has used it already, else None."""
    return sys.modules.get("dkmeans.kernels.loops")


@cache
def _loops() -> ModuleType | None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    try:
        from dkmeans.kernels import loops
    except ImportError:
        return None
    return loops
