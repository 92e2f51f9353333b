"""A fitted estimator as arrays and a JSON document, and back."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data import arguments
from dkmeans.data.value_checks import InvalidParameterError
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.exact.sparse_sums import dense
from dkmeans.files import calibrated, class_labels, learned_metric, waypoints
from dkmeans.files.consistency import (
    REFERENCES,
    check_earlier_rows,
    check_prototypes,
    check_rejection,
    check_tree,
)
from dkmeans.files.container import Arrays, Document
from dkmeans.files.refusal import RefusedError, require
from dkmeans.files.table_columns import TABLES, codes, restore, store
from dkmeans.fitted import Fitted
from dkmeans.geometry import LEARNED, METRICS, Geometry, geometry_of, name_of
from dkmeans.growth.earlier_rows import EarlierRows

_SCALARS = ("n_iter", "converged", "inertia", "weight_unit")  # fields of Fitted
_ENTRIES = {"parameters", "classes", "n_features", "feature_names", "fitted", "tables"}
# What a file means that does not have these parameters: the defaults of version 0.1.
_FIRST_DEFAULTS = {"max_clusters": None, "refine": None, "metric": "euclidean"}
# Bound on the memory that repeated class labels take: bytes, and bytes per byte of the file.
_MIN_LABEL_BYTES = 1 << 26
_LABEL_BYTES_PER_BYTE = 16

NO_PATH = (
    "with_path=True: the model has no models on the way, as it was edited, or loaded from a file "
    "without them."
)


def describe(
    model: DiscriminativeKMeans, *, with_labels: bool, with_path: bool = False
) -> tuple[Arrays, Document]:
    """Return all that a fitted estimator needs to predict and to continue."""
    fitted, earlier = model._fitted, model._fitted.earlier_rows
    arrays: Arrays = {
        "centers": fitted.prototypes.centers,
        "class_codes": fitted.prototypes.classes.astype(np.int64),
        "sizes": fitted.sizes.astype(np.float64),
        "ids": fitted.prototypes.ids,
        "memory_ids": earlier.ids,
        "memory_class_codes": earlier.classes.astype(np.int64),
        "memory_weights": earlier.weights,
        "memory_sums": dense(earlier.sums),
    }
    arrays |= learned_metric.describe(fitted.geometry)
    if with_labels:
        arrays |= _describe_rows(fitted)
    tables = {
        name: store(name, table, fitted.classes, arrays)
        for name in TABLES
        if (table := getattr(fitted, name)) is not None
    }
    scalars = {
        name: plain(name, value)
        for name in _SCALARS
        if (value := getattr(fitted, name)) is not None
    }
    names = fitted.feature_names
    on_the_way = None
    if with_path:
        if fitted.growth_path is None:
            raise ValueError(NO_PATH)
        more, on_the_way = waypoints.describe(fitted.growth_path, fitted.classes)
        arrays |= more
    if fitted.rejection is not None and fitted.rejection.references is not None:
        arrays[REFERENCES] = fitted.rejection.references
    more, calibration = calibrated.describe(fitted.calibration)
    arrays |= more
    document = {
        "parameters": _parameters(model),
        "classes": class_labels.encode(fitted.classes),
        "n_features": fitted.n_features,
        "feature_names": None if names is None else [str(name) for name in names],
        "fitted": scalars,
        "tables": tables,
        "geometry": name_of(fitted.geometry),
        "waypoints": on_the_way,
        "calibration": calibration,
    }
    return arrays, document


def rebuild(arrays: Arrays, document: Document, size: int) -> DiscriminativeKMeans:
    """Rebuild the estimator from the contents of a file of some size, all of it checked.

    Entries that are used are removed from `arrays`.
    """
    require(document.keys() >= _ENTRIES, "lacks parts of the model")
    model = DiscriminativeKMeans(**_read_parameters(document["parameters"]))
    classes = class_labels.decode(document["classes"])
    n_labels = sum(len(arrays.get(name, ())) for name in ("ids", "tree.id", "changes.id"))
    room = classes.dtype.itemsize * n_labels
    require(
        room <= _MIN_LABEL_BYTES + _LABEL_BYTES_PER_BYTE * size,
        "has class labels too long for so many prototypes",
    )
    names = read_names(document["feature_names"], document["n_features"])
    listed = document["tables"]
    require(isinstance(listed, dict) and set(listed) <= set(TABLES), "has unknown tables")
    tables: dict[str, Any] = {name: restore(name, listed[name], classes, arrays) for name in listed}
    # Files of earlier versions have the metric among the parameters only.
    geometry = _read_geometry(
        arrays, document.get("geometry", model.metric), document["n_features"]
    )
    prototypes = check_prototypes(arrays, len(classes), geometry.dimension(document["n_features"]))
    check_tree(tables, prototypes, classes)
    check_rejection(tables, prototypes, classes, arrays)
    earlier = EarlierRows(
        take(arrays, "memory_ids"),
        codes(take(arrays, "memory_class_codes"), len(classes), "has a memory of unknown classes"),
        take(arrays, "memory_weights"),
        take(arrays, "memory_sums"),
    )
    check_earlier_rows(earlier, prototypes)
    sizes = take(arrays, "sizes")
    require(
        sizes.shape == prototypes.ids.shape
        and sizes.dtype == np.float64
        and bool(((sizes >= 0) & (sizes < np.inf)).all()),
        "has cluster sizes that do not make sense",
    )
    growth_path = None
    if document.get("waypoints") is not None:
        about = document["waypoints"]
        n_features = document["n_features"]
        growth_path = waypoints.rebuild(arrays, about, classes, geometry, n_features)
    return model._publish(
        Fitted(
            prototypes=prototypes,
            classes=classes,
            geometry=geometry,
            n_features=document["n_features"],
            feature_names=names,
            sizes=sizes,
            earlier_rows=earlier,
            growth_path=growth_path,
            calibration=calibrated.rebuild(arrays, document.get("calibration"), len(classes)),
            **tables,
            **_read_rows(arrays, len(prototypes)),
            **_read_scalars(document["fitted"]),
        )
    )


def _read_geometry(arrays: Arrays, metric: Any, n_features: int) -> Geometry:
    require(isinstance(metric, str) and metric in METRICS, "has an unknown metric")
    if metric == LEARNED:
        return learned_metric.rebuild(arrays, n_features)
    return geometry_of(metric)


def _describe_rows(fitted: Fitted) -> Arrays:
    """Return statements about single training rows, as far as there are any."""
    arrays: Arrays = {}
    if isinstance(fitted.labels, np.ndarray):  # those of Dask collections are not computed
        arrays["labels"] = fitted.labels.astype(np.int64)
    if (fitted.exemplars >= 0).any():
        arrays["exemplars"] = fitted.exemplars.astype(np.int64)
    if isinstance(fitted.conflicts, list):
        groups = fitted.conflicts
        arrays["conflict_rows"] = np.concatenate([np.zeros(0, dtype=np.int64), *groups])
        arrays["conflict_ends"] = np.cumsum([len(g) for g in groups], dtype=np.int64)
    return arrays


def _parameters(model: DiscriminativeKMeans) -> Document:
    known = DiscriminativeKMeans().get_params(deep=False)
    # The path of a checkpoint is private to the machine that fitted the model.
    found = {name: getattr(model, name) for name in known} | {"checkpoint": None}
    arguments.check_parameters(found)
    weights = store_class_weight(found.pop("class_weight"))
    return {name: plain(name, value) for name, value in found.items()} | {"class_weight": weights}


def store_class_weight(weights: Any) -> Any:
    """Convert class weights to what JSON has."""
    if not isinstance(weights, dict):
        return weights
    keys = [plain("class_weight", key) for key in weights]
    return {
        "classes": keys,
        "weights": [plain("class_weight", value) for value in weights.values()],
    }


def plain(name: str, value: Any) -> Any:
    """Convert a scalar to a type that JSON has."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise ValueError(f"{name}={value!r} cannot be written to a file: use a number or text.")


