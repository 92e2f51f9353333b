"""A fitted estimator as arrays and a JSON document, and back."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data import validation
from dkmeans.data.value_checks import InvalidParameterError
from dkmeans.engine.memory import Memory
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.export import labels
from dkmeans.export.check import check_memory, check_prototypes, check_rejection, check_tree
from dkmeans.export.columns import TABLES, codes, restore, store
from dkmeans.export.container import Arrays, Document
from dkmeans.export.refused import RefusedError, require

_SCALARS = ("n_iter_", "converged_", "inertia_", "_weight_unit")
_ENTRIES = {"parameters", "classes", "n_features", "feature_names", "fitted", "tables"}
_ROOM = 1 << 26  # bytes that labels may take in any case, and beyond them so many times the file's
_TIMES = 16


def describe(model: DiscriminativeKMeans, *, with_labels: bool) -> tuple[Arrays, Document]:
    """Put together all that a fitted estimator needs to predict and to go on."""
    parameters = _parameters(model)
    classes, memory = model.classes_, model._memory
    names = getattr(model, "feature_names_in_", None)
    arrays: Arrays = {
        "centers": model.cluster_centers_,
        "class_codes": _codes(model.cluster_classes_, classes),
        "sizes": model.cluster_sizes_.astype(np.float64),
        "ids": model.cluster_ids_,
        "memory_ids": memory.ids,
        "memory_class_codes": memory.classes.astype(np.int64),
        "memory_weights": memory.weights,
        "memory_sums": memory.sums,
    }
    if with_labels and hasattr(model, "labels_"):
        arrays["labels"] = model.labels_.astype(np.int64)
    if with_labels and (model.exemplars_ >= 0).any():
        arrays["exemplars"] = model.exemplars_.astype(np.int64)
    if with_labels and hasattr(model, "conflicts_"):
        groups = model.conflicts_
        arrays["conflict_rows"] = np.concatenate([np.zeros(0, dtype=np.int64), *groups])
        arrays["conflict_ends"] = np.cumsum([len(g) for g in groups], dtype=np.int64)
    tables = {
        name: store(name, getattr(model, f"{name}_"), classes, arrays)
        for name in TABLES
        if hasattr(model, f"{name}_")
    }
    fitted = {n.strip("_"): _plain(n, getattr(model, n)) for n in _SCALARS if hasattr(model, n)}
    document = {
        "parameters": parameters,
        "classes": labels.encode(classes),
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "fitted": fitted,
        "tables": tables,
    }
    return arrays, document


def rebuild(arrays: Arrays, document: Document, size: int) -> DiscriminativeKMeans:
    """Make the estimator again from the contents of a file of some size, all of it checked.

    Entries that are used are taken out of `arrays`.
    """
    require(document.keys() >= _ENTRIES, "lacks parts of the model")
    model = DiscriminativeKMeans(**_read_parameters(document["parameters"]))
    classes = labels.decode(document["classes"])
    n_labels = sum(len(arrays.get(name, ())) for name in ("ids", "tree.id", "changes.id"))
    room = classes.dtype.itemsize * n_labels
    require(room <= _ROOM + _TIMES * size, "has class labels too long for so many prototypes")
    names = _read_names(document["feature_names"], document["n_features"])
    listed = document["tables"]
    require(isinstance(listed, dict) and set(listed) <= set(TABLES), "has unknown tables")
    tables = {f"{name}_": restore(name, listed[name], classes, arrays) for name in listed}
    prototypes = check_prototypes(arrays, len(classes), document["n_features"])
    check_tree(tables, prototypes, classes)
    check_rejection(tables, prototypes, classes)
    memory = Memory(
        _take(arrays, "memory_ids"),
        codes(_take(arrays, "memory_class_codes"), len(classes), "has a memory of unknown classes"),
        _take(arrays, "memory_weights"),
        _take(arrays, "memory_sums"),
    )
    check_memory(memory, prototypes)
    sizes = _take(arrays, "sizes")
    require(
        sizes.shape == prototypes.ids.shape
        and sizes.dtype == np.float64
        and bool(((sizes >= 0) & (sizes < np.inf)).all()),
        "has cluster sizes that do not make sense",
    )
    model._publish(
        {
            "cluster_centers_": prototypes.centers,
            "cluster_classes_": classes[prototypes.classes],
            "cluster_sizes_": sizes,
            "cluster_ids_": prototypes.ids,
            "classes_": classes,
            "n_clusters_": len(prototypes),
            **tables,
            **_read_rows(arrays, len(prototypes)),
            **_read_scalars(document["fitted"]),
            **names,
            "_memory": memory,
            "_journey": None,
        }
    )
    return model


def _codes(found: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.asarray(np.searchsorted(classes, found), dtype=np.int64)


def _parameters(model: DiscriminativeKMeans) -> Document:
    known = DiscriminativeKMeans().get_params(deep=False)
    # Where fits of others keep their checkpoints is nobody's business here.
    found = {name: getattr(model, name) for name in known} | {"checkpoint": None}
    validation.check_parameters(found)
    weights = found.pop("class_weight")
    if isinstance(weights, dict):
        keys = [_plain("class_weight", key) for key in weights]
        values = [_plain("class_weight", value) for value in weights.values()]
        weights = {"classes": keys, "weights": values}
    return {name: _plain(name, value) for name, value in found.items()} | {"class_weight": weights}


def _plain(name: str, value: Any) -> Any:
    """Turn a scalar into one that JSON has."""
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
    parameters = dict(found)
    weights = parameters.get("class_weight")
    if isinstance(weights, dict):
        wrong = "has a class_weight that does not make sense"
        require(set(weights) == {"classes", "weights"}, wrong)
        keys, values = weights["classes"], weights["weights"]
        require(isinstance(keys, list) and isinstance(values, list), wrong)
        require(all(isinstance(x, bool | int | float | str) for x in keys), wrong)
        require(all(type(x) in (int, float) and 0 <= x < np.inf for x in values), wrong)
        require(len(keys) == len(values) == len(set(keys)), wrong)
        parameters["class_weight"] = dict(zip(keys, values, strict=True))
    require(parameters.get("checkpoint") is None, "names a checkpoint, which no model does")
    try:
        validation.check_parameters(DiscriminativeKMeans(**parameters).get_params(deep=False))
    except InvalidParameterError as error:
        raise RefusedError(f"has a parameter that is not accepted ({str(error)[:200]})") from error
    return parameters


def _read_names(names: Any, n_features: Any) -> dict[str, Any]:
    require(type(n_features) is int and n_features >= 1, "does not say how many features")
    if names is None:
        return {"n_features_in_": n_features}
    wrong = "has feature names that do not fit its features"
    require(isinstance(names, list) and len(names) == n_features, wrong)
    require(all(type(name) is str for name in names), wrong)
    return {"n_features_in_": n_features, "feature_names_in_": np.array(names, dtype=object)}


def _read_scalars(found: Any) -> dict[str, Any]:
    wrong = "has results of the fit that do not make sense"
    require(isinstance(found, dict), wrong)
    values = {name: found[name.strip("_")] for name in _SCALARS if name.strip("_") in found}
    require(len(values) == len(found), wrong)
    require(type(values.get("n_iter_")) is int and values["n_iter_"] >= 0, wrong)
    require(type(values.get("converged_")) is bool, wrong)
    for name in ("inertia_", "_weight_unit"):
        value = values.get(name, 1.0)
        require(type(value) in (int, float) and 0 <= value < np.inf, wrong)
        if name in values:
            values[name] = float(value)
    require(values.get("_weight_unit", 0.0) > 0, wrong)
    return values


def _read_rows(arrays: Arrays, n_clusters: int) -> dict[str, Any]:
    """Read what speaks of training rows, if it is there."""
    found: dict[str, Any] = {}
    wrong = "has labels, exemplars or conflicts that do not make sense"
    if "labels" in arrays:
        found["labels_"] = codes(arrays.pop("labels"), n_clusters, wrong)
    found["exemplars_"] = np.full(n_clusters, -1, dtype=np.intp)
    if "exemplars" in arrays:
        exemplars = arrays.pop("exemplars")
        require(exemplars.dtype == np.int64 and exemplars.shape == (n_clusters,), wrong)
        require(bool(((exemplars >= -1) & (exemplars < 1 << 62)).all()), wrong)
        found["exemplars_"] = exemplars.astype(np.intp)
    if "conflict_rows" in arrays:
        rows = codes(arrays.pop("conflict_rows"), 1 << 62, wrong)
        ends = codes(_take(arrays, "conflict_ends"), len(rows) + 1, wrong)
        require(bool((np.diff(ends, prepend=0) > 0).all()), wrong)
        require((int(ends[-1]) if len(ends) else 0) == len(rows), wrong)
        found["conflicts_"] = np.split(rows, ends[:-1]) if len(ends) else []
    return found


def _take(arrays: Arrays, name: str) -> npt.NDArray[Any]:
    require(name in arrays, f"lacks {name}")
    return arrays.pop(name)
