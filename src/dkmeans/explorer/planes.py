"""Planes that the map shows: where rows lie on them, and which row a point stands for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from dkmeans.geometry import Learned
from dkmeans.plots.inputs import dense, evenly_spaced, take_rows
from dkmeans.plots.projection import Plane

Floats = npt.NDArray[np.float64]

IDS = ("learned", "lda", "pca", "features")
MAX_SAMPLE_ROWS = 5000  # rows that directions are computed from
MAX_REDUCED = 128  # principal components that LDA starts from
RANK_TOLERANCE = 1e-10  # of the largest variance
SHRINKAGE = 1e-3  # share of the mean variance added to variances within classes
CHUNK_ROWS = 1 << 16  # rows projected at a time


@dataclass(frozen=True)
class MapPlane:
    """A plane, with coordinates ``rows @ matrix.T + offset``.

    A point of the plane stands for one row: the one that is expected there, as `lift` tells.
    """

    id: str
    title: str
    x: str  # titles of the axes
    y: str
    matrix: Floats  # shape (2, d)
    offset: Floats  # shape (2,)
    base: Floats  # shape (d,): a row; steps from its point are steps along `steps`
    steps: Floats  # shape (2, d)
    is_mapped: bool  # whether rows are those of the model's space, not features

    def project(self, X: Any) -> npt.NDArray[np.float32]:
        """Compute the coordinates of rows, shape (n, 2)."""
        out = np.empty((X.shape[0], 2), dtype=np.float32)
        for start in range(0, len(out), CHUNK_ROWS):
            rows = X[start : start + CHUNK_ROWS]
            out[start : start + CHUNK_ROWS] = rows @ self.matrix.T + self.offset
        return out

    def lift(self, points: Floats) -> Floats:
        """Return the row that each point stands for, shape (n, d)."""
        origin = self.matrix @ self.base + self.offset
        return np.asarray((points - origin) @ self.steps + self.base)


def prototype_plane(core: Any, features: Sequence[str]) -> MapPlane:
    """Make the plane in which the prototypes vary most, in the space of the model."""
    centers = core._fitted.prototypes.centers
    plane = Plane.through(centers.astype(np.float64), core.cluster_sizes_)
    learned = isinstance(core._fitted.geometry, Learned)
    title = "learned metric" if learned else "prototypes"
    if not plane.is_cut and not learned:
        x, y, *_ = [*features, ""]
    else:
        x, y = "first direction of the prototypes", "second direction of the prototypes"
    offset = -plane.origin @ plane.axes.T
    return MapPlane(
        "learned", title, x, y, plane.axes, offset, plane.origin, plane.axes, is_mapped=True
    )


class RowDirections:
    """Directions computed from a sample of rows: of the largest variance, or between classes.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Rows in the space of features.
    codes : array of shape (n,)
        Their classes.
    """

    def __init__(self, X: Any, codes: npt.NDArray[Any]) -> None:
        which = evenly_spaced(X.shape[0], MAX_SAMPLE_ROWS)
        rows = dense(take_rows(X, which))
        self.mean = rows.mean(axis=0)
        self._codes = np.asarray(codes)[which]
        self._centred = rows - self.mean
        self._values, self._axes = _principal(self._centred)

    def pca(self) -> MapPlane:
        """Make the plane of the largest variance of the rows."""
        matrix = _two(self._axes, len(self.mean))
        titles = ("first principal component", "second principal component")
        return self._plane("pca", "PCA of the rows", *titles, matrix)

    def lda(self) -> MapPlane:
        """Make the plane that separates the classes best, by linear discriminant analysis."""
        reduced = self._centred @ self._axes.T
        matrix = _discriminants(reduced, self._codes) @ self._axes
        titles = ("first discriminant", "second discriminant")
        return self._plane("lda", "LDA of the rows", *titles, _two(matrix, len(self.mean)))

    def features(self, x: int, y: int, names: tuple[str, str], scales: Floats) -> MapPlane:
        """Make the plane of two features; `scales` are factor and offset of each one's unit."""
        matrix = np.zeros((2, len(self.mean)))
        matrix[0, x], matrix[1, y] = scales[0]
        return self._plane("features", "two features", *names, matrix, scales[1])

    def _plane(
        self, id: str, title: str, x: str, y: str, matrix: Floats, offset: Floats | None = None
    ) -> MapPlane:
        """Complete a plane: features that it does not show are those expected at a point of it."""
        offset = -matrix @ self.mean if offset is None else offset
        flat = self._centred @ matrix.T
        cross, inner = flat.T @ self._centred, flat.T @ flat
        steps = scipy.linalg.pinvh(inner) @ cross
        return MapPlane(id, title, x, y, matrix, offset, self.mean, steps, is_mapped=False)


def _principal(centred: Floats) -> tuple[Floats, Floats]:
    """Return variances and principal axes, the largest first, without those of no variance."""
    n, d = centred.shape
    if d <= n:
        values, vectors = scipy.linalg.eigh(centred.T @ centred / n)
        axes = vectors.T
    else:
        values, vectors = scipy.linalg.eigh(centred @ centred.T / n)
        lengths = np.sqrt(np.maximum(values, np.finfo(float).tiny) * n)
        axes = (vectors / lengths).T @ centred
    order = np.argsort(-values, kind="stable")[:MAX_REDUCED]
    order = order[values[order] > RANK_TOLERANCE * max(values.max(), np.finfo(float).tiny)]
    return values[order], axes[order]


def _discriminants(rows: Floats, codes: npt.NDArray[Any]) -> Floats:
    """Return directions of the largest variance between classes for that within them."""
    d = rows.shape[1]
    if not d:
        return np.zeros((0, 0))
    labels, of_row = np.unique(codes, return_inverse=True)
    counts = np.bincount(of_row).astype(float)
    collect = sp.csr_array((np.ones(len(rows)), (of_row, np.arange(len(rows)))))
    means = collect @ rows / counts[:, None]
    inside = rows - means[of_row]
    within = inside.T @ inside / len(rows)
    within += SHRINKAGE * (np.trace(rows.T @ rows) / len(rows) / d) * np.eye(d)
    between = (means.T * counts) @ means / len(rows)
    _, vectors = scipy.linalg.eigh(between, within)
    best = vectors.T[::-1][: min(2, len(labels) - 1)]
    if len(best) < 2 and d > 1:  # two classes have one direction; the other is the widest left
        other = np.eye(d)[0] if not len(best) else _apart(best[0], within)
        best = np.vstack([best, other])
    return np.asarray(best)


def _apart(direction: Floats, within: Floats) -> Floats:
    """Return the first principal axis that is not along a direction, uncorrelated with it."""
    axis = np.eye(len(direction))[0 if abs(direction[0]) < np.abs(direction).max() else 1]
    axis = axis - (axis @ within @ direction) / (direction @ within @ direction) * direction
    return np.asarray(axis / np.sqrt(axis @ within @ axis))


def _two(axes: Floats, d: int) -> Floats:
    """Take two directions, of zeros where there are fewer; their largest entry is positive."""
    found = np.zeros((2, d))
    found[: min(2, len(axes))] = axes[:2]
    largest = found[np.arange(2), np.abs(found).argmax(axis=1)]
    return found * np.where(largest < 0, -1.0, 1.0)[:, None]