def _read_parameters(found: Any) -> dict[str, Any]:
    require(isinstance(found, dict), "has no parameters")
    unknown = set(found) - set(DiscriminativeKMeans().get_params(deep=False))
    if unknown:
        name = min(unknown)[:40]
        raise RefusedError(f"has the parameter {name!r}, unknown here", "update dkmeans")
    parameters = _FIRST_DEFAULTS | found
    if "class_weight" in parameters:
        parameters["class_weight"] = read_class_weight(parameters["class_weight"])
    require(parameters.get("checkpoint") is None, "names a checkpoint, which no model does")
    try:
        arguments.check_parameters(DiscriminativeKMeans(**parameters).get_params(deep=False))
    except InvalidParameterError as error:
        raise RefusedError(f"has a parameter that is not accepted ({str(error)[:200]})") from error
    return parameters


def read_class_weight(weights: Any) -> Any:
    """Check class weights, and make a dict of them if they were one."""
    if not isinstance(weights, dict):
        return weights
    wrong = "has a class_weight that does not make sense"
    require(set(weights) == {"classes", "weights"}, wrong)
    keys, values = weights["classes"], weights["weights"]
    require(isinstance(keys, list) and isinstance(values, list), wrong)
    require(all(isinstance(x, bool | int | float | str) for x in keys), wrong)
    require(all(type(x) in (int, float) and 0 <= x < np.inf for x in values), wrong)
    require(len(keys) == len(values) == len(set(keys)), wrong)
    return dict(zip(keys, values, strict=True))


