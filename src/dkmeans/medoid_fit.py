"""One fit of medoids: check, compute distances, choose their number, grow and swap.

Nothing here changes the estimator: it publishes the returned value at once.
"""

import copy
import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dkmeans import progress
from dkmeans.data.arguments import is_count, is_int, threads_of
from dkmeans.data.value_checks import (
    InvalidParameterError,
    as_labels,
    check_sample_weight,
    class_weights,
    is_real,
)
from dkmeans.fitted_medoids import FittedMedoids, MedoidPath
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.tally import exact_totals
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.medoids.choose import choose
from dkmeans.medoids.grow import Stage, grow, settle
from dkmeans.medoids.problem import Problem, integer_weights
from dkmeans.medoids.waypoints import Waypoint
from dkmeans.metrics import pairwise
from dkmeans.metrics.kinds import PRECOMPUTED, Items, Kind, Options, kind_of, n_rows_of
from dkmeans.metrics.matrices import SYMMETRIZE
from dkmeans.results.fit_record import History, Path


def check_parameters(params: dict[str, Any]) -> None:
    """Check every parameter of `DiscriminativeKMedoids` that can be checked without data."""

    def require(name: str, ok: bool, accepted: str) -> None:
        if not ok:
            raise InvalidParameterError(f"{name}={params[name]!r} is not accepted: {accepted}.")

    budget, metric, extra = params["max_medoids"], params["metric"], params["metric_params"]
    require(
        "max_medoids",
        budget == "auto" if isinstance(budget, str) else is_count(budget),
        "it must be None, 'auto' or an integer >= 1",
    )
    known = isinstance(metric, str) and metric in (*pairwise.NAMES, PRECOMPUTED)
    require(
        "metric",
        known or callable(metric),
        "it must be 'precomputed', a function of two objects, or one of "
        + ", ".join(pairwise.NAMES),
    )
    require("metric_params", extra is None or isinstance(extra, dict), "it must be a dict or None")
    how = params["symmetrize"]
    require(
        "symmetrize",
        how is None or (isinstance(how, str) and how in SYMMETRIZE),
        "it must be 'mean', 'min', 'max' or None",
    )
    declared = params["is_metric"]
    require(
        "is_metric",
        declared is None or isinstance(declared, bool | np.bool_),
        "it must be True, False or None",
    )
    cw, limit = params["class_weight"], params["memory_mb"]
    require(
        "class_weight",
        cw is None or isinstance(cw, dict) or (isinstance(cw, str) and cw == "balanced"),
        "it must be None, 'balanced' or a dict from class to weight",
    )
    require(
        "memory_mb",
        limit is None or (is_real(limit) and 0 < limit < np.inf),
        "it must be None or a number > 0",
    )
    require("n_threads", is_count(params["n_threads"]), "it must be None or an integer >= 1")
    for name, least in (("max_iter", 1), ("verbose", 0)):
        ok = is_int(params[name]) and params[name] >= least
        require(name, ok, f"it must be an integer >= {least}")


def kind_for(estimator: Any, fitted: FittedMedoids | None = None) -> Kind:
    """Return the kind of an estimator's metric: for a fit, or for questions to what was fitted."""
    return kind_of(
        Options(
            estimator.metric,
            estimator.metric_params or {},
            estimator.symmetrize,
            estimator.is_metric,
            estimator.memory_mb,
            threads_of(estimator),
            None if fitted is None else fitted.n_features,
        )
    )


@dataclass(frozen=True)
class _Data:
    """Checked training rows, and what they are to a search."""

    X: Any
    classes: npt.NDArray[Any]  # labels
    codes: Indices  # class of each row
    weights: Floats | None
    counts_all: bool  # whether no class has the class weight 0
    items: Items
    problem: Problem
    n_features: int | None
    feature_names: npt.NDArray[Any] | None


@dataclass(frozen=True)
class _Search:
    """What a search came to."""

    last: Stage
    records: list[dict[str, Any]]
    waypoints: dict[int, Waypoint]  # medoids are items
    way_records: list[dict[str, Any]]  # rounds that led to the waypoints


