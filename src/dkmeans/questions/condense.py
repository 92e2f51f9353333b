"""Rows that represent the others in a condensed data set.

Unlike `exemplars_`, which are rows of a cell, they are searched among all rows of the class, as
1-NN on the kept rows has no other rows of that class.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.fitted import Fitted
from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.reference import squared_distances
from dkmeans.kernels.tally import exact_totals
from dkmeans.prototypes import Prototypes
from dkmeans.questions import nearest_prototype

Keep: TypeAlias = Literal["prototypes", "exemplars"]
KINDS: tuple[Keep, ...] = ("prototypes", "exemplars")
_TILE_VALUES = 1 << 20  # values of the rows compared at a time


@dataclass(frozen=True)
class Representatives:
    """What is kept of a data set."""

    prototypes: Indices  # index of each prototype that is kept, or that a kept row belongs to
    weights: Floats  # weight of the rows that each one represents
    rows: Indices | None  # index of each row that is kept; None if prototypes are kept


def choose_representatives(
    model: Fitted,
    X: Matrix,
    classes: Indices,
    weights: Floats,
    keep: Keep,
    values: Callable[[Indices], npt.NDArray[np.generic]],
    n_threads: int,
) -> Representatives:
    """Choose what to keep of labelled rows.

    Parameters
    ----------
    model : Fitted
    X : array or CSR matrix of shape (n, d)
    classes : array of shape (n,)
        Class of each row, by number.
    weights : array of shape (n,)
    keep : "prototypes" or "exemplars"
    values : function
        From row indices to the values that decide between rows at the same distance.
    n_threads : int
    """
    now = model.prototypes
    groups = by_own_class(X, classes, now, n_threads)
    groups[weights == 0] = -1
    there = groups >= 0
    sums = exact_totals(groups[there], weights[there], len(now))
    if keep == "prototypes":
        return Representatives(np.arange(len(now)), sums, None)
    which, rows = nearest_rows(X, groups, now.centers, values)
    return Representatives(which, sums[which], rows)


def by_own_class(X: Matrix, classes: Indices, prototypes: Prototypes, n_threads: int) -> Indices:
    """Find the nearest prototype of each row's class, -1 if there is none; ties go to the first.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    classes : array of shape (n,)
        Class of each row, by number.
    prototypes : Prototypes
    n_threads : int
    """
    groups = np.full(X.shape[0], -1, dtype=np.intp)
    step = max(1, _TILE_VALUES // X.shape[1])
    for c in np.unique(prototypes.classes):
        mine = np.flatnonzero(prototypes.classes == c)
        rows = np.flatnonzero(classes == c)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            nearest, _ = nearest_prototype.nearest(X[some], prototypes.centers[mine], n_threads)
            groups[some] = mine[nearest]
    return groups


def nearest_rows(
    X: Matrix,
    groups: Indices,
    centers: npt.NDArray[np.floating],
    values: Callable[[Indices], npt.NDArray[np.generic]],
) -> tuple[Indices, Indices]:
    """Find the row of each group that is nearest to its prototype.

    A tie goes to the row with the lowest values, then to the first, so that the values found do not
    depend on the order of rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    groups : array of shape (n,)
        Prototype of each row, -1 for rows that are left out.
    centers : array of shape (k, d)
    values : function
        From row indices to the values that decide ties.

    Returns
    -------
    which : array of shape (m,)
        Prototypes with at least one row.
    rows : array of shape (m,)
        Row that is nearest to each of them.
    """
    squares = np.full(X.shape[0], np.inf)
    step = max(1, _TILE_VALUES // X.shape[1])
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
