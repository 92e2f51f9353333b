"""Weights that stay on the workers of a cluster, which answer questions about them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Batch
from dkmeans.data.row_weights import WeightFacts, Weighting, are_integers, whole_steps
from dkmeans.kernels.block import Floats
from dkmeans.kernels.tally import TotalsGrid
from dkmeans.runners.dask import Crew
from dkmeans.runners.dask_worker import Codes


@dataclass(frozen=True)
class ClusterWeights:
    """Weights of the rows of all partitions; questions are asked before parts are made of them.

    Parameters
    ----------
    crew : Crew
    inspect : callable
        Finds the codes of the rows of a partition, where they are not known.
    classes : dict of arrays
        Class of each label of a partition, by its number; without those that are empty.
    facts : WeightFacts
        Of the classes.
    are_given : bool
        Whether there are weights; else they are ones.
    """

    crew: Crew
    inspect: Callable[[Batch], tuple[Any, Codes]]
    classes: dict[int, npt.NDArray[np.int32]]
    facts: WeightFacts
    are_given: bool

    def grid(self, exponent: int = 0) -> TotalsGrid:
        """Return a grid for exact sums of the weights times a power of two."""
        return TotalsGrid.of(np.ldexp(self.facts.range, exponent), int(self.facts.counts.sum()))

    def sums(self) -> Floats:
        """Sum the weights of each class, times a power of two so that nothing overflows."""
        if not self.are_given:
            return self.facts.counts.astype(np.float64)
        exponent = -int(np.frexp(self.facts.high.max())[1])
        grid = self.grid(exponent)
        return grid.totals(self._slices(grid, exponent))

    def total(self) -> float:
        """Sum the weights of all rows."""
        if not self.are_given:
            return float(self.facts.counts.sum())
        grid = self.grid()
        return float(grid.totals(self._slices(grid, 0).sum(axis=1, keepdims=True))[0])

    def whole_steps(self, factor: float, least: float, steps: Floats) -> npt.NDArray[np.bool_]:
        """Tell of which steps all weights are multiples."""
        found = self._ask(WholeSteps(factor, least, steps))
        return np.logical_and.reduce([found[number] for number in self.classes])

    def are_whole(self, weighting: Weighting) -> bool:
        """Return whether weights of growth are integers up to rounding."""
        found = self._ask(AreWhole(weighting, self.classes))
        return all(found[number] for number in self.classes)

    def _slices(self, grid: TotalsGrid, exponent: int) -> Floats:
        found = self._ask(SumWeights(grid, exponent, {n: len(c) for n, c in self.classes.items()}))
        slices = np.zeros((len(grid.units), len(self.facts.counts)))
        for number, classes in self.classes.items():
            slices[:, classes] += found[number]  # each class has one label
        return slices

    def _ask(self, function: Callable[[int, Batch, Codes], Any]) -> dict[int, Any]:
        return self.crew.ask_partitions(function, self.inspect)


@dataclass(frozen=True)
class SumWeights:
    """Sums the weights of the rows with each label, times a power of two, on a grid."""

    grid: TotalsGrid
    exponent: int
    n_labels: dict[int, int]

    def __call__(self, number: int, batch: Batch, codes: Codes) -> Floats | None:
        """Return slices of the sums; None for a partition without rows."""
        if not len(codes):
            return None
        assert batch.weight is not None
        weights = np.ldexp(batch.weight, self.exponent)
        return self.grid.slices(codes.astype(np.intp), weights, self.n_labels[number])


@dataclass(frozen=True)
class WholeSteps:
    """Tells of which steps the weights of a partition are multiples."""

    factor: float
    least: float
    steps: Floats

    def __call__(self, number: int, batch: Batch, codes: Codes) -> npt.NDArray[np.bool_]:
        """Answer for a partition."""
        return whole_steps(batch.weight, self.factor, self.least, self.steps)


@dataclass(frozen=True)
class AreWhole:
    """Tells whether the weights of growth of a partition are integers."""

    weighting: Weighting
    classes: dict[int, npt.NDArray[np.int32]]

    def __call__(self, number: int, batch: Batch, codes: Codes) -> bool:
        """Answer for a partition."""
        if not len(codes):
            return True
        return are_integers(self.weighting.of(batch.weight, self.classes[number][codes]))
