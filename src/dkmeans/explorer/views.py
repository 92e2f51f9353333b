"""Rows of a layer as a model sees them, computed once when they are first asked for."""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.arguments import threads_of
from dkmeans.explorer.layers import Layer
from dkmeans.kernels.block import Indices
from dkmeans.plots.inputs import dense
from dkmeans.questions import nearest_prototype, reject

Floats = npt.NDArray[np.float64]

CHUNK_ROWS = 1 << 16  # rows at a time, where work arrays are as large as they are


class View:
    """A model and the rows of a layer.

    Parameters
    ----------
    core : DiscriminativeKMeans
        It is never changed.
    layer : Layer
    """

    def __init__(self, core: Any, layer: Layer) -> None:
        self.core, self.layer = core, layer
        self._geometry = core._fitted.geometry
        self._centers = core._fitted.prototypes.centers

    @cached_property
    def rows(self) -> Any:
        """Rows in the space of the model."""
        return self._geometry.rows(self.layer.X, threads_of(self.core))

    @cached_property
    def cells(self) -> Indices:
        """Nearest prototype of each row."""
        return nearest_prototype.nearest(self.rows, self._centers, threads_of(self.core))[0]

    @cached_property
    def distances(self) -> npt.NDArray[np.float32]:
        """Distance of each row to its prototype."""
        out = np.empty(len(self.layer), dtype=np.float32)
        for start in range(0, len(out), CHUNK_ROWS):
            centers = self._centers[self.cells[start : start + CHUNK_ROWS]]
            rows = dense(self.rows[start : start + CHUNK_ROWS]) - centers
            out[start : start + CHUNK_ROWS] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        return out

    @cached_property
    def margins(self) -> npt.NDArray[np.float32]:
        """Relative margin of the predicted class of each row, from 0 to 1."""
        return self.margins_of(np.arange(len(self.layer)))

    def margins_of(self, which: Indices) -> npt.NDArray[np.float32]:
        """Compute the margins of some rows."""
        model = self.core._fitted
        n, k = len(which), len(model.classes)
        out = np.empty(n, dtype=np.float32)
        for start in range(0, n, CHUNK_ROWS):
            rows = self.rows[which[start : start + CHUNK_ROWS]]
            near = nearest_prototype.class_distances(
                rows, model.prototypes, k, threads_of(self.core)
            ).astype(np.float64)
            two = np.partition(near, 1, axis=1)[:, :2] if k > 1 else np.column_stack([near, near])
            own, rival = np.square(two).T
            total = own + rival
            out[start : start + CHUNK_ROWS] = np.where(
                np.isfinite(rival),
                np.divide(rival - own, total, out=np.zeros_like(total), where=total > 0),
                1.0,
            )
        return out

    @cached_property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """Whether each row is rejected as of no known class; False without thresholds."""
        rejection = self.core._fitted.rejection
        if rejection is None:
            return np.zeros(len(self.layer), dtype=bool)
        threads = threads_of(self.core)
        parts = [
            reject.unknown_scores(
                self.core._fitted, rejection, self.rows[at : at + CHUNK_ROWS], threads
            )
            for at in range(0, len(self.layer), CHUNK_ROWS)
        ]
        return np.concatenate(parts) > 1 if parts else np.zeros(0, dtype=bool)

    def nearest_rows(self, point: Any, count: int) -> tuple[Indices, Floats]:
        """Find the rows nearest to a point of the model's space, the nearest first."""
        point = dense(point).ravel()
        squares = np.empty(len(self.layer))
        for start in range(0, len(squares), CHUNK_ROWS):
            rows = dense(self.rows[start : start + CHUNK_ROWS]) - point
            squares[start : start + CHUNK_ROWS] = np.einsum("ij,ij->i", rows, rows)
        count = min(count, len(squares))
        some = np.argpartition(squares, count - 1)[:count] if count else np.zeros(0, dtype=np.intp)
        order = some[np.lexsort((some, squares[some]))]
        return order, np.sqrt(squares[order])

    def exemplars(self, own: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Find the nearest row of each prototype among `own` rows of its cell; -1 if none."""
        found = np.full(len(self._centers), -1, dtype=np.int64)
        rows = np.flatnonzero(own)
        order = rows[np.lexsort((rows, self.distances[rows], self.cells[rows]))]
        cells, first = np.unique(self.cells[order], return_index=True)
        found[cells] = order[first]
        return found
