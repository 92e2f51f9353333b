"""Passes: what they return does not depend on how rows are cut into parts, and can be replayed."""

import io
import itertools
import pickle
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from parted import parts_of

from dkmeans.exact.grids import Grids, Scale
from dkmeans.exact.group_sums import GroupSums
from dkmeans.exact.sparse_sums import SparseSums
from dkmeans.geometry import Euclidean, Learned
from dkmeans.kernels.rowhash import hash_rows
from dkmeans.passes import (
    assignment,
    facts,
    feature_bins,
    features,
    gradient,
    grouping,
    margin_search,
    margin_sums,
    metric_gradient,
    pruning,
    row_labels,
    sampling,
    search,
)
from dkmeans.passes.batch import Batch
from dkmeans.passes.contract import Effect, Pass
from dkmeans.passes.part import Setting
from dkmeans.passes.results import Pieces
from dkmeans.passes.robust_margin import RobustCost
from dkmeans.passes.row_state import RowState
from dkmeans.prototypes import Prototypes
from dkmeans.runners.disk_budget import DiskBudget
from dkmeans.runners.encoding import encode
from dkmeans.runners.local import LocalRunner
from dkmeans.runners.merging import MERGE_BATCH, merge_all, n_bytes
from dkmeans.runners.replay import ReplayLog
from dkmeans.runners.shelf import Shelf
from dkmeans.runners.sweep import SweepRunner

N, N_CLASSES = 120, 3
CUTS = {1: [], 2: [50], 5: [1, 30, 31, 90]}


@pytest.fixture(scope="module", params=["array", "CSR", "weights"])
def data(request):
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, N)
    X = np.round(rng.normal(size=(N, 3)) + y[:, None], 1)  # with ties
    X[40:44], X[100:104] = X[:4], 0.0
    weights = rng.integers(0, 4, N).astype(float) if request.param == "weights" else None
    return sp.csr_array(X) if request.param == "CSR" else X, y, weights


def every_task(X, y, setting):
    """List passes of all kinds, with arguments, in an order in which they can run."""
    dense = X.toarray() if sp.issparse(X) else X
    one = Prototypes(dense[:3] + 0.1, np.array([0, 1, 2]), np.arange(3))
    two = Prototypes(dense[[0, 40, 5, 9]], np.array([0, 1, 1, 2]), np.arange(4))
    codes = np.array([0, 1, 4, 8])
    unit = setting.scale.units(4.0)
    some = np.array([3, 4, 40, 90, 119])
    yield from (facts.FindFacts(), facts.FindWeightFacts(None), facts.SumWeights(unit))
    yield from (facts.FindBox(), grouping.SumAll(), grouping.SumClasses(), row_labels.DigestRows())
    yield from (gather_all(), sampling.RowHashes(np.ones(3)), sampling.FindWrong(one))
    yield facts.MeasureSpread(dense[:1])
    yield assignment.Gather(dense[5:6])
    yield facts.SumSpread(setting.scale.units(100.0))
    yield assignment.Assign(one, np.array([1]))
    yield row_labels.Relabel(some[::-1].copy(), np.array([2, 2, 0, 0, 1]))
    yield row_labels.RestoreClasses()
    yield row_labels.Relabel(some, np.array([0, 1, 2, 0, 1]))
    yield from (
        row_labels.WeighErrors(one.classes, setting.grids.weights()),
        row_labels.RowValues(some),
    )
    yield from (
        grouping.SumCells(),
        grouping.SumSquares(setting.grids.squares(100.0)),
        row_labels.FindStrays(one.classes),
    )
    yield assignment.Assign(two, np.array([0, 2, -1]), changes_only=True)
    yield from (row_labels.WeighOverlaps(two), row_labels.FindOverlaps(two, np.arange(12)))
    yield from (row_labels.RowCells(), row_labels.RowWeights())
    yield row_labels.FindRows(np.unique(hash_rows(X)[some]))
    for farthest in (False, True):
        yield search.PickRows(codes, dense[[7, 8, 9, 10]], farthest, dense[[0, 40, 5, 9]])
    yield search.PickRows(codes[:0], dense[:0])
    yield from (search.FindExemplars(two), grouping.SumSides(codes, dense[:4], dense[4:8]))
    yield margin_search.FindMargins(one, 1)
    yield margin_sums.SumPaid(1, 5.0, unit)
    yield margin_sums.SumCosts(1, 5.0, margin_sums.RowCost.ERROR, unit)
    yield from (margin_sums.CountMoved((1,), None), margin_sums.CountLosses(1, one.classes))
    yield margin_sums.FindExtremes(1, np.arange(3))
    yield assignment.KeepCells()
    yield assignment.AssignOwn(one)
    yield assignment.AssignOwn(replace(one, centers=dense[2:5]), changes_only=True)
    yield margin_sums.SumWon(1, one.classes, np.array([True, False, True]))
    yield margin_search.FindMargins(replace(one, centers=dense[2:5]), 2)
    yield margin_sums.CountMoved((2,), (1,))
    yield assignment.RestoreCells()
    yield assignment.Assign(one, np.array([2, -1, 1, 0]), margins=1)
    yield margin_search.FindMargins(two, 3, drop=(1, 2))
    yield margin_sums.BoundInertia((3,))
    yield from (margin_sums.SumInertia((3,), unit), margin_sums.SumWinnerWeights((3,), unit))
    yield from refinement_tasks(dense, two, setting)
    yield from (margin_sums.SumSharesByMargin(3, 5.0, 64), margin_sums.FindWorst(3, 1, 7))
    yield from (pruning.TryWithout(one, 0, np.array([1, 2])), pruning.Inherit())
    yield pruning.TryWithout(one, 1, np.array([2]))
    yield assignment.Rename(np.array([0, -1, 1]))
    yield assignment.LabelLost(one.take(np.array([0, 2])))
    yield search.FindExemplars(one.take(np.array([0, 2])))
    yield assignment.LeaveCells()
    edges = np.array([[-0.5, 0.0, 0.5]] * 3)
    yield feature_bins.CountBins(dense.mean(axis=0), dense.std(axis=0), edges, 2.0**-8)
    yield from (row_labels.RowClassDistances(two), row_labels.GivenClasses())
    yield features.SumMoments(np.array([0.0, -99.0, 0.0]), np.full(3, 2.0**-8), unit)
    yield features.SumProducts(np.array([0.0, 1.0, 0.0]), np.array([3.0, 0.5, 0.0]), 1.0)


