"""Base class of result tables: columns are attributes, rows are dicts."""

import copy
import html
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

_MAX_SHOWN = 12  # rows of a table that are all shown; of a longer one,
_HEAD, _TAIL = 6, 5  # the first and last rows are


class Table:
    """Columns of equal length.

    Columns are attributes; `table["name"]` is a column, too. `table[i]` is row i as a dict, and
    `table[rows]` a table of some rows, by a slice, a mask or indices. `to_frame()` gives a
    `pandas.DataFrame`.

    Attributes
    ----------
    index : ndarray or None
        Labels of the rows, if the rows that the table is about came from a frame that has them.
    """

    _index: npt.NDArray[Any] | None = None

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

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._column(key)
        if isinstance(key, int | np.integer):
            return {name: _plain(values[key]) for name, values in self._columns.items()}
        return self.take(np.arange(len(self))[key] if isinstance(key, slice) else np.asarray(key))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def index(self) -> npt.NDArray[Any] | None:
        """Labels of the rows, or None."""
        return self._index

    def with_index(self, index: npt.ArrayLike | None) -> Self:
        """Return the table with labels of its rows; None for none.

        Parameters
        ----------
        index : array-like of shape (n_rows,) or None
            The labels.
        """
        other = copy.copy(self)
        other._index = None if index is None else np.asarray(index)
        return other

    def take(self, rows: npt.NDArray[Any]) -> Self:
        """Select rows by index or mask.

        Parameters
        ----------
        rows : array-like of int or bool
            Indices of the rows, or a mask.
        """
        other = self._taken(rows)
        other._index = None if self._index is None else self._index[rows]
        return other

    def head(self, n: int = 5) -> Self:
        """Return the first n rows."""
        return self.take(np.arange(min(max(n, 0), len(self))))

    def sort_values(self, by: str, *, ascending: bool = True) -> Self:
        """Sort by a column; rows with equal values keep their order.

        Parameters
        ----------
        by : str
            Name of the column.
        ascending : bool, default=True
            Whether the smallest value comes first.

        Examples
        --------
        >>> from dkmeans.results import Table
        >>> Table(name=["a", "b", "c"], size=[2, 3, 1]).sort_values("size").name.tolist()
        ['c', 'a', 'b']
        """
        values = self._column(by)
        if values.dtype == object:
            values = values.astype(str)
        rank = np.unique(values, return_inverse=True)[1]
        return self.take(np.argsort(rank if ascending else -rank, kind="stable"))

    def to_pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame` (pandas must be installed)."""
        import pandas as pd

        return pd.DataFrame(self._columns, index=self._index)

    def to_frame(self) -> Any:
        """Return the same as `to_pandas`."""
        return self.to_pandas()

    def _taken(self, rows: npt.NDArray[Any]) -> Self:
        """Select rows; subclasses that hold more than columns override this."""
        return type(self)(**{name: values[rows] for name, values in self._columns.items()})

    def _column(self, name: str) -> npt.NDArray[Any]:
        if name not in self._columns:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self._columns)}")
        return self._columns[name]

    def _headline(self) -> str:
        return f"{type(self).__name__} with {len(self)} rows"

    def _shown(self) -> list[list[str]]:
        """Return the text of the columns' names and of the rows that are shown."""
        shown = list(range(len(self)))
        if len(self) > _MAX_SHOWN:
            shown = [*range(_HEAD), -1, *range(len(self) - _TAIL, len(self))]
        columns = list(self._columns.values())
        cells = [list(self._columns)]
        if self._index is not None:
            columns, cells = [self._index, *columns], [["", *cells[0]]]
        return cells + [["..." if i < 0 else _cell(v[i]) for v in columns] for i in shown]

    def __repr__(self) -> str:
        cells = self._shown()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
        return "\n".join([self._headline(), *lines])

    def _repr_html_(self) -> str:
        """Show the table in notebooks."""
        head, *rows = self._shown()
        lines = [
            "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"
            for tag, row in [("th", head), *(("td", row) for row in rows)]
        ]
        body = "".join(lines[1:])
        return (
            f"<p>{html.escape(self._headline())}</p>"
            f'<table class="dataframe"><thead>{lines[0]}</thead><tbody>{body}</tbody></table>'
        )


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python one."""
    return value.item() if isinstance(value, np.generic) else value


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
