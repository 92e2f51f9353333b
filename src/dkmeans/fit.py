"""One fit from beginning to end: check, read the data, choose k, grow, refine, return a `Fitted`.

Nothing here changes the estimator: it publishes the returned value at once.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np

from dkmeans import progress
from dkmeans.callbacks import Callbacks
from dkmeans.fitted import Fitted
from dkmeans.growth.auto import Choice, attempt, choose
from dkmeans.growth.grow import grow
from dkmeans.growth.held_out import hold_out
from dkmeans.growth.rules import Continuation
from dkmeans.growth.run import Run, State
from dkmeans.growth.trail import Trail, waypoint
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.outcome import Growth, to_fitted
from dkmeans.prepare import PreparedFit, prepare
from dkmeans.prototypes import Prototypes
from dkmeans.results.fit_record import History


def fit(
    estimator: Any, X: Any, y: Any, sample_weight: Any, how: Continuation, classes: Any = None
) -> Fitted:
    """Fit a model with the parameters of an estimator.

    Parameters
    ----------
    estimator : DiscriminativeKMeans
        It is not changed.
    X, y, sample_weight : as in `DiscriminativeKMeans.fit`
    how : Continuation
    classes : array-like, optional
        Classes to know beside those in y.
    """
    listeners = progress.listeners(estimator.verbose)
    with single_threaded_blas, prepare(estimator, X, y, sample_weight, how, classes) as prepared:
        callbacks = Callbacks(estimator, X, y, sample_weight)

        def hear(step: progress.Step) -> bool:
            return callbacks.hear(lambda: prepared.predictor(step.prototypes).attributes())

        listeners = [*listeners, hear]
        callbacks.begin("trial" if prepared.search else "round")
        run, choice = start_run(prepared, listeners)
        if choice is not None:
            callbacks.begin("round")
        growth = _grow_and_refine(run, prepared.source.weight_unit, listeners)
        fitted = to_fitted(prepared, run, growth, choice)
        callbacks.end(fitted.attributes())
    return fitted


def start_run(
    prepared: PreparedFit, listeners: Sequence[progress.Listener] = ()
) -> tuple[Run, Choice | None]:
    """Set up the run on all rows; choose its number of clusters first, if that is to be done."""
    if not prepared.search:
        return prepared.run(), None
    choice = _choose_clusters(prepared, listeners)
    return prepared.run(choice.n_clusters), choice


def _choose_clusters(prepared: PreparedFit, listeners: Sequence[progress.Listener]) -> Choice:
    """Choose the number of clusters on held-out rows; a listener can end the search."""
    rows = prepared.source.rows
    hashes, y, weights = rows.sampling_hashes(), rows.classes(), rows.weights()
    n_classes = len(np.unique(y if weights is None else y[weights > 0]))
    ended = False

    def tell(record: dict[str, Any], prototypes: Prototypes) -> bool:
        nonlocal ended
        asked = progress.tell(listeners, progress.Step(record, prototypes, is_trial=True))
        ended = asked and prepared.can_end_search
        return ended

    attempts, weight = [], 0.0
    for part in hold_out(hashes, y, weights, len(prepared.training.classes)):
        # Half as many prototypes as rows would not be a summary of them.
        most = max(n_classes, part.n_left // 2)
        with rows.holding_out(hashes, part.lowest, part.highest) as others:
            run = Run(others, replace(prepared.rules, max_clusters=most))
            attempts.append(attempt(run, part, prepared.source.weight_unit, n_classes, tell))
        weight += part.weight
        if ended:
            break
    return choose(attempts, weight, n_classes)


def _grow_and_refine(
    run: Run, weight_unit: float, listeners: Sequence[progress.Listener]
) -> Growth:
    """Run all rounds, or up to the round where a listener ends the fit."""
    records: list[dict[str, Any]] = []
    trail = Trail()
    ended: State | None = None  # the last state so far, and its training and held-out errors
    errors = nan, nan
    for state in grow(run):
        if isinstance(state, State):  # not a pass of refinement
            if ended is not None and len(ended.prototypes) != len(state.prototypes):
                trail.add(waypoint(run, ended, errors))
            run.rows.label_all(state.prototypes)
            ended, errors = state, run.rows.errors(state.prototypes.classes)
        if state.round:
            records.append(state.record(weight_unit))
            step = progress.Step(records[-1], state.prototypes, run.rules.max_clusters)
            if progress.tell(listeners, step):
                break
    assert ended is not None
    trail.add(waypoint(run, ended, errors))
    # A refinement that was ended early does not count, so its passes are not in the history.
    history = History.from_records([r for r in records if r["round"] <= ended.round])
    return Growth(ended, history, trail)
