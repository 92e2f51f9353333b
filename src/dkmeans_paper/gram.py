"""The paper's rounds, and k-means, computed from the Gram matrix of the rows.

Every centre is a weighted sum of rows, so the n x n matrix of inner products determines all
distances, whatever the number of features. Leave-one-out needs thousands of fits that differ by one
row: most of the first fit is reused, and only differences are computed. The rounds are those of
`DiscriminativeKMeans(growth="paper")` without its guaranteed termination; in exact arithmetic the
results are the same, and the tests compare them.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]
Repulsion: TypeAlias = float | Literal["size"]

LEFT_OUT = -1  # code of a row that is left out


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

    def take(self, which: npt.NDArray[np.bool_] | Indices) -> "Centers":
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
    distances: int  # number of row-to-centre distances computed
    converged: bool = False  # no cell is mixed, and no row changes its cell


class Sums:
    """Sums of rows by group, each represented by its inner products with all rows.

    The sums of each round of the first run, and of the last round, are cached. Most rows stay in
    the same group, so only the differences are computed.
    """

    def __init__(self, gram: Floats) -> None:
        self.gram = gram
        self._first: dict[int, tuple[Indices, Indices, Floats]] = {}
        self._last: tuple[Indices, Indices, Floats] | None = None

    def __call__(self, codes: Indices, number: int) -> tuple[Indices, Floats]:
        """Return the groups and their sums, given each row's group in a round."""
        groups = np.unique(codes)
        groups = groups[groups != LEFT_OUT]
        known = [k for k in (self._first.get(number), self._last) if k is not None]
        differ = [np.flatnonzero(codes != k[0]) for k in known]
        near = min(range(len(known)), key=lambda i: len(differ[i]), default=None)
        if near is None or 4 * len(differ[near]) > len(codes):
            group_sums = self._add(groups, codes, np.flatnonzero(codes != LEFT_OUT))
        else:
            group_sums = self._update_sums(groups, codes, known[near], differ[near])
        self._last = codes, groups, group_sums
        self._first.setdefault(number, self._last)
        return groups, group_sums

    def _update_sums(
        self,
        groups: Indices,
        codes: Indices,
        known: tuple[Indices, Indices, Floats],
        differ: Indices,
    ) -> Floats:
        old_codes, old_groups, old_sums = known
        at = np.minimum(np.searchsorted(old_groups, groups), len(old_groups) - 1)
        there = old_groups[at] == groups
        group_sums = np.where(there[:, None], old_sums[at], 0.0)
        group_sums += self._add(groups, codes, differ)
        group_sums -= self._add(groups, old_codes, differ)
        return group_sums

    def _add(self, groups: Indices, codes: Indices, rows: Indices) -> Floats:
        at = np.minimum(np.searchsorted(groups, codes[rows]), len(groups) - 1)
        there = groups[at] == codes[rows]
        at, rows = at[there], rows[there]
        order = np.argsort(at, kind="stable")
        starts = np.searchsorted(at[order], np.arange(len(groups) + 1))
        one_hot = csr_array(
            (np.ones(len(rows)), rows[order], starts), shape=(len(groups), len(self.gram))
        )
        return one_hot @ self.gram


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
    for number in range(1, max_rounds + 1):
        owners = centers.ids[labels]
        # Identify groups by the id of their centre, which is stable across rounds.
        codes = np.where(part, owners * n_classes + y, LEFT_OUT)
        groups, group_sums = sums(codes, number)
        cells, order = _group_cells(codes, groups, n_classes, centers.ids)
        group_sums = group_sums[order]
        served = _select_groups(cells, centers, budget, positive)
        centers, next_id = _update(cells, group_sums, centers, served, repulsion, next_id)
        work += n_rows * len(centers)
        centers, labels = _assign(centers, part)
        still = np.array_equal(owners[part], centers.ids[labels[part]])
        converged = still and _is_pure(labels[part], y[part], n_classes)
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
    nothing = np.zeros(len(start), dtype=np.intp)
    centers = Centers(gram[start], gram[start, start], nothing, nothing)
    centers, labels = _assign(centers, part)
    work = int(part.sum()) * len(centers)
    for number in range(1, max_rounds + 1):
        groups, group_sums = sums(labels, number)
        weight = np.bincount(labels[part])
        own = np.bincount(labels[part], group_sums[labels[part], np.flatnonzero(part)])
        none = np.zeros(len(groups), dtype=np.intp)
        centers = Centers(group_sums / weight[:, None], own / weight**2, none, none)
        before = labels
        centers, labels = _assign(centers, part)
        work += int(part.sum()) * len(centers)
        if np.array_equal(labels, before):
            break
    return RunResult(centers, labels, number, work)


@dataclass(frozen=True)
class _Cells:
    """Groups of a round: the rows of one class in one cell."""

    group_of_row: Indices  # for the rows that are not left out
    rows: Indices
    cells: Indices  # of each group
    classes: Indices
    weight: Indices
    cell_weight: Indices  # of each cell

    @property
    def mixed(self) -> npt.NDArray[np.bool_]:
        """Whether each group shares its cell with another."""
        return np.bincount(self.cells)[self.cells] > 1


