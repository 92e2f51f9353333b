"""Model files, and exports for other programs: ONNX, JSON and CSV."""

from typing import TYPE_CHECKING, Any

from dkmeans.files.export import write
from dkmeans.files.model_file import ModelFileError, load, save
from dkmeans.files.prototype_lists import to_csv, to_json

if TYPE_CHECKING:
    from dkmeans.files.onnx_converter import register_converter
    from dkmeans.files.onnx_graph import to_onnx

__all__ = [
    "ModelFileError",
    "load",
    "register_converter",
    "save",
    "to_csv",
    "to_json",
    "to_onnx",
    "write",
]


def __getattr__(name: str) -> Any:
    """Import what needs onnx when it is first used, as that is an optional dependency."""
    if name == "register_converter":
        from dkmeans.files.onnx_converter import register_converter

        return register_converter
    if name == "to_onnx":
        from dkmeans.files.onnx_graph import to_onnx

        return to_onnx
    raise AttributeError(f"module 'dkmeans.files' has no attribute {name!r}")
