"""Plane of a plot: the two features of a model, a cut through more of them, or a projection."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.inputs import dense
from dkmeans.questions.nearest_prototype import nearest

Floats = npt.NDArray[np.float64]
TILE_ROWS = 4096  # points lifted into the feature space at a time


class Method(StrEnum):
    """How a plane is found."""

    FEATURES = "features"
    PCA = "PCA of the prototypes"
    CLASS_MEANS = "PCA of the class means"


@dataclass(frozen=True)
class Plane:
    """A plane in feature space, with its own coordinates."""

    origin: Floats  # shape (d,)
    axes: Floats  # shape (2, d), orthonormal
    method: Method = Method.FEATURES
    n_principal: int = 0  # number of axes that the method found; others complete the plane
    share: float = 1.0  # share of the prototypes' variance within the plane

    @property
    def is_cut(self) -> bool:
        """Whether regions are what the model predicts on the plane, through more features."""
        return self.method is Method.PCA

    @property
    def is_projection(self) -> bool:
        """Whether distances are measured in the plane, as if there were no other features."""
        return self.method is Method.CLASS_MEANS

    @classmethod
    def through(cls, centers: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Self:
        """Fit a plane to the prototypes; with two features, use the features themselves.

        Parameters
        ----------
        centers : ndarray of shape (k, d)
            Prototypes.
        weights : ndarray of shape (k,)
            Weights of the prototypes.

        Returns
        -------
        plane : Plane
            The plane in which the prototypes vary most.
        """
        d = centers.shape[1]
        if d <= 2:
            return cls(np.zeros(d), np.eye(2, d))
        origin, axes, scales = _principal(centers, weights)
        kept = [a for a, s in zip(axes[:2], scales[:2], strict=False) if s > 1e-9 * scales[0]]
        return cls._spanned(centers, weights, origin, kept, Method.PCA)

    @classmethod
    def of_class_means(
        cls, centers: npt.NDArray[Any], weights: npt.NDArray[Any], classes: npt.NDArray[Any]
    ) -> Self:
        """Find the plane in which the means of the classes vary most.

        Parameters
        ----------
        centers, weights, classes : ndarrays of shape (k, d), (k,) and (k,)
            Prototypes, their weights and their classes, of which there are at least two.

        Returns
        -------
        plane : Plane
            The plane; that of two class means is completed by a principal direction.
        """
        origin, _, _ = _principal(centers, weights)
        shares = np.maximum(weights.astype(np.float64), np.finfo(float).tiny)
        means = [
            np.average(centers[classes == c], axis=0, weights=shares[classes == c])
            for c in np.unique(classes)
        ]
        _, axes, scales = _principal(np.array(means), np.ones(len(means)))
        kept = [a for a, s in zip(axes[:2], scales[:2], strict=False) if s > 1e-9 * scales[0]]
        if len(kept) == 1:
            steps = centers - origin
            rest = steps - np.outer(steps @ kept[0], kept[0])
            kept.append(_principal(rest, weights)[1][0])
        return cls._spanned(centers, weights, origin, kept, Method.CLASS_MEANS)

    @classmethod
    def _spanned(
        cls,
        centers: npt.NDArray[Any],
        weights: npt.NDArray[Any],
        origin: Floats,
        kept: list[Floats],
        method: Method,
    ) -> Self:
        """Build a plane from orthonormal directions; complete it with feature axes."""
        n_principal, d = len(kept), centers.shape[1]
        while len(kept) < 2:
            other = np.zeros(d)
            other[np.argmin(np.abs(kept[0])) if kept else 0] = 1.0
            if kept:
                other -= (other @ kept[0]) * kept[0]
            kept.append(other / np.linalg.norm(other))
        # Fix the sign of each direction: its largest entry is positive.
        axes = np.stack([np.sign(a[np.argmax(np.abs(a))]) * a for a in kept])
        steps = centers - origin
        total = float(weights @ np.square(steps).sum(axis=1))
        inside = float(weights @ np.square(steps @ axes[:n_principal].T).sum(axis=1))
        return cls(origin, axes, method, n_principal, inside / total if total else 1.0)

    def project(self, X: Any) -> Floats:
        """Project rows onto the plane; return coordinates of shape (n, 2)."""
        flat = X @ self.axes.T - self.origin @ self.axes.T
        return np.asarray(flat, dtype=np.float64)

    def heights(self, X: Any) -> Floats:
        """Compute the distances of rows from the plane; 0 if only distances in it count."""
        if self.is_projection:
            return np.zeros(X.shape[0])
        away = dense(X) - self.origin
        return np.asarray(np.linalg.norm(away - (away @ self.axes.T) @ self.axes, axis=1))

    def lift(self, points: Floats) -> Floats:
        """Map points of the plane back into feature space."""
        return np.asarray(points @ self.axes + self.origin)

    def owners(self, points: Floats, centers: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Find the prototype that owns each point of the plane.

        Parameters
        ----------
        points : ndarray of shape (n, 2)
            Points of the plane.
        centers : ndarray of shape (k, d)
            Prototypes in the space of the plane.

        Returns
        -------
        owners : ndarray of shape (n,)
            Index of the nearest prototype: in feature space, or of a projection in the plane.
        """
        if self.is_projection:
            return np.asarray(nearest(points, self.project(centers), 1)[0])
        parts = [
            nearest(self.lift(points[i : i + TILE_ROWS]).astype(centers.dtype), centers, 1)[0]
            for i in range(0, len(points), TILE_ROWS)
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)


def _principal(
    centers: npt.NDArray[Any], weights: npt.NDArray[Any]
) -> tuple[Floats, Floats, Floats]:
    """Return the weighted mean, the principal directions and their singular values."""
    shares = np.maximum(weights.astype(np.float64), np.finfo(float).tiny)
    shares /= shares.sum()
    origin = shares @ centers
    spread = np.sqrt(shares)[:, None] * (centers - origin)
    _, scales, axes = np.linalg.svd(spread, full_matrices=False)
    return origin, axes, scales
