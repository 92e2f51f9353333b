"""Geometries: how rows are compared with prototypes.

The only place that knows the names of metrics. A new metric is a subclass of `Geometry` and an
entry in `GEOMETRIES`.

What a geometry may carry
-------------------------
Everything else in the package compares rows by squared Euclidean distances, in the space that
`Geometry.rows` maps them to, and places prototypes there by `Geometry.centers`. A geometry that is
fixed in advance (Euclidean, cosine) has no state. One that is learned during a fit would hold what
it has learned as fields of its frozen dataclass: means and scales of the columns, and a projection
``A`` of shape (n_features, n_components), so that ``rows(X) = ((X - mean) / scale) @ A``. Growth
and refinement then see the projected rows. Prototypes live in the projected space; that is what is
stored, saved and sent to workers. A step that changes ``A`` returns a new geometry, and the rows
are mapped again. Places in the space of the input, for display and for edits by hand, need an
inverse of `rows`: the identity for the two geometries of today.
"""

from dkmeans.geometry.base import Geometry
from dkmeans.geometry.cosine import Cosine
from dkmeans.geometry.euclidean import Euclidean

__all__ = ["GEOMETRIES", "Cosine", "Euclidean", "Geometry", "geometry_of"]

GEOMETRIES: dict[str, Geometry] = {"euclidean": Euclidean(), "cosine": Cosine()}


def geometry_of(metric: str) -> Geometry:
    """Return the geometry of a metric, by the name that the estimator's parameter has.

    Examples
    --------
    >>> import numpy as np
    >>> geometry_of("cosine").rows(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    return GEOMETRIES[metric]
