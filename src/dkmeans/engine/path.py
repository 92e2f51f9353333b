"""The models that a fit passes through: one for each number of clusters on the way."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dkmeans.engine.margins import Pass
from dkmeans.engine.memory import Memory
from dkmeans.engine.run import Run, State
from dkmeans.kernels.block import Floats, Indices
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


class Judge:
    """Counts errors, by the labels as they were given.

    Parameters
    ----------
    y : array of shape (n,)
        Classes by number, as given.
    weights : array of shape (n,) or None
        Weights of all rows, held out or not.
    held_out : array of shape (n,), optional
        Which rows are.
    """

    def __init__(
        self, y: Indices, weights: Floats | None, held_out: npt.NDArray[np.bool_] | None = None
    ) -> None:
        everyone = np.ones(len(y)) if weights is None else weights
        self._y = y
        self._training = everyone if held_out is None else np.where(held_out, 0.0, everyone)
        self._held_out = None if held_out is None else np.where(held_out, everyone, 0.0)

    def wrong(self, labels: Indices, classes: Indices) -> npt.NDArray[np.bool_]:
        """Whether each row is in a cell of another class."""
        return classes[labels] != self._y

    def errors(self, labels: Indices, classes: Indices) -> tuple[float, float]:
        """Weighted shares of training and of held-out rows (nan if none) in a wrong cell."""
        wrong = self.wrong(labels, classes)
        held_out = np.nan if self._held_out is None else _share(wrong, self._held_out)
        return _share(wrong, self._training), held_out


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
    run: Run, judge: Judge, states: Iterator[State | Pass]
) -> Generator[State | Pass, None, Trail]:
    """Pass states on, and return the path that they took."""
    trail = Trail()
    last: tuple[State, tuple[float, float]] | None = None
    for state in states:
        if isinstance(state, State):
            # Many rounds may have as many clusters; only the last of them is kept.
            if last is not None and len(last[0].prototypes) != len(state.prototypes):
                trail.add(waypoint(run, *last))
            run.rows.label_all(state.prototypes)
            last = state, judge.errors(run.rows.labels, state.prototypes.classes)
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


def _share(wrong: npt.NDArray[np.bool_], weights: Floats) -> float:
    whole = weights.sum()
    return float(weights[wrong].sum() / whole) if whole > 0 else np.nan
