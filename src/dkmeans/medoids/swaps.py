"""Swaps: replace a medoid by another row wherever that lowers the cost."""

import numpy as np

from dkmeans.kernels.block import Indices
from dkmeans.kernels.medoid_costs import Ints
from dkmeans.medoids.search import Search

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
        """Return the number of swaps, and what each candidate would have changed."""
        search, n_swaps = self._search, 0
        all_changes = np.empty(len(candidates), dtype=np.int64)
        for part, rows in search.blocks(candidates):
            some = candidates[part]
            changes, slots = search.best_swaps(some, rows)
            all_changes[part] = changes
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
        return n_swaps, all_changes