def read_names(names: Any, n_features: Any) -> npt.NDArray[Any] | None:
    """Check the names of features, if there are any."""
    require(type(n_features) is int and n_features >= 1, "does not say how many features")
    if names is None:
        return None
    wrong = "has feature names that do not fit its features"
    require(isinstance(names, list) and len(names) == n_features, wrong)
    require(all(type(name) is str for name in names), wrong)
    return np.array(names, dtype=object)


def _read_scalars(found: Any) -> dict[str, Any]:
    wrong = "has results of the fit that do not make sense"
    require(isinstance(found, dict), wrong)
    values = {name: found[name] for name in _SCALARS if name in found}
    require(len(values) == len(found), wrong)
    require(type(values.get("n_iter")) is int and values["n_iter"] >= 0, wrong)
    require(type(values.get("converged")) is bool, wrong)
    for name in ("inertia", "weight_unit"):
        value = values.get(name, 1.0)
        require(type(value) in (int, float) and 0 <= value < np.inf, wrong)
        if name in values:
            values[name] = float(value)
    require(values.get("weight_unit", 0.0) > 0, wrong)
    return values


def _read_rows(arrays: Arrays, n_clusters: int) -> dict[str, Any]:
    """Read statements about training rows, if there are any."""
    found: dict[str, Any] = {}
    wrong = "has labels, exemplars or conflicts that do not make sense"
    if "labels" in arrays:
        found["labels"] = codes(arrays.pop("labels"), n_clusters, wrong)
    found["exemplars"] = np.full(n_clusters, -1, dtype=np.intp)
    if "exemplars" in arrays:
        exemplars = arrays.pop("exemplars")
        require(exemplars.dtype == np.int64 and exemplars.shape == (n_clusters,), wrong)
        require(bool(((exemplars >= -1) & (exemplars < 1 << 62)).all()), wrong)
        found["exemplars"] = exemplars.astype(np.intp)
    if "conflict_rows" in arrays:
        rows = codes(arrays.pop("conflict_rows"), 1 << 62, wrong)
        ends = codes(take(arrays, "conflict_ends"), len(rows) + 1, wrong)
        require(bool((np.diff(ends, prepend=0) > 0).all()), wrong)
        require((int(ends[-1]) if len(ends) else 0) == len(rows), wrong)
        found["conflicts"] = np.split(rows, ends[:-1]) if len(ends) else []
    return found


def take(arrays: Arrays, name: str) -> npt.NDArray[Any]:
    """Remove an array that must be there."""
    require(name in arrays, f"lacks {name}")
    return arrays.pop(name)
