"""Hashes of the values of rows, the same for dense and sparse rows.

`hash_rows` finds equal rows. `sampling_hashes` draws samples: a column times a power of two
changes nothing.

Magnitudes below 2**-480 count as zero. Rows that still differ do so by at least 2**-533 in some
feature, whose square does not underflow: their distance is not zero.
"""

from types import ModuleType

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix

MIXER = 0xD6E8FEB86659FD93
GOLDEN = 0x9E3779B97F4A7C15  # increment of splitmix64
ZERO_LIMIT = 2.0**-480  # magnitudes up to this count as zero
EXPONENT_SHIFT = 52  # position of the exponent in the bits of a float64
Hashes = npt.NDArray[np.uint64]


def hash_rows(X: Matrix, loops: ModuleType | None = None) -> Hashes:
    """Hash each row of a block. Zeros add nothing, so CSR rows hash like dense rows.

    `loops` is `kernels.loops`, or None to use NumPy.
    """
    if loops is not None and not sp.issparse(X):
        hashes = np.empty(len(X), dtype=np.uint64)
        limit = np.array([ZERO_LIMIT], dtype=X.dtype).view(f"u{X.dtype.itemsize}")[0]
        bits = X.view(f"u{X.dtype.itemsize}")
        loops.hash_rows(bits, limit, _column_keys(X.shape[1]), hashes)
        return hashes
    if sp.issparse(X):
        return _row_sums(_scramble(X.data, _column_keys(X.shape[1])[X.indices]), X.indptr)
    return _scramble(X, _column_keys(X.shape[1])).sum(axis=1, dtype=np.uint64)


def sampling_hashes(X: Matrix, largest: Floats, loops: ModuleType | None = None) -> Hashes:
    """Hash each row of a block, with columns in units of a power of two near their largest value.

    So the hashes do not depend on the units of columns, as far as these differ by powers of two,
    nor on the type of the values.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    largest : array of shape (d,)
        Largest magnitude of each column, among all rows with a weight.
    loops : module, optional
        `kernels.loops`, or None to use NumPy.
    """
    shifts = np.frexp(largest)[1].astype(np.int64).view(np.uint64) << np.uint64(EXPONENT_SHIFT)
    keys = _column_keys(X.shape[1])
    if loops is not None and not sp.issparse(X):
        hashes = np.empty(len(X), dtype=np.uint64)
        loops.hash_shifted_rows(X, shifts, keys, hashes)
        return hashes
    if sp.issparse(X):
        values = _shifted(X.data, shifts[X.indices])
        return _row_sums(_mix(values, keys[X.indices]), X.indptr)
    return _mix(_shifted(X, shifts), keys).sum(axis=1, dtype=np.uint64)


def salted(hashes: Hashes, salt: int) -> Hashes:
    """Return other hashes for each salt, evenly distributed; different hashes stay different."""
    z = hashes ^ np.uint64((salt + 1) * GOLDEN % 2**64)
    return _finalize(z)


def flush(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Replace tiny magnitudes and -0.0 by 0.0."""
    threshold = values.dtype.type(ZERO_LIMIT)  # 0 in float32
    return np.where(np.abs(values) <= threshold, values.dtype.type(0), values)


def _scramble(values: npt.NDArray[np.floating], keys: Hashes) -> Hashes:
    bits = flush(values).view(np.dtype(f"u{values.dtype.itemsize}"))
    return _mix(bits.astype(np.uint64), keys)


def _shifted(values: npt.NDArray[np.floating], shifts: Hashes) -> Hashes:
    """Return the bits of values, as float64, with shifts subtracted from those that are not 0."""
    bits = flush(values.astype(np.float64)).view(np.uint64)
    return np.where(bits == 0, bits, bits - shifts)


def _mix(bits: Hashes, keys: Hashes) -> Hashes:
    bits ^= bits >> np.uint64(32)  # numbers such as 2.0 have only high bits set
    mixed = bits * keys
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(MIXER)
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _row_sums(values: Hashes, indptr: Indices) -> Hashes:
    """Sum the values of each row of a CSR matrix."""
    sums = np.zeros(len(indptr), dtype=np.uint64)
    np.cumsum(values, out=(running := np.empty_like(values)))
    sums[1:] = np.concatenate([np.zeros(1, np.uint64), running])[indptr[1:]]
    return np.diff(sums)  # wraps around, as the sum itself does


def _column_keys(n_columns: int) -> Hashes:
    """Return one odd 64-bit number per column, from the splitmix64 sequence."""
    z = np.arange(1, n_columns + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return _finalize(z) | np.uint64(1)


def _finalize(z: Hashes) -> Hashes:
    """Scramble all bits, as splitmix64 does."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
