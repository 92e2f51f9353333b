"""Statistics of the columns of a table, from one pass over blocks of any size.

Counts, means and variances are exact, and do not depend on the order of rows or on the blocks.
Medians are those of a sample: the distinct rows with the lowest hashes, up to `MAX_SAMPLE_ROWS`
rows and `MAX_SAMPLE_VALUES` values. They are exact for tables that are not larger.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.rowhash import hash_rows
from dkmeans.tables.exact_moments import ExactMoments
from dkmeans.tables.kinds import Kind
from dkmeans.tables.values import floats_of, levels_of

MAX_SAMPLE_VALUES = 1 << 23  # values of all numeric columns that medians are computed from
MAX_SAMPLE_ROWS = 1 << 20
MAX_LEVELS = 10_000  # distinct values of a text column that are counted
_MAX_EXAMPLES = 1000  # of these values, if there are too many to count
_MAX_SQUARED = 1e150  # larger values have squares that are not finite
_MAX_EXACT = 2.0**53  # float64 has all integers up to it
_MERGED_ROWS = 1 << 16  # rows that are merged into the sample at a time, at least
_RANGE_ROWS = 1 << 20  # integers hashed at a time


class NumberColumn:
    """Statistics of a column of numbers, Booleans or dates."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_rows = self.n_missing = 0
        self.low, self.high = np.inf, -np.inf
        self.is_whole = self.is_increasing = True
        self.moments = ExactMoments()
        self._last = -np.inf
        self._hash_sum = 0

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Add the values of a block, in the order of the rows."""
        present = values[~np.isnan(values)]
        self.n_rows += len(values)
        self.n_missing += len(values) - len(present)
        if not len(present):
            return
        low, high = float(present.min()), float(present.max())
        if max(-low, high) > _MAX_SQUARED:
            value = high if high > -low else low
            raise ValueError(
                f"Column {self.name!r} has the value {value:g}: values must be finite, and below "
                f"{_MAX_SQUARED:g}; correct or remove it."
            )
        self.low, self.high = min(self.low, low), max(self.high, high)
        steps = np.diff(present, prepend=self._last)
        self.is_increasing = self.is_increasing and bool((steps > 0).all())
        self._last = float(present[-1])
        self.is_whole = self.is_whole and bool((present == np.rint(present)).all())
        if self.is_whole:
            self._hash_sum += _hash_sum(present)
        self.moments.add(present)

    @property
    def counts_rows(self) -> bool:
        """Whether the values are consecutive whole numbers, each of them once, in any order."""
        span = self.high - self.low + 1
        if max(-self.low, self.high) >= _MAX_EXACT:
            return False
        if not (self.is_whole and not self.n_missing and span == self.n_rows):
            return False
        expected = 0
        for start in range(0, self.n_rows, _RANGE_ROWS):
            stop = min(start + _RANGE_ROWS, self.n_rows)
            expected += _hash_sum(self.low + np.arange(start, stop, dtype=np.float64))
        return (expected - self._hash_sum) % (1 << 64) == 0


class LevelColumn:
    """Counts of the values of a column of categories."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_rows = self.n_missing = 0
        self.counts: Counter[Any] = Counter()  # without the missing ones
        self.has_too_many = False
        self._first: list[Any] = []  # levels, if there are too many to count

    @property
    def examples(self) -> list[Any]:
        """All levels, or the first ones if there are too many to count."""
        return self._first if self.has_too_many else list(self.counts)

    def add(self, levels: npt.NDArray[np.object_]) -> None:
        """Add the values of a block; missing ones are NaN."""
        self.n_rows += len(levels)
        found = Counter(levels.tolist())
        for level in [level for level in found if level != level]:
            self.n_missing += found.pop(level)
        if self.has_too_many:
            return
        self.counts.update(found)
        if len(self.counts) > MAX_LEVELS:
            self.has_too_many = True
            self._first = list(self.counts)[:_MAX_EXAMPLES]
            self.counts.clear()


