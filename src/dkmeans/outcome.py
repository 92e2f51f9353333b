"""From a finished run to a `Fitted`: each fitted attribute is computed here."""

from dataclasses import dataclass, replace

import numpy as np

from dkmeans.data.validation import Training
from dkmeans.fitted import Conflicts, Fitted, GrowthPath, TrainingClasses
from dkmeans.growth.auto import Search
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.rules import Continuation
from dkmeans.growth.run import Run, State
from dkmeans.growth.trail import Trail
from dkmeans.kernels.block import Floats
from dkmeans.kernels.tally import exact_totals
from dkmeans.prepare import PreparedFit
from dkmeans.prototypes import Prototypes
from dkmeans.results.calibration import Calibration
from dkmeans.results.conflicts import LazyConflicts
from dkmeans.results.fit_record import History, Path, TreeLog, describe_changes


@dataclass(frozen=True)
class Growth:
    """The rounds of a run."""

    state: State  # the last one
    earlier_rows: EarlierRows  # all rows, as its prototypes stand for them
    history: History
    trail: Trail


def to_fitted(prepared: PreparedFit, run: Run, growth: Growth, search: Search | None) -> Fitted:
    """Compute all that is published about the end of a run."""
    training, rows, unit = prepared.training, prepared.source.rows, prepared.source.weight_unit
    state, now = growth.state, growth.state.prototypes
    rows.label_all(now)
    # The cells of rows on a cluster stay there; the estimator finds them again when it is asked.
    labels = rows.cells() if prepared.sum_cells is None else None
    conflicts = _conflicts(prepared, run)
    exemplars = rows.exemplars(now)
    earlier = growth.earlier_rows
    tree = run.tree.to_tree(training.classes)
    if state.earlier_rows is not None:
        sizes = _sizes(training, unit, now, earlier)
    elif prepared.sum_cells is not None:
        sizes = prepared.sum_cells(len(now))
    else:
        assert labels is not None
        sizes = exact_totals(labels, training.sample_weight, len(now))
    history = growth.history
    if search is None:
        path, growth_path = _path(growth.trail, history, run.tree, training, unit)
    else:
        path, growth_path = _path_of_search(search, growth.trail, training, unit)
        history = history.after(search.summary())
    before = None if prepared.before is None else prepared.before.prototypes
    all_rows = prepared.how is not Continuation.NEW_ROWS
    return Fitted(
        prototypes=now,
        classes=training.classes,
        geometry=run.rules.geometry,
        n_features=training.names["n_features_in_"],
        feature_names=training.names.get("feature_names_in_"),
        sizes=sizes,
        exemplars=exemplars,
        n_iter=state.round,
        converged=run.converged,
        history=history,
        tree=tree,
        changes=describe_changes(before, now, tree, run.tree.call),
        earlier_rows=earlier,
        weight_unit=unit,
        labels=labels,
        inertia=state.inertia * unit,
        conflicts=conflicts,
        path=path,
        training_classes=_training_classes(training) if all_rows else None,
        n_rows=training.n_rows,
        n_parts=0 if all_rows or prepared.before is None else prepared.before.n_parts + 1,
        growth_path=growth_path,
        calibration=_calibration(search),
    )


def _conflicts(prepared: PreparedFit, run: Run) -> Conflicts:
    """Return all conflicts; those among the rows of Dask collections are found when asked for."""
    found, geometry, outweighed = prepared.source.conflicts, None, run.conflicts
    if run.images is not None:  # identical rows have the same image, too
        found, geometry = run.images.conflicts, run.images.geometry
    if not isinstance(found, int):
        return found + outweighed
    find = prepared.find_conflicts
    assert find is not None
    return LazyConflicts(found + len(outweighed), lambda: find(geometry) + outweighed)


def _calibration(search: Search | None) -> Calibration | None:
    if search is None or search.temperature is None:
        return None
    return Calibration(search.temperature)


def _path(
    trail: Trail, history: History, log: TreeLog, training: Training, unit: float
) -> tuple[Path, GrowthPath]:
    """Describe the numbers of clusters that a fit passed through."""
    waypoints = list(trail)
    path = Path(
        clusters=[len(w) for w in waypoints],
        training_error=[w.training_error for w in waypoints],
        heldout_error=[w.heldout_error for w in waypoints],
        cost=[w.cost for w in waypoints],
        inertia=[w.inertia * unit for w in waypoints],
        refined=[w.refined for w in waypoints],
    )
    sizes = [_sizes(training, unit, w.prototypes, w.earlier_rows) for w in waypoints]
    tree = log.to_tree(training.classes)
    return path, GrowthPath(waypoints, sizes, history, tree, log.call)


def _path_of_search(
    search: Search, trail: Trail, training: Training, unit: float
) -> tuple[Path, GrowthPath]:
    """Describe the numbers of clusters that were tried, and the chosen one fitted on all rows."""
    *_, last = trail
    # A model that was refined is not like one that was not, as a listener ended the refinement.
    alike = [w for w in search.trail if len(w) == len(last) and w.refined == last.refined]
    errors = [w.heldout_error for w in alike]
    search.trail.add(replace(last, heldout_error=errors[0] if errors else np.nan))
    history = History.from_records(search.records)
    return _path(search.trail, history, search.tree, training, unit)


def _sizes(training: Training, unit: float, prototypes: Prototypes, earlier: EarlierRows) -> Floats:
    """Sum the user's weights by prototype."""
    fraction, exponent = np.frexp(unit)
    weights = earlier.weights[0] * fraction / training.factors[earlier.classes]
    sums = np.bincount(earlier.cells(prototypes), weights, len(prototypes)).astype(np.float64)
    with np.errstate(over="ignore"):  # sums in the user's weights may be infinite
        return np.ldexp(sums, exponent)


def _training_classes(training: Training) -> TrainingClasses | None:
    if training.elsewhere is not None:  # they stay with the workers
        return None
    codes = training.y.astype(np.min_scalar_type(len(training.classes)))
    return TrainingClasses(codes, training.factors)
