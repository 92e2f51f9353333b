"""Values of columns of dataframes: as float64, or as levels of a category."""

from typing import Any

import numpy as np
import numpy.typing as npt

MICROSECONDS_PER_DAY = 86_400e6


def to_numbers(X: Any) -> npt.NDArray[np.float64]:
    """Convert columns of numbers, Booleans, dates and times to float64.

    Dates become days since 1970, durations days, true becomes 1 and false 0. Missing values become
    NaN. It is a step of table pipelines (`FunctionTransformer`).

    Parameters
    ----------
    X : DataFrame or array of shape (n_samples, n_features)
        Columns.

    Returns
    -------
    numbers : ndarray of shape (n_samples, n_features)
        Their values.

    Examples
    --------
    >>> import numpy as np
    >>> from dkmeans.tables import to_numbers
    >>> to_numbers(np.array([["1970-01-02T12:00"]], dtype="datetime64[m]"))
    array([[1.5]])
    """
    if hasattr(X, "columns"):
        columns = [floats_of(X[name]) for name in X.columns]
    else:
        columns = [_from_numpy(column) for column in np.asarray(X).T]
    return np.column_stack(columns) if columns else np.zeros((len(X), 0))


def to_levels(X: Any) -> npt.NDArray[np.object_]:
    """Convert columns of categories to Python objects, with NaN for all kinds of missing values.

    It is a step of table pipelines (`FunctionTransformer`): an encoder takes None and NaN for
    different levels, and which of them stands for a missing text depends on the dataframe.

    Parameters
    ----------
    X : DataFrame or array of shape (n_samples, n_features)
        Columns.

    Returns
    -------
    levels : ndarray of shape (n_samples, n_features)
        Their values.

    Examples
    --------
    >>> import numpy as np
    >>> from dkmeans.tables import to_levels
    >>> to_levels(np.array([["red"], [None]], dtype=object)).tolist()
    [['red'], [nan]]
    """
    if hasattr(X, "columns"):
        columns = [levels_of(X[name]) for name in X.columns]
    else:
        columns = [_present_or_nan(column) for column in np.asarray(X, dtype=object).T]
    return np.column_stack(columns) if columns else np.zeros((len(X), 0), dtype=object)


def floats_of(series: Any) -> npt.NDArray[np.float64]:
    """Convert a column of a dataframe to float64, with NaN where values are missing."""
    dtype = getattr(series, "dtype", None)
    if getattr(dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if hasattr(dtype, "na_value") and getattr(dtype, "kind", "") in "biuf":
        # Nullable types of pandas.
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _from_numpy(series.to_numpy())


def levels_of(series: Any) -> npt.NDArray[np.object_]:
    """Convert a column of a dataframe to Python objects, with NaN where values are missing."""
    return _present_or_nan(series.to_numpy())


def _present_or_nan(column: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    values = np.array(column, dtype=object)
    values[is_missing(values)] = np.nan
    return values


def is_missing(values: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    """Tell which of some Python objects stand for a missing value: None, NaN and their like."""
    return np.array([not _is_present(value) for value in values], dtype=bool)


def _is_present(value: Any) -> bool:
    try:
        return value is not None and bool(value == value)
    except TypeError:  # pandas.NA cannot tell
        return False


def _from_numpy(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if values.dtype.kind in "mM":
        return _days(values)
    if values.dtype != object:
        return values.astype(np.float64)
    missing = is_missing(values)
    numbers = np.full(len(values), np.nan)
    present = values[~missing]
    if len(present) and hasattr(present[0], "isoformat"):  # datetime.date, or datetime
        numbers[~missing] = _days(present.astype("datetime64[us]"))
    else:
        numbers[~missing] = present.astype(np.float64)
    return numbers


def _days(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    unit = "datetime64[us]" if values.dtype.kind == "M" else "timedelta64[us]"
    days = values.astype(unit).astype(np.int64) / MICROSECONDS_PER_DAY
    return np.where(np.isnat(values), np.nan, days)
