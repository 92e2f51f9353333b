"""Real rows that stand for prototypes in a condensed data set.

Unlike `exemplars`, which are found among the rows of a cell, they are found among all rows of the
class, as 1-NN on what is kept has no other rows of that class.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dkmeans.engine import query
from dkmeans.kernels.block import Indices, Matrix, dense_rows
from dkmeans.kernels.reference import squared_distances
from dkmeans.model.prototypes import Prototypes

_VALUES = 1 << 20  # of the rows that are looked at together


def by_own_class(X: Matrix, classes: Indices, prototypes: Prototypes, n_threads: int) -> Indices:
    """Find the nearest prototype of each row's own class, -1 if it has none; ties go to the first.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    classes : array of shape (n,)
        Of the rows, by number.
    prototypes : Prototypes
    n_threads : int
    """
    groups = np.full(X.shape[0], -1, dtype=np.intp)
    step = max(1, _VALUES // X.shape[1])
    for c in np.unique(prototypes.classes):
        mine = np.flatnonzero(prototypes.classes == c)
        rows = np.flatnonzero(classes == c)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            nearest, _ = query.nearest(X[some], prototypes.centers[mine], n_threads)
            groups[some] = mine[nearest]
    return groups


def find_stand_ins(
    X: Matrix,
    groups: Indices,
    centers: npt.NDArray[np.floating],
    values: Callable[[Indices], npt.NDArray[np.generic]],
) -> tuple[Indices, Indices]:
    """Find the row of each group that is nearest to its prototype.

    A tie goes to the row with the lowest values, then to the first, so that the order of rows does
    not tell which values are found.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    groups : array of shape (n,)
        Prototype of each row, -1 for those that take no part.
    centers : array of shape (k, d)
    values : function
        From row numbers to what ties are compared by.

    Returns
    -------
    which : array of shape (m,)
        Prototypes that have a row.
    rows : array of shape (m,)
        Their stand-ins.
    """
    squares = np.full(X.shape[0], np.inf)
    step = max(1, _VALUES // X.shape[1])
    rows = np.flatnonzero(groups >= 0)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        squares[some] = squared_distances(dense_rows(X, some), centers[groups[some]])
    least = np.full(len(centers), np.inf)
    np.minimum.at(least, groups[rows], squares[rows])
    tied = rows[squares[rows] == least[groups[rows]]]
    tied = tied[np.argsort(groups[tied], kind="stable")]
    which, starts = np.unique(groups[tied], return_index=True)
    found = tied[starts]
    for at, some in enumerate(np.split(tied, starts[1:])):
        if len(some) > 1:
            found[at] = some[np.lexsort(values(some).T[::-1])[0]]
    return which, found
