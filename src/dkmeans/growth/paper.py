"""The rounds of the paper: `growth="paper"`."""

from collections.abc import Generator

import numpy as np

from dkmeans.growth.coinciding_means import halve_coinciding
from dkmeans.growth.round import next_children
from dkmeans.growth.run import Run, State

MAX_STALE_ROUNDS = 10  # without a decrease of the impurity


def paper_rounds(run: Run, state: State) -> Generator[State, None, State]:
    """Split and repel mixed cells, and reassign all rows, while the impurity decreases."""
    lowest, n_stale = np.inf, 0
    while n_stale < MAX_STALE_ROUNDS:
        cells = halve_coinciding(run.rows, state.cells, run.rules)
        children = next_children(state.prototypes, cells, run.rules)
        state = run.advance(state, "grow", children)
        run.converged = state.n_mixed == 0 and state.moved == 0
        yield state
        if run.is_over(state):
            break
        n_stale = 0 if state.cells.excess < lowest else n_stale + 1
        lowest = min(lowest, state.cells.excess)
    return state
