"""Tables that a fit leaves behind, and tables that questions asked of a model return."""

from dkmeans.results.answers import ClassBorders, Explanation, LabelNoise, Rejection, Suspects
from dkmeans.results.conflicts import LazyConflicts
from dkmeans.results.fit_record import Changes, History, Path, Tree
from dkmeans.results.table import Table

__all__ = [
    "Changes",
    "ClassBorders",
    "Explanation",
    "History",
    "LabelNoise",
    "LazyConflicts",
    "Path",
    "Rejection",
    "Suspects",
    "Table",
    "Tree",
]
