"""Checks of arrays: values, labels, weights and sparse formats."""

import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.exact import leading_bits
from dkmeans.kernels.tally import exact_totals
from dkmeans.kernels.threads import for_each, tiles

_VALUES = 1 << 18  # that are looked at together: they stay in the cache
WIDEST = 2.0**80  # weights may span this much; lighter ones count as that light
_CLASS_BITS = 43  # of class weights: times a whole weight up to 1024 they are exact
_SMALL = 2.0**-420  # less than 2^-480 counts as zero, see `kernels.rowhash`
_SMALL_TO_REFINE = 2.0**-200  # refinement divides by fourth powers of distances
_NEGLIGIBLE = 1e-6  # a class with less than this share of the largest class weight counts as 0


class InvalidParameterError(ValueError, TypeError):
    """A parameter of the estimator has a value or a type that is not accepted."""


def check_same_kind(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> None:
    """Refuse to mix labels that are numbers with labels that are text."""
    if (old.dtype.kind in "biuf") != (new.dtype.kind in "biuf"):
        raise ValueError(
            f"y has labels such as {new[:1].tolist()[0]!r}, but the labels known so far are such "
            f"as {old[:1].tolist()[0]!r}: all must be numbers, or all must be text."
        )


def require_labels(y: Any, name: str) -> None:
    """Refuse a question of some name without labels."""
    if y is None:
        raise ValueError(f"{name} needs the class labels of the rows, but y is None.")


def as_labels(y: Any) -> Any:
    """Make an array of labels, and refuse those that are missing, or both numbers and text.

    What has no one dimension, and labels of any other kind, are left as they are.
    """
    if isinstance(y, str):
        raise ValueError(
            f"y={y!r} names a column, which is for paths and Dask dataframes: pass the labels of a "
            f"dataframe in memory themselves, as in fit(df.drop(columns={y!r}), df[{y!r}])."
        )
    if isinstance(y, list | tuple) and len({isinstance(value, str) for value in y}) == 2:
        labels = np.empty(len(y), dtype=object)
        labels[:] = y  # NumPy would make text of all of them
    else:
        labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "fOT":
        return y if labels.ndim != 1 else labels
    if labels.dtype.kind == "f":
        missing = np.flatnonzero(np.isnan(labels))
    else:
        missing = np.flatnonzero([_is_missing(value) for value in labels])
    if len(missing):
        row = int(missing[0])
        value = "NaN" if str(labels[row]) == "nan" else labels[row]
        raise ValueError(
            f"y contains {value}: {len(missing)} of the labels are missing, the first in row "
            f"{row}; drop these rows, or give them a label."
        )
    if labels.dtype.kind == "T":
        return np.array(labels.tolist(), dtype=str)
    values = labels.tolist()
    if labels.dtype.kind == "O" and all(isinstance(v, str | numbers.Number) for v in values):
        text = np.array([isinstance(value, str) for value in values], dtype=bool)
        if text.any() and not text.all():
            raise ValueError(
                f"y has labels that are text, such as {values[int(text.argmax())]!r}, and labels "
                f"that are numbers, such as {values[int(text.argmin())]!r}: make all of them text, "
                "or all numbers."
            )
        return labels if text.all() else np.array(values)
    return labels


def _is_missing(value: Any) -> bool:
    """Tell whether a label is None, NaN, or a missing value of pandas."""
    if value is None or isinstance(value, str):
        return value is None
    try:
        return bool(value != value)
    except TypeError:  # what pandas.NA says to any question
        return True
    except ValueError:  # an array, which is no label at all
        return False


def as_csr(X: Any) -> Matrix:
    """Make CSR of a sparse matrix of any format, each column at most once in a row, in order.

    All that is sparse comes through here. SciPy's constructors do not look at index arrays, and
    compiled code reads and writes wherever they point.
    """
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, but the sparse array has {X.ndim}.")
    check_index_arrays(X)
    if X.dtype.kind in "biuf" and X.dtype != np.float32:
        X = X.astype(np.float64, copy=False)
    X = X.tocsr()
    if not X.has_canonical_format or len(X.data) > X.nnz:
        X = X.copy()
        X.prune()
        X.sum_duplicates()
    return X


def check_index_arrays(X: Any) -> None:
    """Refuse index arrays that point out of a CSR, CSC or BSR matrix; other formats have none."""
    if not hasattr(X, "indptr"):
        return

    def require(ok: bool, problem: str) -> None:
        if not ok:
            raise ValueError(
                f"X is a {X.format.upper()} matrix of the shape {X.shape} whose index arrays are "
                f"not valid: {problem}; build it with scipy.sparse.coo_array, which checks them."
            )

    block = X.blocksize if X.format == "bsr" else (1, 1)
    sizes = X.shape[0] // block[0], X.shape[1] // block[1]
    n_lines, n_places = sizes[::-1] if X.format == "csc" else sizes
    indptr, indices = X.indptr, X.indices
    for name, array in (("indptr", indptr), ("indices", indices)):
        integers = array.ndim == 1 and array.dtype.kind in "iu"
        require(integers, f"{name} is not a list of integers")
    require(
        len(indptr) == n_lines + 1, f"indptr has {len(indptr)} entries, and must have {n_lines + 1}"
    )
    require(indptr[0] == 0, f"indptr starts with {indptr[0]}, and must start with 0")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        at = int(falls.argmax()) + 1
        require(False, f"indptr falls from {indptr[at - 1]} to {indptr[at]} at position {at}")
    end = int(indptr[-1])
    n_indices, n_values = len(indices), len(X.data)
    require(end <= n_indices, f"indptr ends with {end}, but indices has {n_indices} entries")
    require(n_indices == n_values, f"indices has {n_indices} entries, but data has {n_values}")
    if end:
        low, high = int(indices[:end].min()), int(indices[:end].max())
        odd = low if low < 0 else high
        places = f"{n_places} {'rows' if X.format == 'csc' else 'columns'}"
        require(low >= 0 and high < n_places, f"indices has {odd}, which is none of the {places}")


def finite_range(X: Matrix, names: npt.NDArray[Any] | None, n_threads: int) -> float:
    """Refuse NaN and infinity, saying where, and return the largest magnitude."""
    values = X.data if sp.issparse(X) else X
    step = max(1, _VALUES // values[0].size) if len(values) else 1
    tops = np.zeros(-(-len(values) // step))

    def task(part: slice) -> None:
        block = values[part]
        tops[part.start // step] = max(float(block.max()), -float(block.min()))  # NaN if any is

    for_each(task, tiles(len(values), step), n_threads)
    wrong = np.flatnonzero(~np.isfinite(tops))
    if len(wrong):
        start = int(wrong[0]) * step
        raise ValueError(_describe_value(X, slice(start, start + step), names))
    return float(tops.max(initial=0.0))


def _describe_value(X: Matrix, where: slice, names: npt.NDArray[Any] | None) -> str:
    """Say where the first value is that is not finite, in a part that has one."""
    values = X.data if sp.issparse(X) else X
    part = values[where]
    at = np.argwhere(~np.isfinite(part))[0]
    row, column = where.start + int(at[0]), int(at[-1])
    if sp.issparse(X):
        row, column = (
            int(np.searchsorted(X.indptr, row, side="right") - 1),
            int(X.indices[row]),
        )
    value = "NaN" if np.isnan(part[tuple(at)]) else "infinity (inf)"
    name = column if names is None else repr(str(names[column]))
    count = int(np.count_nonzero(~np.isfinite(values)))
    others = "" if count == 1 else f"; {count:,} values are NaN or inf"
    return (
        f"Input X contains {value} in row {row}, column {name}{others}, which is not accepted: "
        "drop such rows or fill the values in first, for instance with "
        "sklearn.impute.SimpleImputer."
    )


def check_squares(
    reach: float,
    n_features: int,
    dtype: npt.DTypeLike,
    largest: float,
    n_summed: int = 1,
    *,
    repulsion: Any = None,
) -> None:
    """Refuse values whose squared distances, or their weighted sum over rows, could overflow."""
    dtype = np.dtype(dtype)
    room = min(
        np.sqrt(float(np.finfo(dtype).max) / n_features),
        np.sqrt(float(np.finfo(np.float64).max) / WIDEST / n_features / n_summed),
    )
    if reach > room / 8:
        because = "" if repulsion is None else f" with repulsion={repulsion!r}"
        raise ValueError(
            f"X has values as large as {largest:.3g}, whose squares overflow {dtype}{because}: "
            "scale the features, for instance with sklearn.preprocessing.StandardScaler."
        )


def check_underflow(largest: float, dtype: npt.DTypeLike, *, refine: bool) -> None:
    """Refuse rows so small that squares of what tells them apart count as zero.

    Squares are of float64, so float32 has no such values.
    """
    if np.dtype(dtype) != np.float64 or not 0 < largest < (_SMALL_TO_REFINE if refine else _SMALL):
        return
    because = " with refine='margin'" if refine and largest >= _SMALL else ""
    exponent = min(-int(np.frexp(largest)[1]), 1023)
    raise ValueError(
        f"X has no value larger than {largest:.3g}, and squares of such values underflow"
        f"{because}: multiply X by a constant, for instance by 2.0**{exponent}."
    )


def check_sample_weight(sample_weight: Any, n_rows: int) -> Floats | None:
    """Refuse weights that are not numbers >= 0, one for each row, some of them positive."""
    if sample_weight is None:
        return None
    weights = check_weights(sample_weight, n_rows)
    if not weights.any():
        raise ValueError(
            "sample_weight is zero for every row: at least one weight must be positive."
        )
    return weights


def check_weights(sample_weight: Any, n_rows: int, *, signed: bool = False) -> Floats:
    """Refuse weights that are not numbers, one for each row or for all; >= 0 unless `signed`."""
    try:
        weights = np.asarray(sample_weight)
        if weights.dtype.kind == "c":
            raise ValueError("they are complex")
        weights = weights.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers: {error}.") from error
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: one weight per row."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (signed | (weights >= 0))))
    if len(bad):
        accepted = "finite" if signed else "finite and not negative"
        raise ValueError(
            f"sample_weight has {weights[bad[0]]} at row {bad[0]}: weights must be {accepted}."
        )
    return weights


def class_weights(
    class_weight: Any,
    classes: npt.NDArray[Any],
    y: Indices,
    weights: Floats | None,
    sums: Callable[[], Floats] | None = None,
) -> Floats | None:
    """Find the weight of each class, None if all are the same.

    `sums` sums the weights of each class, up to a constant factor, where they are not all here: y
    and weights then have the heaviest row of each class. The result is rounded so that a row of a
    whole weight is the row so many times, to the last bit.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if sums is None and weights is not None:  # near 1, so that sums do not overflow
            weights = np.ldexp(weights, -int(np.frexp(weights.max())[1]))
        mass = exact_totals(y, weights, len(classes)) if sums is None else sums()
        present = mass > 0
        balanced = np.zeros(len(classes))
        balanced[present] = math.fsum(mass) / (present.sum() * mass[present])
        return leading_bits(balanced, _CLASS_BITS)
    result = np.ones(len(classes))
    for label, value in class_weight.items():
        if not (is_real(value) and 0 <= value < np.inf):
            raise InvalidParameterError(
                f"class_weight[{label!r}]={value!r} is not accepted: weights must be numbers >= 0."
            )
        result[classes == label] = value
    unknown = [label for label in class_weight if label not in classes]
    unweighted = [label for label in classes.tolist() if label not in class_weight]
    if unknown and unweighted:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not in y, and does not name "
            f"{unweighted[0]!r}, which is."
        )
    # So little weight beside so much cannot be told from none: such classes take no part.
    result[result < _NEGLIGIBLE * result.max()] = 0.0
    if not result[np.unique(y if weights is None else y[weights > 0])].any():
        raise ValueError("class_weight is zero for every class that has rows with a weight.")
    return leading_bits(result, _CLASS_BITS)


def is_real(value: Any) -> bool:
    """Tell whether a value is a number, and not a truth value."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
