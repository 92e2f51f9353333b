"""Choose the number of clusters on held-out rows.

A part of each class is held out. Prototypes grow on the other rows, from few to many, and the model
after each round is evaluated on the held-out rows. The choice is the smallest number whose error is
within one standard error of the lowest; the standard error is that of the *difference*, as both
errors are measured on the same rows. Growth ends at an error of 0, or when more clusters have
stopped paying: at a multiple of the choice so far. On a checkerboard or on spirals, clusters do not
pay before there are many of them. So growth goes on for longer while errors are high.

If the fit refines, so does the search, but only at a few sizes, and in few passes.

With many rows, the search sees a sample of them (`samples`), of more rows if nothing is refined, as
growth takes less time. More rows can tell more prototypes from noise, so the choice is scaled to
all rows: with the square root of their number.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkmeans.geometry import Geometry
from dkmeans.growth.grow import grow
from dkmeans.growth.held_out import HeldOut, ItemLosses, is_within_error, most_clusters
from dkmeans.growth.margins import RefineStep
from dkmeans.growth.registry import REFINEMENTS
from dkmeans.growth.rows import Rows
from dkmeans.growth.run import Run, Sample, State
from dkmeans.growth.samples import plan_sample
from dkmeans.growth.trail import Trail, waypoint
from dkmeans.growth.waypoints import Waypoint
from dkmeans.kernels.block import Floats
from dkmeans.prototypes import Prototypes
from dkmeans.results.fit_record import Clock, Laps, TreeLog

# Growth ends at this multiple of the number of clusters chosen so far,
MAX_RATIO_TO_CHOICE = 2.5
MIN_CLUSTERS_PER_CLASS = 4  # but not before this number,
# or, where all models so far have more than this share of the error of the majority class,
HARD_ERROR_RATIO = 0.5
MIN_HARD_CLUSTERS_PER_CLASS = 32  # not before this one,
MAX_HARD_CLUSTERS = 256  # or this one with many classes
REFINED_RATIO = 2.0  # smallest ratio between numbers of clusters that are refined and evaluated
REFINE_PASSES = 8  # at each of them
SAMPLE_ROWS = 8192  # distinct rows in a sample, at least
GROWN_SAMPLE_ROWS = 32768  # wanted in a sample if nothing is refined
MIN_CLASS_ROWS = 64  # distinct rows of each class in a sample
MAX_SAMPLE_SHARE = 0.5  # of the rows; there is no sample if that is too few
ROWS_EXPONENT = 0.5  # the number of clusters that pays grows with this power of the number of rows


@dataclass(frozen=True)
class Search:
    """Models grown without the held-out rows, with their held-out errors."""

    n_clusters: int  # the choice for all rows
    n_tried: int  # the choice among the models
    trail: Trail
    tree: TreeLog
    records: list[dict[str, Any]]  # of the history: rounds, each with the passes that refined it
    temperature: float | None = None  # of probabilities, that fits the held-out rows best
    seconds: float = 0.0  # that all of it took, with reading the data

    def chosen(self) -> Waypoint:
        """Return the chosen model, or the next smaller one kept."""
        smaller = [w for w in self.trail if len(w) <= self.n_tried]
        return smaller[-1] if smaller else next(iter(self.trail))

    def summary(self) -> dict[str, Any]:
        """Return one record for the history: the state of the chosen model, and the time."""
        grown = [r for r in self.records if r["phase"] != "refine"]
        until = [r for r in grown if r["clusters"] <= self.n_tried] or grown[:1]
        return until[-1] | {"round": 0, "phase": "search", "seconds": self.seconds}


@contextmanager
def sampled(run: Run, held_out: HeldOut, n_classes: int) -> Iterator[Run]:
    """Return a run on a sample of the rows; the same run if that would be most of them."""
    n_rows = GROWN_SAMPLE_ROWS if run.rules.refine is None else SAMPLE_ROWS
    plan = plan_sample(
        run.rows, n_rows, MIN_CLASS_ROWS, MAX_SAMPLE_SHARE, min_rows=min(n_rows, SAMPLE_ROWS)
    )
    if plan is None:
        yield run
        return
    most = most_clusters(plan.share * held_out.n_others, n_classes)
    with run.rows.drawn(plan.draw) as rows:
        yield run.on_sample(Sample(rows, plan.share), replace(run.rules, max_clusters=most))


class _Evaluation:
    """Losses of models on the held-out rows.

    Parameters
    ----------
    held_out : HeldOut
    held : Rows
        The held-out rows.
    largest : array of shape (d,)
        Magnitudes of columns by which rows are hashed.
    """

    def __init__(self, held_out: HeldOut, held: Rows | None, largest: Floats) -> None:
        self._nothing = np.zeros(len(held_out.hashes))
        self._items = None if held is None else ItemLosses(held, largest)
        self.losses: dict[int, Floats] = {}  # of each held-out item, by number of clusters
        self._weight = np.nan
        if held is not None:
            weights = held.weights()
            n_rows = float(held.facts.n_active)
            self._weight = n_rows if weights is None else float(np.sort(weights).sum())

    def error(self, prototypes: Prototypes, geometry: Geometry) -> float:
        """Evaluate a model, and return its error; nan if no rows are held out."""
        losses = self._nothing if self._items is None else self._items.of(prototypes, geometry)
        self.losses[len(prototypes)] = losses
        return float(losses.sum() / self._weight)

    def fewest(self) -> int:
        """Return the smallest number of clusters within one standard error of the best.

        The single cluster at the start is no choice, as every class gets a prototype: where one
        class has nearly all rows, it can have a lower error than the first models with all classes.
        """
        several = {count: losses for count, losses in self.losses.items() if count > 1}
        return fewest(several or self.losses)

    def end(self, n_classes: int) -> float:
        """Return the number of clusters at which growth ends, unless larger models are better."""
        least = min(losses.sum() for losses in self.losses.values())
        start = self.losses[min(self.losses)].sum()  # mostly a single cluster
        is_hard = least > HARD_ERROR_RATIO * start
        hard = min(MIN_HARD_CLUSTERS_PER_CLASS * n_classes, MAX_HARD_CLUSTERS) if is_hard else 0
        return max(MAX_RATIO_TO_CHOICE * self.fewest(), MIN_CLUSTERS_PER_CLASS * n_classes, hard)


def search(
    run: Run,
    held_out: HeldOut,
    held: Rows | None,
    largest: Floats,
    weight_unit: float,
    n_classes: int,
    tell: Callable[[dict[str, Any], Prototypes], bool],
    clock: Clock,
) -> Search:
    """Grow on the rows that are not held out, and evaluate each number of clusters on the others.

    Parameters
    ----------
    run : Run
        On rows where those held out have weight 0, or on a sample of them.
    held_out : HeldOut
    held : Rows or None
        The held-out rows; None if there are none.
    largest : array of shape (d,)
        Magnitudes of columns by which rows are hashed.
    weight_unit : float
        A weight of 1 here, in the user's weights.
    n_classes : int
        Number of classes that have rows with a weight.
    tell : callable
        Called with the record and the prototypes of each round; True ends the search.
    clock : Clock
        That of the fit.
    """
    laps, refine = Laps(clock), run.rules.refine
    run.rules = replace(run.rules, refine=None)
    found = _Evaluation(held_out, held, largest)
    trail, records, refined_size = Trail(), list[dict[str, Any]](), 0

    def evaluate(state: State, round: int) -> float:
        rows = run.rows if state.sample is None else state.sample.rows
        rows.label_all(state.prototypes)
        training_error, _ = rows.errors(state.prototypes.classes)
        error = found.error(state.prototypes, state.geometry)
        trail.add(replace(waypoint(run, state, (training_error, error)), round=round))
        return error

    def record(state: State | RefineStep) -> None:
        records.append(state.record(weight_unit) | {"seconds": laps.lap()})

    rounds = grow(run)
    for state in rounds:
        assert isinstance(state, State)
        ended, error, count = False, np.nan, len(state.prototypes)
        if state.round:
            record(state)
            ended = tell(records[-1], state.prototypes)
        if refine is None:
            error = evaluate(state, state.round)
        elif count >= REFINED_RATIO * refined_size:
            refined_size = count
            with _refined(run, state, refine, record) as refined:
                error = evaluate(refined, state.round)
        if ended or (state.round and (error == 0 or count >= found.end(n_classes))):
            break
    rounds.close()  # a sample is no longer needed
    n_tried = max(n_classes, found.fewest())
    n_clusters = _scaled(n_tried, run.sample, held_out, n_classes)
    return Search(n_clusters, n_tried, trail, run.tree, records)


def _scaled(n_tried: int, sample: Sample | None, held_out: HeldOut, n_classes: int) -> int:
    """Scale a number of clusters that was chosen on a sample to all rows.

    One per class is needed for any number of rows.
    """
    if sample is None:
        return n_tried
    ratio = held_out.n_items / (sample.share * held_out.n_others)
    n_clusters = n_classes + round((n_tried - n_classes) * ratio**ROWS_EXPONENT)
    return min(n_clusters, most_clusters(held_out.n_items, n_classes))


@contextmanager
def _refined(
    run: Run, state: State, refine: str, record: Callable[[RefineStep], None]
) -> Iterator[State]:
    """Refine in few passes; at the end of the block, return to the state before."""
    rules, converged = run.rules, run.converged
    run.rules = replace(rules, max_iter=REFINE_PASSES)
    refined = run.on_all_rows(state)
    for step in REFINEMENTS[refine](run, refined):
        if isinstance(step, State):
            refined = step
        else:
            record(step)
    yield refined
    if state.sample is run.sample:
        run.undo(refined, state)
    else:
        run.map_rows(state.geometry)
        run.tree.rewind(state.round)
    run.rules, run.converged = rules, converged


def fewest(losses: dict[int, Floats]) -> int:
    """Return the smallest number within one standard error of the best."""
    least = min(losses.items(), key=lambda entry: (entry[1].sum(), entry[0]))[1]
    for count in sorted(losses):
        if is_within_error(losses[count] - least):
            break
    return count
