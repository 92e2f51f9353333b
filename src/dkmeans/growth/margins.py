"""Margins of the rows between their class and the others, and their cost.

For a row at squared distance d+ from the nearest prototype of its class and d- from the nearest of
another class, the margin is

    mu = (d+ - d-) / (d+ + d-),

between -1 (on its own prototype) and 1; it is positive for misclassified rows. The cost of a row is
sigmoid(slope * mu), a smooth count of errors that approaches the true one as the slope increases.
"""

from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import GroupSums, run_starts
from dkmeans.geometry import Geometry
from dkmeans.growth.cells import comparable
from dkmeans.growth.rows import Rows
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import ratio, total
from dkmeans.kernels.reference import inner_products
from dkmeans.passes import facts, margin_sums
from dkmeans.prototypes import Prototypes

FINAL_SLOPE = 40.0  # of the cost by which models are compared
EXTREMES_RATIO = 2  # of the prototypes looked at for a twin at a time to those that need one
TWIN_OFFSET = 2.0**-10  # distance between twins, relative to the distance of two of their rows


class Margins:
    """Handle to the margins of all rows, which the rows keep until `release`.

    As a context manager, it releases them at the end.

    Attributes
    ----------
    numbers : tuple of int
        The rows keep the margins under this number, or those of several batches under several.
    counts : array of shape (k,)
        Number of rows that each prototype wins.
    """

    def __init__(self, rows: Rows, numbers: tuple[int, ...], counts: Indices) -> None:
        self._rows, self.numbers, self.counts = rows, numbers, counts
        self._is_kept = True

    @property
    def number(self) -> int:
        """The number, if all rows were searched together."""
        (number,) = self.numbers
        return number

    def release(self) -> None:
        """Mark the margins as unused."""
        if self._is_kept:
            self._is_kept = False
            for number in self.numbers:
                self._rows.release_margins(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    @property
    def wins(self) -> npt.NDArray[np.bool_]:
        """Whether each prototype is the nearest of all to some row."""
        return self.counts > 0


@dataclass(frozen=True)
class RefineStep:
    """The result of one pass of refinement."""

    round: int
    prototypes: Prototypes
    geometry: Geometry  # the space of the prototypes
    n_mixed: int
    impurity: float
    moved: int
    inertia: float
    cost: float
    most_passes: int  # that there will be at most

    def record(self, weight_unit: float) -> dict[str, Any]:
        """Summarize the step for the history, but its time, with weights in the user's units."""
        return {
            "round": self.round,
            "phase": "refine",
            "clusters": len(self.prototypes),
            "mixed": self.n_mixed,
            "impurity": self.impurity,
            "moved": self.moved,
            "inertia": self.inertia * weight_unit,
            "cost": self.cost,
        }


class Field:
    """Margins, costs and gradients over all rows.

    Parameters
    ----------
    rows : Rows
    """

    def __init__(self, rows: Rows) -> None:
        self._rows, self._n_features = rows, len(rows.facts.largest)
        found = rows.run(facts.FindWeightFacts(rows.by_class))
        self._scale = found.scale(rows.by_class)
        rows.set_scale(self._scale)
        # Largest weight of a value before it is rounded.
        self._heaviest = found.factor if self._scale.whole else rows.facts.heaviest
        self._unit = self._scale.units(self._heaviest)  # for sums of values of at most 1
        self._weight = rows.run(facts.SumWeights(self._unit))  # of all rows, in slices
        if not self._weight[1:].any():
            self._weight = self._weight[:1]

    @cached_property
    def middle(self) -> Floats:
        """Mean of all rows."""
        return self._rows.tally_all().means[0]

    @cached_property
    def box(self) -> facts.Box:
        """Smallest and largest value of each column."""
        return self._rows.run(facts.FindBox())

    @cached_property
    def spread(self) -> float:
        """Mean squared distance of the rows to their mean."""
        center = self.middle.astype(self._rows.dtype)[None, :]
        bound = self._rows.run(facts.MeasureSpread(center))
        return float(self._mean(self._rows.run(facts.SumSpread(self._scale.units(bound)))))

    @cached_property
    def _shift(self) -> Floats:
        """Shift of the features in sums.

        Features whose range does not include zero are shifted, which keeps sums accurate. Sparse
        features are not shifted: their range includes zero.
        """
        has_zero = (self.box.low <= 0) & (self.box.high >= 0)
        return np.where(has_zero, 0.0, self.middle)

    @cached_property
    def _reach(self) -> Floats:
        """Largest magnitude of each shifted feature."""
        low, high = self.box.low - self._shift, self.box.high - self._shift
        return np.maximum(np.abs(low), np.abs(high))

    def margins(self, prototypes: Prototypes) -> Margins:
        """Find the own and the rival prototype of each row.

        There must be prototypes of at least two classes. Rows of classes without prototypes are
        left out.
        """
        number, counts = self._rows.find_margins(prototypes)
        return Margins(self._rows, (number,), counts)

    def cost(self, margins: Margins, slope: float) -> float:
        """Return the mean cost of the rows; rows of classes without prototypes cost 1."""
        paid = self._rows.run(margin_sums.SumPaid(margins.number, slope, self._unit))
        return 1 - float(self._mean(paid))

    def costs(self, margins: Margins, slope: float, row_cost: margin_sums.RowCost) -> Floats:
        """Sum the costs of the rows by own prototype, relative to the weight of all rows."""
        task = margin_sums.SumCosts(margins.number, slope, row_cost, self._unit)
        return self._mean(self._rows.run(task))

    def losers(self, margins: Margins, classes: Indices) -> tuple[Indices, Indices]:
        """Count rows by own prototype: those that another class wins, and the others."""
        counts = self._rows.run(margin_sums.CountLosses(margins.number, classes))
        return counts.lost, counts.won

    def tally_shares(self, margins: Margins, slope: float, steps: int) -> GroupSums:
        """Sum rows by own prototype, with weights that decrease with the margin."""
        return self._rows.run(margin_sums.SumSharesByMargin(margins.number, slope, steps))

    def moved(self, margins: Margins, before: Margins | None) -> int:
        """Count rows whose nearest prototype is another one than before.

        If `before` is None, compare with the cells that rows are in.
        """
        other = None if before is None else before.numbers
        return self._rows.run(margin_sums.CountMoved(margins.numbers, other))

    def worst_rows(
        self, margins: Margins, classes: Indices, which: Indices
    ) -> tuple[Indices, Floats]:
        """Find the rows with the largest margins, a different one for each of some prototypes.

        Returns
        -------
        which : array
            The prototypes for which there was a row.
        places : array
            The rows, of the classes of the prototypes. Ties are decided by their values.
        """
        chosen, places = [], []
        for c in np.unique(classes[which]).tolist():
            mine = which[classes[which] == c]
            values = self._rows.run(margin_sums.FindWorst(margins.number, c, len(mine))).values
            chosen.append(mine[: len(values)])
            places.append(values.astype(np.float64))
        if not chosen:
            return which, np.empty((0, self._n_features))
        return np.concatenate(chosen), np.concatenate(places)

    def twins(
        self, margins: Margins, prototypes: Prototypes, idle: Indices
    ) -> tuple[Indices, Floats]:
        """Find places for prototypes that win no rows, next to others of their class.

        The two then share the rows of one, and almost nothing changes for other rows; refined
        prototypes may be far from the rows, so a place on a row would not do. Let x and z be two
        rows of a prototype at p, and w = (x + z) / 2 - p. The step is along the component of
        x - z that is orthogonal to w. Then x is nearer to the new place, and z to p.

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
            step = EXTREMES_RATIO * len(waiting)  # the lightest are rarely needed
            for start in range(0, len(busy), step):
                some = busy[start : start + step]
                extremes = self._rows.run(margin_sums.FindExtremes(margins.number, some))
                for p in some.tolist():
                    place = _twin(prototypes.centers[p], *extremes[p].astype(np.float64))
                    if waiting and place is not None:
                        chosen.append(waiting.pop(0))
                        places.append(place)
                if not waiting:
                    break
        return np.array(chosen, dtype=np.intp), np.array(places).reshape(-1, self._n_features)

    def describe(
        self,
        margins: Margins,
        *,
        round: int,
        prototypes: Prototypes,
        geometry: Geometry,
        moved: int,
        cost: float,
        most_passes: int,
    ) -> RefineStep:
        """Summarize a step."""
        codes, weight = self._won_weights(margins)
        starts = run_starts(codes // self._rows.n_classes)
        heaviest = np.maximum.reduceat(weight, starts)
        units = self._scale.units(self._rows.run(margin_sums.BoundInertia(margins.numbers)))
        inertia, _ = total(self._rows.run(margin_sums.SumInertia(margins.numbers, units)))
        return RefineStep(
            round,
            prototypes,
            geometry,
            n_mixed=int((np.diff(np.append(starts, len(codes))) > 1).sum()),
            impurity=float(1 - heaviest.sum() / total(self._weight)[0]),
            moved=moved,
            inertia=float(inertia),
            cost=cost,
            most_passes=most_passes,
        )

    def harm(self, margins: Margins, classes: Indices) -> Floats:
        """Return the weight of the heaviest other class in each cell, less that of its own class.

        It is 0 for prototypes that win no rows.
        """
        n_classes, k = self._rows.n_classes, len(margins.counts)
        codes, weight = self._won_weights(margins)
        cell, is_own = codes // n_classes, codes % n_classes == classes[codes // n_classes]
        own, other = np.zeros(k), np.zeros(k)
        own[cell[is_own]] = weight[is_own]
        np.maximum.at(other, cell[~is_own], weight[~is_own])
        return other - own

    def _won_weights(self, margins: Margins) -> tuple[Indices, Floats]:
        """Return the codes of nearest prototype and class, and the weight of each."""
        found = self._rows.run(margin_sums.SumWinnerWeights(margins.numbers, self._unit))
        return found.keys, total(found.slices)[0]

    def _mean(self, slices: Floats) -> Floats:
        """Divide an exact sum, in slices, by the weight of all rows.

        It is rounded only once, so a constant factor on all weights does not change it.
        """
        # In the form of sums of groups and their weights, for which there is a fast way.
        sums = slices if slices.ndim == 3 else slices.reshape(len(slices), 1, -1)
        weight = np.repeat(self._weight.reshape(-1, 1, 1), sums.shape[1], axis=1)
        return ratio(sums, weight).reshape(slices.shape[1:])


def _twin(center: npt.NDArray[np.floating], x: Floats, z: Floats) -> Floats | None:
    """Return a place next to a centre such that x is nearer to it, and z to the centre."""
    here = center.astype(np.float64)
    w, across = ((x + z) / 2 - here)[None], (x - z)[None]
    square = inner_products(w, w)
    if square > 0:
        across = across - (inner_products(across, w) / square)[:, None] * w
    return here + TWIN_OFFSET * across[0] if across.any() else None
