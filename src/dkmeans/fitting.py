"""From an estimator's parameters and a user's data to a run, and from a run to fitted attributes.

Nothing here changes the estimator: what comes out is for it to take over, all at once.
"""

import hashlib
import json
import numbers
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans import journey, progress
from dkmeans.checkpoint.journal import Journal
from dkmeans.data import engine_rows, out_of_core, validation
from dkmeans.data.dask_collections import DaskBlocks, is_dask
from dkmeans.engine.cells import Rules
from dkmeans.engine.choose import Choice, attempt, choose
from dkmeans.engine.edit import Edited
from dkmeans.engine.grow import grow
from dkmeans.engine.heldout import hold_out
from dkmeans.engine.margins import Pass
from dkmeans.engine.path import Trail, follow
from dkmeans.engine.run import Run, Start, State
from dkmeans.geometry import geometry_of
from dkmeans.kernels.tally import exact_totals
from dkmeans.model.changes import describe_changes
from dkmeans.model.history import History
from dkmeans.model.prototypes import Prototypes
from dkmeans.model.tree import TreeLog

How: TypeAlias = Literal["afresh", "again", "on"]  # from one cluster; all rows; new rows only


@dataclass(frozen=True)
class Fit:
    """A fit that is ready to run."""

    training: validation.Training
    source: engine_rows.Source
    run: Run
    choice: Choice | None = None  # of the number of clusters, if it was left to us


@contextmanager
def prepare(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    how: How = "afresh",
    classes: Any = None,
    audience: Sequence[progress.Listener] = (),
) -> Iterator[Fit]:
    """Check everything, choose the number of clusters if that is asked for, and set up a run.

    At the end of the block, whichever way it ends, rows on a cluster are released. The checkpoint
    is removed, or written once more after Ctrl-C.
    """
    with ExitStack() as ending:
        yield _prepare(estimator, X, y, sample_weight, how, classes, audience, ending)


def _prepare(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    how: How,
    classes: Any,
    audience: Sequence[progress.Listener],
    ending: ExitStack,
) -> Fit:
    validation.check_parameters(estimator.get_params(deep=False))
    journal = _journal(estimator)
    if journal is not None:
        ending.enter_context(journal)
    push = 1.0 if estimator.repulsion == "size" else estimator.repulsion
    about = {"reach": 1 + 2 * push, "afresh": how == "afresh", "classes": classes}
    stream = _stream(estimator, X, y, sample_weight, about, ending)
    if stream is None:
        training = validation.check_training(estimator, X, y, sample_weight, **about)
    else:
        training = stream.training
    start, tree, unit, remembered = None, None, None, None
    if how != "afresh":
        memory = estimator._memory.recoded(np.searchsorted(training.classes, estimator.classes_))
        if how == "on":
            if estimator.half_life is not None:
                memory = memory.forgetting(0.5 ** (_weight(training) / estimator.half_life))
            remembered = memory
        start = Start(prototypes(estimator, training.classes), memory, only_new=how == "on")
        tree = _log(estimator, training.classes)
        unit = estimator._weight_unit
    if journal is not None:
        journal.expect("classes", repr(training.classes.tolist()))
        journal.expect("prototypes to go on from", _digest(how, start))
    budget = estimator.max_clusters
    source = engine_rows.make_source(
        training,
        stream,
        estimator.n_threads,
        estimator.memory_mb,
        unit,
        remembered,
        n_centers=int(budget) if isinstance(budget, numbers.Integral) else 1,
        journal=journal,
    )
    least = None
    if estimator.min_cluster_size is not None:
        # The tolerance lets ten weights of 0.1 make a size of 1.
        size = estimator.min_cluster_size / source.weight_unit * (1 - 1e-10)
        least = size * training.factors
    auto = budget == "auto"
    rules = Rules(
        estimator.repulsion,
        None if auto else estimator.max_clusters,
        estimator.max_iter,
        least,
        estimator.prune,
        best=estimator.growth == "best",
        refine=estimator.refine == "margin" and how != "on",
        geometry=geometry_of(estimator.metric),
        make_way=how == "on",
    )
    choice = None
    if auto and start is None:
        choice = _choose(training, source, rules, audience)
        rules = replace(rules, max_clusters=choice.n_clusters)
    elif auto:
        # Earlier rows cannot be held out any more: going on keeps to the number once chosen.
        many = max(estimator.n_clusters_, training.n_classes)
        rules = replace(rules, max_clusters=many)
    return Fit(training, source, Run(source.rows, rules, start, tree), choice)


