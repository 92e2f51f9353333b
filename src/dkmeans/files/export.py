"""Write a model for other programs; the ending of the file name tells the format."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from dkmeans.atomic import write_atomically
from dkmeans.files.prototype_lists import to_csv, to_json


def _onnx_bytes(model: Any) -> bytes:
    from dkmeans.files.onnx_graph import to_onnx  # onnx is an optional dependency

    return bytes(to_onnx(model).SerializeToString())


class ExportFormat(NamedTuple):
    """A format to export models in."""

    description: str  # of the file
    encode: Callable[[Any], bytes]


# To add a format, write its function and list it here.
FORMATS = {
    "onnx": ExportFormat("Graph for ONNX runtimes", _onnx_bytes),
    "json": ExportFormat("Prototypes", lambda model: to_json(model).encode()),
    "csv": ExportFormat("Prototypes", lambda model: to_csv(model).encode()),
}


def write(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as ONNX, JSON or CSV, completely or not at all.

    An existing file is replaced.

    Parameters
    ----------
    model : DiscriminativeKMeans, or Pipeline that ends in one
        The model; it must be fitted.
    path : str or path
        It ends in .onnx, .json or .csv.
    """
    format = os.path.splitext(os.fspath(path))[1].lower().removeprefix(".")
    if format not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise ValueError(f"path={os.fspath(path)!r} must end in one of {endings}.")
    write_atomically(path, FORMATS[format].encode(model))
