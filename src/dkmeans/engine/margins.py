"""Where every row stands between its own class and the others, and what pulls on the prototypes.

For a row at squared distance d+ from the nearest prototype of its class and d- from the nearest of
another class, the margin is

    mu = (d+ - d-) / (d+ + d-),

between -1 (on its own prototype) and 1; above 0 the row is misclassified. The cost of a row is
sigmoid(slope * mu): a smooth count of errors, which ever steeper slopes bring near the true one.
Its gradient pulls the own prototype towards the row and pushes the rival away, with weights that
fade with the distance from the border: the paper's repulsion made smooth.
"""

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit

from dkmeans.engine.rows import Found, Rows
from dkmeans.engine.tally import by_group, run_starts
from dkmeans.kernels.assign import assign_own_and_rival
from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.distances import OwnDistances
from dkmeans.kernels.exact import cut, grid_units
from dkmeans.kernels.pack import pack
from dkmeans.kernels.reference import inner_products, to_distance
from dkmeans.kernels.tally import rounded_sums
from dkmeans.model.prototypes import Prototypes

FINAL_SLOPE = 40.0  # of the cost that counts
_WHOLE = 2.0**26  # whole weights up to this total count as rows so many times, to the last bit
_NOISE = 1e-9  # a gradient this small, relative to the pulls that cancel in it, counts as zero
_BESIDE = 2.0**-10  # how far beside a prototype its twin is, relative to its rows
_NEAR = 1e-6  # rows this near to both, relative to the data's spread, pull no harder than that


@dataclass(frozen=True)
class Margins:
    """For each row that takes part: the prototypes on either side of its border."""

    k: int  # number of prototypes
    rows: Indices  # numbers of the rows
    own: Indices  # nearest prototype of the row's class
    rival: Indices  # nearest prototype of another class
    near: Floats  # squared distance to the own
    far: Floats  # squared distance to the rival
    winner: Indices  # nearest of all

    def relative(self) -> Floats:
        """Margins; 0 for rows that lie on both."""
        sums = self.near + self.far
        return np.divide(self.near - self.far, sums, out=np.zeros_like(sums), where=sums > 0)

    def found(self) -> Found:
        """Where the rows go."""
        squares = np.where(self.winner == self.own, self.near, self.far)
        return Found(self.rows, self.winner, squares)

    def wins(self) -> npt.NDArray[np.bool_]:
        """Tell which prototypes are the nearest of all to some row."""
        return np.bincount(self.winner, minlength=self.k) > 0


@dataclass(frozen=True)
class Pass:
    """What a pass of refinement found."""

    round: int
    prototypes: Prototypes
    n_mixed: int
    impurity: float
    moved: int
    inertia: float
    cost: float
    seconds: float

    def record(self, weight_unit: float) -> dict[str, Any]:
        """Sum the pass up for the history, with weights in the user's terms."""
        return {
            "round": self.round,
            "phase": "refine",
            "clusters": len(self.prototypes),
            "mixed": self.n_mixed,
            "impurity": self.impurity,
            "moved": self.moved,
            "inertia": self.inertia * weight_unit,
            "cost": self.cost,
            "seconds": self.seconds,
        }


