"""One fit of medoids: check, compute distances, choose their number, grow and swap.

Nothing here changes the estimator: it publishes the returned value at once.
"""

import copy
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dkmeans import progress
from dkmeans.data.validation import is_count, is_int, threads_of
from dkmeans.data.value_checks import (
    InvalidParameterError,
    as_labels,
    check_sample_weight,
    class_weights,
    is_real,
)
from dkmeans.fitted_medoids import FittedMedoids
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.tally import exact_totals
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.medoids.choose import Waypoint, choose
from dkmeans.medoids.grow import Stage, grow
from dkmeans.medoids.problem import Problem, integer_weights
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


def kind_for(estimator: Any) -> Kind:
    """Return the kind of an estimator's metric."""
    return kind_of(
        Options(
            estimator.metric,
            estimator.metric_params or {},
            estimator.symmetrize,
            estimator.is_metric,
            estimator.memory_mb,
            threads_of(estimator),
        )
    )


def fit(estimator: Any, X: Any, y: Any, sample_weight: Any) -> FittedMedoids:
    """Fit medoids with the parameters of an estimator, which is not changed."""
    check_parameters(estimator.get_params(deep=False))
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
    with single_threaded_blas:
        items = kind.items(X, codes, counted)
        problem = _problem(items, factors, threads_of(estimator))
        last, waypoints, records = _run(estimator, problem, items)
    medoids = items.rows[last.medoids]
    kept = kind.keep(X, medoids)
    labels = kind.label(X, items, last.medoids, kept)
    return FittedMedoids(
        medoids=medoids,
        kept=kept,
        codes=codes[medoids],
        classes=classes,
        sizes=exact_totals(labels, weights, len(medoids)),
        n_iter=last.record["round"],
        converged=last.converged,
        cost=last.record["cost"],
        inertia=last.record["inertia"],
        history=History.from_records(records),
        path=_path(waypoints),
        labels=labels,
        n_features=getattr(scratch, "n_features_in_", None),
        feature_names=getattr(scratch, "feature_names_in_", None),
    )


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


def _run(
    estimator: Any, problem: Problem, items: Items
) -> tuple[Stage, dict[int, Waypoint], list[dict[str, Any]]]:
    """Choose the number of medoids if that is to be done, and grow on all rows."""
    listeners = progress.listeners(estimator.verbose)
    budget, waypoints = estimator.max_medoids, {}
    heldout = {}
    if budget == "auto":

        def tell(record: dict[str, Any], medoids: Indices) -> bool:
            return progress.tell(listeners, progress.Step(record, medoids, is_trial=True))

        choice = choose(problem, items.hashes, estimator.max_iter, tell)
        budget, waypoints = choice.n_medoids, dict(choice.waypoints)
        heldout = {k: w.heldout_error for k, w in waypoints.items()}
    records: list[dict[str, Any]] = []
    for stage in grow(problem, budget, estimator.max_iter):
        records.append(stage.record)
        if estimator.max_medoids != "auto":
            waypoints[len(stage)] = Waypoint.of(stage)
        if progress.tell(listeners, progress.Step(stage.record, stage.medoids, budget)):
            break
    waypoints[len(stage)] = Waypoint.of(stage, heldout.get(len(stage), np.nan))
    return stage, waypoints, records


def _path(waypoints: dict[int, Waypoint]) -> Path:
    found = [waypoints[k] for k in sorted(waypoints)]
    return Path(
        clusters=sorted(waypoints),
        training_error=[w.training_error for w in found],
        heldout_error=[w.heldout_error for w in found],
        cost=[w.cost for w in found],
        inertia=[w.inertia for w in found],
    )
