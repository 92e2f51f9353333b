"""Prototypes as JSON and CSV."""

import csv
import io
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.files.scaler import parts
from dkmeans.geometry import Learned, name_of


def to_json(model: Any) -> str:
    """Return a fitted model as JSON: all that is needed to classify rows elsewhere.

    Parameters
    ----------
    model : DiscriminativeKMeans, or Pipeline of StandardScaler and DiscriminativeKMeans
        The model; it must be fitted.

    Returns
    -------
    text : str
        An object with "metric", "classes", "features", "scaling", "projection" and "prototypes". If
        "scaling" is not null, subtract its "mean" from rows and divide by its "scale" first. If
        "projection" is not null, as with the metric "learned", then subtract its "shift" and
        multiply by the transpose of its "components"; centres are projected already.
    """
    scaler, prototypes = parts(model)
    scaling = None
    if scaler is not None:
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
    model : DiscriminativeKMeans, or Pipeline of StandardScaler and DiscriminativeKMeans
        The model; it must be fitted.

    Returns
    -------
    text : str
        Columns id, class, size and the features. With a scaling, centres are in the units of the
        features before scaling. Those of a learned metric are rows that are projected to the
        prototypes: `cluster_centers_`.
    """
    scaler, prototypes = parts(model)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "class", "size", *_features(model, prototypes)])
    for id, label, size, center in _rows(prototypes, prototypes.cluster_centers_):
        if scaler is not None:
            if scaler.with_std:
                center = center * scaler.scale_
            if scaler.with_mean:
                center = center + scaler.mean_
        writer.writerow([id, label, size, *_numbers(center)])
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
    if names is None:
        return [f"x{j}" for j in range(prototypes.n_features_in_)]
    return [str(name) for name in names]


def _numbers(values: Any) -> list[float]:
    """Return the shortest decimals that give the same values in their type."""
    return [float(str(value)) for value in np.asarray(values)]
