"""The tables of a model as named arrays, and back."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.files.container import Arrays, Document
from dkmeans.files.refusal import require
from dkmeans.results import Changes, History, Path, Rejection, Table, Tree

# By field of Fitted.
TABLES: dict[str, type[Table]] = {
    "tree": Tree,
    "history": History,
    "path": Path,
    "changes": Changes,
    "rejection": Rejection,
}
# Columns that the library reads; history and path may have others in other versions.
_REQUIRED = {
    "tree": {"id", "parent", "label", "call", "born", "ended_call", "ended"},
    "history": {"round"},
    "path": {"clusters"},
    "changes": {"id", "label", "change", "distance"},
    "rejection": {"id", "label", "threshold", "rows", "rate", "per"},
}
_EXTENSIBLE = ("history", "path")
_FLOAT_COLUMNS = ("distance", "threshold", "rate")
_BOOLEAN_COLUMNS = ("refined",)
_MAX_WORD = 32  # characters


def store(name: str, table: Table, classes: npt.NDArray[Any], arrays: Arrays) -> Document:
    """Add the columns of a table to arrays, and return the list of columns.

    Labels are stored as class numbers, and words as indices into the list of words that the
    column's entry holds.
    """
    listed: Document = {}
    for column in table.columns:
        values, listed[column] = getattr(table, column), None
        if column == "label":
            values = np.searchsorted(classes, values)
        elif values.dtype.kind == "U":
            words, values = np.unique(values, return_inverse=True)
            listed[column] = words.tolist()
        kind = np.float64 if values.dtype.kind == "f" else np.int64
        arrays[f"{name}.{column}"] = values.astype(kind)
    return listed


def restore(name: str, listed: Any, classes: npt.NDArray[Any], arrays: Arrays) -> Table:
    """Rebuild a table from its columns, which are removed from arrays."""
    wrong = f"has columns of {name} that do not fit together"
    require(isinstance(listed, dict), wrong)
    known = (
        set(listed) >= _REQUIRED[name] if name in _EXTENSIBLE else set(listed) == _REQUIRED[name]
    )
    require(known and all(re.fullmatch("[a-z][a-z_]{0,40}", column) for column in listed), wrong)
    require(all(f"{name}.{column}" in arrays for column in listed), wrong)
    columns = {column: arrays.pop(f"{name}.{column}") for column in listed}
    shapes = {values.shape for values in columns.values()}
    require(len(shapes) == 1 and len(shapes.pop()) == 1, wrong)
    for column, values in columns.items():
        whole = values.dtype == np.int64
        require(whole or values.dtype == np.float64, wrong)
        if column == "label":
            columns[column] = classes[codes(values, len(classes), wrong)]
        elif listed[column] is not None:
            columns[column] = _spell(listed[column], values, wrong)
        elif column in _BOOLEAN_COLUMNS:
            columns[column] = codes(values, 2, wrong).astype(bool)
        else:
            require(whole != (column in _FLOAT_COLUMNS) or name in _EXTENSIBLE, wrong)
    return TABLES[name](**columns)


def codes(values: npt.NDArray[Any], n: int, wrong: str) -> npt.NDArray[np.intp]:
    """Check indices into n entries."""
    require(values.dtype == np.int64 and values.ndim == 1, wrong)
    require(bool(((values >= 0) & (values < n)).all()), wrong)
    return values.astype(np.intp)


def _spell(words: Any, numbers: npt.NDArray[Any], wrong: str) -> npt.NDArray[Any]:
    require(isinstance(words, list), wrong)
    require(all(type(word) is str and len(word) <= _MAX_WORD for word in words), wrong)
    return np.array(words, dtype=str)[codes(numbers, len(words), wrong)]
