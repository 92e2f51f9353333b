"""The models that a fit passes through: one for each number of clusters on the way."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from dkmeans.engine.margins import RefineStep
from dkmeans.engine.memory import Memory
from dkmeans.engine.run import Run, State
from dkmeans.model.prototypes import Prototypes

_VALUES = 1 << 22  # numbers that waypoints may hold together, whatever the size of the model
_TIMES = 4  # beyond that, they hold no more than so many times what the largest one does


@dataclass(frozen=True)
class Waypoint:
    """The model at one number of clusters."""

    round: int
    prototypes: Prototypes
    memory: Memory
    training_error: float
    heldout_error: float
    cost: float
    inertia: float

    def __len__(self) -> int:
        return len(self.prototypes)

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return int(self.prototypes.centers.size + self.memory.sums.size)


class Trail:
    """Collects waypoints; if they become too many, leaves some in the middle out."""

    def __init__(self) -> None:
        self._waypoints: dict[int, Waypoint] = {}

    def add(self, waypoint: Waypoint) -> None:
        """Keep a model instead of an earlier one with as many clusters."""
        self._waypoints[len(waypoint)] = waypoint
        largest = max(w.size for w in self._waypoints.values())
        room = max(_VALUES, _TIMES * largest)
        while len(self._waypoints) > 3 and sum(w.size for w in self._waypoints.values()) > room:
            counts = np.array(sorted(self._waypoints))
            gaps = counts[2:] / counts[:-2]
            gaps[counts[1:-1] == len(waypoint)] = np.inf
            del self._waypoints[int(counts[1 + gaps.argmin()])]

    def __iter__(self) -> Iterator[Waypoint]:
        return iter(sorted(self._waypoints.values(), key=len))

    def __len__(self) -> int:
        return len(self._waypoints)


def follow(
    run: Run, states: Iterator[State | RefineStep]
) -> Generator[State | RefineStep, None, Trail]:
    """Pass states on, and return the path that they took."""
    trail = Trail()
    last: tuple[State, tuple[float, float]] | None = None
    for state in states:
        if isinstance(state, State):
            # Many rounds may have as many clusters; only the last of them is kept.
            if last is not None and len(last[0].prototypes) != len(state.prototypes):
                trail.add(waypoint(run, *last))
            run.rows.label_all(state.prototypes)
            last = state, run.rows.errors(state.prototypes.classes)
        yield state
    if last is not None:
        trail.add(waypoint(run, *last))
    return trail


def waypoint(run: Run, state: State, errors: tuple[float, float]) -> Waypoint:
    """Keep what is needed to use a state as a model, and to go on from it."""
    return Waypoint(
        state.round,
        state.prototypes,
        run.remembers(state),
        *errors,
        cost=state.margin_cost,
        inertia=state.inertia,
    )