def refinement_tasks(dense, prototypes, setting):
    """List passes of refinement, which find margins 4 to 7; those of number 3 are known."""
    cost = RobustCost(10.0, 0.02, 3, 0.01)
    one, columns = setting.scale.units(1e3), setting.scale.units(np.full(3, 1e3))
    units = gradient.GradientUnits(one, one, one, columns, one)
    learned = Learned.of_features(
        dense.mean(axis=0),
        dense.std(axis=0),
        dense.min(axis=0),
        dense.max(axis=0),
        np.eye(3)[:, :2],
    )
    projected = replace(prototypes, centers=learned.rows(prototypes.centers))
    yield gradient.KeepHashes(np.abs(dense).max(axis=0), Euclidean())
    yield gradient.SumRobustPaid(3, prototypes.centers, cost, units.ones)
    yield from (gradient.BoundNear(3), gradient.SumNear(3, units.ones))
    for number, batch in ((4, 0), (5, 1)):
        find = margin_search.FindMargins(prototypes, number, batch=Batch(batch, 2, 7))
        yield gradient.SumGradient(find, cost, cost.at(40.0), np.ones(3), units)
    yield from (margin_sums.CountMoved((4, 5), (3,)), margin_sums.BoundInertia((5, 4)))
    yield metric_gradient.FindReach(learned)
    yield metric_gradient.BoundRowGradients(3, prototypes.centers, cost)
    for number, batch in ((6, 0), (7, 1)):
        find = margin_search.FindMargins(projected, number, (number - 2,), Batch(batch, 2, 7))
        few = replace(units, points=columns[:, :2])
        yield metric_gradient.SumMetricGradient(find, learned, cost, cost.at(40.0), few, 30.0)
    yield margin_sums.SumWinnerWeights((7, 6), units.ones)


def gather_all():
    return sampling.GatherHashes(np.ones(3), np.full(N_CLASSES, 2**64 - 1, dtype=np.uint64))


def prepared(data, cuts):
    """Return a runner over parts that know all that passes need."""
    X, y, weights = data
    runner = LocalRunner(parts_of(X, y, weights, N_CLASSES, cuts))
    found = runner.run(facts.FindFacts())
    grids = Grids.of(found, X.dtype, None)
    setting = Setting(False, 3, 8, 3, found.n_terms, grids, Scale(True, 1000))
    runner.configure(setting)
    return runner, setting


