"""What earlier rows left behind: a weight and a sum for each prototype and class.

It stands for the rows when a fit goes on with new ones only. It belongs to prototypes, not to
places: where a prototype goes its memory goes, and children inherit that of their class.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import Tally
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import product, total
from dkmeans.kernels.reference import squared_distances
from dkmeans.prototypes import Prototypes

_FORGOTTEN = 1 / 16  # of the lightest row


@dataclass(frozen=True)
class EarlierRows:
    """Weights and sums, each as a leading and a trailing part along axis 0."""

    ids: npt.NDArray[np.int64]  # shape (m,): whose
    classes: Indices  # shape (m,): of which class
    weights: Floats  # shape (2, m)
    sums: Floats  # shape (2, m, d)

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, prototypes: Prototypes, groups: Tally) -> Self:
        """Remember a tally."""
        return cls(
            prototypes.ids[groups.cells],
            groups.classes,
            np.stack(total(groups.weights)),
            np.stack(total(groups.sums)),
        )

    def take(self, which: Indices | npt.NDArray[np.bool_]) -> Self:
        """Select entries."""
        return type(self)(
            self.ids[which], self.classes[which], self.weights[:, which], self.sums[:, which]
        )

    def and_also(self, other: Self) -> Self:
        """Put two memories together that share no prototype and class."""
        return type(self)(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.weights, other.weights], axis=1),
            np.concatenate([self.sums, other.sums], axis=1),
        )

    def faded(self, factor: float) -> Self:
        """Make everything lighter by a factor."""
        return replace(self, weights=_times(self.weights, factor), sums=_times(self.sums, factor))

    def forgetting(self, factor: float) -> Self:
        """Fade, and drop what has become too light to matter."""
        faded = self.faded(factor)
        return faded.take(faded.weights[0] >= _FORGOTTEN)

    def recoded(self, codes: Indices) -> Self:
        """Give classes new numbers."""
        return replace(self, classes=codes[self.classes])

    def given_to(self, ids: npt.NDArray[np.int64]) -> Self:
        """Give each entry a new owner; entries of one owner and class are added up."""
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
            _add_runs(self.sums[:, order], starts),
        )

    def cells(self, prototypes: Prototypes) -> Indices:
        """Index of each entry's prototype, which must be there."""
        order = np.argsort(prototypes.ids)
        return order[np.searchsorted(prototypes.ids, self.ids, sorter=order)]

    def not_in(self, other: Self) -> Self:
        """Take the entries whose prototype and class the other memory does not have."""
        there = set(zip(other.ids.tolist(), other.classes.tolist(), strict=True))
        keys = zip(self.ids.tolist(), self.classes.tolist(), strict=True)
        return self.take(np.array([key not in there for key in keys], dtype=bool))

    def unchanged(self, now: Self, prototypes: Prototypes) -> npt.NDArray[np.bool_]:
        """Tell for each prototype whether it has the same entries now, to the last bit."""
        mine, theirs = (earlier._by_prototype() for earlier in (self, now))
        return np.array([i in mine and mine[i] == theirs.get(i) for i in prototypes.ids.tolist()])

    def squares(self, prototypes: Prototypes) -> Floats:
        """Weighted squared distance of each entry's mean to its prototype's centre."""
        means = self.sums[0] / self.weights[0][:, None]
        centers = prototypes.centers[self.cells(prototypes)]
        return self.weights[0] * squared_distances(means, centers) if len(self) else np.zeros(0)

    def _by_prototype(self) -> dict[int, list[tuple[int, bytes, bytes]]]:
        found: dict[int, list[tuple[int, bytes, bytes]]] = {}
        for e in np.lexsort((self.classes, self.ids)):
            entry = (int(self.classes[e]), self.weights[:, e].tobytes(), self.sums[:, e].tobytes())
            found.setdefault(int(self.ids[e]), []).append(entry)
        return found


def _times(parts: Floats, factor: float) -> Floats:
    high, rest = product(parts[0], np.full(parts[0].shape, factor))
    return np.stack(total(np.stack([high, rest + parts[1] * factor])))


def _add_runs(parts: Floats, starts: Indices) -> Floats:
    """Add up runs of entries along axis 1, in order, keeping the trailing parts."""
    ends = np.append(starts[1:], parts.shape[1])
    result = parts[:, starts].copy()
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for entry in range(start + 1, end):
            pieces = np.stack([result[0, at], parts[0, entry], result[1, at], parts[1, entry]])
            result[:, at] = np.stack(total(pieces))
    return result
