"""Models with a learned metric whose projection is given, not learned."""

from dataclasses import replace

import numpy as np
from models import grown

from dkmeans.geometry import Learned


def geometry_for(X, components):
    """Standardise the features of some rows."""
    X = X.astype(np.float64)
    deviations = np.where((X[0] == X).all(axis=0), 0.0, X.std(axis=0))
    return Learned.of_features(X.mean(axis=0), deviations, X.min(axis=0), X.max(axis=0), components)


def model_with(components, X, y, max_clusters=None, **parameters):
    """Fit prototypes of projected rows."""
    geometry = geometry_for(X, components)
    model = grown(max_clusters, **parameters).fit(geometry.rows(X), y)
    waypoints = [replace(w, geometry=geometry) for w in model._fitted.growth_path.waypoints]
    fitted = replace(
        model._fitted,
        geometry=geometry,
        n_features=X.shape[1],
        growth_path=replace(model._fitted.growth_path, waypoints=waypoints),
    )
    return model.set_params(metric="learned")._publish(fitted)
