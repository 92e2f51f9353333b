"""Find equal rows by a hash of their values that is the same for dense and sparse rows.

Magnitudes below 2**-480 count as zero. Rows that still differ do so by at least 2**-533 in some
feature, whose square does not underflow: their distance is not zero.
"""

from types import ModuleType

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Matrix

MIXER = 0xD6E8FEB86659FD93
Hashes = npt.NDArray[np.uint64]


def hash_rows(X: Matrix, loops: ModuleType | None = None) -> Hashes:
    """Hash each row of a block. Zeros add nothing, so CSR rows hash like dense rows.

    `loops` is `kernels.loops`, or None to use NumPy.
    """
    if loops is not None and not sp.issparse(X):
        hashes = np.empty(len(X), dtype=np.uint64)
        limit = np.array([2.0**-480], dtype=X.dtype).view(f"u{X.dtype.itemsize}")[0]
        bits = X.view(f"u{X.dtype.itemsize}")
        loops.hash_rows(bits, limit, _column_keys(X.shape[1]), hashes)
        return hashes
    if sp.issparse(X):
        scrambled = _scramble(X.data, _column_keys(X.shape[1])[X.indices])
        sums = np.zeros(len(X.indptr), dtype=np.uint64)
        np.cumsum(scrambled, out=(running := np.empty_like(scrambled)))
        sums[1:] = np.concatenate([np.zeros(1, np.uint64), running])[X.indptr[1:]]
        return np.diff(sums)  # wraps around, as the sum itself does
    return _scramble(X, _column_keys(X.shape[1])).sum(axis=1, dtype=np.uint64)


def flush(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Replace tiny magnitudes and -0.0 by 0.0."""
    threshold = values.dtype.type(2.0**-480)  # 0 in float32
    return np.where(np.abs(values) <= threshold, values.dtype.type(0), values)


def _scramble(values: npt.NDArray[np.floating], keys: Hashes) -> Hashes:
    bits = flush(values).view(np.dtype(f"u{values.dtype.itemsize}"))
    bits = bits.astype(np.uint64)
    bits ^= bits >> np.uint64(32)  # numbers such as 2.0 have only high bits set
    mixed = bits * keys
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(MIXER)
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _column_keys(n_columns: int) -> Hashes:
    """Return one odd 64-bit number per column, from the splitmix64 sequence."""
    z = np.arange(1, n_columns + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)
