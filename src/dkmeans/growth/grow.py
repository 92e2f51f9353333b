"""The algorithm from the first prototype to the result.

`grow` is a generator: it yields the state at the start and after every round, so that the caller
can draw, report or stop.
"""

from collections.abc import Generator
from dataclasses import replace

from dkmeans.geometry import Learned
from dkmeans.growth.first_metric import first_metric
from dkmeans.growth.margins import RefineStep
from dkmeans.growth.metric_choice import PLAIN, prefers_plain
from dkmeans.growth.missing_classes import complete
from dkmeans.growth.paper import paper_rounds
from dkmeans.growth.prune import prune
from dkmeans.growth.registry import GROWTH_RULES, REFINEMENTS
from dkmeans.growth.rules import Continuation
from dkmeans.growth.run import Run, State
from dkmeans.growth.termination import terminate


def grow(run: Run) -> Generator[State | RefineStep, None, None]:
    """Run all rounds. The last value is a `State`: the result."""
    if run.rules.first_metric is not None and prefers_plain(run, _last_state):
        run.map_rows(PLAIN)
    elif run.rules.first_metric is not None:
        start = first_metric(run, _last_state)
        run.map_rows(start.geometry)
        run.rules = replace(run.rules, metric_step=start.step, metric_batches=start.batches)
    if isinstance(run.rules.geometry, Learned):
        run.agree_on_images()
    state = run.begin()
    yield state
    if run.rules.continuation is not Continuation.REFINE:
        state = yield from _rounds(run, state)
    if run.rules.refine is not None:
        yield from REFINEMENTS[run.rules.refine](run, state)


def _last_state(run: Run) -> State:
    *_, state = grow(run)
    assert isinstance(state, State)
    return state


def _rounds(run: Run, state: State) -> Generator[State, None, State]:
    """Run the rounds before refinement."""
    # The rounds of the paper leave cells alone in which nothing has changed since an earlier fit.
    rounds = GROWTH_RULES[run.rules.growth] if run.start is None else paper_rounds
    state = yield from rounds(run, state)
    state = yield from terminate(run, state)
    state = yield from complete(run, state)
    if run.rules.prune:
        for pruned in prune(run, state):
            yield pruned
            state = pruned
    return state
