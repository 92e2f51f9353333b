"""Earlier rows, as a weight and a sum for each prototype and class.

They replace the rows themselves when a fit continues with new rows only. They follow their
prototype when it moves, and children inherit the rows of their class.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import Tally
from dkmeans.exact.sparse_sums import SparseSums, Sums, dense, dense_chunks, joined, mapped
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import product, two_parts
from dkmeans.kernels.reference import squared_distances
from dkmeans.prototypes import Prototypes

MIN_WEIGHT = 1 / 16  # of an entry, in units of the weights; about that of the lightest row


@dataclass(frozen=True)
class EarlierRows:
    """Entries by prototype and class; weights and sums have two parts along axis 0 that add up."""

    ids: npt.NDArray[np.int64]  # shape (m,): ids of the prototypes
    classes: Indices  # shape (m,)
    weights: Floats  # shape (2, m)
    sums: Sums  # shape (2, m, d)

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, prototypes: Prototypes, groups: Tally, share: float = 1.0) -> Self:
        """Create entries from a tally: of all rows, or estimated from a sample with a share."""
        weights, sums = two_parts(groups.weights), mapped(two_parts, groups.sums)
        if share != 1:
            weights /= share
            sums /= share  # in place where they are arrays: they are large
        return cls(prototypes.ids[groups.cells], groups.classes, weights, sums)

    def take(self, which: Indices | npt.NDArray[np.bool_]) -> Self:
        """Select entries."""
        return type(self)(
            self.ids[which], self.classes[which], self.weights[:, which], self.sums[:, which]
        )

    def joined_with(self, other: Self) -> Self:
        """Concatenate entries that have no prototype and class in common."""
        return type(self)(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.weights, other.weights], axis=1),
            joined([self.sums, other.sums]),
        )

    def forgetting(self, factor: float) -> Self:
        """Multiply by a factor, and drop entries whose weight has become negligible."""
        weights = _times(self.weights, factor)
        sums = mapped(lambda some: _times(some, factor), self.sums)
        faded = replace(self, weights=weights, sums=sums)
        return faded.take(faded.weights[0] >= MIN_WEIGHT)

    def recoded(self, codes: Indices) -> Self:
        """Replace class numbers: c becomes `codes[c]`."""
        return replace(self, classes=codes[self.classes])

    def given_to(self, ids: npt.NDArray[np.int64]) -> Self:
        """Assign entries to other prototypes; add up entries of the same prototype and class."""
        order = np.lexsort((self.classes, ids))
        ids, classes = ids[order], self.classes[order]
        new = np.ones(len(ids), dtype=bool)
        new[1:] = (ids[1:] != ids[:-1]) | (classes[1:] != classes[:-1])
        starts = np.flatnonzero(new)
        if len(starts) == len(ids):
            return type(self)(ids, classes, self.weights[:, order], self.sums[:, order])
        return type(self)(
            ids[starts],
            classes[starts],
            _add_runs(self.weights[:, order], starts),
            _add_sum_runs(self.sums[:, order], starts),
        )

    def cells(self, prototypes: Prototypes) -> Indices:
        """Return the index of the prototype of each entry. All of them must exist."""
        order = np.argsort(prototypes.ids)
        return order[np.searchsorted(prototypes.ids, self.ids, sorter=order)]

    def not_in(self, other: Self) -> Self:
        """Return the entries whose prototype and class are not among the others."""
        there = set(zip(other.ids.tolist(), other.classes.tolist(), strict=True))
        keys = zip(self.ids.tolist(), self.classes.tolist(), strict=True)
        return self.take(np.array([key not in there for key in keys], dtype=bool))

    def unchanged(self, now: Self, prototypes: Prototypes) -> npt.NDArray[np.bool_]:
        """Tell for each prototype whether its entries are now the same, bit by bit."""
        mine, theirs = (earlier._by_prototype() for earlier in (self, now))
        return np.array([i in mine and mine[i] == theirs.get(i) for i in prototypes.ids.tolist()])

    def squares(self, prototypes: Prototypes) -> Floats:
        """Return the weighted squared distance of each mean to the centre of its prototype."""
        found, cells = np.zeros(len(self)), self.cells(prototypes)
        for some, sums in dense_chunks(self.sums) if len(self) else ():
            weights = self.weights[0][some]
            means = sums[0] / weights[:, None]
            found[some] = weights * squared_distances(means, prototypes.centers[cells[some]])
        return found

    def _by_prototype(self) -> dict[int, list[tuple[int, bytes, bytes]]]:
        found: dict[int, list[tuple[int, bytes, bytes]]] = {}
        for e in np.lexsort((self.classes, self.ids)):
            sums = dense(self.sums[:, e : e + 1])
            entry = (int(self.classes[e]), self.weights[:, e].tobytes(), sums.tobytes())
            found.setdefault(int(self.ids[e]), []).append(entry)
        return found


def _times(parts: Floats, factor: float) -> Floats:
    """Multiply numbers in two parts by a factor."""
    high, rest = product(parts[0], np.full(parts[0].shape, factor))
    return two_parts(np.stack([high, rest + parts[1] * factor]))


def _add_sum_runs(sums: Sums, starts: Indices) -> Sums:
    """Do what `_add_runs` does, for sums that may be sparse."""
    if not isinstance(sums, SparseSums):
        return _add_runs(sums, starts)
    ends = np.append(starts[1:], sums.shape[1])
    zero = np.zeros(1, dtype=np.intp)
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    runs = (dense(sums[:, start:end]) for start, end in pairs)
    return joined([SparseSums.of_dense(_add_runs(run, zero)) for run in runs])


def _add_runs(parts: Floats, starts: Indices) -> Floats:
    """Add up runs of entries along axis 1, in order, in two parts."""
    ends = np.append(starts[1:], parts.shape[1])
    result = parts[:, starts].copy()
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for entry in range(start + 1, end):
            pieces = np.stack([result[0, at], parts[0, entry], result[1, at], parts[1, entry]])
            result[:, at] = two_parts(pieces)
    return result
