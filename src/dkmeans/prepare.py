"""Everything before the first round of a fit: check parameters, read and check the data."""

import hashlib
import json
import numbers
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from dkmeans.data import arguments, validation
from dkmeans.data.dask_collections import DaskBlocks, is_dask
from dkmeans.exact.sparse_sums import dense
from dkmeans.fitted import Fitted, Predictor
from dkmeans.geometry import (
    AUTO,
    LEARNED,
    Geometry,
    Learned,
    choose_metric,
    name_of,
    reading_geometry,
)
from dkmeans.growth.rules import Continuation, FirstMetric, Rules
from dkmeans.growth.run import Run, Start
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.prototypes import Prototypes
from dkmeans.results.fit_record import Clock
from dkmeans.runners.checkpoint import Journal
from dkmeans.sources import growth_rows, out_of_core

# Parameters that do not change the result: a checkpoint can be resumed with other values.
_NOT_IN_CHECKPOINTS = {"n_threads", "memory_mb", "disk_mb", "verbose", "checkpoint", "warm_start"}
_GUESSED_SHARE = 0.02  # of the rows that become prototypes, without a number: to choose kernels


@dataclass(frozen=True, kw_only=True)
class PreparedFit:
    """A fit with checked parameters and data, ready to run."""

    training: validation.Training
    source: growth_rows.Source
    rules: Rules
    how: Continuation
    before: Fitted | None  # the model that it continues
    start: Start | None
    search: bool  # whether the number of clusters is still to be chosen
    can_end_search: bool  # not with a checkpoint, as resuming has to repeat the same passes
    # Sums weights by cell, where the cells of rows do not leave the workers of a cluster.
    sum_cells: Callable[[int], Floats] | None
    # Finds the conflicts again, for Dask collections, whose conflicts are lazy; given the learned
    # metric in which rows were compared, if any.
    find_conflicts: Callable[[Geometry | None], list[Indices]] | None
    clock: Clock

    def run(self, n_clusters: int | None = None, tried: Geometry | None = None) -> Run:
        """Set up a run on all rows.

        Parameters
        ----------
        n_clusters : int, optional
            The number of clusters, if it was chosen.
        tried : Geometry, optional
            That in which it was chosen. "auto" means the same metric now.
        """
        rules = self.rules
        if n_clusters is not None:
            rules = replace(rules, max_clusters=n_clusters)
            self.source.rows.expect(n_clusters)
        if tried is not None and rules.first_metric is not None:
            if isinstance(tried, Learned):
                first = replace(rules.first_metric, or_euclidean=False)
                rules = replace(rules, first_metric=first)
            else:
                self.source.rows.map_rows(tried)
                rules = replace(rules, geometry=tried, first_metric=None)
        tree = None if self.before is None else self.before.tree_log(self.training.classes)
        lazy = self.find_conflicts is not None
        return Run(self.source.rows, rules, self.start, tree, lazy_conflicts=lazy)

    def predictor(self, prototypes: Prototypes, geometry: Geometry) -> Predictor:
        """Make a model of prototypes during the fit."""
        return Predictor(
            prototypes=prototypes,
            classes=self.training.classes,
            geometry=geometry,
            n_features=self.training.names["n_features_in_"],
            feature_names=self.training.names.get("feature_names_in_"),
        )


