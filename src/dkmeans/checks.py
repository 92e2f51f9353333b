"""Checks of values, labels and weights: each problem gets one sentence that says what to do."""

import math
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.engine.threads import for_each, tiles
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.exact import leading_bits
from dkmeans.kernels.tally import exact_totals

_VALUES = 1 << 18  # that are looked at together: they stay in the cache
WIDEST = 2.0**80  # weights may span this much; lighter ones count as that light
_CLASS_BITS = 43  # of class weights: times a whole weight up to 1024 they are exact
_NEGLIGIBLE = 1e-6  # a class with less than this share of the largest class weight counts as 0


class InvalidParameterError(ValueError, TypeError):
    """A parameter of the estimator has a value or a type that is not accepted."""


def check_same_kind(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> None:
    """Refuse to mix labels that are numbers with labels that are text."""
    if (old.dtype.kind in "biuf") != (new.dtype.kind in "biuf"):
        raise ValueError(
            f"y has labels such as {new[0]!r}, but the labels known so far are such as {old[0]!r}: "
            "all must be numbers, or all must be text."
        )


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
    return (
        f"Input X contains {value} in row {row}, column {name}; there are {count} values "
        "that are NaN or inf, which are not accepted: drop those rows or fill the values "
        "in first, for instance with sklearn.impute.SimpleImputer."
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


def check_weights(sample_weight: Any, n_rows: int) -> Floats:
    """Refuse weights that are not numbers >= 0, one for each row or for all."""
    if np.ndim(sample_weight) == 0:
        sample_weight = np.full(n_rows, sample_weight)
    if np.iscomplexobj(sample_weight):
        raise ValueError("sample_weight must be real numbers, not complex ones.")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers: {error}.") from error
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: one weight per row."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight has {weights[bad[0]]} at row {bad[0]}: weights must be finite and "
            "not negative."
        )
    return weights


def class_weights(
    class_weight: Any, classes: npt.NDArray[Any], y: Indices, weights: Floats | None
) -> Floats | None:
    """Find the weight of each class, None if all are the same.

    Weights are rounded so that a row of a whole weight is the row so many times, to the last bit.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        mass = exact_totals(y, weights, len(classes))
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