class Field:
    """Margins and pulls over the rows of a run.

    Parameters
    ----------
    rows : Rows
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        n = rows.X.shape[0]
        self._active = np.ones(n, dtype=bool) if rows.active is None else rows.active
        self._weights: Floats = np.ones(n) if rows.weights is None else rows.weights
        whole = bool((self._weights == np.rint(self._weights)).all())
        n_terms = float(self._weights.sum()) if whole else np.inf
        self._whole = n_terms <= _WHOLE
        self._n_terms = int(n_terms) if self._whole else n
        self._everyone = np.flatnonzero(self._active)
        self.weight = self._sum(np.ones(len(self._everyone)), self._everyone)
        self._sparse = sp.issparse(rows.X)
        everything = rows.tally_all()
        self.middle: Floats = everything.means[0]
        self._shift = None if self._sparse else self.middle
        self.low, self.high = self._range()
        self.spread = self._spread()

    def margins(self, prototypes: Prototypes) -> Margins:
        """Find each row's own and rival prototype, of two classes at least.

        Rows of classes that have no prototype take no part.
        """
        rows, centers, classes = self._rows, prototypes.centers, prototypes.classes
        n = rows.X.shape[0]
        packed = pack(
            centers,
            sparse=self._sparse,
            loops=rows.loops,
            classes=classes,
            n_terms=rows.n_terms,
        )
        distances = OwnDistances(centers, sparse=self._sparse, loops=rows.loops)
        takes_part = self._active & np.isin(rows.y, classes)
        columns = {int(c): np.flatnonzero(classes == c) for c in np.unique(classes)}
        own, rival = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
        near, far = np.zeros(n), np.zeros(n)

        def task(part: Indices) -> None:
            part = part[takes_part[part]]
            if not len(part):
                return
            runs = [(run, columns[c]) for c, run in rows.runs_of_classes(part)]
            found = np.empty((2, len(part)), dtype=np.intp)
            squares = np.empty((2, len(part)))
            assign_own_and_rival(rows.X, packed, runs, found[0], found[1], part)
            for side in (0, 1):
                distances(rows.X, found[side], squares[side], part)
            own[part], rival[part] = found
            near[part], far[part] = squares

        rows.for_classes(task, 2 * len(centers))
        taken = np.flatnonzero(takes_part)
        own, rival, near, far = own[taken], rival[taken], near[taken], far[taken]
        # The nearest of all, as `predict_cluster` sees it.
        d_own, d_rival = (to_distance(d, centers.dtype) for d in (near, far))
        wins = (d_own < d_rival) | ((d_own == d_rival) & (own < rival))
        return Margins(len(centers), taken, own, rival, near, far, np.where(wins, own, rival))

    def cost(self, margins: Margins, slope: float) -> float:
        """Mean cost of the rows; those that no prototype stands for cost 1."""
        paid = self._sum(1 - expit(slope * margins.relative()), margins.rows)
        return 1 - paid / self.weight

    def gradient(self, centers: npt.NDArray[np.floating], margins: Margins, slope: float) -> Floats:
        """Gradient of the cost at a slope with respect to the centres, but for a factor."""
        f = expit(slope * margins.relative())
        steep = slope * f * (1 - f)
        sums = np.maximum(margins.near + margins.far, _NEAR * self.spread)
        pull, push = steep * margins.far / sums**2, -steep * margins.near / sums**2
        k = len(centers)
        weights, points, strength = np.zeros(k), np.zeros(centers.shape), np.zeros(k)
        for index, coefficient in ((margins.own, pull), (margins.rival, push)):
            weights += self.by_prototype(margins, index, coefficient)
            strength += self.by_prototype(margins, index, np.abs(coefficient) * np.sqrt(sums))
            self._add(margins.rows, index, coefficient, points)
        offset = centers if self._shift is None else centers - self._shift
        gradient: Floats = weights[:, None] * offset - points
        gradient[np.abs(gradient).max(axis=1) <= _NOISE * strength] = 0.0
        return gradient

    def worst_rows(
        self, margins: Margins, classes: Indices, which: Indices
    ) -> tuple[Indices, Floats]:
        """Find, for some prototypes, different rows of their class with the largest margins.

        Returns
        -------
        which : array
            The prototypes for which there was a row.
        places : array
            The rows. Ties are decided by the rows' values.
        """
        relative = margins.relative()
        y = self._rows.y[margins.rows]
        chosen, places = [], []
        for c in np.unique(classes[which]):
            mine = which[classes[which] == c]
            rows = np.flatnonzero((y == c) & (margins.near > 0) & (margins.far > 0))
            if len(rows) > len(mine):
                bar = np.partition(relative[rows], -len(mine))[-len(mine)]
                rows = rows[relative[rows] >= bar]
            values = dense_rows(self._rows.X, margins.rows[rows])
            order = np.lexsort((*values.T[::-1], -relative[rows]))
            values = values[order]
            fresh = np.ones(len(values), dtype=bool)
            fresh[1:] = (values[1:] != values[:-1]).any(axis=1)
            values = values[fresh][: len(mine)]
            chosen.append(mine[: len(values)])
            places.append(values.astype(np.float64))
        if not chosen:
            return which, np.empty((0, self._rows.X.shape[1]))
        return np.concatenate(chosen), np.concatenate(places)

    def twins(
        self, margins: Margins, prototypes: Prototypes, idle: Indices
    ) -> tuple[Indices, Floats]:
        """Find places for idle prototypes right beside busy ones of their class.

        The two share the rows of one, and next to nothing changes for all other rows: a place on
        a row would be far from where refined prototypes are. Of two rows x and z of a busy
        prototype at p, with w = (x + z) / 2 - p, the step goes along the part of x - z that is
        at right angles to w. Then x is nearer to the new place, and z to the old one.

        Returns
        -------
        which : array
            The prototypes for which there was a place.
        places : array
        """
        counts = np.bincount(margins.winner, minlength=margins.k)
        chosen, places = [], []
        for c in np.unique(prototypes.classes[idle]):
            busy = np.flatnonzero((prototypes.classes == c) & (counts > 1))
            busy = busy[np.argsort(-counts[busy], kind="stable")]
            waiting = idle[prototypes.classes[idle] == c].tolist()
            for p in busy:
                values = dense_rows(self._rows.X, margins.rows[margins.winner == p])
                order = np.lexsort(values.T[::-1])
                x, z = values[order[[0, -1]]].astype(np.float64)
                center = prototypes.centers[p].astype(np.float64)
                w, across = ((x + z) / 2 - center)[None], (x - z)[None]
                square = inner_products(w, w)
                if square > 0:
                    across = across - (inner_products(across, w) / square)[:, None] * w
                if waiting and across.any():
                    chosen.append(waiting.pop(0))
                    places.append(center + _BESIDE * across[0])
        return np.array(chosen, dtype=np.intp), np.array(places).reshape(-1, len(self.middle))

    def describe(self, margins: Margins, **facts: Any) -> Pass:
        """Sum up a pass."""
        y = self._rows.y[margins.rows]
        codes, group = np.unique(margins.winner * self._rows.n_classes + y, return_inverse=True)
        weight = np.bincount(group, self._terms(np.ones(len(y)), margins.rows))
        starts = run_starts(codes // self._rows.n_classes)
        heaviest = np.maximum.reduceat(weight, starts)
        return Pass(
            n_mixed=int((np.diff(np.append(starts, len(codes))) > 1).sum()),
            impurity=float(1 - heaviest.sum() / self.weight),
            inertia=self._sum(np.minimum(margins.near, margins.far), margins.rows),
            **facts,
        )

    def harm(self, margins: Margins, classes: Indices) -> Floats:
        """By how much the heaviest other class in each prototype's cell outweighs its own.

        A prototype that wins nothing has 0.
        """
        y, n_classes = self._rows.y[margins.rows], self._rows.n_classes
        codes, group = np.unique(margins.winner * n_classes + y, return_inverse=True)
        weight = np.bincount(group, self._terms(np.ones(len(y)), margins.rows))
        cell, is_own = codes // n_classes, codes % n_classes == classes[codes // n_classes]
        own, other = np.zeros(margins.k), np.zeros(margins.k)
        own[cell[is_own]] = weight[is_own]
        np.maximum.at(other, cell[~is_own], weight[~is_own])
        return other - own

    def by_prototype(self, margins: Margins, index: Indices, values: Floats) -> Floats:
        """Sum a value per row, times the row's weight, over the rows of each prototype."""
        terms = self._terms(values, margins.rows)
        return np.bincount(index, terms, margins.k).astype(np.float64)

    def _sum(self, values: Floats, rows: Indices) -> float:
        """Sum a value per row, times the row's weight."""
        return float(self._terms(values, rows).sum())

    def _terms(self, values: Floats, rows: Indices) -> Floats:
        """Weight values, and round them so that their sums are exact in any order."""
        weights = self._weights[rows]
        if not self._whole:
            values = values * weights
        rounded = cut(values[:, None], self._units(np.abs(values).max(initial=0.0)))[0, :, 0]
        return rounded * weights if self._whole else rounded

    def _units(self, bounds: Floats) -> Floats:
        return grid_units(np.atleast_1d(bounds), self._n_terms, 1)

    def _add(self, which: Indices, index: Indices, coefficient: Floats, points: Floats) -> None:
        """Add up coefficients times rows, by prototype."""
        rows = self._rows
        if not self._whole:
            coefficient = coefficient * self._weights[which]
        everywhere, groups = np.zeros(rows.X.shape[0]), np.full(rows.X.shape[0], -1)
        everywhere[which], groups[which] = coefficient, index
        shift = 0.0 if self._shift is None else self._shift
        reach = np.maximum(np.abs(self.low - shift), np.abs(self.high - shift))
        units = self._units(reach * float(np.abs(coefficient).max()))[0]
        lock = Lock()

        def task(tile: slice) -> None:
            order, starts = by_group(groups[tile])
            if not len(order):
                return
            weights = rows.weights[tile] if self._whole and rows.weights is not None else None
            part = rounded_sums(
                rows.X[tile],
                self._shift,
                everywhere[tile],
                weights,
                order,
                starts,
                units,
                rows.loops,
            )
            with lock:  # exact sums: the order in which tiles arrive does not matter
                points[groups[tile][order[starts]]] += part

        rows.for_tiles(task, 1)

    def _range(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each column."""
        rows = self._rows
        d = rows.X.shape[1]
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        lock = Lock()

        def task(tile: slice) -> None:
            X = rows.X[tile][self._active[tile]]
            if not X.shape[0]:
                return
            if self._sparse:
                least, most = (e.toarray().ravel() for e in (X.min(axis=0), X.max(axis=0)))
            else:
                least, most = X.min(axis=0), X.max(axis=0)
            with lock:
                np.minimum(low, least, out=low)
                np.maximum(high, most, out=high)

        rows.for_tiles(task, 1)
        return low, high

    def _spread(self) -> float:
        """Mean squared distance of the rows to their mean."""
        rows = self._rows
        center = self.middle.astype(rows.X.dtype)[None, :]
        distances = OwnDistances(center, sparse=self._sparse)
        squares = np.zeros(rows.X.shape[0])

        def task(tile: slice) -> None:
            n = tile.stop - tile.start
            distances(rows.X[tile], np.zeros(n, dtype=np.intp), squares[tile])

        rows.for_tiles(task, 1)
        return self._sum(squares[self._everyone], self._everyone) / self.weight