@contextmanager
def prepare(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    how: Continuation = Continuation.FRESH,
    classes: Any = None,
    clock: Clock | None = None,
) -> Iterator[PreparedFit]:
    """Check everything, and read the data.

    The clock, which has started with the fit, is set forward if the fit is resumed.

    At the end of the block, rows on a cluster are released, and the checkpoint is removed, or
    written once more after Ctrl-C.
    """
    arguments.check_parameters(estimator.get_params(deep=False))
    clock = Clock() if clock is None else clock
    before: Fitted | None = None if how.is_fresh else estimator._fitted
    with ExitStack() as ending:
        journal = _open_journal(estimator, clock)
        if journal is not None:
            ending.enter_context(journal)
        training, stream, sum_cells = _read(estimator, X, y, sample_weight, how, classes, ending)
        if before is not None and how is Continuation.REFINE:
            validation.check_known_classes(before.classes, training.classes)
        start = None if before is None else _start(estimator, before, training, how)
        if journal is not None:
            journal.expect("classes", repr(training.classes.tolist()))
            journal.expect("prototypes to go on from", _digest(how, start))
        budget = estimator.max_clusters
        earlier = None if before is None else before.geometry
        metric = choose_metric(estimator.metric, training.names["n_features_in_"], earlier)
        source = growth_rows.make_source(
            training,
            stream,
            estimator.n_threads,
            estimator.memory_mb,
            unit=None if before is None else before.weight_unit,
            earlier=(
                start.earlier_rows if start is not None and how is Continuation.NEW_ROWS else None
            ),
            n_centers=(
                int(budget)
                if isinstance(budget, numbers.Integral)
                else max(1, int(_GUESSED_SHARE * training.n_rows))
            ),
            journal=journal,
            learned=_learned_start(estimator, metric, earlier, training, how),
            lazy_conflicts=is_dask(X),
        )
        ending.callback(source.rows.close)
        yield PreparedFit(
            training=training,
            source=source,
            rules=_rules(estimator, training, source, how, before),
            how=how,
            before=before,
            start=start,
            search=budget == "auto" and before is None,
            can_end_search=journal is None,
            sum_cells=sum_cells,
            find_conflicts=(
                partial(
                    _find_conflicts,
                    _before(estimator, how),
                    X,
                    y,
                    sample_weight,
                    how,
                    classes,
                )
                if is_dask(X)
                else None
            ),
            clock=clock,
        )


def _before(estimator: Any, how: Continuation) -> Any:
    """Return a copy of the estimator before the fit, as far as reading the data needs it."""
    if how.is_fresh:
        return type(estimator)(**estimator.get_params(deep=False))
    return copy(estimator)  # without anything lazy


def _find_conflicts(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    how: Continuation,
    classes: Any,
    geometry: Geometry | None,
) -> list[Indices]:
    """Read Dask collections again as a fit did, and return their conflicts."""
    with single_threaded_blas, ExitStack() as ending:
        training, stream, _ = _read(estimator, X, y, sample_weight, how, classes, ending)
        unit = None if how.is_fresh else estimator._fitted.weight_unit
        place = estimator.n_threads, estimator.memory_mb
        return growth_rows.find_conflicts(training, stream, *place, unit, geometry)


def _read(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    how: Continuation,
    classes: Any,
    ending: ExitStack,
) -> tuple[validation.Training, growth_rows.RowSource | None, Callable[[int], Floats] | None]:
    """Check the data; the other values stand for rows that are not in this process's memory."""
    push = 1.0 if estimator.repulsion == "size" else estimator.repulsion
    options = {
        "reach": 1 + 2 * push,
        "how": how,
        "classes": classes,
    }
    stream: Any
    if is_dask(X):
        partitions = DaskBlocks(X, y, sample_weight)
        client = None
        if find_spec("distributed") is not None:
            from dkmeans.sources.dask_cluster import active_client, scan_partitions

            client = active_client()
        if client is not None:
            stream = scan_partitions(estimator, client, partitions, ending, **options)
            return stream.training, stream, stream.sum_cells
        stream = out_of_core.scan_blocks(estimator, partitions, ending, **options)
        return stream.training, stream, None
    blocks = out_of_core.open_blocks(X, y, sample_weight, estimator.memory_mb)
    if blocks is not None:
        stream = out_of_core.scan_blocks(estimator, blocks, ending, **options)
        return stream.training, stream, None
    return validation.check_training(estimator, X, y, sample_weight, **options), None, None


