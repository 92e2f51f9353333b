"""Waypoints of a fit: the medoids at each number of them that growth passes through."""

from dataclasses import dataclass

import numpy as np

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.tally import exact_totals
from dkmeans.medoids.grow import Stage


@dataclass(frozen=True, eq=False)
class Waypoint:
    """The medoids at one number of them."""

    round: int
    medoids: Indices  # rows, in the order of their classes
    sizes: Floats  # weight of the rows of each medoid
    training_error: float
    heldout_error: float
    cost: float
    inertia: float
    refined: bool  # whether medoids were swapped until no swap lowers the cost

    def __len__(self) -> int:
        return len(self.medoids)

    @classmethod
    def of(cls, stage: Stage, weights: Floats | None, heldout_error: float = np.nan) -> "Waypoint":
        """Describe a stage; `weights` are those of the rows, as the user gave them."""
        record = stage.record
        return cls(
            record["round"],
            stage.medoids,
            exact_totals(stage.cells, weights, len(stage)),
            stage.error,
            heldout_error,
            record["cost"],
            record["inertia"],
            stage.converged,
        )