class TableStatistics:
    """Statistics of all columns of a table.

    Parameters
    ----------
    kinds : mapping from str to Kind
        Columns; those of unknown kind are not looked at.

    Attributes
    ----------
    numbers : dict from str to NumberColumn
        Columns of numbers, Booleans and dates.
    levels : dict from str to LevelColumn
        Columns of categories.
    """

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self.kinds = {name: kind for name, kind in kinds.items() if kind is not Kind.UNKNOWN}
        is_category = {name: kind is Kind.CATEGORY for name, kind in self.kinds.items()}
        self.numbers = {n: NumberColumn(n) for n, category in is_category.items() if not category}
        self.levels = {n: LevelColumn(n) for n, category in is_category.items() if category}
        self._sample = RowSample(len(self.numbers))
        self.n_rows = 0

    def add(self, frame: Any) -> None:
        """Add a block: a dataframe with these columns."""
        columns = [floats_of(frame[name]) for name in self.numbers]
        for column, values in zip(self.numbers.values(), columns, strict=True):
            column.add(values)
        for name, levels in self.levels.items():
            levels.add(levels_of(frame[name]))
        if columns:
            self._sample.add(np.column_stack(columns))
        self.n_rows += len(frame)

    def medians(self) -> dict[str, float]:
        """Compute the median of each numeric column; NaN if it has no values."""
        return dict(zip(self.numbers, self._sample.medians().tolist(), strict=True))


class RowSample:
    """Distinct rows with the lowest hashes, and how often each occurs.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self._most = min(MAX_SAMPLE_ROWS, max(1, MAX_SAMPLE_VALUES // max(1, n_columns)))
        self._kept = _CountedRows(
            np.zeros((0, n_columns)), np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
        )
        self._waiting: list[_CountedRows] = []

    def add(self, X: npt.NDArray[np.float64]) -> None:
        """Add rows."""
        hashes = hash_rows(np.where(np.isnan(X), np.nan, X))  # one bit pattern for NaN
        if len(self._kept) == self._most:
            low = hashes <= self._kept.hashes[-1]
            X, hashes = X[low], hashes[low]
        self._waiting.append(_CountedRows(X, hashes, np.ones(len(X), dtype=np.int64)))
        if sum(map(len, self._waiting)) >= max(_MERGED_ROWS, len(self._kept)):
            self._merge()

    def medians(self) -> npt.NDArray[np.float64]:
        """Compute the median of each column over the rows that have a value there."""
        self._merge()
        return np.array([_median(column, self._kept.counts) for column in self._kept.rows.T])

    def _merge(self) -> None:
        self._kept = _CountedRows.joined([self._kept, *self._waiting]).first(self._most)
        self._waiting = []


@dataclass(frozen=True)
class _CountedRows:
    """Rows, their hashes, and how often each occurs."""

    rows: npt.NDArray[np.float64]
    hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def joined(cls, parts: "Sequence[_CountedRows]") -> "_CountedRows":
        """Join rows, each of them once, in the order of hashes."""
        hashes = np.concatenate([part.hashes for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        rows = np.concatenate([part.rows for part in parts])
        hashes, at, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        totals = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(totals, inverse.ravel(), counts)
        return cls(rows[at], hashes, totals)

    def first(self, n: int) -> "_CountedRows":
        """Keep the rows with the lowest hashes."""
        if len(self) <= n:
            return self
        return _CountedRows(self.rows[:n].copy(), self.hashes[:n], self.counts[:n])


def _median(values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> float:
    """Compute the median of values that occur so many times."""
    present = ~np.isnan(values)
    if not present.any():
        return np.nan
    values, counts = values[present], counts[present]
    order = np.argsort(values)
    ends, n = np.cumsum(counts[order]), int(counts.sum())
    low, high = np.searchsorted(ends, [(n - 1) // 2, n // 2], side="right")
    return float(np.mean(values[order][[low, high]]))


def _hash_sum(values: npt.NDArray[np.float64]) -> int:
    """Add up the hashes of values, modulo 2**64."""
    return int(np.sum(hash_rows(values[:, None]), dtype=np.uint64))
