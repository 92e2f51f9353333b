"""Geometries: how rows are compared with prototypes.

This is the only package that knows the names of metrics. A new metric needs a subclass of
`Geometry`, an entry in `METRICS` and, if it is fixed in advance, one in `GEOMETRIES`.

What a geometry carries
-----------------------
Everything else in the package compares rows by squared Euclidean distances, in the space that
`Geometry.rows` maps them to, and places prototypes there by `Geometry.centers`. A geometry that is
fixed in advance (Euclidean, cosine) has no state. `Learned`, which a fit learns, has shifts and
scales of the features and a projection: ``rows(X) = ((X - shift) / scale) @ components``. Growth
and refinement see the projected rows. Prototypes are stored, saved and sent to workers as points
of the projected space. A step that changes the projection returns a new geometry, and the rows are
mapped again. Showing prototypes in the input space needs `Learned.inverse`.
"""

from dkmeans.geometry.base import Geometry
from dkmeans.geometry.cosine import Cosine
from dkmeans.geometry.euclidean import Euclidean
from dkmeans.geometry.learned import MAX_FEATURES, Learned

__all__ = [
    "AUTO",
    "GEOMETRIES",
    "LEARNED",
    "MAX_FEATURES",
    "METRICS",
    "Cosine",
    "Euclidean",
    "Geometry",
    "Learned",
    "choose_metric",
    "geometry_of",
    "name_of",
    "reading_geometry",
]

GEOMETRIES: dict[str, Geometry] = {"euclidean": Euclidean(), "cosine": Cosine()}
LEARNED = "learned"
METRICS = (*GEOMETRIES, LEARNED)
AUTO = "auto"  # the learned one, unless a fit finds that rows can be compared as they are


def geometry_of(metric: str) -> Geometry:
    """Return the geometry of a metric that is fixed in advance, by its name.

    Examples
    --------
    >>> import numpy as np
    >>> geometry_of("cosine").rows(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    return GEOMETRIES[metric]


def choose_metric(metric: str, n_features: int, earlier: Geometry | None = None) -> str:
    """Return the metric that "auto" starts from; others stand for themselves.

    Parameters
    ----------
    metric : str
    n_features : int
    earlier : Geometry, optional
        That of the fit which this one continues.

    Examples
    --------
    >>> choose_metric("auto", 10), choose_metric("auto", 9000), choose_metric("cosine", 10)
    ('learned', 'euclidean', 'cosine')
    """
    if metric != AUTO:
        return metric
    if earlier is not None:
        return name_of(earlier)
    return LEARNED if n_features <= MAX_FEATURES else "euclidean"


def reading_geometry(metric: str) -> Geometry:
    """Return what maps rows when they are read; those of a learned metric are mapped later."""
    return GEOMETRIES.get(metric, GEOMETRIES["euclidean"])


def name_of(geometry: Geometry) -> str:
    """Return the name of the metric of a geometry.

    Examples
    --------
    >>> name_of(Cosine())
    'cosine'
    """
    names = [name for name, fixed in GEOMETRIES.items() if type(fixed) is type(geometry)]
    return names[0] if names else LEARNED