def _start(
    estimator: Any, before: Fitted, training: validation.Training, how: Continuation
) -> Start:
    """Return the prototypes to start from, with what they remember of earlier rows."""
    earlier = before.earlier_rows.recoded(np.searchsorted(training.classes, before.classes))
    if how is Continuation.NEW_ROWS and estimator.half_life is not None:
        earlier = earlier.forgetting(0.5 ** (training.total_weight / estimator.half_life))
    return Start(before.prototypes_among(training.classes), earlier)


def _rules(
    estimator: Any,
    training: validation.Training,
    source: growth_rows.Source,
    how: Continuation,
    before: Fitted | None,
) -> Rules:
    """Translate parameters into the rules of the algorithm."""
    min_weights = None
    if estimator.min_cluster_size is not None:
        # The tolerance lets ten weights of 0.1 make a size of 1.
        size = estimator.min_cluster_size / source.weight_unit * (1 - 1e-10)
        min_weights = size * training.factors
    max_clusters = estimator.max_clusters
    if max_clusters == "auto":
        # Earlier rows cannot be held out any more: continuing keeps the number once chosen.
        max_clusters = None if before is None else max(before.n_clusters, training.n_classes)
    is_learned = source.learned is not None
    return Rules(
        estimator.repulsion,
        max_clusters,
        estimator.max_iter,
        min_weights,
        estimator.prune,
        growth=estimator.growth,
        refine=_refinement(estimator, is_learned, how),
        geometry=source.learned or reading_geometry(estimator.metric),
        continuation=how,
        first_metric=_first_metric(estimator, training) if is_learned and before is None else None,
    )


def _first_metric(estimator: Any, training: validation.Training) -> FirstMetric:
    """Return how the metric is found; what was asked for cannot be had without learning one."""
    is_free = (
        estimator.metric == AUTO
        and estimator.n_components is None
        and estimator.refine is not None
        and training.allows_euclidean
    )
    return FirstMetric(estimator.n_components, or_euclidean=is_free)


def _refinement(estimator: Any, is_learned: bool, how: Continuation) -> str | None:
    """Return the name of the refinement; a metric is learned by refinement, too."""
    if how is Continuation.NEW_ROWS:  # refinement needs all rows
        return None
    return "margin" if is_learned else estimator.refine


def _learned_start(
    estimator: Any,
    metric: str,
    earlier: Geometry | None,
    training: validation.Training,
    how: Continuation,
) -> growth_rows.LearnedStart | None:
    """Return how the metric is learned, if it is; a fit that continues keeps it."""
    learned = earlier if isinstance(earlier, Learned) else None
    if earlier is not None and (metric == LEARNED) != (learned is not None):
        raise ValueError(
            f"metric={estimator.metric!r} cannot continue a fit with metric={name_of(earlier)!r}, "
            "as their prototypes are points of different spaces: fit anew, with warm_start=False."
        )
    if metric != LEARNED:
        return None
    or_euclidean = estimator.metric == AUTO and training.allows_euclidean
    return growth_rows.LearnedStart(
        estimator.n_components,
        learned,
        or_euclidean,
        plain_if_few=(
            how is Continuation.FIRST_ROWS and or_euclidean and estimator.n_components is None
        ),
        hold_out=estimator.max_clusters == "auto",
    )


def _open_journal(estimator: Any, clock: Clock) -> Journal | None:
    """Open the checkpoint, if there is one."""
    if estimator.checkpoint is None:
        return None
    params = estimator.get_params(deep=False)
    chosen = {n: repr(value) for n, value in params.items() if n not in _NOT_IN_CHECKPOINTS}
    journal = Journal(estimator.checkpoint, clock)
    journal.expect("parameters", json.dumps(chosen, sort_keys=True))
    return journal


def _digest(how: Continuation, start: Start | None) -> str:
    """Hash what a fit starts from."""
    digest = hashlib.sha256(how.value.encode())
    if start is not None:
        for part in (
            start.prototypes.centers,
            start.prototypes.ids,
            *dense(start.earlier_rows.sums),
        ):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
