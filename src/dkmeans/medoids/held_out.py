"""Held-out rows in memory: fifths of each class, chosen by a hash of the rows' values.

So the choice is deterministic and does not depend on the order of rows. Identical rows stay
together.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes
from dkmeans.kernels.tally import exact_totals

N_PARTS = 5  # of each class
MIN_HELD_OUT_ITEMS = 2000  # as many parts are held out in turn as this needs


@dataclass(frozen=True)
class HeldOut:
    """One part of the rows. Identical rows count as one item with their total weight."""

    lowest: Hashes  # shape (n_classes,): lowest hash of each class that is held out
    highest: Hashes  # the highest; below the lowest if none is
    items: Indices  # shape (n,): item of each row, or -1 if it is not held out
    weight: float  # total weight of the held-out rows
    n_left: int  # number of items that are not held out

    def losses(self, rows: Indices, weights: Floats) -> Floats:
        """Return the weight of each item among some rows with these weights."""
        n_items = int(self.items.max(initial=-1)) + 1
        return exact_totals(self.items[rows], weights, n_items)


def hold_out(hashes: Hashes, y: Indices, weights: Floats | None, n_classes: int) -> list[HeldOut]:
    """Choose the parts to hold out in turn: one if there are many rows, up to five if few.

    No row of weight 0 is held out. Identical rows must have one label.
    """
    rows = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    rows = rows[np.lexsort((hashes[rows], y[rows]))]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (hashes[rows[1:]] != hashes[rows[:-1]]) | (y[rows[1:]] != y[rows[:-1]])
    item, classes = np.cumsum(new) - 1, y[rows[new]]  # of each row; of each item
    count = np.bincount(classes)
    rank = np.arange(len(classes)) - (np.cumsum(count) - count)[classes]
    part = N_PARTS * rank // count[classes]
    part[count[classes] == 1] = N_PARTS  # a class of one item cannot be held out
    wanted = int(np.clip(-(-MIN_HELD_OUT_ITEMS * N_PARTS // len(classes)), 1, N_PARTS))
    return [
        _held(hashes, y, weights, n_classes, rows, item, part == number)
        for number in range(wanted)
        if number == 0 or (part == number).any()
    ]


def _held(
    hashes: Hashes,
    y: Indices,
    weights: Floats | None,
    n_classes: int,
    rows: Indices,
    item: Indices,
    chosen: npt.NDArray[np.bool_],
) -> HeldOut:
    held = rows[chosen[item]]
    items = np.full(len(y), -1)
    items[held] = (np.cumsum(chosen) - 1)[item[chosen[item]]]
    lowest, highest = np.ones(n_classes, np.uint64), np.zeros(n_classes, np.uint64)
    for c in np.unique(y[held]):
        mine = hashes[held[y[held] == c]]
        lowest[c], highest[c] = mine.min(), mine.max()
    weight = float(len(held)) if weights is None else float(np.sort(weights[held]).sum())
    return HeldOut(lowest, highest, items, weight, int(np.count_nonzero(~chosen)))
