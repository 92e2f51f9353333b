"""The algorithm: one cluster at the start, then rounds until nothing is mixed and nothing moves.

`grow` is a generator. It yields the state at the start and after every round, so that whoever
drives it can draw, report or stop.
"""

from collections.abc import Generator, Iterator

import numpy as np

from dkmeans.engine.coincide import halve_coinciding
from dkmeans.engine.ending import end, fill
from dkmeans.engine.prune import prune
from dkmeans.engine.run import Run, State
from dkmeans.engine.update import next_children

PATIENCE = 10  # rounds without less impurity before the guaranteed ending takes over


def grow(run: Run) -> Iterator[State]:
    """Run to the end; the last state that is yielded is the result."""
    state = run.begin()
    yield state
    state = yield from _paper_rounds(run, state)
    state = yield from end(run, state)
    state = yield from fill(run, state)
    if run.rules.prune:
        yield from prune(run, state)


def _paper_rounds(run: Run, state: State) -> Generator[State, None, State]:
    """Assign, tally, split and repel, until converged or until impurity no longer falls."""
    least, stale = np.inf, 0
    while stale < PATIENCE:
        cells = halve_coinciding(run.rows, state.cells, run.rules)
        children = next_children(state.prototypes, cells, run.rules)
        state = run.advance(state, "grow", children)
        run.converged = state.n_mixed == 0 and state.moved == 0
        yield state
        if run.is_over(state):
            break
        stale = 0 if state.cells.excess < least else stale + 1
        least = min(least, state.cells.excess)
    return state
