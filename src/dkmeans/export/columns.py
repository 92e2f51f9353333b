"""The tables of a model (tree, history, path, changes) as named arrays, and back."""

import re
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.export.container import Arrays, Document
from dkmeans.export.refused import require
from dkmeans.model.changes import Changes
from dkmeans.model.history import History
from dkmeans.model.path import Path
from dkmeans.model.table import Table
from dkmeans.model.tree import Tree

AnyTable = TypeVar("AnyTable", bound=Table)

TABLES: dict[str, type[Table]] = {
    "tree": Tree,
    "history": History,
    "path": Path,
    "changes": Changes,
}
# What the library itself reads; history and path may have other columns in other versions.
_NEEDED = {
    "tree": {"id", "parent", "label", "call", "born", "ended_call", "ended"},
    "history": {"round"},
    "path": {"clusters"},
    "changes": {"id", "label", "change", "distance"},
}
_OPEN = ("history", "path")
_FLOATING = ("distance",)
_LONGEST = 32  # characters of a word in a table


def store(
    name: str, table: Table, classes: npt.NDArray[Any], arrays: Arrays, words: Document
) -> None:
    """Add the columns of a table to arrays; labels and words are stored by number."""
    for column in table.columns:
        values, key = getattr(table, column), f"{name}.{column}"
        if column == "label":
            values = np.searchsorted(classes, values)
        elif values.dtype.kind == "U":
            texts, values = np.unique(values, return_inverse=True)
            words[key] = texts.tolist()
        arrays[key] = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)


def restore(name: str, arrays: Arrays, words: Document, classes: npt.NDArray[Any]) -> Table | None:
    """Take the columns of a table out of arrays and make it again; None if there are none."""
    keys = [key for key in arrays if key.startswith(f"{name}.")]
    if not keys:
        return None
    found = {key.partition(".")[2]: arrays.pop(key) for key in sorted(keys)}
    wrong = f"has columns of {name} that do not fit together"
    known = set(found) >= _NEEDED[name] if name in _OPEN else set(found) == _NEEDED[name]
    require(known and all(re.fullmatch("[a-z][a-z_]{0,40}", column) for column in found), wrong)
    require(
        {values.shape for values in found.values()} in [{(len(v),)} for v in found.values()], wrong
    )
    columns = {}
    for column, values in found.items():
        whole = values.dtype == np.int64
        require(whole or values.dtype == np.float64, wrong)
        if column == "label":
            columns[column] = classes[codes(values, len(classes), wrong)]
        elif f"{name}.{column}" in words:
            columns[column] = _spell(words.pop(f"{name}.{column}"), values, wrong)
        else:
            require(whole != (column in _FLOATING) or name in _OPEN, wrong)
            columns[column] = values
    return TABLES[name](**columns)


def codes(values: npt.NDArray[Any], n: int, wrong: str) -> npt.NDArray[np.intp]:
    """Check numbers that stand for one of n things."""
    require(values.dtype == np.int64 and values.ndim == 1, wrong)
    require(bool(((values >= 0) & (values < n)).all()), wrong)
    return values.astype(np.intp)


def _spell(texts: Any, numbers: npt.NDArray[Any], wrong: str) -> npt.NDArray[Any]:
    require(isinstance(texts, list), wrong)
    require(all(type(text) is str and len(text) <= _LONGEST for text in texts), wrong)
    return np.array(texts, dtype=str)[codes(numbers, len(texts), wrong)]
