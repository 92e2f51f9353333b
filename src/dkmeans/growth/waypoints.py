"""Waypoints of a fit: the model at each number of clusters that growth passes through."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dkmeans.geometry import Geometry
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.prototypes import Prototypes

_Way = TypeVar("_Way")


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


def find_waypoint(waypoints: Sequence[Sized], k: int, name: str = "clusters") -> int:
    """Return the index of the largest model that has at most k prototypes."""
    counts = [len(waypoint) for waypoint in waypoints]
    which = int(np.searchsorted(counts, k, side="right")) - 1
    if which < 0:
        raise ValueError(f"k={k} is too small: the fewest {name} on path_ are {counts[0]}.")
    return which


def require_way(way: _Way | None) -> _Way:
    """Return the models on the way, or tell that they are not known."""
    if way is None:
        raise ValueError(
            "The model comes from a file without the models on the way: fit again, or save it "
            "with_path=True."
        )
    return way
