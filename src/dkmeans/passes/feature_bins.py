"""A pass that counts the rows of each class in bins of each feature."""

from dataclasses import dataclass
from threading import Lock

import numpy as np

from dkmeans.kernels.block import Floats, dense_rows
from dkmeans.kernels.projection import standardise
from dkmeans.kernels.threads import for_each, tiles
from dkmeans.passes.features import whole_weights
from dkmeans.passes.part import Part
from dkmeans.passes.results import SlicesPass
from dkmeans.passes.row_state import RowState

TILE_VALUES = 1 << 17  # standardised at a time
MAX_TILE_ROWS = 1 << 13


@dataclass(frozen=True)
class CountBins(SlicesPass):
    """Sum weights by feature, bin and class; shape (d, n_bins, n_classes).

    Weights are whole multiples of a unit, so that sums are exact.

    Parameters
    ----------
    shift, scales : arrays of shape (d,)
        Standardise the features.
    edges : array of shape (d, n_bins - 1)
        Between the bins of each standardised feature, ascending; each belongs to the bin above.
    weight_unit : float
    """

    shift: Floats
    scales: Floats
    edges: Floats
    weight_unit: float

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        (d, n_edges), n_classes, lock = self.edges.shape, part.n_classes, Lock()
        n_bins = n_edges + 1
        counts = np.zeros(d * n_bins * n_classes)

        def task(tile: slice) -> None:
            rows = np.arange(tile.start, tile.stop)
            if part.active is not None:
                rows = rows[part.active[rows]]
            values = standardise(dense_rows(part.raw, rows), self.shift, self.scales)
            keys = np.repeat(np.arange(d)[None] * n_bins, len(rows), axis=0)
            for edge in self.edges.T:
                keys += values >= edge
            keys = keys * n_classes + part.given[rows][:, None]
            weights = np.repeat(whole_weights(part, rows, self.weight_unit), d)
            found = np.bincount(keys.ravel(), weights, len(counts))
            with lock:  # sums are exact, so the order of tiles does not matter
                np.add(counts, found, out=counts)

        rows = int(np.clip(TILE_VALUES // d, 1, MAX_TILE_ROWS))
        for_each(task, tiles(len(part), rows), part.n_threads)
        return state, counts.reshape(d, n_bins, n_classes)
