"""`FittedMedoids`: everything that is known about fitted medoids, as one frozen value."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.growth.waypoints import find_waypoint, require_way
from dkmeans.kernels.block import Floats, Indices
from dkmeans.medoids.waypoints import Waypoint
from dkmeans.results.answers import Rejection
from dkmeans.results.calibration import Calibration
from dkmeans.results.fit_record import History, Path


@dataclass(frozen=True)
class MedoidPath:
    """Models with other numbers of medoids that the fit passed through, for `at(k)`."""

    waypoints: list[Waypoint]  # by number of medoids; their medoids are training rows
    kept: list[Any]  # rows or objects that are the medoids of each waypoint
    codes: list[Indices]  # classes of the medoids of each waypoint
    history: History


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedMedoids:
    """Medoids in the order of their classes and rows. Fields that are None are not published."""

    medoids: Indices  # training rows
    kept: Any  # rows or objects that are the medoids; None for given distances
    codes: Indices  # class of each medoid, by number
    classes: npt.NDArray[Any]  # labels
    sizes: Floats  # weight of the rows of each medoid
    n_iter: int
    converged: bool
    cost: float
    inertia: float
    history: History
    path: Path | None = None
    labels: Indices | None = None
    n_features: int | None = None
    feature_names: npt.NDArray[Any] | None = None
    rejection: Rejection | None = None
    calibration: Calibration | None = None
    way: MedoidPath | None = None

    @property
    def medoid_classes(self) -> npt.NDArray[Any]:
        """Class label of each medoid."""
        return self.classes[self.codes]

    def at(self, k: int) -> "FittedMedoids":
        """Return the model that growth passed through with the most medoids up to k."""
        way = require_way(self.way)
        which = find_waypoint(way.waypoints, k, "medoids")
        waypoint = way.waypoints[which]
        if len(waypoint) == len(self.medoids):
            return self
        return replace(
            self,
            medoids=waypoint.medoids,
            kept=way.kept[which],
            codes=way.codes[which],
            sizes=waypoint.sizes,
            n_iter=waypoint.round,
            converged=waypoint.refined,
            cost=waypoint.cost,
            inertia=waypoint.inertia,
            history=way.history.take(way.history.round <= waypoint.round),
            labels=None,
            rejection=None,
            calibration=None,
        )

    def with_rejection(self, rejection: Rejection) -> Self:
        """Add thresholds."""
        return replace(self, rejection=rejection)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of an estimator with this value."""
        found = {
            "_fitted": self,
            "classes_": self.classes,
            "medoid_indices_": self.medoids,
            "medoid_classes_": self.medoid_classes,
            "medoid_sizes_": self.sizes,
            "medoids_": self.kept,
            "n_medoids_": len(self.medoids),
            "labels_": self.labels,
            "n_iter_": self.n_iter,
            "converged_": self.converged,
            "cost_": self.cost,
            "inertia_": self.inertia,
            "history_": self.history,
            "path_": self.path,
            "rejection_": self.rejection,
            "temperature_": None if self.calibration is None else self.calibration.temperature,
            "n_features_in_": self.n_features,
            "feature_names_in_": self.feature_names,
        }
        return {name: value for name, value in found.items() if value is not None}


def class_distances(distances: Any, codes: Indices, n_classes: int) -> npt.NDArray[np.floating]:
    """Return the distance to the nearest medoid of each class; infinite for classes without."""
    out = np.full((len(distances), n_classes), np.inf, dtype=distances.dtype)
    for c in np.unique(codes):
        out[:, c] = distances[:, codes == c].min(axis=1)
    return out
