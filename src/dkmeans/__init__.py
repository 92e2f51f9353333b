"""Discriminative k-means: labelled data in, labelled prototypes out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dkmeans.estimator import DiscriminativeKMeans, OverfittingWarning
    from dkmeans.export.files import ModelFileError, load, save

__version__ = "0.1.0"
__all__ = [
    "DiscriminativeKMeans",
    "ModelFileError",
    "OverfittingWarning",
    "__version__",
    "load",
    "save",
]
_FILES = ("ModelFileError", "load", "save")


def __getattr__(name: str) -> Any:
    """Import the estimator, and scikit-learn with it, when it is first asked for."""
    if name in __all__:
        module = "dkmeans.export.files" if name in _FILES else "dkmeans.estimator"
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'dkmeans' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
