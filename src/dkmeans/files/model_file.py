"""Model files: `save` and `load`. The format is described in the guide (docs/how-to/files.md)."""

import os
from typing import Any

import numpy as np

import dkmeans
from dkmeans.atomic import write_atomically
from dkmeans.files import contents, medoid_contents, scaler
from dkmeans.files.container import Arrays, Document, pack, unpack
from dkmeans.files.packing import pack_arrays, unpack_arrays
from dkmeans.files.refusal import RefusedError, require
from dkmeans.medoid_estimator import DiscriminativeKMedoids

__all__ = ["ModelFileError", "load", "save"]


class ModelFileError(ValueError):
    """A file is not a model that can be loaded."""


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    with_labels: bool = True,
    with_path: bool = False,
) -> None:
    """Write a fitted model to a file, completely or not at all.

    An existing file is replaced.

    Parameters
    ----------
    model : DiscriminativeKMeans, DiscriminativeKMedoids, or Pipeline that ends in one
        The model; it must be fitted. The steps before it may be the usual transformers:
        StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer, PowerTransformer,
        QuantileTransformer, PCA, TruncatedSVD, VarianceThreshold, SimpleImputer, OneHotEncoder,
        OrdinalEncoder, pipelines of them, a ColumnTransformer, and all that `table_pipeline` makes.
        For others use joblib. Steps other than StandardScaler need skops.
    path : str or path
        The file; the usual ending is `.dkm`.
    with_labels : bool, default=True
        Whether to include `labels_`, `conflicts_` and `exemplars_`, which describe single training
        rows.
    with_path : bool, default=False
        Whether to include the models with fewer clusters, for `at`. They take several times the
        space of the model itself.
    """
    write_atomically(path, to_bytes(model, with_labels=with_labels, with_path=with_path))


def to_bytes(model: Any, *, with_labels: bool = True, with_path: bool = False) -> bytes:
    """Return what `save` writes."""
    before, estimator = scaler.stored_parts(model)
    if isinstance(estimator, DiscriminativeKMedoids):
        arrays, document = medoid_contents.describe(
            estimator, with_labels=with_labels, with_path=with_path
        )
    else:
        arrays, document = contents.describe(
            estimator, with_labels=with_labels, with_path=with_path
        )
    document["scaling"] = None
    if scaler.is_scaled(model):
        more, document["scaling"] = scaler.describe(model)
        arrays |= more
    elif before:
        from dkmeans.files.preprocessing import dump_steps

        arrays["pipeline"] = np.frombuffer(dump_steps(model), dtype=np.uint8)
    arrays, document["packed"] = pack_arrays(arrays)
    data = pack(arrays, document, dkmeans.__version__)
    try:
        _rebuild(arrays, document, len(data))
    except RefusedError as error:
        raise ValueError(f"The model cannot be saved, as its file {error}") from error
    return data


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote. No code from the file is executed.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : DiscriminativeKMeans, DiscriminativeKMedoids or Pipeline
        Predictions and further fits are the same as with the saved model, to the last bit. (Steps
        that multiply matrices, such as PCA, may round otherwise.) The models with fewer clusters
        (`at`) are there if they were saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, of another version, or not a model at all.
    """
    try:
        arrays, document = unpack(path)
        return _rebuild(arrays, document, os.stat(path).st_size)
    except RefusedError as error:
        raise ModelFileError(f"The file {os.fspath(path)!r} {error}") from error
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"The file {os.fspath(path)!r} holds something that is not a model ({error}): copy or "
            "save it again."
        ) from error


def _rebuild(arrays: Arrays, document: Document, size: int) -> Any:
    """Rebuild a model from the contents of a file of some size, all of it checked."""
    left = unpack_arrays(arrays, document.get("packed", {}))
    kind = document.get("estimator")
    require(kind in (None, medoid_contents.KIND), "is a model of an unknown kind", "update dkmeans")
    module: Any = contents if kind is None else medoid_contents
    model: Any = module.rebuild(left, document, size)
    if document.get("scaling") is not None:
        model = scaler.rebuild(left, document["scaling"], model)
    elif "pipeline" in left:
        from dkmeans.files.preprocessing import load_steps

        model = load_steps(left.pop("pipeline").tobytes(), model)
    require(not left, f"has arrays that no model has, such as {min(left, default='')[:40]!r}")
    return model
