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
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from dkmeans.engine.cells import comparable
from dkmeans.engine.grids import one_slice
from dkmeans.engine.margin_part import Scale, worst_first
from dkmeans.engine.rows import Rows
from dkmeans.engine.sums import Sums, add_up
from dkmeans.engine.tally import run_starts
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.reference import inner_products
from dkmeans.model.prototypes import Prototypes

FINAL_SLOPE = 40.0  # of the cost that counts
_WHOLE = 2.0**26  # whole weights up to this total count as rows so many times, to the last bit
_NOISE = 1e-9  # a gradient this small, relative to the pulls that cancel in it, counts as zero
_BESIDE = 2.0**-10  # how far beside a prototype its twin is, relative to its rows
_NEAR = 1e-6  # rows this near to both, relative to the data's spread, pull no harder than that


class Margins:
    """Where rows stand between prototypes; each part of the rows keeps its own.

    Attributes
    ----------
    number : int
        Under which the parts keep them, until this object is gone.
    counts : array of shape (k,)
        How many rows each prototype wins.
    """

    def __init__(self, number: int, counts: Indices, forgotten: list[int]) -> None:
        self.number, self.counts = number, counts
        finalize(self, forgotten.append, number)

    @property
    def wins(self) -> npt.NDArray[np.bool_]:
        """Whether each prototype is the nearest of all to some row."""
        return self.counts > 0


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
        facts = rows.each("weight_facts")
        whole = all(fact[0] for fact in facts)
        n_terms = sum(fact[1] for fact in facts) if whole else np.inf
        n_rows = sum(fact[2] for fact in facts)
        whole = n_terms <= _WHOLE
        self._scale = Scale(whole, int(n_terms) if whole else n_rows)
        rows.each("set_scale", self._scale)
        # What a value of at most 1 is rounded to.
        self._unit = self._units(1.0 if whole else rows.facts.heaviest)
        self.weight = sum(rows.each("weight_sum", self._unit))
        self.middle: Floats = rows.tally_all().means[0]
        self._shift = None if rows.facts.n_terms is not None else self.middle  # sparse rows stay so
        boxes = rows.each("box")
        self.low: Floats = np.min([low for low, _ in boxes], axis=0)
        self.high: Floats = np.max([high for _, high in boxes], axis=0)
        bound = max(rows.each("spread_bound", self.middle.astype(rows.dtype)[None, :]))
        # Mean squared distance of the rows to their mean.
        self.spread = sum(rows.each("spread_sum", self._units(bound))) / self.weight

    def margins(self, prototypes: Prototypes) -> Margins:
        """Find each row's own and rival prototype, of two classes at least.

        Rows of classes that have no prototype take no part.
        """
        number, forgotten = self._rows.next_margins(), self._rows.forgotten
        forget = forgotten.copy()
        counts = np.sum(self._rows.each("margins", prototypes, number, forget), axis=0)
        del forgotten[: len(forget)]
        return Margins(number, counts, forgotten)

    def cost(self, margins: Margins, slope: float) -> float:
        """Mean cost of the rows; those that no prototype stands for cost 1."""
        paid = sum(self._rows.each("paid", margins.number, slope, self._unit))
        return 1 - paid / self.weight

    def costs(self, margins: Margins, slope: float, *, wary: bool) -> Floats:
        """Sum up costs f over the rows of each prototype's class, or f (1 - f) if wary."""
        return np.sum(self._rows.each("costs", margins.number, slope, wary, self._unit), axis=0)

    def losers(self, margins: Margins, classes: Indices) -> tuple[Indices, Indices]:
        """Count rows by own prototype: those that another class wins, and the others."""
        lost, won = np.sum(self._rows.each("losers", margins.number, classes), axis=0)
        return lost, won

    def tally_shares(self, margins: Margins, slope: float, steps: int) -> Sums:
        """Sum rows by own prototype; those beyond the border count the less the farther."""
        return add_up(self._rows.each("tally_shares", margins.number, slope, steps))

    def moved(self, margins: Margins, before: Margins | None) -> int:
        """Count rows that another prototype wins than before; None stands for their cells."""
        other = None if before is None else before.number
        return sum(self._rows.each("moved_between", margins.number, other))

    def gradient(self, centers: npt.NDArray[np.floating], margins: Margins, slope: float) -> Floats:
        """Gradient of the cost at a slope with respect to the centres, but for a factor."""
        pulls = margins.number, slope, _NEAR * self.spread
        bounds = np.max(self._rows.each("pull_bounds", *pulls), axis=0)
        shift = 0.0 if self._shift is None else self._shift
        reach = np.maximum(np.abs(self.low - shift), np.abs(self.high - shift))
        found = self._rows.each("gradient", *pulls, self._shift, reach, bounds)
        weights, strength, points = (np.sum(part, axis=0) for part in zip(*found, strict=True))
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
        chosen, places = [], []
        for c in np.unique(classes[which]).tolist():
            mine = which[classes[which] == c]
            _, values = worst_first(self._rows.each("worst", margins.number, c, len(mine)))
            values = values[: len(mine)]
            chosen.append(mine[: len(values)])
            places.append(values.astype(np.float64))
        if not chosen:
            return which, np.empty((0, len(self.middle)))
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
        codes, weight = self._won_weights(margins)
        won = comparable(np.bincount(codes // self._rows.n_classes, weight, len(margins.counts)))
        chosen, places = [], []
        for c in np.unique(prototypes.classes[idle]):
            busy = np.flatnonzero((prototypes.classes == c) & margins.wins)
            busy = busy[np.argsort(-won[busy], kind="stable")]  # the heaviest first
            waiting = idle[prototypes.classes[idle] == c].tolist()
            ends = _outermost(self._rows.each("ends", margins.number, busy))
            for p in busy.tolist():
                x, z = ends[p].astype(np.float64)
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
        codes, weight = self._won_weights(margins)
        starts = run_starts(codes // self._rows.n_classes)
        heaviest = np.maximum.reduceat(weight, starts)
        bound = max(self._rows.each("largest_least", margins.number))
        return Pass(
            n_mixed=int((np.diff(np.append(starts, len(codes))) > 1).sum()),
            impurity=float(1 - heaviest.sum() / self.weight),
            inertia=sum(self._rows.each("inertia", margins.number, self._units(bound))),
            **facts,
        )

    def harm(self, margins: Margins, classes: Indices) -> Floats:
        """By how much the heaviest other class in each prototype's cell outweighs its own.

        A prototype that wins nothing has 0.
        """
        n_classes, k = self._rows.n_classes, len(margins.counts)
        codes, weight = self._won_weights(margins)
        cell, is_own = codes // n_classes, codes % n_classes == classes[codes // n_classes]
        own, other = np.zeros(k), np.zeros(k)
        own[cell[is_own]] = weight[is_own]
        np.maximum.at(other, cell[~is_own], weight[~is_own])
        return other - own

    def _won_weights(self, margins: Margins) -> tuple[Indices, Floats]:
        """Weight by winner and class."""
        found = self._rows.each("won_weights", margins.number, self._unit)
        codes, weights = (np.concatenate(part) for part in zip(*found, strict=True))
        keys, group = np.unique(codes, return_inverse=True)
        return keys, np.bincount(group, weights, len(keys)).astype(np.float64)

    def _units(self, bounds: Floats | float) -> Floats:
        return one_slice(bounds, self._scale.n_terms)


def _outermost(parts: list[dict[int, Any]]) -> dict[int, Any]:
    """First and last row, by their values, over all parts."""
    found: dict[int, Any] = {}
    for part in parts:
        for p, rows in part.items():
            both = np.concatenate([found[p], rows]) if p in found else rows
            found[p] = both[np.lexsort(both.T[::-1])[[0, -1]]]
    return found
