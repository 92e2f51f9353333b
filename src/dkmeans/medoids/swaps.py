"""Swaps: replace a medoid by another row wherever that lowers the cost."""

import numpy as np

from dkmeans.kernels.block import Indices
from dkmeans.kernels.medoid_costs import Distances, Ints
from dkmeans.kernels.threads import tiles
from dkmeans.medoids.search import Search

BLOCK_ROWS = 64  # candidates that are compared before one of them is taken
MAX_BLOCKS = 8  # blocks that are evaluated at once
PROMISING_SHARE = 0.1  # of the candidates, which are tried again at once


class Descent:
    """Passes over candidates, each with any number of swaps.

    Candidates are compared in blocks. Within a block, the swap that lowers the cost most is made
    first; the others are evaluated again before they are made, as the earlier ones have changed
    what they gain. Swaps make room for other swaps, mostly of candidates that were close to
    lowering the cost before: after a pass those are tried again, until none of them helps. When as
    many candidates as there are were seen without a swap, the medoids are a local optimum: no
    single swap lowers the cost.

    Parameters
    ----------
    search : Search
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self.is_optimal = False  # whether no swap lowers the cost

    def run_pass(self, candidates: Indices) -> int:
        """Go over candidates, and again over the promising ones; return the number of swaps."""
        n_swaps, changes = self._go_over(candidates)
        total = n_swaps
        self.is_optimal = not n_swaps and len(candidates) == len(self._search.problem.candidates)
        n_promising = int(PROMISING_SHARE * len(candidates))
        promising = np.sort(np.argsort(changes, kind="stable")[:n_promising])
        while n_swaps and n_promising:
            n_swaps, changes = self._go_over(candidates[promising])
            total += n_swaps
        return total

    def _go_over(self, candidates: Indices) -> tuple[int, Ints]:
        """Return the number of swaps, and what each candidate would have changed.

        Several blocks are evaluated at once as long as there are no swaps: threads then have more
        to do. After a swap, what is known of the blocks behind it is dropped.
        """
        search, total, at, n_blocks = self._search, 0, 0, 1
        all_changes = np.empty(len(candidates), dtype=np.int64)
        while at < len(candidates):
            some = candidates[at : at + n_blocks * BLOCK_ROWS]
            rows = search.read(some)
            changes, slots = search.best_swaps(some, rows)
            for part in tiles(len(some), BLOCK_ROWS):
                n_swaps = self._make_swaps(some[part], rows[part], changes[part], slots[part])
                all_changes[at : at + len(some[part])] = changes[part]
                at += len(some[part])
                if n_swaps:
                    break
            total += n_swaps
            n_blocks = 1 if n_swaps else min(2 * n_blocks, MAX_BLOCKS)
        return total, all_changes

    def _make_swaps(self, some: Indices, rows: Distances, changes: Ints, slots: Indices) -> int:
        """Make the swaps of a block that lower the cost; return how many."""
        search, n_swaps = self._search, 0
        better = np.flatnonzero(changes < 0)
        better = better[np.argsort(changes[better], kind="stable")]
        for number, at in enumerate(better.tolist()):
            change, slot = changes[at], slots[at]
            if number:
                again, where = search.best_swaps(some[at : at + 1], rows[at : at + 1])
                change, slot = again[0], where[0]
            if change < 0:
                search.swap(int(slot), int(some[at]))
                n_swaps += 1
        return n_swaps