def fit(estimator: Any, X: Any, y: Any, sample_weight: Any) -> FittedMedoids:
    """Fit medoids with the parameters of an estimator, which is not changed."""
    check_parameters(estimator.get_params(deep=False))
    with single_threaded_blas:
        data = _read(estimator, X, y, sample_weight)
        found = _run(estimator, data)
    return _fitted(kind_for(estimator), data, found)


def settle_medoids(estimator: Any, X: Any, y: Any, sample_weight: Any) -> FittedMedoids:
    """Swap the medoids of a fitted estimator, which is not changed, to a local optimum."""
    with single_threaded_blas:
        data = _read(estimator, X, y, sample_weight)
        start = _medoids_again(estimator._fitted, data)
        listeners = progress.listeners(estimator.verbose)
        records = []
        for stage in settle(data.problem, start, estimator.max_iter):
            records.append(stage.record)
            if progress.tell(listeners, progress.Step(stage.record, stage.medoids, len(start))):
                break
    waypoints = {len(stage): Waypoint.of(stage, data.items.weights)}
    return _fitted(kind_for(estimator), data, _Search(stage, records, waypoints, records))


def _medoids_again(model: FittedMedoids, data: _Data) -> Indices:
    """Find the medoids of a model among the items of the rows that it was fitted on."""
    item_of_row = np.full(len(data.codes), -1)
    item_of_row[data.items.rows] = np.arange(len(data.items.rows))
    for place, row in enumerate(model.medoids.tolist()):
        if not _is_same_row(model, place, data, row, item_of_row):
            raise ValueError(
                f"Row {row} of X is not the medoid that the model has there: pass the rows, labels "
                "and weights that it was fitted on, in the same order."
            )
    return item_of_row[model.medoids]


def _is_same_row(
    model: FittedMedoids, place: int, data: _Data, row: int, item_of_row: Indices
) -> bool:
    if row >= len(item_of_row) or item_of_row[row] < 0:
        return False
    if data.classes[data.codes[row]] != model.medoid_classes[place]:
        return False
    is_vector = isinstance(model.kept, np.ndarray) or sp.issparse(model.kept)
    if not is_vector or model.n_features is None:
        return True  # objects and distances cannot be compared
    here, there = data.X[row : row + 1], model.kept[place : place + 1]
    return here.shape == there.shape and abs(here - there).max() == 0


def _read(estimator: Any, X: Any, y: Any, sample_weight: Any) -> _Data:
    """Check rows, labels and weights, and compute distances."""
    kind = kind_for(estimator)
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    scratch = copy.copy(estimator)  # validation writes to the estimator that it is given
    for name in ("n_features_in_", "feature_names_in_"):
        scratch.__dict__.pop(name, None)
    X = kind.read(scratch, X)
    n = n_rows_of(X)
    classes, codes = _classes(y, n)
    weights = check_sample_weight(sample_weight, n)
    factors = class_weights(estimator.class_weight, classes, codes, weights)
    counted = _counted(codes, weights, factors)
    _check_budget(estimator.max_medoids, codes if counted is None else codes[counted > 0])
    items = kind.items(X, codes, counted)
    return _Data(
        X,
        classes,
        codes,
        weights,
        counted is weights,
        items,
        _problem(items, factors, threads_of(estimator)),
        getattr(scratch, "n_features_in_", None),
        getattr(scratch, "feature_names_in_", None),
    )


def _fitted(kind: Kind, data: _Data, found: _Search) -> FittedMedoids:
    """Put together what is known after a search."""
    last, rows = found.last, data.items.rows
    medoids = rows[last.medoids]
    kept = kind.keep(data.X, medoids)
    labels = kind.label(data.X, data.items, last.medoids, kept)
    waypoints = [_with_rows(kind, data, point) for _, point in sorted(found.waypoints.items())]
    return FittedMedoids(
        medoids=medoids,
        kept=kept,
        codes=data.codes[medoids],
        classes=data.classes,
        sizes=exact_totals(labels, data.weights, len(medoids)),
        n_iter=last.record["round"],
        converged=last.converged,
        cost=last.record["cost"],
        inertia=last.record["inertia"],
        history=History.from_records(found.records),
        path=_path(waypoints),
        labels=labels,
        n_features=data.n_features,
        feature_names=data.feature_names,
        way=MedoidPath(
            waypoints,
            [kind.keep(data.X, point.medoids) for point in waypoints],
            [data.codes[point.medoids] for point in waypoints],
            History.from_records(found.way_records),
        ),
    )


