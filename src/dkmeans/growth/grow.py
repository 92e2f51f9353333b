"""The algorithm: one cluster at the start, then rounds until nothing is mixed and nothing moves.

`grow` is a generator. It yields the state at the start and after every round, so that whoever
drives it can draw, report or stop.
"""

from collections.abc import Generator, Iterator

import numpy as np

from dkmeans.growth.best import best_rounds
from dkmeans.growth.coinciding_means import halve_coinciding
from dkmeans.growth.margins import RefineStep
from dkmeans.growth.missing_classes import complete
from dkmeans.growth.prune import prune
from dkmeans.growth.refine import refine
from dkmeans.growth.round import next_children
from dkmeans.growth.run import Run, State
from dkmeans.growth.termination import end

PATIENCE = 10  # rounds without less impurity before the guaranteed ending takes over


def grow(run: Run) -> Iterator[State | RefineStep]:
    """Run to the end; the last that is yielded is a state, and the result."""
    state = run.begin()
    yield state
    # Going on from an earlier fit follows the paper: its rounds leave alone what has not changed.
    rounds = best_rounds if run.rules.best and run.start is None else _paper_rounds
    state = yield from rounds(run, state)
    state = yield from end(run, state)
    state = yield from complete(run, state)
    if run.rules.prune:
        for pruned in prune(run, state):
            yield pruned
            state = pruned
    if run.rules.refine:
        yield from refine(run, state)


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
