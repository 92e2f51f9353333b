"""The models that a fit passed through: the table of them, and each as fitted attributes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkmeans.data.validation import Training
from dkmeans.engine.choose import Choice
from dkmeans.engine.memory import Memory
from dkmeans.engine.path import Trail, Waypoint
from dkmeans.kernels.block import Floats
from dkmeans.model.changes import describe_changes
from dkmeans.model.history import History
from dkmeans.model.path import Path
from dkmeans.model.prototypes import Prototypes
from dkmeans.model.tree import Tree, TreeLog


@dataclass(frozen=True)
class Journey:
    """What `at` needs."""

    waypoints: list[Waypoint]
    sizes: list[Floats]  # of the clusters of each
    history: History
    tree: Tree
    call: int  # of the tree


def taken(
    trail: Trail, history: History, log: TreeLog, training: Training, weight_unit: float
) -> tuple[Path, Journey]:
    """Tell of the numbers of clusters on the way of a fit."""
    waypoints = list(trail)
    path = Path(
        clusters=[len(w) for w in waypoints],
        training_error=[w.training_error for w in waypoints],
        heldout_error=[w.heldout_error for w in waypoints],
        cost=[w.cost for w in waypoints],
        inertia=[w.inertia * weight_unit for w in waypoints],
    )
    each = [sizes(training, weight_unit, w.prototypes, w.memory) for w in waypoints]
    return path, Journey(waypoints, each, history, log.to_tree(training.classes), log.call)


def tried(
    choice: Choice, trail: Trail, training: Training, weight_unit: float
) -> tuple[Path, Journey]:
    """Tell of the numbers that were tried on held-out rows; the last of `trail` was chosen."""
    *_, last = trail
    first = choice.first
    errors = [w.heldout_error for w in first.trail if len(w) == len(last)]
    first.trail.add(replace(last, heldout_error=errors[0] if errors else np.nan))
    history = History.from_records(first.records)
    return taken(first.trail, history, first.tree, training, weight_unit)


def at(estimator: Any, k: int) -> dict[str, Any]:
    """Put together the fitted attributes of the largest model that has at most k clusters."""
    way: Journey | None = estimator._journey
    if way is None:
        raise ValueError(
            "The models on the way are not kept in model files: fit again, or save at(k) itself."
        )
    counts = [len(w) for w in way.waypoints]
    which = int(np.searchsorted(counts, k, side="right")) - 1
    if which < 0:
        raise ValueError(f"k={k} is too small: the fewest clusters on path_ are {counts[0]}.")
    fitted = {name: value for name, value in vars(estimator).items() if name.endswith("_")}
    fitted |= {name: getattr(estimator, name) for name in ("_memory", "_weight_unit", "_journey")}
    fitted["_row_classes"] = getattr(estimator, "_row_classes", None)  # not kept in files
    if counts[which] == estimator.n_clusters_:
        return fitted
    for name in ("labels_", "rejection_"):  # which speak of other prototypes
        fitted.pop(name, None)
    waypoint = way.waypoints[which]
    prototypes, tree = waypoint.prototypes, way.tree.until(way.call, waypoint.round)
    return fitted | {
        "cluster_centers_": prototypes.centers,
        "cluster_classes_": estimator.classes_[prototypes.classes],
        "cluster_sizes_": way.sizes[which],
        "cluster_ids_": prototypes.ids,
        "exemplars_": np.full(len(prototypes), -1),  # nobody kept the rows of that moment
        "n_clusters_": len(prototypes),
        "n_iter_": waypoint.round,
        "converged_": False,
        "inertia_": waypoint.inertia * estimator._weight_unit,
        "history_": way.history.take(way.history.round <= waypoint.round),
        "tree_": tree,
        "changes_": describe_changes(None, prototypes, tree, way.call),
        "_memory": waypoint.memory,
        "_row_classes": None,
    }


def sizes(training: Training, weight_unit: float, prototypes: Prototypes, memory: Memory) -> Floats:
    """Add up weights in the user's terms, by prototype."""
    unit, exponent = np.frexp(weight_unit)  # the power of two last: sums may be infinite then
    weights = memory.weights[0] * unit / training.factors[memory.classes]
    found = np.bincount(memory.cells(prototypes), weights, len(prototypes)).astype(np.float64)
    with np.errstate(over="ignore"):
        return np.ldexp(found, exponent)
