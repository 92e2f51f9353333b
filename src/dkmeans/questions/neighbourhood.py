"""How much the neighbourhood of a row disagrees with its label.

Rows of one cell and class form a group at their mean. Let O_t be the distance from a row within
which groups of its own class have a total weight of t, the row itself left out, and R_t the same
for all other classes together. The score is the mean of O_t^2 / (O_t^2 + R_t^2) over t = 1, 2, 4,
8, 16: 0 amid its own class, 1 amid others. Small t look at the nearest rows, large t are robust to
a few wrong labels nearby; the mean was better than any single t.
"""

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Neighbourhoods:
    """What surrounds each of n rows, the row itself left out."""

    scores: Floats  # shape (n,): disagreement with its label
    suggested: Indices  # shape (n,): another class
    # For each of several numbers of nearest rows, the heaviest class among them and its share.
    majority: Indices  # shape (n, n_sizes)
    shares: Floats  # shape (n, n_sizes)

    def take(self, rows: Indices) -> "Neighbourhoods":
        """Select rows, also repeatedly."""
        return Neighbourhoods(
            self.scores[rows], self.suggested[rows], self.majority[rows], self.shares[rows]
        )


def label_disagreement(
    points: Matrix,
    classes: Indices,
    own: Indices,
    weights: Floats,
    groups: Groups,
    unit: float,
    sizes: tuple[float, ...],
    n_threads: int,
) -> Neighbourhoods:
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
    sizes : tuple of float
        Numbers of nearest rows whose majority is asked for, in rows of average weight.
    n_threads : int

    Returns
    -------
    found : Neighbourhoods
        The suggested class is the heaviest among the nearest rows of other classes, the nearest of
        those on a tie; the own class where there is no other.
    """

    def surroundings(at: Indices) -> tuple[Floats, Floats]:
        return _surroundings(points[at], own[at], weights[at], groups, unit)

    return disagreement(surroundings, classes, groups.classes, sizes, n_threads)


def disagreement(
    surroundings: Callable[[Indices], tuple[Floats, Floats]],
    classes: Indices,
    group_classes: Indices,
    sizes: tuple[float, ...],
    n_threads: int,
) -> Neighbourhoods:
    """Do the same from a function that returns distances and weights of all groups.

    Parameters
    ----------
    surroundings : callable
        Given indices of rows, it returns the distances to all groups, and their weights in rows
        of average weight, without each row itself.
    classes : array of shape (n,)
        Classes of the rows.
    group_classes : array of shape (g,)
    sizes : tuple of float
    n_threads : int
    """
    scores, suggested = np.zeros(len(classes)), classes.copy()
    majority = np.tile(classes[:, None], (1, len(sizes)))
    shares = np.zeros(majority.shape)
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
                suggested[at], _ = _heaviest(group_classes[~mine][order], met)
            majority[at], shares[at] = _majorities(distances, heavy, group_classes, sizes)

        for_each(task, tiles(len(rows), size), n_threads)
    return Neighbourhoods(scores, suggested, majority, shares)


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
    order, before = _in_reach(distances, heavy, np.minimum(REACHES[-1], most))
    near = np.take_along_axis(distances, order, axis=1)
    reached = np.full((n, len(REACHES)), np.inf)
    for level in range(len(REACHES)):
        enough = (before >= wanted[:, level : level + 1]) & (before > 0)
        there = np.flatnonzero(enough.any(axis=1))
        reached[there, level] = near[there, enough[there].argmax(axis=1)]
    met = np.diff(np.minimum(before, REACHES[-1]), axis=1, prepend=0.0)
    return reached, order, met


def _majorities(
    distances: Floats, heavy: Floats, group_classes: Indices, sizes: tuple[float, ...]
) -> tuple[Indices, Floats]:
    """Return the heaviest class among the nearest rows, and its share, for numbers of rows."""
    order, before = _in_reach(distances, heavy, np.minimum(heavy.sum(axis=1), max(sizes)))
    classes = group_classes[order]
    winners, shares = [], []
    for size in sizes:
        met = np.diff(np.minimum(before, size), axis=1, prepend=0.0)
        winner, vote = _heaviest(classes, met)
        whole = met.sum(axis=1)
        winners.append(winner)
        shares.append(np.divide(vote, whole, out=np.zeros_like(vote), where=whole > 0))
    return np.stack(winners, axis=1), np.stack(shares, axis=1)


def _in_reach(distances: Floats, heavy: Floats, wanted: Floats) -> tuple[Indices, Floats]:
    """Return the nearest groups in order, enough for a weight, and their cumulated weights."""
    n_groups = distances.shape[1]
    some = min(n_groups, _FIRST_GROUPS)
    while True:
        order = _nearest(distances, some)
        before = np.cumsum(np.take_along_axis(heavy, order, axis=1), axis=1)
        if some == n_groups or (before[:, -1] >= wanted * _TOLERANCE).all():
            return order, before
        some = min(n_groups, 4 * some)


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


def _heaviest(classes: Indices, met: Floats) -> tuple[Indices, Floats]:
    """Return the class with the most weight among the counted groups, and the weight.

    On a tie it is the first.
    """
    votes = np.zeros((len(met), int(classes.max()) + 1))
    lines = np.arange(len(met))[:, None]
    np.add.at(votes, (lines, classes), met)
    best = votes[lines, classes].argmax(axis=1)[:, None]
    winner = np.take_along_axis(classes, best, axis=1)
    return winner[:, 0], votes[lines, winner][:, 0]