def plain(result):
    """Return a result as something that can be compared with ==."""
    arrays = {}
    value = encode(result.joined() if isinstance(result, Pieces) else result, arrays)
    return value, {name: (str(a.dtype), a.tolist()) for name, a in arrays.items()}


class ArrayWalk(pickle.Pickler):
    """Calls a function on all arrays in a value."""

    def __init__(self, function):
        super().__init__(io.BytesIO())
        self._function = function

    def persistent_id(self, obj):
        return self._function(obj) if isinstance(obj, np.ndarray) else None


def frozen(state):
    """Forbid to write to the arrays of a state."""
    walk = ArrayWalk(lambda array: array.setflags(write=False) or 0)
    walk.dump(replace(state, lazy_margins=margins_of(state)))
    return state


def contents(state):
    """List all arrays of a state but the cache of an order."""
    found = []
    walk = ArrayWalk(lambda array: found.append(array.tolist()) or len(found))
    walk.dump(replace(state, by_class=None, lazy_margins=margins_of(state)))
    return found


def margins_of(state):
    return {number: lazy.get() for number, lazy in state.lazy_margins.items()}


def visit(task, part, state):
    """Visit a part, without rows where they are not needed."""
    part = part if task.needs_rows else part.with_rows(None)
    after, result = task.visit(part, frozen(state))
    if task.effect is Effect.NONE and not isinstance(task, facts.SumSpread):
        assert after is state
    return after, result


def regrouped(task, results, rng):
    """Merge in a random order and grouping."""
    results = [results[i] for i in rng.permutation(len(results))]
    while len(results) > 1:
        count = int(rng.integers(2, len(results) + 1))
        results = [*results[count:], task.merge(results[:count])]
    return task.merge(results)


def test_results_do_not_depend_on_the_parts(data):
    rng, found = np.random.default_rng(1), {}
    for n_parts, cuts in CUTS.items():
        runner, setting = prepared(data, cuts)
        parts, states = runner.parts, [RowState.start(part.given) for part in runner.parts]
        found[n_parts] = []
        for task in every_task(*data[:2], setting):
            visits = [visit(task, *pair) for pair in zip(parts, states, strict=True)]
            states, results = [state for state, _ in visits], [result for _, result in visits]
            merged = plain(task.merge(results))
            for _ in range(3):
                assert plain(regrouped(task, results, rng)) == merged, task
            found[n_parts].append((type(task).__name__, merged))
        lowest, highest = np.array([[2**60, 2**62, 0], [2**63, 2**64 - 1, 2**62]], np.uint64)
        for derivation in (
            sampling.HoldOut(np.ones(3), lowest, highest),
            sampling.Draw(np.ones(3), lowest, highest, np.array([1.0, 0.5, 1.0])),
        ):
            derived = [derivation.derive(*pair) for pair in zip(parts, states, strict=True)]
            results = [visit(gather_all(), *pair)[1] for pair in derived]
            merged = plain(gather_all().merge(results))
            assert plain(regrouped(gather_all(), results, rng)) == merged
            found[n_parts].append((type(derivation).__name__, merged))
    for one, two, five in zip(*found.values(), strict=True):
        assert one == two == five


def test_all_passes_are_tested(data):
    def concrete(kind):
        return {k for s in kind.__subclasses__() for k in concrete(s)} or {kind}

    _, setting = prepared(data, [])
    tested = {type(task) for task in every_task(*data[:2], setting)}
    assert tested == {kind for kind in concrete(Pass) if kind.__module__.startswith("dkmeans.")}


@pytest.mark.parametrize("n_results", [1, 2, MERGE_BATCH, MERGE_BATCH + 1, 5 * MERGE_BATCH])
def test_results_are_merged_in_batches(n_results):
    most = 0

    class Count(facts.SumWeights):
        def merge(self, results):
            nonlocal most
            most = max(most, len(results))
            return super().merge(results)

    terms = (np.full(2, 1.0) for _ in range(n_results))
    assert merge_all(Count(np.ones(1)), terms).tolist() == [n_results] * 2
    assert most <= MERGE_BATCH


