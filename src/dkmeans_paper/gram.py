"""The paper's rounds, and k-means, computed from the Gram matrix of the rows.

Every centre is a weighted sum of rows, so the n x n matrix of inner products determines all
distances, whatever the number of features. Leave-one-out needs thousands of fits that differ by one
row: most of the first fit is reused, and only differences are computed. The rounds are those of
`DiscriminativeKMeans(growth="paper")` without its guaranteed termination; in exact arithmetic the
results are the same, and the tests compare them. Both methods run the same code: in k-means, all
rows are of one class.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dkmeans_paper.rounds import (
    LEFT_OUT,
    Floats,
    Groups,
    Indices,
    Mask,
    Repulsion,
    Sums,
    group_rows,
    nearest_centers,
    repelled_centers,
)


def inner_products(X: npt.NDArray[np.floating]) -> Floats:
    """Compute the inner products of all pairs of rows, in float64."""
    X = X.astype(np.float64)
    return X @ X.T


@dataclass(frozen=True)
class Centers:
    """Centres, represented by their inner products with every row and with themselves."""

    products: Floats
    squares: Floats
    classes: Indices
    ids: Indices

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, which: Mask | Indices) -> "Centers":
        """Select centres."""
        return Centers(
            self.products[which], self.squares[which], self.classes[which], self.ids[which]
        )

    def distances(self, gram: Floats, rows: Indices) -> Floats:
        """Compute squared distances of some rows to all centres, one line per centre."""
        own = gram[rows, rows]
        return np.maximum(own - 2 * self.products[:, rows] + self.squares[:, None], 0.0)


@dataclass(frozen=True)
class RunResult:
    """Result of a run."""

    centers: Centers
    labels: Indices
    rounds: int
    distances: int  # number of row-to-centre distances that the rounds consist of
    converged: bool = False  # no cell is mixed, and no row changes its cell


def grow(
    sums: Sums,
    y: Indices,
    left_out: Indices,
    repulsion: Repulsion,
    *,
    budget: int | None = None,
    positive: int | None = None,
    max_rounds: int = 300,
) -> RunResult:
    """Run the paper's rounds on all rows except some.

    Parameters
    ----------
    sums : Sums
        Cached sums; share them between runs that differ by few rows.
    y : array
        Class indices.
    left_out : array
        Rows to leave out.
    repulsion : float or "size"
        The weight w.
    budget : int, optional
        Largest number of clusters in all.
    positive : int, optional
        Number of clusters of class 1 at which to stop; class 0 is not limited.
    max_rounds : int
        Largest number of rounds.

    Returns
    -------
    outcome : RunResult
        Result at the budget, at convergence, or after the last round.
    """
    part = np.ones(len(y), dtype=bool)
    part[left_out] = False
    n_rows, n_classes = int(part.sum()), int(y.max()) + 1
    # The first cell holds all rows and has the heaviest class; its centre is not used.
    labels = np.where(part, 0, LEFT_OUT)
    zero = np.zeros(1, dtype=np.intp)
    heaviest = zero + np.bincount(y[part]).argmax()
    centers = Centers(np.zeros((1, len(y))), np.zeros(1), heaviest, zero)
    next_id, work = 1, n_rows
    groups = group_rows(labels, y, centers.ids, n_classes)
    for number in range(1, max_rounds + 1):
        owners = centers.ids[labels]
        served = _select_groups(groups, centers, budget, positive)
        group_sums = sums(groups, number)
        centers, next_id = _update(groups, group_sums, centers, served, repulsion, next_id)
        work += n_rows * len(centers)
        centers, labels = _assign(centers, part)
        groups = group_rows(labels, y, centers.ids, n_classes)
        is_pure = len(groups.codes) == len(centers)
        converged = is_pure and bool((owners == centers.ids[labels])[part].all())
        if converged or _is_budget_reached(centers, budget, positive):
            break
    return RunResult(centers, labels, number, work, converged)


def k_means(sums: Sums, start: Indices, left_out: Indices, max_rounds: int = 300) -> RunResult:
    """Run Lloyd's k-means on all rows except some.

    Parameters
    ----------
    sums : Sums
        Cached sums; share them between runs that differ by few rows.
    start : array
        Rows used as initial centres.
    left_out : array
        Rows to leave out.
    max_rounds : int
        Largest number of rounds.

    Returns
    -------
    outcome : RunResult
        The converged clustering. Centres that lose all their rows are dropped.
    """
    gram = sums.gram
    part = np.ones(len(gram), dtype=bool)
    part[left_out] = False
    n_rows, same_class = int(part.sum()), np.zeros(len(gram), dtype=np.intp)
    which = np.arange(len(start))
    centers = Centers(gram[start], gram[start, start], np.zeros_like(which), which)
    work = n_rows * len(centers)
    centers, labels = _assign(centers, part)
    for number in range(1, max_rounds + 1):
        owners = centers.ids[labels]
        groups = group_rows(labels, same_class, centers.ids, 1)
        everyone = np.arange(len(centers))
        moved = repelled_centers(groups, sums(groups, number), everyone, len(centers), 0.0)
        centers = Centers(*moved, centers.classes, centers.ids)
        work += n_rows * len(centers)
        centers, labels = _assign(centers, part)
        if np.array_equal(owners[part], centers.ids[labels[part]]):
            break
    return RunResult(centers, labels, number, work)


def _select_groups(
    groups: Groups, centers: Centers, budget: int | None, positive: int | None
) -> Mask:
    """Select the groups that get a centre.

    One group per cell keeps its centre. The others are served in order: those of classes without a
    centre, then the heaviest.
    """
    weight = groups.weight
    foreign = groups.classes != centers.classes[groups.cells]
    order = np.lexsort((-weight, foreign, groups.cells))
    keeps = np.zeros(len(order), dtype=bool)
    keeps[order[np.flatnonzero(np.diff(groups.cells[order], prepend=-1))]] = True
    if budget is None and positive is None:
        return np.ones(len(order), dtype=bool)
    queue = np.flatnonzero(~keeps)
    classes, ids = groups.classes[queue], centers.ids[groups.cells[queue]]
    known = np.isin(classes, centers.classes)
    queue = queue[np.lexsort((ids, classes, -weight[queue], known))]
    if budget is not None:
        queue = queue[: max(0, budget - int(keeps.sum()))]
    if positive is not None:
        wanted = groups.classes[queue] == 1
        room = positive - int((groups.classes[keeps] == 1).sum())
        queue = queue[~wanted | (np.cumsum(wanted) <= room)]
    keeps[queue] = True
    return keeps


def _update(
    groups: Groups,
    sums: Floats,
    centers: Centers,
    served: Mask,
    repulsion: Repulsion,
    next_id: int,
) -> tuple[Centers, int]:
    """Split and repel mixed cells, move the others to their means."""
    which = np.flatnonzero(served)
    cell = groups.cells[which]
    classes, ids = groups.classes[which], centers.ids[cell]
    # An unsplit mixed cell without rows of its own class keeps its class and position.
    is_same = classes == centers.classes[cell]
    stays = ~is_same & groups.mixed[which] & (np.bincount(cell)[cell] == 1)
    classes[stays] = centers.classes[cell[stays]]
    new = np.flatnonzero(~is_same & ~stays)
    new = new[np.lexsort((ids[new], classes[new]))]
    ids[new] = next_id + np.arange(len(new))
    order = np.lexsort((ids, classes))
    place = np.full(len(served), -1)
    place[which[order]] = np.arange(len(order))
    products, squares = repelled_centers(groups, sums, place, len(order), repulsion)
    if stays.any():
        at = place[which[stays]]
        products[at], squares[at] = centers.products[cell[stays]], centers.squares[cell[stays]]
    return Centers(products, squares, classes[order], ids[order]), next_id + len(new)


def _assign(centers: Centers, part: Mask) -> tuple[Centers, Indices]:
    """Find each row's nearest centre, and drop centres without rows."""
    labels = nearest_centers(centers.products, centers.squares)
    alive = np.bincount(labels[part], minlength=len(centers)) > 0
    if not alive.all():
        centers, labels = centers.take(alive), (np.cumsum(alive) - 1)[labels]
    return centers, np.where(part, labels, LEFT_OUT)


def _is_budget_reached(centers: Centers, budget: int | None, positive: int | None) -> bool:
    if budget is not None and len(centers) >= budget:
        return True
    return positive is not None and int((centers.classes == 1).sum()) >= positive
