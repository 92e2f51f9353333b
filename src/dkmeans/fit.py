"""One fit from beginning to end: check, read the data, choose k, grow, refine, return a `Fitted`.

Nothing here changes the estimator: it publishes the returned value at once.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import fsum, nan
from typing import Any

import numpy as np

from dkmeans import progress
from dkmeans.callbacks import Callbacks
from dkmeans.data.validation import Training
from dkmeans.fitted import Fitted
from dkmeans.growth.auto import Search, sampled, search
from dkmeans.growth.grow import grow
from dkmeans.growth.held_out import hold_out, most_clusters
from dkmeans.growth.margins import RefineStep
from dkmeans.growth.rows import Rows
from dkmeans.growth.rules import Continuation, Rules
from dkmeans.growth.run import Run, State
from dkmeans.growth.trail import Trail, waypoint
from dkmeans.growth.waypoints import Waypoint
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.outcome import Growth, to_fitted
from dkmeans.passes.sampling import Draw
from dkmeans.prepare import PreparedFit, prepare
from dkmeans.prototypes import Prototypes
from dkmeans.questions.calibration import MIN_ITEMS, count_items, fit_temperature
from dkmeans.results.fit_record import Clock, History, Laps


def fit(
    estimator: Any, X: Any, y: Any, sample_weight: Any, how: Continuation, classes: Any = None
) -> tuple[Fitted, Training]:
    """Fit a model with the parameters of an estimator.

    Parameters
    ----------
    estimator : DiscriminativeKMeans
        It is not changed.
    X, y, sample_weight : as in `DiscriminativeKMeans.fit`
    how : Continuation
    classes : array-like, optional
        Classes to know beside those in y.

    Returns
    -------
    fitted : Fitted
    training : Training
        What was fitted.
    """
    clock = Clock()
    laps = Laps(clock)
    listeners = progress.listeners(estimator.verbose)
    with (
        single_threaded_blas,
        prepare(estimator, X, y, sample_weight, how, classes, clock) as prepared,
    ):
        callbacks = Callbacks(estimator, X, y, sample_weight)

        def hear(step: progress.Step) -> bool:
            return callbacks.hear(
                lambda: prepared.predictor(step.prototypes, step.geometry).attributes()
            )

        listeners = [*listeners, hear]
        callbacks.begin("trial" if prepared.search else "round")
        run, found = start_run(prepared, listeners)
        if found is not None:
            found = replace(found, seconds=laps.lap())
            callbacks.begin("round")
        growth = _grow_and_refine(run, prepared.source.weight_unit, listeners, laps)
        fitted = to_fitted(prepared, run, growth, found)
        callbacks.end(fitted.attributes())
    return fitted, prepared.training


def start_run(
    prepared: PreparedFit, listeners: Sequence[progress.Listener] = ()
) -> tuple[Run, Search | None]:
    """Set up the run on all rows; choose its number of clusters first, if that is to be done."""
    if not prepared.search:
        return prepared.run(), None
    found = _search(prepared, listeners)
    return prepared.run(found.n_clusters, found.chosen().geometry), found


def _search(prepared: PreparedFit, listeners: Sequence[progress.Listener]) -> Search:
    """Choose the number of clusters on held-out rows; a listener can end the search."""
    progress.announce(listeners, "choosing the number of clusters")
    rows = prepared.source.rows
    counts = rows.count_items()
    n_classes = int(np.count_nonzero(counts))
    held_out = hold_out(counts, rows.items)
    rules = replace(prepared.rules, max_clusters=most_clusters(held_out.n_items, n_classes))

    def tell(record: dict[str, Any], prototypes: Prototypes) -> bool:
        step = progress.Step(record, prototypes, is_trial=True, geometry=run.rules.geometry)
        return progress.tell(listeners, step) and prepared.can_end_search

    with ExitStack() as ending:
        held, n_items = None, 0.0
        if len(held_out.hashes):
            draw = Draw(
                rows.facts.largest, held_out.lowest, held_out.highest, np.ones(rows.n_classes)
            )
            held = ending.enter_context(rows.drawn(draw))
            _, hashes = held.sampling_hashes(rows.facts.largest)
            n_items = count_items(hashes, held.weights())
        others = ending.enter_context(rows.holding_out(held_out.lowest, held_out.highest))
        about = held_out, held, rows.facts.largest, prepared.source.weight_unit, n_classes
        run = ending.enter_context(sampled(Run(others, rules), held_out, n_classes))
        _announce_metric(rules, listeners)
        found = search(run, *about, tell, prepared.clock)
        if held is None or len(held_out.hashes) < MIN_ITEMS:
            return found
        return replace(found, temperature=_temperature(found.chosen(), held, n_items))


def _announce_metric(rules: Rules, listeners: Sequence[progress.Listener]) -> bool:
    """Tell that the metric comes first, if it does; return whether it does."""
    if rules.first_metric is None:
        return False
    is_choice = rules.first_metric.or_euclidean
    progress.announce(listeners, "choosing the metric" if is_choice else "learning a first metric")
    return True


def _temperature(chosen: Waypoint, held: Rows, n_items: float) -> float:
    """Fit the temperature of probabilities to held-out rows."""
    held.map_rows(chosen.geometry)
    near = held.class_distances(chosen.prototypes)
    return fit_temperature(near, held.given_classes(), held.weights(), n_items)


def _grow_and_refine(
    run: Run, weight_unit: float, listeners: Sequence[progress.Listener], laps: Laps
) -> Growth:
    """Run all rounds, or up to the round where a listener ends the fit."""
    records: list[dict[str, Any]] = []

    def record(state: State | RefineStep, **other: Any) -> None:
        records.append(state.record(weight_unit) | {"seconds": laps.lap()} | other)

    finds_metric = _announce_metric(run.rules, listeners)
    trail = Trail()
    ended: State | None = None  # the last state so far, and its training and held-out errors
    errors = nan, nan
    rounds = grow(run)
    for state in rounds:
        if isinstance(state, State):  # not a pass of refinement
            if ended is not None and len(ended.prototypes) != len(state.prototypes):
                trail.add(waypoint(run, ended, errors))
            rows = run.rows if state.sample is None else state.sample.rows
            rows.label_all(state.prototypes)
            ended, errors = state, rows.errors(state.prototypes.classes)
        if not state.round and finds_metric:
            record(state, phase="metric")
        elif state.round:
            record(state)
            step = progress.Step(
                records[-1],
                state.prototypes,
                run.rules.max_clusters,
                geometry=state.geometry,
                most_passes=state.most_passes if isinstance(state, RefineStep) else None,
            )
            if progress.tell(listeners, step):
                break
    assert ended is not None
    if ended.sample is not None:  # ended early
        rounds.close()  # the sample is no longer needed
        ended = run.on_all_rows(ended)
        errors = run.rows.errors(ended.prototypes.classes)
        record(ended)
    last = waypoint(run, ended, errors)
    trail.add(last)
    # A refinement that was ended early does not count: the history has only the time of its passes.
    kept = [r for r in records if r["round"] <= ended.round]
    dropped = fsum(r["seconds"] for r in records if r["round"] > ended.round)
    if not kept:  # nothing but refinement, which moved nothing or was ended early
        record(ended)
        kept = records[-1:]
    kept[-1] = kept[-1] | {"seconds": kept[-1]["seconds"] + dropped}
    return Growth(ended, last.earlier_rows, History.from_records(kept), trail)
