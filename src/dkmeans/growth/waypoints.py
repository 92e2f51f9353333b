"""Waypoints of a fit: the model at each number of clusters that growth passes through."""

from dataclasses import dataclass

from dkmeans.geometry import Geometry
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.prototypes import Prototypes


@dataclass(frozen=True)
class Waypoint:
    """The model at one number of clusters."""

    round: int
    prototypes: Prototypes
    geometry: Geometry  # the space of the prototypes
    earlier_rows: EarlierRows
    training_error: float
    heldout_error: float
    cost: float
    inertia: float
    refined: bool = False  # whether refinement has moved its prototypes

    def __len__(self) -> int:
        return len(self.prototypes)

    @property
    def size(self) -> int:
        """Number of values that it holds."""
        return int(self.prototypes.centers.size + self.earlier_rows.sums.size)