def _group_cells(
    codes: Indices, groups: Indices, n_classes: int, ids: Indices
) -> tuple[_Cells, Indices]:
    """Sort groups by cell; also return the order."""
    rows = np.flatnonzero(codes != LEFT_OUT)
    at = np.searchsorted(groups, codes[rows])
    owner, classes = np.divmod(groups, n_classes)
    by_id = np.argsort(ids)
    cells = by_id[np.searchsorted(ids, owner, sorter=by_id)]
    order = np.lexsort((classes, cells))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    cells, classes, group_of_row = cells[order], classes[order], rank[at]
    weight = np.bincount(group_of_row)
    cell_weight = np.bincount(cells[group_of_row])
    return _Cells(group_of_row, rows, cells, classes, weight, cell_weight), order


def _select_groups(
    cells: _Cells, centers: Centers, budget: int | None, positive: int | None
) -> npt.NDArray[np.bool_]:
    """Select the groups that get a centre: at least one per cell, then the heaviest first."""
    foreign = cells.classes != centers.classes[cells.cells]
    order = np.lexsort((cells.classes, -cells.weight, foreign, cells.cells))
    _, first = np.unique(cells.cells[order], return_index=True)
    keeps = np.zeros(len(order), dtype=bool)
    keeps[order[first]] = True
    queue = np.flatnonzero(~keeps)
    queue = queue[
        np.lexsort((centers.ids[cells.cells[queue]], cells.classes[queue], -cells.weight[queue]))
    ]
    if budget is not None:
        queue = queue[: max(0, budget - int(keeps.sum()))]
    if positive is not None:
        wanted = cells.classes[queue] == 1
        room = positive - int((cells.classes[keeps] == 1).sum())
        queue = queue[~wanted | (np.cumsum(wanted) <= room)]
    keeps[queue] = True
    return keeps


def _update(
    cells: _Cells,
    sums: Floats,
    centers: Centers,
    served: npt.NDArray[np.bool_],
    repulsion: Repulsion,
    next_id: int,
) -> tuple[Centers, int]:
    """Split and repel mixed cells, move the others to their means."""
    which = np.flatnonzero(served)
    cell, weight = cells.cells[which], cells.weight[which].astype(np.float64)
    others = cells.cell_weight[cell] - weight
    mixed = cells.mixed[which]
    w = others / cells.cell_weight[cell] if repulsion == "size" else np.full(len(which), repulsion)
    away = np.divide(w, others, where=mixed, out=np.zeros(len(which)))
    # m - w (r - m), with m and r expressed by the sums of the group and of its cell
    of_group = (1 + np.where(mixed, w, 0.0)) / weight + away
    starts = np.flatnonzero(np.diff(cells.cells, prepend=-1))
    whole = np.add.reduceat(sums, starts, axis=0)
    products = of_group[:, None] * sums[which] - away[:, None] * whole[cell]

    g, rows = cells.group_of_row, cells.rows
    group_group = np.bincount(g, sums[g, rows])[which]
    with_whole = whole[cells.cells[g], rows]
    group_whole = np.bincount(g, with_whole)[which]
    whole_whole = np.bincount(cells.cells[g], with_whole)[cell]
    squares: Floats = (
        of_group**2 * group_group - 2 * of_group * away * group_whole + away**2 * whole_whole
    )
    classes, ids = cells.classes[which], centers.ids[cell]
    # An unsplit mixed cell without rows of its own class keeps its class and position.
    is_same = classes == centers.classes[cell]
    stays = mixed & ~is_same & (np.bincount(cell)[cell] == 1)
    products[stays], squares[stays] = centers.products[cell[stays]], centers.squares[cell[stays]]
    classes[stays] = centers.classes[cell[stays]]
    new = np.flatnonzero(~is_same & ~stays)
    new = new[np.lexsort((ids[new], classes[new]))]
    ids[new] = next_id + np.arange(len(new))
    order = np.lexsort((ids, classes))
    return Centers(products, squares, classes, ids).take(order), next_id + len(new)


def _assign(centers: Centers, part: npt.NDArray[np.bool_]) -> tuple[Centers, Indices]:
    """Find each row's nearest centre, and drop centres without rows."""
    labels = (centers.squares[:, None] - 2 * centers.products).argmin(axis=0)
    alive = np.bincount(labels[part], minlength=len(centers)) > 0
    labels = np.where(part, (np.cumsum(alive) - 1)[labels], LEFT_OUT)
    return (centers if alive.all() else centers.take(alive)), labels


def _is_pure(labels: Indices, y: Indices, n_classes: int) -> bool:
    """Return whether every cell holds rows of a single class."""
    groups = np.unique(labels * n_classes + y)
    return len(groups) == len(np.unique(groups // n_classes))


def _is_budget_reached(centers: Centers, budget: int | None, positive: int | None) -> bool:
    if budget is not None and len(centers) >= budget:
        return True
    return positive is not None and int((centers.classes == 1).sum()) >= positive
