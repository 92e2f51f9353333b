"""Held-out rows: a part of each class, chosen by a hash of the rows' values.

So the choice is deterministic and does not depend on the order of rows. Identical rows stay
together.
"""

from dataclasses import dataclass

import numpy as np

from dkmeans.kernels.block import Floats
from dkmeans.kernels.rowhash import Hashes
from dkmeans.kernels.tally import exact_totals
from dkmeans.passes.sampling import DistinctHashes

MIN_SHARE = 1 / 5  # of each class that is held out,
MAX_SHARE = 1 / 2  # more than the least if there are few items:
WANTED_ITEMS = 2000  # from so many on, their errors tell models apart
MAX_ITEMS = 20_000  # of very many items, about as many are held out


@dataclass(frozen=True)
class HeldOut:
    """The part that is held out. Identical rows count as one item."""

    lowest: Hashes  # shape (n_classes,): lowest hash of each class that is held out
    highest: Hashes  # the highest; below the lowest if none is
    hashes: Hashes  # of all items that are held out, ascending
    n_items: int  # number of all items, held out or not

    def losses(self, hashes: Hashes, weights: Floats) -> Floats:
        """Return the weight of each item among some rows with these hashes and weights."""
        return exact_totals(np.searchsorted(self.hashes, hashes), weights, len(self.hashes))


def hold_out(items: DistinctHashes, n_classes: int) -> HeldOut:
    """Choose the items of each class with the lowest hashes; none of a class of one item.

    `items` are all distinct rows with a positive weight. Identical rows must have one label.
    """
    n_items = len(items.hashes)
    share = min(max(MIN_SHARE, min(MAX_SHARE, WANTED_ITEMS / n_items)), MAX_ITEMS / n_items)
    lowest, highest = np.ones(n_classes, np.uint64), np.zeros(n_classes, np.uint64)
    chosen = []
    for c in np.unique(items.classes).tolist():
        mine = items.hashes[items.classes == c]
        if len(mine) > 1:
            held = mine[: int(np.ceil(share * len(mine)))]
            lowest[c], highest[c] = held[0], held[-1]
            chosen.append(held)
    hashes = np.unique(np.concatenate(chosen)) if chosen else np.empty(0, np.uint64)
    return HeldOut(lowest, highest, hashes, n_items)
