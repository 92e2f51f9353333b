"""Rows that are held out: fifths of each class, chosen by a hash of the rows' values.

So neither chance nor the order of rows has a say. Identical rows stay together.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes

_PARTS = 5
_ENOUGH = 2000  # different rows held out, in one part or several


@dataclass(frozen=True)
class HeldOut:
    """Which rows are held out. Identical rows count as one item, of their weight together."""

    mask: npt.NDArray[np.bool_]  # shape (n,)
    rows: Indices  # the same as numbers, sorted by item
    items: Indices  # of each of them
    weights: Floats  # of each of them
    n_left: int  # how many items are not held out

    def losses(self, wrong: npt.NDArray[np.bool_]) -> Floats:
        """Weight of the rows of each item that are among the wrong ones."""
        return np.bincount(self.items, self.weights * wrong[self.rows]).astype(np.float64)


def hold_out(hashes: Hashes, y: Indices, weights: Floats | None) -> list[HeldOut]:
    """Choose parts to be held out in turn: one if there are many rows, up to five if there are few.

    No row of weight 0 is held out. Identical rows must have one label.
    """
    rows = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    rows = rows[np.lexsort((hashes[rows], y[rows]))]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (hashes[rows[1:]] != hashes[rows[:-1]]) | (y[rows[1:]] != y[rows[:-1]])
    item, classes = np.cumsum(new) - 1, y[rows[new]]  # of each row; of each item
    count = np.bincount(classes)
    rank = np.arange(len(classes)) - (np.cumsum(count) - count)[classes]
    part = _PARTS * rank // count[classes]
    part[count[classes] == 1] = _PARTS  # or there would be none of the class to learn from
    wanted = int(np.clip(-(-_ENOUGH * _PARTS // len(classes)), 1, _PARTS))
    return [
        _held(len(y), rows, weights, item, part == number)
        for number in range(wanted)
        if number == 0 or (part == number).any()
    ]


def _held(
    n: int,
    rows: Indices,
    weights: Floats | None,
    item: Indices,
    chosen: npt.NDArray[np.bool_],
) -> HeldOut:
    held, number = chosen[item], np.cumsum(chosen) - 1
    mask = np.zeros(n, dtype=bool)
    mask[rows[held]] = True
    return HeldOut(
        mask,
        rows[held],
        number[item[held]],
        np.ones(int(held.sum())) if weights is None else weights[rows[held]],
        int(np.count_nonzero(~chosen)),
    )
