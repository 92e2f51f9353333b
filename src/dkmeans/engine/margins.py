"""Where every row stands between its own class and the others, and what pulls on the prototypes.

For a row at squared distance d+ from the nearest prototype of its class and d- from the nearest of
another class, the margin is

    mu = (d+ - d-) / (d+ + d-),

between -1 (on its own prototype) and 1; above 0 the row is misclassified. The cost of a row is
sigmoid(slope * mu): a smooth count of errors, which ever steeper slopes bring near the true one.
Its gradient pulls the own prototype towards the row and pushes the rival away, with weights that
fade with the distance from the border: the paper's repulsion made smooth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from dkmeans.engine.cells import comparable
from dkmeans.engine.grids import Scale
from dkmeans.engine.margin_part import WeightFacts, worst_first
from dkmeans.engine.merging import by_key, outermost
from dkmeans.engine.rows import Rows
from dkmeans.engine.sums import Sums, add_up
from dkmeans.engine.tally import run_starts
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import ratio, total
from dkmeans.kernels.reference import inner_products
from dkmeans.model.prototypes import Prototypes

FINAL_SLOPE = 40.0  # of the cost that counts
_WHOLE = 2.0**40  # whole weights up to this total count as rows so many times, to the last bit
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
        facts = WeightFacts.of_all(rows.each("weight_facts", rows.by_class))
        whole = facts.whole and facts.total <= _WHOLE
        self._scale = Scale(whole, int(facts.total) if whole else facts.n_rows, rows.by_class)
        rows.each("set_scale", self._scale)
        # What a value of at most 1 is rounded to.
        self._unit = self._scale.units(facts.factor if whole else rows.facts.heaviest)
        self._weight: Floats = np.sum(rows.each("weight_sum", self._unit), axis=0)  # in slices
        self.middle: Floats = rows.tally_all().means[0]
        boxes = rows.each("box")
        self.low: Floats = np.min([low for low, _ in boxes], axis=0)
        self.high: Floats = np.max([high for _, high in boxes], axis=0)
        # Columns far from zero are shifted, so that they lose no accuracy. In all others, which
        # may be sparse, zero is within the data.
        has_zero = (self.low <= 0) & (self.high >= 0)
        self._shift = np.where(has_zero, 0.0, self.middle)
        self._reach = np.maximum(np.abs(self.low - self._shift), np.abs(self.high - self._shift))
        bound = max(rows.each("spread_bound", self.middle.astype(rows.dtype)[None, :]))
        # Mean squared distance of the rows to their mean.
        self.spread = float(self._mean(rows.each("spread_sum", self._scale.units(bound))))

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
        paid = self._mean(self._rows.each("paid", margins.number, slope, self._unit))
        return 1 - float(paid)

    def costs(self, margins: Margins, slope: float, *, wary: bool) -> Floats:
        """Sum up costs f over the rows of each prototype's class, or f (1 - f) if wary.

        As shares of the weight of all rows.
        """
        return self._mean(self._rows.each("costs", margins.number, slope, wary, self._unit))

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
        found = self._rows.each("gradient", *pulls, self._shift, self._reach, bounds)
        weights, strength, points = (self._mean(part) for part in zip(*found, strict=True))
        gradient: Floats = weights[:, None] * (centers - self._shift) - points
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
        cells, k = codes // self._rows.n_classes, len(margins.counts)
        won = comparable(np.bincount(cells, weight, k).astype(np.float64))
        chosen, places = [], []
        for c in np.unique(prototypes.classes[idle]):
            busy = np.flatnonzero((prototypes.classes == c) & margins.wins)
            busy = busy[np.argsort(-won[busy], kind="stable")]  # the heaviest first
            waiting = idle[prototypes.classes[idle] == c].tolist()
            ends = outermost(self._rows.each("ends", margins.number, busy))
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
        units = self._scale.units(max(self._rows.each("largest_least", margins.number)))
        inertia, _ = total(np.sum(self._rows.each("inertia", margins.number, units), axis=0))
        return Pass(
            n_mixed=int((np.diff(np.append(starts, len(codes))) > 1).sum()),
            impurity=float(1 - heaviest.sum() / total(self._weight)[0]),
            inertia=float(inertia),
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
        keys, slices = by_key(self._rows.each("won_weights", margins.number, self._unit))
        return keys, total(slices)[0]

    def _mean(self, parts: Sequence[Floats]) -> Floats:
        """Add up slices that parts have summed, and divide by the weight of all rows.

        Rounded once, so that it is the same whatever constant all weights are multiplied by.
        """
        slices = np.sum(parts, axis=0)
        weight = self._weight.reshape(-1, *np.ones(slices.ndim - 1, dtype=int))
        return ratio(slices, weight)
