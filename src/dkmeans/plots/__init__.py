"""Plots of models and of their growth. matplotlib is imported when something is drawn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dkmeans.plots.certified import CertifiedAccuracyDisplay
    from dkmeans.plots.class_borders import ClassBordersDisplay
    from dkmeans.plots.confusion import ConfusionDisplay
    from dkmeans.plots.decision_regions import CellsDisplay
    from dkmeans.plots.explanation import ExplanationDisplay
    from dkmeans.plots.feature_parts import FeaturePartsDisplay
    from dkmeans.plots.growth import GrowthDisplay
    from dkmeans.plots.images import PrototypeImagesDisplay
    from dkmeans.plots.importances import FeatureImportancesDisplay
    from dkmeans.plots.margin import MarginDisplay
    from dkmeans.plots.path import PathDisplay
    from dkmeans.plots.profiles import PrototypeProfilesDisplay
    from dkmeans.plots.rejection import RejectionDisplay
    from dkmeans.plots.reliability import ReliabilityDisplay
    from dkmeans.plots.suspects import SuspectImagesDisplay
    from dkmeans.plots.tree import TreeDisplay

__all__ = [
    "CellsDisplay",
    "CertifiedAccuracyDisplay",
    "ClassBordersDisplay",
    "ConfusionDisplay",
    "ExplanationDisplay",
    "FeatureImportancesDisplay",
    "FeaturePartsDisplay",
    "GrowthDisplay",
    "MarginDisplay",
    "PathDisplay",
    "PrototypeImagesDisplay",
    "PrototypeProfilesDisplay",
    "RejectionDisplay",
    "ReliabilityDisplay",
    "SuspectImagesDisplay",
    "TreeDisplay",
]

_MODULES = {
    "CellsDisplay": "decision_regions",
    "CertifiedAccuracyDisplay": "certified",
    "ClassBordersDisplay": "class_borders",
    "ConfusionDisplay": "confusion",
    "ExplanationDisplay": "explanation",
    "FeatureImportancesDisplay": "importances",
    "FeaturePartsDisplay": "feature_parts",
    "GrowthDisplay": "growth",
    "MarginDisplay": "margin",
    "PathDisplay": "path",
    "PrototypeImagesDisplay": "images",
    "PrototypeProfilesDisplay": "profiles",
    "RejectionDisplay": "rejection",
    "ReliabilityDisplay": "reliability",
    "SuspectImagesDisplay": "suspects",
    "TreeDisplay": "tree",
}


def __getattr__(name: str) -> Any:
    """Import a display on first access."""
    if name in _MODULES:
        return getattr(import_module(f"dkmeans.plots.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'dkmeans.plots' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
