"""How much the neighbourhood of a row disagrees with its label.

Rows of one cell and class form a group at their mean. Let O_t be the distance from a row within
which groups of its own class have a total weight of t, the row itself left out, and R_t the same
for all other classes together. The score is the mean of O_t^2 / (O_t^2 + R_t^2) over t = 1, 2, 4,
8, 16: 0 amid its own class, 1 amid others. Small t look at the nearest rows, large t are robust to
a few wrong labels nearby; the mean was better than any single t.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.distances import all_distances
from dkmeans.kernels.threads import for_each, tiles
from dkmeans.questions.row_groups import Groups

REACHES = (1.0, 2.0, 4.0, 8.0, 16.0)  # t, in rows of average weight
_FIRST_GROUPS = 40  # groups sorted by distance at first; mostly enough for the largest t
_TILE_BYTES = 1 << 22
_TOLERANCE = 1 - 1e-9  # so that ten weights of 0.1 make 1


def label_disagreement(
    points: Matrix,
    classes: Indices,
    own: Indices,
    weights: Floats,
    groups: Groups,
    unit: float,
    n_threads: int,
) -> tuple[Floats, Indices]:
    """Score points, and find the class that their neighbourhood suggests.

    Parameters
    ----------
    points : array or CSR matrix of shape (n, d)
        Position of each row.
    classes : array of shape (n,)
        Their classes.
    own : array of shape (n,)
        Group that each row belongs to, and is left out of; -1 for none.
    weights : array of shape (n,)
        Weight of each row in its group.
    groups : Groups
    unit : float
        Weight that counts as one row.
    n_threads : int

    Returns
    -------
    scores : array of shape (n,)
    suggested : array of shape (n,)
        Heaviest class among the nearest rows of other classes, the nearest of those on a tie;
        the own class where there is no other.
    """

    def surroundings(at: Indices) -> tuple[Floats, Floats]:
        return _surroundings(points[at], own[at], weights[at], groups, unit)

    return disagreement(surroundings, classes, groups.classes, n_threads)


def disagreement(
    surroundings: Callable[[Indices], tuple[Floats, Floats]],
    classes: Indices,
    group_classes: Indices,
    n_threads: int,
) -> tuple[Floats, Indices]:
    """Do the same from a function that returns distances and weights of all groups.

    Parameters
    ----------
    surroundings : callable
        Given indices of rows, it returns the distances to all groups, and their weights in rows
        of average weight, without each row itself.
    classes : array of shape (n,)
        Classes of the rows.
    group_classes : array of shape (g,)
    n_threads : int
    """
    scores, suggested = np.zeros(len(classes)), classes.copy()
    size = int(np.clip(_TILE_BYTES // (32 * len(group_classes)), 16, 4096))
    for c in np.unique(classes):
        rows = np.flatnonzero(classes == c)
        mine = group_classes == c

        def task(tile: slice, rows: Indices = rows, mine: npt.NDArray[np.bool_] = mine) -> None:
            at = rows[tile]
            distances, heavy = surroundings(at)
            most = np.minimum(heavy[:, mine].sum(axis=1), heavy[:, ~mine].sum(axis=1))
            near, _, _ = _reach(distances[:, mine], heavy[:, mine], most)
            far, order, met = _reach(distances[:, ~mine], heavy[:, ~mine], most)
            scores[at] = _share(near, far).mean(axis=1)
            if len(order.T):
                suggested[at] = _heaviest(group_classes[~mine][order], met)

        for_each(task, tiles(len(rows), size), n_threads)
    return scores, suggested


def _surroundings(
    points: Matrix, own: Indices, weights: Floats, groups: Groups, unit: float
) -> tuple[Floats, Floats]:
    """Return distances to all groups and their weights, without each point itself."""
    distances = np.empty((points.shape[0], len(groups)))
    all_distances(points, groups.means, distances)
    heavy = np.tile(groups.weights, (len(own), 1))
    part = np.flatnonzero(own >= 0)
    at = part, own[part]
    whole = heavy[at]
    rest = whole - weights[part]
    rest[rest <= (1 - _TOLERANCE) * whole] = 0.0
    # The mean of the group without the row is farther away.
    distances[at] *= np.divide(whole, rest, out=np.ones_like(whole), where=rest > 0)
    heavy[at] = rest
    return distances, heavy / unit


def _reach(distances: Floats, heavy: Floats, most: Floats) -> tuple[Floats, Indices, Floats]:
    """Return the distance within which each weight t is found, or infinity.

    `most` bounds t. Also return the nearest groups in order, and how much of each is counted up to
    the largest t.
    """
    n, n_groups = distances.shape
    if not n_groups:
        none = np.zeros((n, 0))
        return np.full((n, len(REACHES)), np.inf), none.astype(np.intp), none
    wanted = np.minimum(np.array(REACHES), most[:, None]) * _TOLERANCE
    some = min(n_groups, _FIRST_GROUPS)
    while True:
        order = _nearest(distances, some)
        before = np.cumsum(np.take_along_axis(heavy, order, axis=1), axis=1)
        if some == n_groups or (before[:, -1] >= wanted[:, -1]).all():
            break
        some = min(n_groups, 4 * some)
    near = np.take_along_axis(distances, order, axis=1)
    reached = np.full((n, len(REACHES)), np.inf)
    for level in range(len(REACHES)):
        enough = (before >= wanted[:, level : level + 1]) & (before > 0)
        there = np.flatnonzero(enough.any(axis=1))
        reached[there, level] = near[there, enough[there].argmax(axis=1)]
    met = np.diff(np.minimum(before, REACHES[-1]), axis=1, prepend=0.0)
    return reached, order, met


def _nearest(distances: Floats, some: int) -> Indices:
    """Find the nearest groups of each point, the nearest first, ties by their order."""
    if some < distances.shape[1]:
        which = np.sort(np.argpartition(distances, some - 1, axis=1)[:, :some], axis=1)
        near = np.take_along_axis(distances, which, axis=1)
        return np.take_along_axis(which, np.argsort(near, axis=1, kind="stable"), axis=1)
    return np.argsort(distances, axis=1, kind="stable")


def _share(own: Floats, other: Floats) -> Floats:
    """Compute O^2 / (O^2 + R^2) without overflow; one half where both are the same."""
    small, large = np.minimum(own, other), np.maximum(own, other)
    q = np.divide(small, large, out=np.zeros_like(large), where=(large > 0) & (large < np.inf)) ** 2
    share = np.where(own > other, 1.0, q) / (1 + q)
    return np.where(own == other, 0.5, share)


def _heaviest(classes: Indices, met: Floats) -> Indices:
    """Return the class with the most weight among the counted groups; the first on a tie."""
    votes = np.zeros((len(met), int(classes.max()) + 1))
    lines = np.arange(len(met))[:, None]
    np.add.at(votes, (lines, classes), met)
    best = votes[lines, classes].argmax(axis=1)
    return classes[np.arange(len(met)), best]
