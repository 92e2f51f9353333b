"""When to use the compiled loops: where numba is installed, and for data that are worth it.

Small problems never wait for a compiler, nor for the import of numba. NUMBA_DISABLE_JIT=1 in the
environment leaves all work to NumPy.
"""

import os
from functools import cache
from types import ModuleType

import scipy.sparse as sp

from dkmeans.kernels.block import Matrix

ENOUGH = 1 << 22  # values in the data as a whole; never by block
ENOUGH_PAIRS = 1 << 28  # or values times centres


def loops_for(X: Matrix, n_centers: int = 1) -> ModuleType | None:
    """Return `kernels.loops`, or None where NumPy should do the work."""
    values = X.nnz if sp.issparse(X) else X.shape[0] * X.shape[1]
    return loops_if(compiled=is_worth_it(values, n_centers))


def is_worth_it(n_values: int, n_centers: int = 1) -> bool:
    """Tell whether there is enough to do for so many values and centres."""
    return n_values >= ENOUGH or n_values * n_centers >= ENOUGH_PAIRS


def loops_if(*, compiled: bool) -> ModuleType | None:
    """Return `kernels.loops` if it is wanted and there."""
    return _loops() if compiled else None


@cache
def _loops() -> ModuleType | None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    try:
        from dkmeans.kernels import loops
    except ImportError:
        return None
    return loops
