"""Exact weights and sums of groups of rows.

A pass over one part of the rows returns `GroupSums`. Those of several parts are added up without
rounding, and read as a `Tally` by cell and class.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.exact.packed import Packed
from dkmeans.exact.record import Record
from dkmeans.exact.sparse_sums import (
    SparseSums,
    Sums,
    add_runs,
    dense,
    dense_chunks,
    joined,
    merged,
)
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import ratio, total

INT16_CODES = 1 << 15  # codes below this fit into 16 bits


@dataclass(frozen=True)
class GroupSums(Record):
    """Exact weights and sums of groups of rows, by ascending key.

    Slices along axis 0, as `kernels.exact` explains: parts add up without rounding.
    """

    keys: Indices  # shape (g,)
    weights: Floats  # shape (s, g)
    sums: Sums  # shape (s, g, d)
    squares: Floats  # shape (s', g): weighted squared distances to the centre

    @staticmethod
    def merge(several: Sequence["GroupSums"]) -> "GroupSums":
        """Add up the sums of several parts."""
        if len(several) == 1:
            return several[0]
        keys = np.unique(np.concatenate([one.keys for one in several]))
        first, g = several[0], len(keys)
        s, d = len(first.weights), first.sums.shape[2]
        weights, squares = np.zeros((s, g)), np.zeros((len(first.squares), g))
        placed: list[tuple[Sums, Indices | slice]] = []
        for one in several:
            at: Indices | slice = slice(None)  # a slice needs no temporary arrays
            if len(one.keys) < g:
                at = np.searchsorted(keys, one.keys)
            weights[:, at] += one.weights
            squares[:, at] += one.squares
            placed.append((one.sums, at))
        return GroupSums(keys, weights, merged(placed, (s, g, d)), squares)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle only values that are not zero, where they are few: sums of sparse rows."""
        sums = self.sums if isinstance(self.sums, SparseSums) else Packed.of(self.sums)
        return _unpickled, (self.keys, self.weights, sums, self.squares)

    def take(self, which: Indices) -> Self:
        """Select groups."""
        return type(self)(
            self.keys[which], self.weights[:, which], self.sums[:, which], self.squares[:, which]
        )

    def negative(self) -> Self:
        """Flip all signs, so that adding the result subtracts the groups."""
        return replace(self, weights=-self.weights, sums=-self.sums, squares=-self.squares)

    def with_squares(self, squares: "KeyedSums") -> Self:
        """Set the squared distances of the groups."""
        placed = np.zeros((len(squares.slices), len(self.keys)))
        placed[:, np.searchsorted(self.keys, squares.keys)] = squares.slices
        return replace(self, squares=placed)

    def rekeyed(self, keys: Indices) -> Self:
        """Change the keys of groups, drop negative ones, and add up groups with equal keys."""
        there = np.flatnonzero(keys >= 0)
        there = there[np.argsort(keys[there], kind="stable")]
        return replace(self.take(there), keys=keys[there])._fused()

    def nonempty(self) -> Self:
        """Drop groups whose weight is 0."""
        there = total(self.weights)[0] > 0
        return self if there.all() else self.take(np.flatnonzero(there))

    def tally(self, n_classes: int, codes: Indices | None = None) -> "Tally":
        """Read keys as codes of cell and class, or as positions in a list of such codes."""
        codes = self.keys if codes is None else codes[self.keys]
        return Tally(codes // n_classes, codes % n_classes, self.weights, self.sums, self.squares)

    def _fused(self) -> Self:
        starts = run_starts(self.keys)
        if len(starts) == len(self.keys):
            return self
        return type(self)(
            self.keys[starts],
            np.add.reduceat(self.weights, starts, axis=1),
            add_runs(self.sums, starts),
            np.add.reduceat(self.squares, starts, axis=1),
        )


def _unpickled(keys: Indices, weights: Floats, sums: Packed | Sums, squares: Floats) -> GroupSums:
    unpacked = sums.unpacked() if isinstance(sums, Packed) else sums
    return GroupSums(keys, weights, unpacked, squares)


@dataclass(frozen=True)
class KeyedSums(Record):
    """Exact sums of one value per row, by ascending key."""

    keys: Indices  # shape (g,)
    slices: Floats  # shape (s, g)

    @staticmethod
    def merge(several: Sequence["KeyedSums"]) -> "KeyedSums":
        """Add up the sums of several parts."""
        if len(several) == 1:
            return several[0]
        keys = np.unique(np.concatenate([one.keys for one in several]))
        slices = np.zeros((len(several[0].slices), len(keys)))
        for one in several:
            slices[:, np.searchsorted(keys, one.keys)] += one.slices
        return KeyedSums(keys, slices)


@dataclass(frozen=True)
class Tally:
    """Groups of rows, sorted by cell, then class; usually one group per cell and class.

    Weights, sums and squares are exact: slices along axis 0, as `kernels.exact` explains.
    """

    cells: Indices  # shape (g,)
    classes: Indices  # shape (g,)
    weights: Floats  # shape (s, g): N, the weight of each group
    sums: Sums  # shape (s, g, d): S, the sum of its rows times their weights
    squares: Floats  # shape (s, g): weighted squared distances to the centre

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, which: Indices) -> Self:
        """Select groups."""
        return type(self)(
            self.cells[which],
            self.classes[which],
            self.weights[:, which],
            self.sums[:, which],
            self.squares[:, which],
        )

    def merged(self, starts: Indices) -> Self:
        """Add up runs of groups; each run takes the cell and class of its first group."""
        if len(starts) == len(self):
            return self
        return type(self)(
            self.cells[starts],
            self.classes[starts],
            np.add.reduceat(self.weights, starts, axis=1),
            add_runs(self.sums, starts),
            np.add.reduceat(self.squares, starts, axis=1),
        )

    def minus(self, other: Self) -> Self:
        """Subtract groups one by one; exact, as all slices are multiples of the same units."""
        return type(self)(
            self.cells,
            self.classes,
            self.weights - other.weights,
            _difference(self.sums, other.sums),
            self.squares - other.squares,
        )

    def renamed(self, index: Indices) -> Self:
        """Renumber cells, keeping their order."""
        return replace(self, cells=index[self.cells])

    def and_also(self, other: Self) -> Self:
        """Concatenate the groups of two tallies."""
        cells = np.concatenate([self.cells, other.cells])
        classes = np.concatenate([self.classes, other.classes])
        both = type(self)(
            cells,
            classes,
            np.concatenate([self.weights, other.weights], axis=1),
            joined([self.sums, other.sums]),
            np.concatenate([self.squares, other.squares], axis=1),
        )
        return both.take(np.lexsort((classes, cells)))

    def fused(self) -> Self:
        """Add up groups of the same cell and class."""
        return self.merged(run_starts(self.cells, self.classes))

    @property
    def weight(self) -> Floats:
        """Weight N of each group, rounded once."""
        return total(self.weights)[0]

    @property
    def square(self) -> Floats:
        """Weighted squared distances, rounded once."""
        return total(self.squares)[0]

    @property
    def means(self) -> Floats:
        """Mean S / N of each group."""
        found = np.zeros(self.sums.shape[1:])
        for some, means in self.mean_chunks():
            found[some] = means
        return found

    def mean_chunks(self) -> Iterator[tuple[slice, Floats]]:
        """Iterate over the means of some groups at a time; of all, where sums are an array."""
        for some, sums in dense_chunks(self.sums):
            yield some, ratio(sums, self.weights[:, some, None])


