"""Held-out rows: a part of each class, chosen by a hash of the rows' values.

So the choice is deterministic and does not depend on the order of rows. Identical rows stay
together.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dkmeans.geometry import Geometry
from dkmeans.growth.rows import Rows
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes
from dkmeans.kernels.tally import exact_totals
from dkmeans.passes.sampling import DistinctHashes
from dkmeans.prototypes import Prototypes

MIN_SHARE = 1 / 5  # of each class that is held out,
MAX_SHARE = 1 / 2  # more than the least if there are few items:
WANTED_ITEMS = 2000  # from so many on, their errors tell models apart
MAX_ITEMS = 20_000  # of very many items, about as many are held out
FIRST_GUESS = 1.25  # ratio of the first share looked at to the one that is wanted
MAX_SHARE_OF_ITEMS = 0.1  # more prototypes would not be a summary of the rows
N_HASHES = 2**64
ROUNDING_TOLERANCE = 1 + 1e-9  # factor on the standard error


@dataclass(frozen=True)
class HeldOut:
    """The part that is held out. Identical rows count as one item."""

    lowest: Hashes  # shape (n_classes,): lowest hash of each class that is held out
    highest: Hashes  # the highest; below the lowest if none is
    hashes: Hashes  # of all items that are held out, ascending
    n_items: int  # number of all items, held out or not

    @property
    def n_others(self) -> int:
        """Number of items that are not held out."""
        return self.n_items - len(self.hashes)


class ItemLosses:
    """Losses of models on rows that they have not seen. Identical rows count as one item.

    Parameters
    ----------
    rows : Rows
    largest : array of shape (d,)
        Magnitudes of columns by which rows are hashed.
    """

    def __init__(self, rows: Rows, largest: Floats) -> None:
        self._rows = rows
        self._numbers, hashes = rows.sampling_hashes(largest)
        items, self._items = np.unique(hashes, return_inverse=True)
        self._n_items = len(items)

    def of(self, prototypes: Prototypes, geometry: Geometry) -> Floats:
        """Return the weight of each item that is classified wrongly, 0 for the others."""
        if geometry is not self._rows.geometry:
            self._rows.map_rows(geometry)
        wrong = self._rows.wrong(prototypes)
        items = self._items[np.searchsorted(self._numbers, wrong.rows)]
        return exact_totals(items, wrong.weights, self._n_items)


def is_within_error(worse: Floats) -> bool:
    """Tell whether a model is at most one standard error worse than another one.

    `worse` is the difference of their losses of each item: both are measured on the same rows.
    """
    error = np.sqrt(np.square(worse).sum()) * ROUNDING_TOLERANCE
    return bool(worse.sum() <= error)


def most_clusters(n_items: float, n_classes: int) -> int:
    """Return the largest number of clusters that may be chosen for so many items."""
    return max(n_classes, int(MAX_SHARE_OF_ITEMS * n_items))


def wanted_items(counts: Indices) -> Indices:
    """Return how many items of each class are held out, from the numbers of all of them."""
    n_items = int(counts.sum())
    share = min(max(MIN_SHARE, min(MAX_SHARE, WANTED_ITEMS / n_items)), MAX_ITEMS / n_items)
    return np.where(counts > 1, np.ceil(share * counts), 0).astype(np.intp)


def hold_out(counts: Indices, items: Callable[[Hashes], DistinctHashes]) -> HeldOut:
    """Choose the items of each class with the lowest hashes; none of a class of one item.

    Parameters
    ----------
    counts : array of shape (n_classes,)
        Numbers of distinct rows with a positive weight. Identical rows must have one label.
    items : callable
        Finds those with hashes up to limits by class.
    """
    n_items, n_classes, wanted = int(counts.sum()), len(counts), wanted_items(counts)
    lowest, highest = np.ones(n_classes, np.uint64), np.zeros(n_classes, np.uint64)
    chosen = []
    found = _lowest_items(counts, wanted, items)
    for c in np.flatnonzero(wanted).tolist():
        held = found.hashes[found.classes == c][: wanted[c]]
        lowest[c], highest[c] = held[0], held[-1]
        chosen.append(held)
    hashes = np.unique(np.concatenate(chosen)) if chosen else np.empty(0, np.uint64)
    return HeldOut(lowest, highest, hashes, n_items)


def _lowest_items(
    counts: Indices, wanted: Indices, items: Callable[[Hashes], DistinctHashes]
) -> DistinctHashes:
    """Find the wanted number of items of each class, and somewhat more."""
    shares = np.minimum(1.0, FIRST_GUESS * wanted / np.maximum(counts, 1))
    while True:
        found = items(np.array([_limit(share) for share in shares.tolist()], dtype=np.uint64))
        few = np.bincount(found.classes, minlength=len(counts)) < wanted
        if not few.any():
            return found
        shares[few] = np.minimum(1.0, 2 * shares[few])


def _limit(share: float) -> int:
    """Return the largest hash in a share of all hashes."""
    return max(0, int(share * N_HASHES) - 1)
