"""Model files, and exports for other programs: ONNX, JSON and CSV."""

from typing import TYPE_CHECKING, Any

from dkmeans.files.export import write
from dkmeans.files.model_file import ModelFileError, load, save
from dkmeans.files.prototype_lists import to_csv, to_json

if TYPE_CHECKING:
    from dkmeans.files.onnx_graph import to_onnx

__all__ = ["ModelFileError", "load", "save", "to_csv", "to_json", "to_onnx", "write"]


def __getattr__(name: str) -> Any:
    """Import `to_onnx` when it is first used, as onnx is an optional dependency."""
    if name == "to_onnx":
        from dkmeans.files.onnx_graph import to_onnx

        return to_onnx
    raise AttributeError(f"module 'dkmeans.files' has no attribute {name!r}")
