"""Base class of result tables: columns are attributes, rows are dicts."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt


class Table:
    """Columns of equal length.

    Columns are attributes, `table[i]` is row i as a dict, and `to_pandas()` gives a DataFrame.
    """

    def __init__(self, **columns: npt.ArrayLike) -> None:
        self._columns = {name: np.asarray(values) for name, values in columns.items()}

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        try:
            return self.__dict__["_columns"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no column {name!r}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._columns]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: _plain(values[row]) for name, values in self._columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    def take(self, rows: npt.NDArray[Any]) -> Self:
        """Select rows by index or mask."""
        return type(self)(**{name: values[rows] for name, values in self._columns.items()})

    def to_pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame` (pandas must be installed)."""
        import pandas as pd

        return pd.DataFrame(self._columns)

    def _headline(self) -> str:
        return f"{type(self).__name__} with {len(self)} rows"

    def __repr__(self) -> str:
        shown = (
            range(len(self))
            if len(self) <= 12
            else [*range(6), -1, *range(len(self) - 5, len(self))]
        )
        cells = [list(self._columns)]
        cells += [["..." if i < 0 else _cell(v[i]) for v in self._columns.values()] for i in shown]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
        return "\n".join([self._headline(), *lines])


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python one."""
    return value.item() if isinstance(value, np.generic) else value


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
