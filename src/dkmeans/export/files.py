"""Model files: `save` and `load`. The format is described in the guide (docs/files.md)."""

import os
from typing import Any

import dkmeans
from dkmeans.atomic import write_atomically
from dkmeans.export import scaling, state
from dkmeans.export.container import Arrays, Document, pack, unpack
from dkmeans.export.refused import RefusedError, require

__all__ = ["ModelFileError", "load", "save"]


class ModelFileError(ValueError):
    """A file is not a model that can be loaded."""


def save(model: Any, path: str | os.PathLike[str], *, with_labels: bool = True) -> None:
    """Write a fitted model to a file, whole or not at all.

    An earlier file at the path is replaced.

    Parameters
    ----------
    model : DiscriminativeKMeans, or Pipeline of StandardScaler and DiscriminativeKMeans
        What to write; it must be fitted.
    path : str or path
        Where to; the usual ending is `.dkm`.
    with_labels : bool, default=True
        Whether to write `labels_`, `conflicts_` and `exemplars_`, too, which speak of single
        training rows.
    """
    scaler, prototypes = scaling.parts(model)
    arrays, document = state.describe(prototypes, with_labels=with_labels)
    document["scaling"] = None
    if scaler is not None:
        more, document["scaling"] = scaling.describe(model)
        arrays |= more
    data = pack(arrays, document, dkmeans.__version__)
    try:
        _rebuild(arrays, document, len(data))
    except RefusedError as error:
        raise ValueError(f"The model cannot be saved, as its file {error}") from error
    write_atomically(path, data)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote. No code from the file is run.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : DiscriminativeKMeans, or Pipeline of StandardScaler and DiscriminativeKMeans
        The same as was saved: predictions and further fits are the same to the last bit. Only the
        models on the way (`at`) are not there.

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
    """Make a model from the contents of a file of some size, all of it checked."""
    left = dict(arrays)
    model: Any = state.rebuild(left, document, size)
    if document.get("scaling") is not None:
        model = scaling.rebuild(left, document["scaling"], model)
    require(not left, f"has arrays that no model has, such as {min(left, default='')[:40]!r}")
    return model
