"""The StandardScaler before a model in a pipeline, as arrays and a JSON document, and back."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.files.container import Arrays, Document
from dkmeans.files.refusal import require
from dkmeans.medoid_estimator import DiscriminativeKMedoids

_ARRAYS = ("mean_", "var_", "scale_", "n_samples_seen_")


def split(model: Any) -> tuple[list[Any], DiscriminativeKMeans]:
    """Split a model into the steps before its estimator, if any, and the estimator.

    The estimator must be fitted.
    """
    return _split(model, (DiscriminativeKMeans,), "a DiscriminativeKMeans")


def stored_parts(model: Any) -> tuple[list[Any], Any]:
    """Do the same for all estimators that model files hold."""
    kinds = (DiscriminativeKMeans, DiscriminativeKMedoids)
    return _split(model, kinds, "a DiscriminativeKMeans or DiscriminativeKMedoids")


def _split(model: Any, kinds: tuple[type, ...], names: str) -> tuple[list[Any], Any]:
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    if not steps or not isinstance(steps[-1], kinds):
        raise TypeError(
            f"Files hold {names}, or a Pipeline that ends in one, not "
            f"{_name(model)}: use joblib.dump, whose files must be loaded only if you trust their "
            "origin."
        )
    check_is_fitted(steps[-1])
    return steps[:-1], steps[-1]


def is_scaled(model: Any) -> bool:
    """Tell whether a model is a pipeline of a StandardScaler and the estimator."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    return len(steps) == 2 and type(steps[0]) is StandardScaler


def describe(pipeline: Pipeline) -> tuple[Arrays, Document]:
    """Return what the scaler of a pipeline needs."""
    scaler = pipeline.steps[0][1]
    check_is_fitted(scaler)
    arrays = {}
    for name in _ARRAYS:
        value = getattr(scaler, name)
        if value is not None:
            array = np.asarray(value)
            arrays[f"scaling_{name.strip('_')}"] = array.astype(_stored(array), copy=False)
    names = getattr(scaler, "feature_names_in_", None)
    return arrays, {
        "steps": [name for name, _ in pipeline.steps],
        "with_mean": bool(scaler.with_mean),
        "with_std": bool(scaler.with_std),
        "feature_names": None if names is None else [str(name) for name in names],
    }


def rebuild(arrays: Arrays, document: Any, model: Any) -> Pipeline:
    """Rebuild the pipeline; entries that are used are removed from `arrays`."""
    wrong = "has a scaling that does not make sense"
    entries = {"steps", "with_mean", "with_std", "feature_names"}
    require(isinstance(document, dict) and set(document) == entries, wrong)
    mean, std, steps = document["with_mean"], document["with_std"], document["steps"]
    require(type(mean) is bool and type(std) is bool, wrong)
    require(isinstance(steps, list) and len(steps) == 2, wrong)
    require(all(type(s) is str and s and "__" not in s for s in steps), wrong)
    require(steps[0] != steps[1] and not {"steps", "memory", "verbose"} & set(steps), wrong)
    scaler = StandardScaler(with_mean=mean, with_std=std)
    n = model.n_features_in_
    for name in _ARRAYS:
        array = arrays.pop(f"scaling_{name.strip('_')}", None)
        if array is not None:
            require(array.shape == (n,) or (array.ndim == 0 and name == _ARRAYS[-1]), wrong)
            require(bool(np.isfinite(array).all()), wrong)
        setattr(scaler, name, array if array is None or array.ndim else array[()])
    require(scaler.mean_ is not None or not mean, wrong)
    require(scaler.scale_ is not None or not std, wrong)
    require(scaler.n_samples_seen_ is not None, wrong)
    require(scaler.scale_ is None or bool((scaler.scale_ > 0).all()), wrong)
    require(scaler.var_ is None or bool((scaler.var_ >= 0).all()), wrong)
    scaler.n_features_in_ = n
    names = document["feature_names"]
    if names is not None:
        require(isinstance(names, list) and len(names) == n, wrong)
        require(all(type(name) is str for name in names), wrong)
        scaler.feature_names_in_ = np.array(names, dtype=object)
    # The scaler returns plain arrays, without names.
    model._publish(replace(model._fitted, feature_names=None))
    return Pipeline([(steps[0], scaler), (steps[1], model)])


def _stored(array: np.ndarray[Any, Any]) -> type[np.generic]:
    if array.dtype.kind in "iu":
        return np.int64
    return np.float32 if array.dtype == np.float32 else np.float64


def _name(model: Any) -> str:
    if isinstance(model, Pipeline):
        return "a Pipeline of " + ", ".join(type(step).__name__ for _, step in model.steps)
    return type(model).__name__
