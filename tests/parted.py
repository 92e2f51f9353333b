"""Rows for the engine, in one part or several."""

import itertools

import numpy as np
import scipy.sparse as sp

from dkmeans.engine.margin_part import Part
from dkmeans.engine.rows import Rows
from dkmeans.engine.team import LocalTeam


def parts_of(X, y, weights, n_classes, cuts=(), **more):
    """Cut rows into parts."""
    ends = [0, *cuts, X.shape[0]]
    return [
        Part(
            X[a:b],
            np.asarray(y[a:b], dtype=np.intp),
            None if weights is None else weights[a:b],
            n_classes=n_classes,
            start=a,
            **more,
        )
        for a, b in itertools.pairwise(ends)
    ]


def rows_of(X, y, weights, n_classes, cuts=(), **more):
    """Make rows in parts ready for passes; the parts can be looked at, too."""
    parts = parts_of(X, y, weights, n_classes, cuts, **more)
    n_values = X.nnz if sp.issparse(X) else X.size
    rows = Rows(LocalTeam(parts), X.dtype, n_values, n_classes)
    rows.parts = parts
    return rows
