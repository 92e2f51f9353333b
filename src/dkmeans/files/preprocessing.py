"""Steps before the model of a pipeline, in skops' format, and back.

The types that a file may hold are listed here; the file has no say in it.
"""

import io
import json
import zipfile
from functools import cache
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.files.refusal import RefusedError, require
from dkmeans.tables.values import to_levels, to_numbers

TRANSFORMERS = (
    ColumnTransformer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PCA,
    Pipeline,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
    TruncatedSVD,
    VarianceThreshold,
)
_VALUES = (  # parts of transformers
    bool,
    bytes,
    dict,
    float,
    int,
    list,
    slice,
    str,
    tuple,
    Bunch,
    np.bool_,
    np.dtype,
    np.float32,
    np.float64,
    np.int32,
    np.int64,
    np.ndarray,
    np.object_,
    np.str_,
)
_PLACE = "passthrough"  # stands for the model
_MAX_RATIO = 256  # bytes in memory per byte of the file
_MIN_ROOM = 1 << 26  # bytes in memory that any file may take


def dump_steps(pipeline: Pipeline) -> bytes:
    """Return the steps before the model as the bytes of a skops file."""
    before = [step for _, step in pipeline.steps[:-1]]
    check_is_fitted(pipeline[:-1])
    _check_types(before)
    sio = _skops()
    place = Pipeline([*pipeline.steps[:-1], (pipeline.steps[-1][0], _PLACE)])
    data: bytes = sio.dumps(place, compression=zipfile.ZIP_DEFLATED)
    try:
        _check(data)
    except RefusedError as error:
        raise TypeError(
            f"Files do not hold this pipeline, as its file {error} Otherwise use joblib.dump, "
            "whose files must be loaded only if you trust their origin."
        ) from error
    return data


def load_steps(data: bytes, model: DiscriminativeKMeans) -> Pipeline:
    """Rebuild a pipeline from the bytes of `dump_steps` and its model."""
    _check(data)
    sio = _skops()
    try:
        place = sio.loads(data, trusted=sorted(_allowed()))
    except Exception as error:  # whatever broken content leads to
        raise RefusedError(f"has a pipeline that cannot be read ({str(error)[:200]})") from error
    wrong = "has a pipeline that does not make sense"
    require(type(place) is Pipeline and isinstance(place.steps, list), wrong)
    require(all(isinstance(s, tuple) and len(s) == 2 for s in place.steps), wrong)
    require(len(place.steps) > 1 and place.steps[-1][1] == _PLACE, wrong)
    require(all(type(step) in TRANSFORMERS for _, step in place.steps[:-1]), wrong)
    place.steps[-1] = (place.steps[-1][0], model)
    return place


def _skops() -> Any:
    try:
        import skops.io as sio
    except ModuleNotFoundError as error:
        needs = "Files of pipelines need the package skops: pip install 'dkmeans[tables]'."
        raise ModuleNotFoundError(needs, name=error.name) from error
    return sio


def _check_types(steps: list[Any]) -> None:
    """Refuse transformers that files do not hold, also inside of others."""
    for step in steps:
        if isinstance(step, str) or step is None:  # "passthrough" and "drop"
            continue
        if type(step) not in TRANSFORMERS:
            raise TypeError(unsupported(step))
        if isinstance(step, FunctionTransformer) and not _is_known(step):
            raise TypeError(unsupported(step))
        if isinstance(step, Pipeline):
            _check_types([inner for _, inner in step.steps])
        if isinstance(step, ColumnTransformer):
            _check_types([inner for _, inner, _ in step.transformers_])


def unsupported(step: Any) -> str:
    """Say that files do not hold a step, and what to do."""
    known = ", ".join(sorted(kind.__name__ for kind in TRANSFORMERS))
    what = type(step).__name__
    if isinstance(step, FunctionTransformer):
        what += " with a function of your own"
    return (
        f"Files do not hold {what}: use joblib.dump, whose files must be loaded only if you trust "
        f"their origin; files hold a DiscriminativeKMeans behind {known}."
    )


def _is_known(step: FunctionTransformer) -> bool:
    functions = (step.func, step.inverse_func)
    return all(function in (None, to_levels, to_numbers) for function in functions)


def _check(data: bytes) -> None:
    """Check sizes and types before anything is made of them."""
    wrong = "has a pipeline that cannot be read"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            room = sum(entry.file_size for entry in file.infolist())
            require(room <= _MIN_ROOM + _MAX_RATIO * len(data), wrong)
            schema = json.loads(file.read("schema.json"))
    except (zipfile.BadZipFile, LookupError, ValueError, RecursionError, OSError) as error:
        raise RefusedError(wrong) from error
    allowed, waiting = _allowed(), [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if "__module__" in node or "__class__" in node:
                name = f"{node.get('__module__')}.{node.get('__class__')}"
                require(name in allowed, f"holds the type {name[:80]!r}, which no model has")
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


@cache
def _allowed() -> frozenset[str]:
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in (*TRANSFORMERS, *_VALUES)}
    functions = {f"{f.__module__}.{f.__name__}" for f in (to_levels, to_numbers)}
    # As skops calls them, and a list of column names in a ColumnTransformer of scikit-learn 1.6.
    more = {
        "builtins.NoneType",
        "numpy.bool",
        "numpy.bool_",
        "sklearn.compose._column_transformer._RemainderColsList",
    }
    return frozenset(kinds | functions | more)
