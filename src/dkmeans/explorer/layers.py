"""Rows that the explorer shows: features, labels, and the values that a person reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data import validation
from dkmeans.plots.inputs import FittedModel, take_rows

Codes = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float64]

MAX_CLASSES = 65_535  # numbers of classes travel as 16 bits
MAX_VALUES = 200  # values of a row that are listed


@dataclass(frozen=True)
class Rows:
    """Labelled rows as they are given to the explorer."""

    X: Any  # an array, a CSR matrix or a dataframe
    y: Any
    weight: Any = None
    places: npt.NDArray[np.int64] | None = None  # row of the table that each was read from
    notes: list[str] = field(default_factory=list)  # what was left out

    def take(self, which: npt.NDArray[np.bool_]) -> "Rows":
        """Keep some rows."""
        at = np.flatnonzero(which)
        rows = take_rows(self.X, at)
        rows = rows.reset_index(drop=True) if hasattr(rows, "reset_index") else rows
        weight = None if self.weight is None else np.asarray(self.weight)[at]
        places = at if self.places is None else self.places[at]
        return Rows(rows, np.asarray(self.y)[at], weight, places, self.notes)


@dataclass(frozen=True)
class Layer:
    """Rows of one kind, training or held out, in the order of input."""

    X: Any  # features of the model, in the type of its centres; an array or a CSR matrix
    codes: Codes  # class of each row as it was read, by number
    original: Any  # the rows as they were given: an array, a CSR matrix or a dataframe
    weight: Floats | None = None
    places: npt.NDArray[np.int64] | None = None  # row of the table that each was read from

    def __len__(self) -> int:
        return len(self.codes)

    def place(self, row: int) -> int:
        """Return the number of a row in the input."""
        return row if self.places is None else int(self.places[row])

    def values(self, row: int, names: Sequence[str]) -> list[tuple[str, str]]:
        """List the values of a row as text; names are those of features, for rows without any."""
        given = take_rows(self.original, np.array([row]))
        if hasattr(given, "columns"):  # a dataframe, or a pyarrow table
            columns = getattr(given, "column_names", None) or list(given.columns)
            found = [(str(name), value_text(_first(given[name]))) for name in columns[:MAX_VALUES]]
        else:
            line = given.toarray()[0] if hasattr(given, "toarray") else np.asarray(given)[0]
            found = [
                (str(name), value_text(value))
                for name, value in zip(names[:MAX_VALUES], line[:MAX_VALUES], strict=False)
            ]
        return found


def make_layer(
    opened: FittedModel,
    rows: Any,
    codes: Codes,
    weight: Any = None,
    places: npt.NDArray[np.int64] | None = None,
) -> Layer:
    """Compute the features of rows, and check them."""
    features = opened.rows(rows)
    X = validation.check_raw_rows(opened.model, features)
    weight = None if weight is None else np.asarray(weight, dtype=np.float64)
    return Layer(X, codes, rows, weight, places)


def value_text(value: Any) -> str:
    """Write a value for a person; numbers with at most six digits."""
    if value is None:
        return "missing"
    if isinstance(value, float | np.floating):
        return "missing" if value != value else f"{value:.6g}"
    return str(value)


def label_text(label: Any) -> str:
    """Write a class label; floats that are whole numbers without a point."""
    return f"{label:.0f}" if isinstance(label, float | np.floating) else str(label)


def _first(column: Any) -> Any:
    value = column.iloc[0] if hasattr(column, "iloc") else column[0]
    return value.as_py() if hasattr(value, "as_py") else value
