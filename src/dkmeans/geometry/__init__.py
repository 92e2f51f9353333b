"""Geometries: how rows are compared with prototypes.

This is the only package that knows the names of metrics. A new metric needs a subclass of
`Geometry` and an entry in `GEOMETRIES`.

What a geometry may carry
-------------------------
Everything else in the package compares rows by squared Euclidean distances, in the space that
`Geometry.rows` maps them to, and places prototypes there by `Geometry.centers`. A geometry that is
fixed in advance (Euclidean, cosine) has no state. One that is learned during a fit would hold its
parameters as fields of a frozen dataclass: means and scales of the columns, and a projection
``A`` of shape (n_features, n_components), so that ``rows(X) = ((X - mean) / scale) @ A``. Growth
and refinement then see the projected rows. Prototypes are stored, saved and sent to workers as
points of the projected space. A step that changes ``A`` returns a new geometry, and the rows are
mapped again. Showing or editing prototypes in the input space needs an inverse of `rows`: the
identity for the present geometries.
"""

from dkmeans.geometry.base import Geometry
from dkmeans.geometry.cosine import Cosine
from dkmeans.geometry.euclidean import Euclidean

__all__ = ["GEOMETRIES", "Cosine", "Euclidean", "Geometry", "geometry_of"]

GEOMETRIES: dict[str, Geometry] = {"euclidean": Euclidean(), "cosine": Cosine()}


def geometry_of(metric: str) -> Geometry:
    """Return the geometry of a metric, by the value of the estimator's parameter `metric`.

    Examples
    --------
    >>> import numpy as np
    >>> geometry_of("cosine").rows(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    return GEOMETRIES[metric]
