"""Prototypes as JSON and CSV."""

import csv
import io
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.files.scaler import is_scaled, split
from dkmeans.geometry import Learned, name_of
from dkmeans.tables.pipeline import kinds_of_pipeline
from dkmeans.tables.units import in_original_units


def to_json(model: Any) -> str:
    """Return a fitted model as JSON: all that is needed to classify rows elsewhere.

    Parameters
    ----------
    model : DiscriminativeKMeans, or Pipeline that ends in one
        The model; it must be fitted.

    Returns
    -------
    text : str
        An object with "metric", "classes", "features", "scaling", "steps", "projection" and
        "prototypes". If "scaling" is not null, subtract its "mean" from rows and divide by its
        "scale" first. Of other steps before the model, "steps" has the names, and "features" the
        names of what they return. If "projection" is not null, as with the metric "learned", then
        subtract its "shift" and multiply by the transpose of its "components"; centres are
        projected already.
    """
    before, prototypes = split(model)
    scaling = None
    if is_scaled(model):
        scaler = before[0]
        n = prototypes.n_features_in_
        scaling = {
            "mean": _numbers(scaler.mean_) if scaler.with_mean else [0.0] * n,
            "scale": _numbers(scaler.scale_) if scaler.with_std else [1.0] * n,
        }
    about = {
        "metric": name_of(prototypes._fitted.geometry),
        "classes": prototypes.classes_.tolist(),
        "features": _features(model, prototypes),
        "scaling": scaling,
        "projection": _projection(prototypes),
        "steps": [] if is_scaled(model) else [type(step).__name__ for step in before],
        "prototypes": [
            {"id": id, "class": label, "size": size, "center": _numbers(center)}
            for id, label, size, center in _rows(prototypes, prototypes._fitted.prototypes.centers)
        ],
    }
    return json.dumps(about, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def to_csv(model: Any) -> str:
    """Return the prototypes of a fitted model as CSV, one line each.

    Parameters
    ----------
    model : DiscriminativeKMeans, or Pipeline that ends in one
        The model; it must be fitted.

    Returns
    -------
    text : str
        Columns id, class, size and the features. With a scaling, and for a `table_pipeline`,
        centres are in the units of the columns; else they are those of the last step. Those of a
        learned metric are rows that are projected to the prototypes: `cluster_centers_`.
    """
    before, prototypes = split(model)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    centers: Any = prototypes.cluster_centers_
    features = _features(model, prototypes)
    if kinds_of_pipeline(model) is not None:
        columns = in_original_units(before[0], centers)
        features, centers = list(columns), list(zip(*columns.values(), strict=True))
    elif is_scaled(model):
        if before[0].with_std:
            centers = centers * before[0].scale_
        if before[0].with_mean:
            centers = centers + before[0].mean_
    writer.writerow(["id", "class", "size", *features])
    about = _rows(prototypes, prototypes.cluster_centers_)
    for (id, label, size, _), center in zip(about, centers, strict=True):
        writer.writerow([id, label, size, *map(_number, center)])
    return out.getvalue()


def _projection(model: DiscriminativeKMeans) -> Any:
    geometry = model._fitted.geometry
    if not isinstance(geometry, Learned):
        return None
    components = [_numbers(line) for line in geometry.input_components]
    return {"shift": _numbers(geometry.shift), "components": components}


def _rows(model: DiscriminativeKMeans, centers: npt.NDArray[np.floating]) -> Any:
    columns = (model.cluster_ids_, model.cluster_classes_, model.cluster_sizes_)
    return zip(*(column.tolist() for column in columns), centers, strict=True)


def _features(model: Any, prototypes: DiscriminativeKMeans) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    if model is not prototypes and not is_scaled(model):
        try:
            names = model[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # a step does not tell
            names = None
    if names is None:
        return [f"x{j}" for j in range(prototypes.n_features_in_)]
    return [str(name) for name in names]


def _numbers(values: Any) -> list[float]:
    """Return the shortest decimals that give the same values in their type."""
    return [float(str(value)) for value in np.asarray(values)]


def _number(value: Any) -> float | str:
    return str(value) if isinstance(value, str) else float(str(value))