def _weight(training: validation.Training) -> float:
    """Add up the weights of all rows: a weight of 3 is the row three times."""
    everyone = np.zeros(len(training.y), dtype=np.intp)
    return float(exact_totals(everyone, training.sample_weight, 1)[0])


def _journal(estimator: Any) -> Journal | None:
    """Open the checkpoint of a fit, if there is to be one."""
    if estimator.checkpoint is None:
        return None
    own = {
        "n_threads",
        "memory_mb",
        "verbose",
        "checkpoint",
        "warm_start",
    }  # which do not change the result
    params = estimator.get_params(deep=False)
    chosen = {name: repr(value) for name, value in params.items() if name not in own}
    journal = Journal(estimator.checkpoint)
    journal.expect("parameters", json.dumps(chosen, sort_keys=True))
    return journal


def _digest(how: How, start: Start | None) -> str:
    """Tell where a fit starts from, in short."""
    digest = hashlib.sha256(how.encode())
    if start is not None:
        for part in (start.prototypes.centers, start.prototypes.ids, *start.memory.sums):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _stream(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    about: dict[str, Any],
    ending: ExitStack,
) -> Any:
    """Look through data that is not in the memory of this process; None if it is."""
    if is_dask(X):
        partitions = DaskBlocks(X, y, sample_weight)
        if find_spec("distributed") is not None:
            from dkmeans.cluster.source import active_client, look_at_partitions

            client = active_client()
            if client is not None:
                return look_at_partitions(estimator, client, partitions, ending, **about)
        return out_of_core.scan_blocks(estimator, partitions, **about)
    blocks = out_of_core.open_blocks(X, y, sample_weight, estimator.memory_mb)
    return None if blocks is None else out_of_core.scan_blocks(estimator, blocks, **about)


def complete(
    estimator: Any, fit: Fit, audience: Sequence[progress.Listener] = ()
) -> dict[str, Any]:
    """Run a fit to its end, or to where a listener ends it, and put together what is fitted."""
    records: list[dict[str, Any]] = []
    budget = fit.run.rules.max_clusters

    def told() -> Iterator[State | Pass]:
        for state in grow(fit.run):
            yield state
            if state.round:
                records.append(state.record(fit.source.weight_unit))
                step = progress.Step(records[-1], state.prototypes, budget)
                if progress.tell(audience, step):
                    return

    states = follow(fit.run, told())
    while True:
        try:
            latest = next(states)
        except StopIteration as ended:
            trail = ended.value
            break
        if isinstance(latest, State):
            state = latest
    # Passes of refinement that was ended half-way have no part in the result.
    history = History.from_records([r for r in records if r["round"] <= state.round])
    return _results(estimator, fit, state, history, trail)


def _choose(
    training: validation.Training,
    source: engine_rows.Source,
    rules: Rules,
    audience: Sequence[progress.Listener],
) -> Choice:
    rows = source.rows
    hashes, (_, y, weights) = rows.hashes(), rows.labelled()
    n_classes = len(np.unique(y if weights is None else y[weights > 0]))

    def tell(record: dict[str, Any], prototypes: Prototypes) -> None:
        progress.tell(audience, progress.Step(record, prototypes, is_trial=True))

    attempts, weight = [], 0.0
    for part in hold_out(hashes, y, weights, len(training.classes)):
        # Half as many prototypes as rows would be no summary of them.
        most = max(n_classes, part.n_left // 2)
        others = rows.without(hashes, part.lowest, part.highest)
        run = Run(others, replace(rules, max_clusters=most))
        attempts.append(attempt(run, part, source.weight_unit, n_classes, tell))
        weight += part.weight
    return choose(attempts, weight, n_classes)


def _results(
    estimator: Any, fit: Fit, state: State, history: History, trail: Trail
) -> dict[str, Any]:
    training, source, run = fit.training, fit.source, fit.run
    now = state.prototypes
    source.rows.label_all(now)
    labels = source.rows.cells()
    conflicts = source.conflicts + run.conflicts
    relabelled = np.empty(0, dtype=np.intp)
    if conflicts:  # such a row must not stand for a class that it was not given
        relabelled = np.flatnonzero(source.rows.labelled()[1] != training.y)
    exemplars = source.rows.exemplars(now, relabelled)
    memory = run.remembers(state)
    tree = run.tree.to_tree(training.classes)
    if state.memory is None:
        sizes = exact_totals(labels, training.sample_weight, len(now))
    else:
        sizes = journey.sizes(training, source.weight_unit, now, memory)
    before = prototypes(estimator, estimator.classes_) if run.start is not None else None
    if fit.choice is not None:
        path, way = journey.tried(fit.choice, trail, training, source.weight_unit)
    else:
        path, way = journey.taken(trail, history, run.tree, training, source.weight_unit)
    return {
        "cluster_centers_": now.centers,
        "cluster_classes_": training.classes[now.classes],
        "cluster_sizes_": sizes,
        "cluster_ids_": now.ids,
        "exemplars_": exemplars,
        "labels_": labels,
        "classes_": training.classes,
        "n_clusters_": len(now),
        "n_iter_": state.round,
        "converged_": run.converged,
        "inertia_": state.inertia * source.weight_unit,
        "conflicts_": conflicts,
        "history_": history,
        "path_": path,
        "tree_": tree,
        "changes_": describe_changes(before, now, tree, run.tree.call),
        "_memory": memory,
        "_weight_unit": source.weight_unit,
        "_journey": way,
        "_row_classes": None if run.start is not None and run.start.only_new else _small(training),
        **training.names,
    }


def _small(
    training: validation.Training,
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.float64]]:
    """Keep the classes of rows, in as few bytes as will do, and the weights of classes."""
    return training.y.astype(np.min_scalar_type(len(training.classes))), training.factors


