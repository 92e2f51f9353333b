"""The learned metric of a model as named arrays, and back."""

import numpy as np

from dkmeans.files.container import Arrays
from dkmeans.files.refusal import require
from dkmeans.geometry import Geometry, Learned
from dkmeans.kernels.projection import is_rounded

# By field of Learned.
_ARRAYS = {name: f"metric_{name}" for name in ("shift", "scale", "center", "components")}


def describe(geometry: Geometry) -> Arrays:
    """Return the arrays of a learned metric; none of another metric."""
    if not isinstance(geometry, Learned):
        return {}
    return {stored: getattr(geometry, name) for name, stored in _ARRAYS.items()}


def rebuild(arrays: Arrays, n_features: int) -> Learned:
    """Rebuild a learned metric; entries that are used are removed from `arrays`."""
    require(set(_ARRAYS.values()) <= set(arrays), "lacks the learned metric")
    found = {name: arrays.pop(stored) for name, stored in _ARRAYS.items()}
    wrong = "has a learned metric that does not make sense"
    require(all(array.dtype == np.float64 for array in found.values()), wrong)
    components = found.pop("components")
    require(components.ndim == 2 and components.shape[1] >= 1, wrong)
    require(len(components) == n_features, wrong)
    require(all(array.shape == (n_features,) for array in found.values()), wrong)
    require(all(bool(np.isfinite(array).all()) for array in found.values()), wrong)
    require(bool((found["scale"] >= 0).all()), wrong)
    require(is_rounded(components), wrong)
    return Learned(**found, components=components)
