"""`Fitted`: everything that is known about a fitted model, as one frozen value.

`fit`, `partial_fit`, `at`, edits and `load` make one, and the estimator publishes it; `save`, the
questions and the HTML summary read it. To add a fitted attribute, add a field and a line in
`attributes` here, and compute it in `outcome.py`.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.geometry import Geometry, name_of
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.waypoints import Waypoint, find_waypoint, require_way
from dkmeans.kernels.block import Floats, Indices
from dkmeans.prototypes import Prototypes
from dkmeans.results.answers import Rejection
from dkmeans.results.calibration import Calibration
from dkmeans.results.conflicts import LazyConflicts
from dkmeans.results.fit_record import Changes, History, Path, Tree, TreeLog, describe_changes

Conflicts: TypeAlias = list[Indices] | LazyConflicts


@dataclass(frozen=True)
class GrowthPath:
    """Models with fewer clusters that the fit passed through, for `at(k)`."""

    waypoints: list[Waypoint]  # by number of clusters
    sizes: list[Floats]  # cluster sizes of each waypoint
    history: History
    tree: Tree
    call: int  # of the tree

    def find(self, k: int) -> int:
        """Return the index of the largest model that has at most k clusters."""
        return find_waypoint(self.waypoints, k)

    def history_of(self, which: int) -> History:
        """Return the rounds up to a model, and the passes that refined it.

        In the history of a search, the passes that refined the model of a round follow it.
        """
        waypoint, history = self.waypoints[which], self.history
        is_pass = history.phase == "refine"
        grown = np.maximum.accumulate(np.where(is_pass, 0, history.round))
        of_model = is_pass & (grown == waypoint.round) & waypoint.refined
        is_search = bool((np.diff(history.round) < 0).any())
        if waypoint.refined and not of_model.any() and not is_search:
            of_model = is_pass  # of the result, whose rounds include its passes
        return history.take(of_model | (~is_pass & (history.round <= waypoint.round)))


@dataclass(frozen=True)
class TrainingClasses:
    """Classes of the training rows, for `suspects()` without rows."""

    codes: npt.NDArray[np.integer]  # class of each row, by number, in as few bytes as possible
    weights: Floats  # class weights


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor:
    """The part of a model that prediction needs.

    It is sent to Dask workers, and given to callbacks during a fit. Fields that are None are
    attributes that the estimator does not have.
    """

    prototypes: Prototypes
    classes: npt.NDArray[Any]  # labels; prototypes and rows name them by index
    geometry: Geometry
    n_features: int
    feature_names: npt.NDArray[Any] | None = None
    rejection: Rejection | None = None
    calibration: Calibration | None = None

    @property
    def n_clusters(self) -> int:
        """Number of prototypes."""
        return len(self.prototypes)

    @property
    def cluster_classes(self) -> npt.NDArray[Any]:
        """Class label of each prototype."""
        return self.classes[self.prototypes.classes]

    def prototypes_among(self, classes: npt.NDArray[Any]) -> Prototypes:
        """Return the prototypes with class numbers of a larger set of classes."""
        codes = np.searchsorted(classes, self.classes)
        return replace(self.prototypes, classes=codes[self.prototypes.classes])

    def predictor(self) -> "Predictor":
        """Return the part that prediction needs, without anything of the size of the data."""
        return Predictor(
            prototypes=self.prototypes,
            classes=self.classes,
            geometry=self.geometry,
            n_features=self.n_features,
            feature_names=self.feature_names,
            rejection=self.rejection,
            calibration=self.calibration,
        )

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of an estimator with this value."""
        return _present(
            _fitted=self,
            classes_=self.classes,
            cluster_centers_=self.geometry.inverse(self.prototypes.centers),
            metric_=name_of(self.geometry),
            components_=self.geometry.input_components,
            cluster_classes_=self.cluster_classes,
            cluster_ids_=self.prototypes.ids,
            n_clusters_=self.n_clusters,
            n_features_in_=self.n_features,
            feature_names_in_=self.feature_names,
            rejection_=self.rejection,
            temperature_=None if self.calibration is None else self.calibration.temperature,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(Predictor):
    """Everything that is known about a fitted model."""

    sizes: Floats  # weight of the rows of each prototype
    exemplars: Indices  # training row nearest to each prototype, -1 if not known
    n_iter: int
    converged: bool
    history: History
    tree: Tree
    changes: Changes  # what the last call changed
    earlier_rows: EarlierRows  # weight and sum of the rows of each prototype and class
    weight_unit: float  # a weight of 1 in `earlier_rows`, in the user's weights
    # Statements about training rows; None where the rows are not known any more.
    labels: Any = None  # of shape (n,): an array, or a Dask array for Dask collections
    n_rows: int = 0  # number of rows of the last fit; 0 if it is not known
    n_parts: int = 0  # calls that have added new rows since the last fit; not kept in files
    inertia: float | None = None
    conflicts: Conflicts | None = None
    path: Path | None = None
    training_classes: TrainingClasses | None = None
    growth_path: GrowthPath | None = None

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of an estimator with this value."""
        return super().attributes() | _present(
            cluster_sizes_=self.sizes,
            exemplars_=self.exemplars,
            labels_=self.labels,
            n_iter_=self.n_iter,
            converged_=self.converged,
            inertia_=self.inertia,
            conflicts_=self.conflicts,
            history_=self.history,
            path_=self.path,
            tree_=self.tree,
            changes_=self.changes,
        )

    def tree_log(self, classes: npt.NDArray[Any]) -> TreeLog:
        """Continue the tree, with class numbers of a larger set of classes."""
        return TreeLog(self.tree, np.asarray(np.searchsorted(classes, self.tree.label)))

    def refined_at(self, k: int) -> bool:
        """Return whether the model of `at(k)` was refined."""
        path = self._way()
        return path.waypoints[path.find(k)].refined

    def _way(self) -> GrowthPath:
        """Return the models with fewer clusters."""
        return require_way(self.growth_path)

    def at(self, k: int) -> "Fitted":
        """Return the model that growth passed through with the most clusters up to k."""
        path = self._way()
        which = path.find(k)
        waypoint = path.waypoints[which]
        if len(waypoint) == self.n_clusters:
            return self
        history, call = path.history_of(which), path.call
        tree = path.tree.until(call, waypoint.round)
        return replace(
            self,
            prototypes=waypoint.prototypes,
            geometry=waypoint.geometry,
            sizes=path.sizes[which],
            exemplars=np.full(len(waypoint), -1),  # the rows of that moment were not kept
            n_iter=int(max([waypoint.round, *history.round[-1:]])),
            converged=False,
            inertia=waypoint.inertia * self.weight_unit,
            history=history,
            tree=tree,
            changes=describe_changes(None, waypoint.prototypes, tree, call),
            earlier_rows=waypoint.earlier_rows,
            labels=None,
            rejection=None,
            calibration=None,
            training_classes=None,
        )


def _present(**attributes: Any) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