def test_all_arrays_of_a_result_count():
    dense = GroupSums(np.arange(30), np.ones((2, 30)), np.zeros((2, 30, 50)), np.ones((1, 30)))
    sparse = replace(dense, sums=SparseSums.of_dense(dense.sums + 1.0))
    assert n_bytes(np.ones(7)) == 56
    assert n_bytes(dense) == 240 + 480 + 24_000 + 240
    assert n_bytes(sparse) == 960 + sparse.sums.nbytes
    assert n_bytes(assignment.Assigned(dense, 5, 1.0)) == n_bytes(dense)
    assert n_bytes([dense, sparse, None]) == n_bytes(dense) + n_bytes(sparse)


def test_the_log_rebuilds_the_state_at_any_moment(data):
    """In memory and block by block, where one sweep is enough."""
    X = data[0]
    runner, setting = prepared(data, CUTS[5])
    log, reads = ReplayLog(), []
    ends = [0, *CUTS[5], N]

    def read():
        reads.append(0)
        return nullcontext(X[a:b] for a, b in itertools.pairwise(ends))

    for task in every_task(*data[:2], setting):
        runner.run(task)
        log.add(task)
        other, _ = prepared(data, CUTS[5])
        other.replay(log.tasks())
        expected = [contents(state) for state in runner.states]
        assert [contents(state) for state in other.states] == expected, task
        parts = [(p.with_rows(None), RowState.start(p.given)) for p in runner.parts]
        sweep, before = SweepRunner(parts, read, Shelf(0, DiskBudget(1 << 30))), len(reads)
        sweep.configure(setting)
        sweep.replay(log.tasks())
        assert len(reads) - before <= 1
        found = [s.visit(lambda _, s: (s, contents(s)), setting, None) for s in sweep._parts]
        assert found == expected, task
        sweep.close()


def test_the_log_stays_short(data):
    dense = data[0].toarray() if sp.issparse(data[0]) else data[0]
    prototypes = Prototypes(dense[:3], np.arange(3), np.arange(3))
    log, same = ReplayLog(), np.arange(3)
    relabel = row_labels.Relabel(np.array([0]), np.array([1]))
    log.add(relabel)
    for number in range(20):
        log.add(assignment.KeepCells())
        log.add(assignment.AssignOwn(prototypes))
        log.add(margin_search.FindMargins(prototypes, number + 1, (number,)))
        log.add(assignment.RestoreCells())
        log.add(assignment.Assign(prototypes, same))
        log.add(assignment.Rename(same))
        log.add(facts.MeasureSpread(dense[:1]))
        log.add(facts.SumSpread(np.ones(1)))
        log.add(grouping.SumCells())
    assert [type(task).__name__ for task in log.tasks()] == [
        "Relabel",
        "Assign",
        "Rename",
        "FindMargins",
        "Assign",
        "Rename",
    ]
    assert log.tasks()[0] is relabel


def test_the_log_has_one_of_passes_that_set_new_labels(data):
    dense = data[0].toarray() if sp.issparse(data[0]) else data[0]
    prototypes = Prototypes(dense[:3], np.arange(3), np.arange(3))
    log, own = ReplayLog(), [assignment.AssignOwn(prototypes) for _ in range(4)]
    won = margin_sums.SumWon(1, np.arange(3), np.ones(3, dtype=bool))
    log.add(own[0])
    log.add(assignment.KeepCells())  # of the first one
    log.add(own[1])
    log.add(margin_search.FindMargins(prototypes, 1))
    log.add(own[2])
    log.add(won)
    log.add(own[3])
    names = [type(task).__name__ for task in log.tasks()]
    assert names == ["AssignOwn", "KeepCells", "FindMargins", "AssignOwn", "SumWon", "AssignOwn"]
    assert [task for task in log.tasks() if isinstance(task, assignment.AssignOwn)] == [
        own[0],
        own[2],
        own[3],
    ]


def test_sums_of_sparse_rows_travel_without_their_zeros():
    sums = np.zeros((2, 30, 2000))
    sums[0, 3, 5], sums[1, 29, 1999] = 0.1, -7e-300
    plain = GroupSums(np.arange(30), np.ones((2, 30)), sums, np.ones((1, 30)))
    pickled = pickle.dumps(plain)
    assert len(pickled) < 5000
    found = pickle.loads(pickled)
    for name in ("keys", "weights", "sums", "squares"):
        assert getattr(found, name).tobytes() == getattr(plain, name).tobytes()
    filled = replace(plain, sums=sums + 1.0)
    assert pickle.loads(pickle.dumps(filled)).sums.tobytes() == filled.sums.tobytes()
