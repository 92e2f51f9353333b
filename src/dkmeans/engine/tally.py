"""What a pass brings back: exact weights and sums per group of rows."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import ratio, total

_SHORT = 1 << 15  # codes below this fit into 16 bits


@dataclass(frozen=True)
class Tally:
    """Groups of rows, sorted by cell, then class; usually one group per cell and class.

    Weights, sums and squares are exact: slices along axis 0, as `kernels.exact` explains.
    """

    cells: Indices  # shape (g,)
    classes: Indices  # shape (g,)
    weights: Floats  # shape (s, g): N, the weight of each group
    sums: Floats  # shape (s, g, d): S, the sum of its rows times their weights
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
            np.add.reduceat(self.sums, starts, axis=1),
            np.add.reduceat(self.squares, starts, axis=1),
        )

    def minus(self, other: Self) -> Self:
        """Take away groups one by one; exact, as all slices are multiples of the same units."""
        return type(self)(
            self.cells,
            self.classes,
            self.weights - other.weights,
            self.sums - other.sums,
            self.squares - other.squares,
        )

    def renamed(self, index: Indices) -> Self:
        """Give cells new numbers, in the same order."""
        return replace(self, cells=index[self.cells])

    def and_also(self, other: Self) -> Self:
        """Put the groups of two tallies together."""
        cells = np.concatenate([self.cells, other.cells])
        classes = np.concatenate([self.classes, other.classes])
        both = type(self)(
            cells,
            classes,
            np.concatenate([self.weights, other.weights], axis=1),
            np.concatenate([self.sums, other.sums], axis=1),
            np.concatenate([self.squares, other.squares], axis=1),
        )
        return both.take(np.lexsort((classes, cells)))

    def fused(self) -> Self:
        """Add up groups of the same cell and class."""
        return self.merged(run_starts(self.cells, self.classes))

    @property
    def weight(self) -> Floats:
        """N, rounded once."""
        return total(self.weights)[0]

    @property
    def square(self) -> Floats:
        """Weighted squared distances, rounded once."""
        return total(self.squares)[0]

    @property
    def means(self) -> Floats:
        """S / N."""
        return ratio(self.sums, self.weights[:, :, None])


def by_group(codes: Indices) -> tuple[Indices, Indices]:
    """Sort rows by the code of their group, -1 left out; also returns where groups start."""
    if codes.max(initial=-1) < _SHORT:
        codes = codes.astype(np.int16)  # NumPy sorts these much faster
    order = np.argsort(codes, kind="stable")
    order = order[np.searchsorted(codes, 0, sorter=order) :]
    return order, run_starts(codes[order]) if len(order) else order


def run_starts(*columns: Indices) -> Indices:
    """Where runs of equal entries start in sorted columns."""
    changed = np.ones(len(columns[0]), dtype=bool)
    changed[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.flatnonzero(changed)


def by_values(values: npt.NDArray[np.floating], *keys: npt.NDArray[Any]) -> Indices:
    """Sort rows by keys, the last one first as in `np.lexsort`, and then by their values.

    Only columns in which rows differ are looked at, as there may be very many others.
    """
    differ = (values != values[:1]).any(axis=0)
    return np.lexsort((np.zeros(len(values)), *values[:, differ].T[::-1], *keys))
