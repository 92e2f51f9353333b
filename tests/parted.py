"""Rows for growth, in one part or several."""

import itertools

import numpy as np
import scipy.sparse as sp

from dkmeans.growth.rows import Rows
from dkmeans.passes.part import Part
from dkmeans.runners.local import LocalRunner


def parts_of(X, y, weights, n_classes, cuts=(), **more):
    """Cut rows into parts."""
    ends = [0, *cuts, X.shape[0]]
    return [
        Part.of(
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
    """Make rows in parts ready for passes; the runner can be looked at, too."""
    runner = LocalRunner(parts_of(X, y, weights, n_classes, cuts, **more))
    n_values = X.nnz if sp.issparse(X) else X.size
    rows = Rows(runner, X.dtype, n_values, n_classes)
    rows.runner = runner
    return rows
