"""Fitted medoids as arrays and a JSON document, and back."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from dkmeans.data.value_checks import InvalidParameterError
from dkmeans.files import calibrated, class_labels, medoid_waypoints
from dkmeans.files.consistency import check_rejection
from dkmeans.files.container import Arrays, Document
from dkmeans.files.contents import (
    NO_PATH,
    plain,
    read_class_weight,
    read_names,
    store_class_weight,
    take,
)
from dkmeans.files.refusal import RefusedError, require
from dkmeans.files.table_columns import TABLES, codes, restore, store
from dkmeans.fitted_medoids import FittedMedoids
from dkmeans.medoid_estimator import DiscriminativeKMedoids
from dkmeans.medoid_fit import check_parameters
from dkmeans.metrics.kinds import PRECOMPUTED
from dkmeans.prototypes import Prototypes

KIND = "DiscriminativeKMedoids"  # the document's entry "estimator"
_SCALARS = ("n_iter", "converged", "cost", "inertia")  # fields of FittedMedoids
_TABLES = ("history", "path", "rejection")
_ENTRIES = {"parameters", "classes", "n_features", "feature_names", "fitted", "tables"}


def describe(
    model: DiscriminativeKMedoids, *, with_labels: bool, with_path: bool
) -> tuple[Arrays, Document]:
    """Return all that fitted medoids need to predict."""
    if callable(model.metric):
        raise ValueError(
            "A model whose metric is a function cannot be written to a file: fit the distances "
            "with metric='precomputed' and save that, or use pickle."
        )
    fitted = model._fitted
    arrays: Arrays = {
        "medoid_rows": fitted.medoids.astype(np.int64),
        "class_codes": fitted.codes.astype(np.int64),
        "sizes": fitted.sizes.astype(np.float64),
    }
    if fitted.kept is not None:
        arrays["centers"] = fitted.kept.toarray() if sp.issparse(fitted.kept) else fitted.kept
    if with_labels and fitted.labels is not None:
        arrays["labels"] = fitted.labels.astype(np.int64)
    tables = {
        name: store(name, table, fitted.classes, arrays)
        for name in _TABLES
        if (table := getattr(fitted, name)) is not None
    }
    more, calibration = calibrated.describe(fitted.calibration)
    arrays |= more
    names = fitted.feature_names
    document = {
        "estimator": KIND,
        "parameters": _parameters(model),
        "classes": class_labels.encode(fitted.classes),
        "n_features": fitted.n_features,
        "feature_names": None if names is None else [str(name) for name in names],
        "fitted": {name: plain(name, getattr(fitted, name)) for name in _SCALARS},
        "tables": tables,
        "calibration": calibration,
    }
    if with_path:
        if fitted.way is None:
            raise ValueError(NO_PATH)
        more, document["waypoints"] = medoid_waypoints.describe(fitted.way, fitted.classes)
        arrays |= more
    return arrays, document


def rebuild(arrays: Arrays, document: Document, size: int) -> DiscriminativeKMedoids:
    """Rebuild the estimator, all of it checked; entries that are used leave `arrays`."""
    require(document.keys() >= _ENTRIES, "lacks parts of the model")
    model = DiscriminativeKMedoids(**_read_parameters(document["parameters"]))
    classes = class_labels.decode(document["classes"])
    n_features = document["n_features"]
    names = read_names(document["feature_names"], n_features)
    medoids = codes(take(arrays, "medoid_rows"), 1 << 62, "has medoids that do not make sense")
    k, wrong = len(medoids), "has medoids that do not make sense"
    of = codes(take(arrays, "class_codes"), len(classes), wrong)
    sizes = take(arrays, "sizes")
    require(k >= 1 and of.shape == sizes.shape == (k,) and len(np.unique(medoids)) == k, wrong)
    require(sizes.dtype == np.float64 and bool(((sizes >= 0) & (sizes < np.inf)).all()), wrong)
    require(bool((np.diff(of) >= 0).all()), wrong)
    kept: Any = arrays.pop("centers", None)
    if model.metric == PRECOMPUTED:
        require(kept is None and bool((medoids < n_features).all()), wrong)
    else:
        require(kept is not None and kept.shape == (k, n_features), wrong)
        require(kept.dtype in (np.float32, np.float64) and bool(np.isfinite(kept).all()), wrong)
    listed = document["tables"]
    require(isinstance(listed, dict) and set(listed) <= set(_TABLES) & set(TABLES), wrong)
    tables: dict[str, Any] = {name: restore(name, listed[name], classes, arrays) for name in listed}
    require("history" in tables, "lacks the history")
    prototypes = Prototypes(np.empty((k, 0)), of, medoids.astype(np.int64))
    check_rejection(tables, prototypes, classes, arrays)
    labels = arrays.pop("labels", None)
    way = document.get("waypoints")
    if way is not None:
        way = medoid_waypoints.rebuild(arrays, way, classes, n_features, kept=kept)
    return model._publish(
        FittedMedoids(
            medoids=medoids,
            kept=kept,
            codes=of,
            classes=classes,
            sizes=sizes,
            labels=None if labels is None else codes(labels, k, wrong),
            n_features=n_features,
            feature_names=names,
            calibration=calibrated.rebuild(arrays, document.get("calibration"), len(classes)),
            way=way,
            **tables,
            **_read_scalars(document["fitted"]),
        )
    )


def _parameters(model: DiscriminativeKMedoids) -> Document:
    found = model.get_params(deep=False)
    check_parameters(found)
    weights, extra = found.pop("class_weight"), found.pop("metric_params")
    plain_extra = None
    if extra is not None:
        plain_extra = {str(key): plain(f"metric_params[{key!r}]", v) for key, v in extra.items()}
    stored = {name: plain(name, value) for name, value in found.items()}
    return stored | {"class_weight": store_class_weight(weights), "metric_params": plain_extra}


def _read_parameters(found: Any) -> dict[str, Any]:
    require(isinstance(found, dict), "has no parameters")
    unknown = set(found) - set(DiscriminativeKMedoids().get_params(deep=False))
    if unknown:
        name = min(unknown)[:40]
        raise RefusedError(f"has the parameter {name!r}, unknown here", "update dkmeans")
    parameters = dict(found)
    parameters["class_weight"] = read_class_weight(parameters.get("class_weight"))
    extra = parameters.get("metric_params")
    if extra is not None:
        require(isinstance(extra, dict), "has metric_params that do not make sense")
        require(
            all(v is None or isinstance(v, bool | int | float | str) for v in extra.values()),
            "has metric_params that do not make sense",
        )
    try:
        check_parameters(DiscriminativeKMedoids(**parameters).get_params(deep=False))
    except InvalidParameterError as error:
        raise RefusedError(f"has a parameter that is not accepted ({str(error)[:200]})") from error
    return parameters


def _read_scalars(found: Any) -> dict[str, Any]:
    wrong = "has results of the fit that do not make sense"
    require(isinstance(found, dict) and set(found) == set(_SCALARS), wrong)
    require(type(found["n_iter"]) is int and found["n_iter"] >= 0, wrong)
    require(type(found["converged"]) is bool, wrong)
    for name in ("cost", "inertia"):
        require(type(found[name]) in (int, float) and 0 <= found[name] < np.inf, wrong)
    return found | {name: float(found[name]) for name in ("cost", "inertia")}
