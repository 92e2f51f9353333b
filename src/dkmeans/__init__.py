"""Discriminative k-means: labelled data in, labelled prototypes out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dkmeans.condenser import Condensed, Condenser, condense
    from dkmeans.estimator import DiscriminativeKMeans, OverfittingWarning, ScaleWarning
    from dkmeans.explorer.explore import explore
    from dkmeans.files.model_file import ModelFileError, load, save
    from dkmeans.files.onnx_graph import to_onnx
    from dkmeans.landmarks import Landmarks
    from dkmeans.medoid_estimator import DiscriminativeKMedoids
    from dkmeans.questions.probable_errors import find_suspects
    from dkmeans.tables.explained import explain
    from dkmeans.tables.on_disk import fit_table
    from dkmeans.tables.pipeline import table_pipeline

__version__ = "0.2.0"
__all__ = [
    "Condensed",
    "Condenser",
    "DiscriminativeKMeans",
    "DiscriminativeKMedoids",
    "Landmarks",
    "ModelFileError",
    "OverfittingWarning",
    "ScaleWarning",
    "__version__",
    "condense",
    "explain",
    "explore",
    "find_suspects",
    "fit_table",
    "load",
    "save",
    "table_pipeline",
    "to_onnx",
]
_MODULES = {
    **dict.fromkeys(("ModelFileError", "load", "save"), "files.model_file"),
    **dict.fromkeys(("Condensed", "Condenser", "condense"), "condenser"),
    "DiscriminativeKMedoids": "medoid_estimator",
    "Landmarks": "landmarks",
    "explain": "tables.explained",
    "explore": "explorer.explore",
    "find_suspects": "questions.probable_errors",
    "fit_table": "tables.on_disk",
    "table_pipeline": "tables.pipeline",
    "to_onnx": "files.onnx_graph",
}


def __getattr__(name: str) -> Any:
    """Import the estimator, and scikit-learn with it, when it is first asked for."""
    if name in __all__:
        module = _MODULES.get(name, "estimator")
        return getattr(import_module(f"dkmeans.{module}"), name)
    raise AttributeError(f"module 'dkmeans' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
