"""Write a model for other programs; the ending of the file's name says how."""

import os
from typing import Any

from dkmeans.atomic import write_atomically
from dkmeans.export.tables import to_csv, to_json

ENDINGS = (".onnx", ".json", ".csv")


def write(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as ONNX, JSON or CSV, whole or not at all.

    An earlier file at the path is replaced.

    Parameters
    ----------
    model : DiscriminativeKMeans, or Pipeline of StandardScaler and DiscriminativeKMeans
        What to write.
    path : str or path
        Where to; it ends in .onnx, .json or .csv.
    """
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in ENDINGS:
        raise ValueError(f"path={os.fspath(path)!r} must end in one of {', '.join(ENDINGS)}.")
    write_atomically(path, contents(model, ending[1:]))


def contents(model: Any, format: str) -> bytes:
    """Describe a model as "onnx", "json" or "csv"."""
    if format == "onnx":
        from dkmeans.export.onnx import to_onnx  # onnx is an extra

        return bytes(to_onnx(model).SerializeToString())
    text = to_json(model) if format == "json" else to_csv(model)
    return text.encode()
