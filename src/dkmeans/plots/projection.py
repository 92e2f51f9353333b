"""Plane of a plot: the two features of a model, or a cut through more features."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.inputs import dense

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """A plane in feature space, with its own coordinates."""

    origin: Floats  # shape (d,)
    axes: Floats  # shape (2, d), orthonormal
    is_cut: bool = False  # whether there are more than two features
    n_principal: int = 0  # number of axes that are principal directions of the prototypes
    share: float = 1.0  # share of the prototypes' variance within the plane

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
        weights = np.maximum(weights.astype(np.float64), np.finfo(float).tiny)
        weights /= weights.sum()
        origin = weights @ centers
        spread = np.sqrt(weights)[:, None] * (centers - origin)
        _, scales, axes = np.linalg.svd(spread, full_matrices=False)
        total = float((scales**2).sum())
        kept = [a for a, s in zip(axes[:2], scales[:2], strict=False) if s > 1e-9 * scales[0]]
        n_principal = len(kept)
        share = float((scales[:n_principal] ** 2).sum() / total) if total else 1.0
        # One or two prototypes do not span a plane: complete it with feature axes.
        while len(kept) < 2:
            other = np.zeros(d)
            other[np.argmin(np.abs(kept[0])) if kept else 0] = 1.0
            if kept:
                other -= (other @ kept[0]) * kept[0]
            kept.append(other / np.linalg.norm(other))
        # Fix the sign of each singular vector: its largest entry is positive.
        ends = [np.sign(a[np.argmax(np.abs(a))]) * a for a in kept]
        return cls(origin, np.stack(ends), True, n_principal, share)

    def project(self, X: Any) -> Floats:
        """Project rows onto the plane; return coordinates of shape (n, 2)."""
        flat = X @ self.axes.T - self.origin @ self.axes.T
        return np.asarray(flat, dtype=np.float64)

    def heights(self, X: Any) -> Floats:
        """Compute the distances of rows from the plane."""
        away = dense(X) - self.origin
        return np.asarray(np.linalg.norm(away - (away @ self.axes.T) @ self.axes, axis=1))

    def lift(self, points: Floats) -> Floats:
        """Map points of the plane back into feature space."""
        return np.asarray(points @ self.axes + self.origin)
