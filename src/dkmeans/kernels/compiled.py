"""When to use the compiled loops: where numba is installed, and for data that are worth it.

Small problems never wait for a compiler, nor for the import of numba.
"""

from functools import cache
from types import ModuleType

import scipy.sparse as sp

from dkmeans.kernels.block import Matrix

ENOUGH = 1 << 22  # values in the data as a whole; never by block


def loops_for(X: Matrix) -> ModuleType | None:
    """Return `kernels.loops`, or None where NumPy should do the work."""
    large = not sp.issparse(X) and X.shape[0] * X.shape[1] >= ENOUGH
    return _loops() if large else None


@cache
def _loops() -> ModuleType | None:
    try:
        from dkmeans.kernels import loops
    except ImportError:
        return None
    return loops
