"""Fit a model again to the corrected rows, with the parameters of the earlier fit."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from dkmeans.data.named_arrays import NamedArray
from dkmeans.explorer.draft import Draft
from dkmeans.explorer.layers import Layer
from dkmeans.progress import Listener, listening


def fit_again(draft: Draft, layer: Layer, max_clusters: Any, listener: Listener | None) -> Any:
    """Fit a new model to the rows that are used, with their present labels.

    Parameters
    ----------
    draft : Draft
    layer : Layer
        The training rows.
    max_clusters : int, "auto" or None
    listener : callable, optional
        Hears of every round.
    """
    used = np.flatnonzero(draft.used)
    core = clone(draft.core).set_params(max_clusters=max_clusters, checkpoint=None, verbose=0)
    X: Any = layer.X[used]
    names = getattr(draft.core, "feature_names_in_", None)
    if names is not None and not sp.issparse(X):
        X = NamedArray.of(X, [str(name) for name in names])
    y = draft.label_array(draft.row_classes[used])
    weight = None if layer.weight is None else layer.weight[used]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of overfitting: errors are on the page
        with listening(listener or (lambda step: None)):
            return core.fit(X, y, weight)
