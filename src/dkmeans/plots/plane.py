"""The plane that a picture of a model shows: its two features, or a cut through more."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.inputs import dense

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """A plane in feature space, with coordinates of its own."""

    origin: Floats  # shape (d,)
    axes: Floats  # shape (2, d), orthonormal
    is_cut: bool = False  # whether there are more features than the plane shows
    n_principal: int = 0  # how many of the axes are principal directions of the prototypes
    share: float = 1.0  # of the prototypes' variance that is in the plane

    @classmethod
    def through(cls, centers: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Self:
        """Lay the plane through the prototypes, or take the features themselves if there are two.

        Parameters
        ----------
        centers : ndarray of shape (k, d)
            Prototypes.
        weights : ndarray of shape (k,)
            How much each of them counts.

        Returns
        -------
        plane : Plane
            The plane in which the prototypes vary most.
        """
        d = centers.shape[1]
        if d <= 2:
            return cls(np.zeros(d), np.eye(2, d))
        weights = np.maximum(weights.astype(np.float64), np.finfo(float).tiny)
        weights /= weights.sum()
        origin = weights @ centers
        spread = np.sqrt(weights)[:, None] * (centers - origin)
        _, scales, axes = np.linalg.svd(spread, full_matrices=False)
        total = float((scales**2).sum())
        kept = [a for a, s in zip(axes[:2], scales[:2], strict=False) if s > 1e-9 * scales[0]]
        n_principal = len(kept)
        share = float((scales[:n_principal] ** 2).sum() / total) if total else 1.0
        # One or two prototypes do not span a plane: features make it up.
        while len(kept) < 2:
            other = np.zeros(d)
            other[np.argmin(np.abs(kept[0])) if kept else 0] = 1.0
            if kept:
                other -= (other @ kept[0]) * kept[0]
            kept.append(other / np.linalg.norm(other))
        # A singular vector may point either way; its largest entry shall point up.
        ends = [np.sign(a[np.argmax(np.abs(a))]) * a for a in kept]
        return cls(origin, np.stack(ends), True, n_principal, share)

    def project(self, X: Any) -> Floats:
        """Coordinates of the nearest points of the plane, shape (n, 2)."""
        flat = X @ self.axes.T - self.origin @ self.axes.T
        return np.asarray(flat, dtype=np.float64)

    def heights(self, X: Any) -> Floats:
        """Distances of rows from the plane."""
        away = dense(X) - self.origin
        return np.asarray(np.linalg.norm(away - (away @ self.axes.T) @ self.axes, axis=1))

    def lift(self, points: Floats) -> Floats:
        """Map points of the plane back into feature space."""
        return np.asarray(points @ self.axes + self.origin)