def _with_rows(kind: Kind, data: _Data, point: Waypoint) -> Waypoint:
    """Replace items by training rows. Sizes are those of the cells that `predict_medoid` finds.

    The search leaves out classes of weight 0, and new rows are not symmetrised.
    """
    medoids, sizes = data.items.rows[point.medoids], point.sizes
    if not data.counts_all or kind.options.symmetrize is not None:
        labels = kind.label(data.X, data.items, point.medoids, kind.keep(data.X, medoids))
        sizes = exact_totals(labels, data.weights, len(medoids))
    return replace(point, medoids=medoids, sizes=sizes)


def _classes(y: Any, n: int) -> tuple[npt.NDArray[Any], Indices]:
    """Return the class labels, and the number of each row's class."""
    labels = column_or_1d(as_labels(y), warn=True)
    if len(labels) != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n} rows, and y "
            f"has {len(labels)} labels."
        )
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes.astype(np.intp)


def _counted(codes: Indices, weights: Floats | None, factors: Floats | None) -> Floats | None:
    """Return the sample weights, 0 for classes of weight 0."""
    if factors is None or factors.all():
        return weights
    each = np.ones(len(codes)) if weights is None else weights
    return np.where(factors[codes] > 0, each, 0.0)


def _check_budget(budget: Any, codes: Indices) -> None:
    count = len(np.unique(codes))
    if isinstance(budget, numbers.Integral) and budget < count:
        raise ValueError(
            f"max_medoids={budget} is less than the number of classes in y, which is {count}: "
            "every class needs at least one medoid."
        )


def _problem(items: Items, factors: Floats | None, n_threads: int) -> Problem:
    each = np.ones(len(items.classes)) if items.weights is None else items.weights
    whole = integer_weights(items.weights, factors, items.classes)
    heavy = each if factors is None else each * factors[items.classes]
    unit = float(np.sort(heavy).sum()) / int(whole.sum())
    return Problem(items.matrix, items.classes, whole, unit, n_threads)


def _run(estimator: Any, data: _Data) -> _Search:
    """Choose the number of medoids if that is to be done, and grow on all rows."""
    listeners = progress.listeners(estimator.verbose)
    problem, given = data.problem, data.items.weights
    records: list[dict[str, Any]] = []
    budget, waypoints, heldout, way_records = estimator.max_medoids, {}, {}, records
    if budget == "auto":

        def tell(record: dict[str, Any], medoids: Indices) -> bool:
            return progress.tell(listeners, progress.Step(record, medoids, is_trial=True))

        progress.announce(listeners, "choosing the number of medoids")
        choice = choose(problem, data.items.hashes, given, estimator.max_iter, tell)
        budget, way_records = choice.n_medoids, choice.records
        waypoints = dict(choice.waypoints)
        heldout = {k: w.heldout_error for k, w in waypoints.items()}
    for stage in grow(problem, budget, estimator.max_iter):
        records.append(stage.record)
        if estimator.max_medoids != "auto":
            waypoints[len(stage)] = Waypoint.of(stage, given)
        if progress.tell(listeners, progress.Step(stage.record, stage.medoids, budget)):
            break
    error = heldout.get(len(stage), np.nan)
    waypoints[len(stage)] = Waypoint.of(stage, given, error)
    return _Search(stage, records, waypoints, way_records)


def _path(found: list[Waypoint]) -> Path:
    return Path(
        clusters=[len(w) for w in found],
        training_error=[w.training_error for w in found],
        heldout_error=[w.heldout_error for w in found],
        cost=[w.cost for w in found],
        inertia=[w.inertia for w in found],
        refined=[w.refined for w in found],
    )
