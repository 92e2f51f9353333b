"""Checks of parameters, and of arguments that are not data."""

import numbers
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from dkmeans.data.value_checks import InvalidParameterError, is_real
from dkmeans.geometry import AUTO, METRICS
from dkmeans.growth.registry import GROWTH_RULES, REFINEMENTS
from dkmeans.kernels.threads import cap_threads, default_threads


def check_parameters(params: dict[str, Any]) -> None:
    """Check every parameter that can be checked without data."""

    def require(name: str, ok: bool, accepted: str) -> None:
        if not ok:
            raise InvalidParameterError(f"{name}={params[name]!r} is not accepted: {accepted}.")

    budget, threads = params["max_clusters"], params["n_threads"]
    require(
        "max_clusters",
        budget == "auto" if isinstance(budget, str) else is_count(budget),
        "it must be None, 'auto' or an integer >= 1",
    )
    require("n_threads", is_count(threads), "it must be None or an integer >= 1")
    for name, least in (("max_iter", 1), ("verbose", 0)):
        ok = is_int(params[name]) and params[name] >= least
        require(name, ok, f"it must be an integer >= {least}")
    w = params["repulsion"]
    require(
        "repulsion",
        w == "size" if isinstance(w, str) else is_real(w) and 0 <= w < np.inf,
        "it must be a finite number >= 0 or 'size'",
    )
    growth = params["growth"]
    require(
        "growth",
        isinstance(growth, str) and growth in GROWTH_RULES,
        f"it must be {_one_of(GROWTH_RULES)}",
    )
    refine = params["refine"]
    require(
        "refine",
        refine is None or (isinstance(refine, str) and refine in REFINEMENTS),
        f"it must be {_one_of(REFINEMENTS)} or None",
    )
    metric = params["metric"]
    require(
        "metric",
        isinstance(metric, str) and metric in (AUTO, *METRICS),
        f"it must be {_one_of((AUTO, *METRICS))}; DiscriminativeKMedoids takes any other",
    )
    require("n_components", is_count(params["n_components"]), "it must be None or an integer >= 1")
    for name in ("min_cluster_size", "half_life", "memory_mb"):
        v = params[name]
        require(
            name, v is None or (is_real(v) and 0 < v < np.inf), "it must be None or a number > 0"
        )
    disk = params["disk_mb"]
    require(
        "disk_mb",
        disk is None or (is_real(disk) and 0 <= disk < np.inf),
        "it must be None or a number >= 0",
    )
    for name in ("prune", "warm_start"):
        require(name, isinstance(params[name], bool | np.bool_), "it must be True or False")
    path = params["checkpoint"]
    require(
        "checkpoint",
        path is None or (isinstance(path, str | os.PathLike) and bool(os.fspath(path))),
        "it must be None or the path of a file",
    )
    cw = params["class_weight"]
    require(
        "class_weight",
        cw is None or isinstance(cw, dict) or (isinstance(cw, str) and cw == "balanced"),
        "it must be None, 'balanced' or a dict from class to weight",
    )


def _one_of(names: Iterable[str]) -> str:
    """Return names as they appear in an error message."""
    return " or ".join(map(repr, names))


def check_ids(estimator: Any, ids: Any) -> npt.NDArray[np.int64]:
    """Check ids of prototypes, and return each of them once."""
    check_is_fitted(estimator)
    found = np.atleast_1d(np.asarray(ids))
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise ValueError(f"ids must be one or more whole numbers from cluster_ids_, not {ids!r}.")
    unknown = np.setdiff1d(found, estimator.cluster_ids_)
    if len(unknown):
        raise ValueError(f"There is no prototype with id {unknown[0]}: see cluster_ids_.")
    return np.unique(found).astype(np.int64)


def check_ids_to_merge(estimator: Any, ids: Any) -> npt.NDArray[np.int64]:
    """Check ids of prototypes to merge: two or more, of one class."""
    found = check_ids(estimator, ids)
    labels = np.unique(estimator.cluster_classes_[np.isin(estimator.cluster_ids_, found)])
    if len(found) < 2 or len(labels) > 1:
        raise ValueError(
            f"merge needs two or more prototypes of one class, not {len(found)} of the classes "
            f"{labels.tolist()}."
        )
    return found


def check_ids_to_drop(estimator: Any, ids: Any) -> npt.NDArray[np.int64]:
    """Check ids of prototypes to drop: not all of them."""
    found = check_ids(estimator, ids)
    if len(found) == len(estimator.cluster_ids_):
        raise ValueError("At least one prototype must remain.")
    return found


def check_at(estimator: Any, k: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Check a number of clusters that is asked for on the path, and what to refine it on."""
    check_is_fitted(estimator)
    if not is_int(k) or k < 1:
        raise InvalidParameterError(f"k={k!r} is not accepted: it must be an integer >= 1.")
    if not hasattr(estimator, "path_"):
        raise ValueError(
            "There is no path to go back on after drop, merge or set_center: fit again first."
        )
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if X is None and value is not None:
            raise ValueError(
                f"at has no use for {name} without X: pass the rows of the fit, too, or k alone."
            )


def threads_of(estimator: Any) -> int:
    """Tell how many threads an estimator may use."""
    return cap_threads(estimator.n_threads) if estimator.n_threads else default_threads()


def is_count(value: Any) -> bool:
    """Return whether a value is None or an integer >= 1."""
    return value is None or (is_int(value) and value >= 1)


def is_int(value: Any) -> bool:
    """Return whether a value is an integer, and not a truth value."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