def _difference(one: Sums, two: Sums) -> Sums:
    if isinstance(one, SparseSums) and isinstance(two, SparseSums):
        return one - two
    return dense(one) - dense(two)


def by_group(codes: Indices) -> tuple[Indices, Indices]:
    """Sort rows by group code, leaving out -1; also return the start of each group."""
    if codes.max(initial=-1) < INT16_CODES:
        codes = codes.astype(np.int16)  # NumPy sorts these much faster
    order = np.argsort(codes, kind="stable")
    order = order[np.searchsorted(codes, 0, sorter=order) :]
    return order, run_starts(codes[order]) if len(order) else order


def run_starts(*columns: Floats | Indices) -> Indices:
    """Return the starts of runs of equal entries in sorted columns."""
    changed = np.ones(len(columns[0]), dtype=bool)
    first, *others = columns
    np.not_equal(first[1:], first[:-1], out=changed[1:])
    for column in others:
        changed[1:] |= column[1:] != column[:-1]
    return changed.nonzero()[0]


def by_values(values: npt.NDArray[np.floating], *keys: Floats | Indices) -> Indices:
    """Sort rows by keys, in the order of `np.lexsort`, then by their values.

    Only columns in which rows differ are compared, as most columns may be equal, and none if the
    keys of all rows differ.
    """
    if keys:
        order = np.lexsort(keys)
        if len(run_starts(*(key[order] for key in keys))) == len(order):
            return order
    differ = (values != values[:1]).any(axis=0)
    return np.lexsort((np.zeros(len(values)), *values[:, differ].T[::-1], *keys))