def usable(fit: Fit, now: Prototypes) -> dict[str, Any]:
    """Put together what prediction needs, for prototypes on the way of a fit."""
    return {
        "cluster_centers_": now.centers,
        "cluster_classes_": fit.training.classes[now.classes],
        "cluster_ids_": now.ids,
        "classes_": fit.training.classes,
        "n_clusters_": len(now),
        **fit.training.names,
    }


def edited(estimator: Any, change: Callable[..., Edited], *arguments: Any) -> dict[str, Any]:
    """Apply a change by hand, and put together all fitted attributes that still hold."""
    before = prototypes(estimator, estimator.classes_)
    after, memory, sizes = change(before, estimator._memory, estimator.cluster_sizes_, *arguments)
    centers = geometry_of(estimator.metric).centers(after.centers, before.centers.dtype)
    after = replace(after, centers=centers)
    log = _log(estimator, estimator.classes_)
    log.end(np.setdiff1d(before.ids, after.ids), 0)
    was = np.flatnonzero(np.isin(before.ids, after.ids))  # both are in the order (class, id)
    stays = (before.centers[was] == after.centers).all(axis=1)
    tree = log.to_tree(estimator.classes_)
    of_rows = ("labels_", "inertia_", "conflicts_", "path_", "rejection_")
    kept = {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and name not in of_rows
    }
    return kept | {
        "cluster_centers_": after.centers,
        "cluster_classes_": estimator.classes_[after.classes],
        "cluster_sizes_": sizes,
        "cluster_ids_": after.ids,
        "exemplars_": np.where(stays, estimator.exemplars_[was], -1),
        "n_clusters_": len(after),
        "converged_": False,
        "tree_": tree,
        "changes_": describe_changes(before, after, tree, log.call),
        "_memory": memory,
        "_journey": None,
        "_row_classes": None,
    }


def prototypes(estimator: Any, classes: npt.NDArray[Any]) -> Prototypes:
    """Take the prototypes of a fitted estimator, with the numbers that its classes have here."""
    codes = np.asarray(np.searchsorted(classes, estimator.cluster_classes_))
    return Prototypes(estimator.cluster_centers_, codes, estimator.cluster_ids_)


def _log(estimator: Any, classes: npt.NDArray[Any]) -> TreeLog:
    return TreeLog(estimator.tree_, np.asarray(np.searchsorted(classes, estimator.tree_.label)))


def purities(estimator: Any) -> npt.NDArray[np.float64]:
    """Tell what share of each prototype's rows, as it remembers them, is of its own class."""
    memory, now = estimator._memory, prototypes(estimator, estimator.classes_)
    cells, weights = memory.cells(now), memory.weights[0]
    own = memory.classes == now.classes[cells]
    whole = np.bincount(cells, weights, len(now))
    mine = np.bincount(cells, weights * own, len(now))
    return np.divide(mine, whole, out=np.full(len(now), np.nan), where=whole > 0)


def strays(estimator: Any) -> npt.NDArray[np.float64]:
    """Tell what share of each class's rows (line) lies in cells of each class (column)."""
    memory, now = estimator._memory, prototypes(estimator, estimator.classes_)
    shares = np.zeros((len(estimator.classes_),) * 2)
    np.add.at(shares, (memory.classes, now.classes[memory.cells(now)]), memory.weights[0])
    whole = shares.sum(axis=1, keepdims=True)
    return np.divide(shares, whole, out=np.zeros_like(shares), where=whole > 0)
