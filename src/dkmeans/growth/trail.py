"""The waypoints of a fit, as it collects them."""

from collections.abc import Iterator

import numpy as np

from dkmeans.growth.run import Run, State
from dkmeans.growth.waypoints import Waypoint

_MIN_VALUES = 1 << 22  # values that waypoints may hold together, whatever the size of the model
_MAX_TIMES_LARGEST = 4  # beyond that, at most so many times the values of the largest waypoint
_MAX_VALUES = 1 << 26  # beyond that, no more than the smallest and the latest waypoint


class Trail:
    """Collection of waypoints; if they take too much memory, some in the middle are dropped."""

    def __init__(self) -> None:
        self._waypoints: dict[int, Waypoint] = {}

    def add(self, waypoint: Waypoint) -> None:
        """Add a model; it replaces an earlier one with as many clusters."""
        self._waypoints[len(waypoint)] = waypoint
        largest = max(w.size for w in self._waypoints.values())
        room = max(_MIN_VALUES, min(_MAX_TIMES_LARGEST * largest, _MAX_VALUES))
        while len(self._waypoints) > 2 and sum(w.size for w in self._waypoints.values()) > room:
            counts = np.array(sorted(self._waypoints))
            gaps = counts[2:] / counts[:-2]
            gaps[counts[1:-1] == len(waypoint)] = np.inf
            if np.isinf(gaps).all():
                return
            del self._waypoints[int(counts[1 + gaps.argmin()])]

    def __iter__(self) -> Iterator[Waypoint]:
        return iter(sorted(self._waypoints.values(), key=len))

    def __len__(self) -> int:
        return len(self._waypoints)


def waypoint(run: Run, state: State, errors: tuple[float, float]) -> Waypoint:
    """Return what is needed to use a state as a model, and to continue from it."""
    return Waypoint(
        state.round,
        state.prototypes,
        state.geometry,
        run.all_rows(state),
        *errors,
        cost=state.margin_cost,
        inertia=state.inertia,
        refined=state.phase == "refine",
    )
