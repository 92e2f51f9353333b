"""The compiled loops against the NumPy code that they stand in for: the same to the last bit."""

import importlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from models import grown
from parted import parts_of, rows_of

from dkmeans.exact.grids import Scale
from dkmeans.geometry import Learned
from dkmeans.growth.rows import Rows
from dkmeans.kernels import compiled, exact, tally
from dkmeans.kernels.assign import assign
from dkmeans.kernels.block import column_magnitudes
from dkmeans.kernels.distances import FarSide, OwnDistances
from dkmeans.kernels.exact import grid_units, rounding_units
from dkmeans.kernels.pack import pack
from dkmeans.kernels.projection import project_rows, round_projection
from dkmeans.kernels.reference import squared_distances
from dkmeans.kernels.rowhash import hash_rows, sampling_hashes
from dkmeans.kernels.tally import add_sums, group_sums, group_totals, rounded_sums
from dkmeans.passes import changed, features
from dkmeans.passes.metric_gradient import standardised_and_rounded
from dkmeans.passes.part import Setting
from dkmeans.prototypes import Prototypes
from dkmeans.questions.nearest_prototype import nearest
from dkmeans.runners.local import LocalRunner

if compiled.loops_for(np.empty((1, compiled.ENOUGH))) is None:
    pytest.skip("nothing is compiled here", allow_module_level=True)
from dkmeans.kernels import loops

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")


@pytest.fixture(params=[np.float32, np.float64])
def block(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 37)) * 10.0 ** rng.integers(-6, 6, size=37)
    X[::7] = 0.0
    labels = np.sort(rng.integers(0, 9, 200))
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(labels[order]) > 0))
    return X.astype(request.param), labels, order, starts


def test_distances(block):
    X, labels, *_ = block
    centers = X[:9] * X.dtype.type(1.1)
    plain, fast = np.empty(len(X)), np.empty(len(X))
    OwnDistances(centers, sparse=False)(X, labels, plain)
    OwnDistances(centers, sparse=False, loops=loops)(X, labels, fast)
    np.testing.assert_array_equal(plain, fast)
    some = np.arange(len(X))[::-3]
    OwnDistances(centers, sparse=False, loops=loops)(X, labels[some], fast[: len(some)], some)
    np.testing.assert_array_equal(plain[some], fast[: len(some)])


@pytest.mark.parametrize("far", [1.0, 1e5, 1e30])
def test_projected_rows(block, far):
    X = block[0].copy()
    X[50] *= X.dtype.type(far)
    shift = np.where(np.arange(37) % 2, 0.0, 3.0)
    scale = np.abs(block[0].astype(np.float64)).mean(axis=0)
    scale[5] = 0.0
    A = round_projection(np.random.default_rng(1).normal(size=(37, 4)))
    for order in ("C", "F"):
        rows = np.asarray(X, order=order)
        plain, fast = (project_rows(rows, shift, scale, A, module) for module in (None, loops))
        assert plain.tobytes() == fast.tobytes()


@pytest.mark.parametrize("far", [1.0, 1e5, 1e300])
def test_rounded_features(block, far):
    X = block[0].astype(np.float64)
    X[50] *= far
    means, scale = np.where(np.arange(37) % 2, 0.0, 1e9), np.abs(X[:50]).mean(axis=0)
    scale[5] = 0.0
    geometry = Learned.of_features(means, scale, means, means, np.eye(37))
    for order in ("C", "F"):
        (part,) = parts_of(np.asarray(X, order=order), np.zeros(len(X)), None, 1)
        plain, fast = (
            standardised_and_rounded(
                replace(part, setting=Setting(compiled=is_compiled)), slice(3, 90), geometry
            )
            for is_compiled in (False, True)
        )
        assert plain.tobytes() == fast.tobytes()


@pytest.mark.parametrize("kind", ["none", "whole", "by class", "any"])
def test_moments(block, kind):
    X = block[0]
    rng = np.random.default_rng(0)
    y, weights = rng.integers(0, 3, len(X)), None
    scale = Scale(True, 1000)
    if kind == "whole":
        weights = rng.integers(0, 4, len(X)).astype(np.float64)
    elif kind == "by class":
        by_class = np.array([0.3, 1.0, 1.7])
        weights, scale = by_class[y] * rng.integers(1, 4, len(X)), Scale(True, 1000, by_class)
    elif kind == "any":
        weights, scale = rng.random(len(X)), Scale(False, 1000)
    low = X.min(axis=0).astype(np.float64)
    exponents = np.frexp(np.ptp(X.astype(np.float64), axis=0))[1]
    units = scale.units(2.0)
    task = features.SumMoments(low, np.ldexp(1.0, -exponents), units)
    (part,) = parts_of(X, y, weights, 3)
    plain, fast = (
        task.visit(replace(part, setting=Setting(compiled=is_compiled, scale=scale)), None)[1]
        for is_compiled in (False, True)
    )
    assert plain.tobytes() == fast.tobytes()


@given(data=st.data(), dtype=strategies.dtypes, other=strategies.dtypes)
def test_distances_of_all_shapes_and_layouts(data, dtype, other):
    n, d = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 11))
    X = data.draw(hnp.arrays(dtype, (n, d), elements=st.floats(-1e3, 1e3, width=32)))
    centers = X[::-1].astype(other) + other(0.1)
    layout = data.draw(st.sampled_from([np.ascontiguousarray, np.asfortranarray, twice]))
    labels = np.arange(n) // 2
    out = np.empty(n)
    loops.squared_distances(layout(X), np.arange(n), layout(centers), labels, out)
    np.testing.assert_array_equal(out, squared_distances(X, centers[labels]))


def twice(X):
    """Lay an array out with gaps between its rows and columns."""
    return np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]


def test_magnitudes(block):
    X, *_ = block
    X[:, 2] = 0.0
    X[4, 5], X[5, 6], X[6, 7] = np.finfo(X.dtype).smallest_subnormal, -0.0, -np.finfo(X.dtype).max
    for layout in (np.ascontiguousarray, np.asfortranarray, twice):
        fast = column_magnitudes(layout(X), loops)
        np.testing.assert_array_equal(fast, column_magnitudes(X))


def test_totals(block):
    X, _, order, starts = block
    values = np.square(X[:, 0], dtype=np.float64)
    units = grid_units(values.max(keepdims=True), len(X), 3)
    groups = np.full(len(X), -1)
    ends = np.append(starts[1:], len(order))
    for g in range(1, len(starts)):  # the first group is left out
        groups[order[starts[g] : ends[g]]] = g - 1
    fast = np.zeros((3, len(starts) - 1))
    loops.add_totals(values, groups, units, fast)
    np.testing.assert_array_equal(fast, group_totals(values, units, order, starts)[:, 1:])


def test_gaps(block, monkeypatch):
    X = np.asarray(block[0], dtype=np.float64)
    rng = np.random.default_rng(0)
    own, rival = rng.integers(0, len(X), (2, 300))
    values = rng.normal(size=300) * 10.0 ** rng.integers(-9, 9, 300)
    fast, plain = X.copy(), X.copy()
    loops.add_gaps(own, rival, values, X, fast)
    monkeypatch.setattr(tally, "loops_in_use", lambda: None)
    tally.add_gaps(own, rival, values, X, plain)
    np.testing.assert_array_equal(fast, plain)
    expected = X + 0.0
    for i, j, value in zip(own, rival, values, strict=True):
        expected[i] += value * (X[i] - X[j])
        expected[j] -= value * (X[i] - X[j])
    scale = np.abs(values).max() * np.abs(X).max()
    np.testing.assert_allclose(plain, expected, rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize("n_slices", [1, 2, 4])
def test_group_sums(block, n_slices):
    X, _, order, starts = block
    units = grid_units(np.abs(X).max(axis=0).astype(np.float64), len(X), n_slices)
    units = np.ldexp(units, 4)
    weights = np.random.default_rng(3).uniform(0, 3, len(X))
    for w in (None, weights):
        plain = group_sums(X, w, order, starts, units)
        np.testing.assert_array_equal(plain, group_sums(X, w, order, starts, units, loops))


def test_rounded_sums(block):
    X, _, order, starts = block
    rng = np.random.default_rng(1)
    coefficients, shift = rng.normal(size=len(X)), X.mean(axis=0, dtype=np.float64)
    for n_terms in (len(X), 2**30):
        units = rounding_units(np.abs(X).max(axis=0) * 8.0, n_terms, 40)
        for weights in (None, rng.integers(0, 4, len(X)).astype(float)):
            arguments = X, shift, coefficients, weights, order, starts, units
            np.testing.assert_array_equal(rounded_sums(*arguments), rounded_sums(*arguments, loops))


def test_rounded_sums_of_csr(block):
    X, _, order, starts = block
    rng = np.random.default_rng(1)
    coefficients, weights = rng.normal(size=len(X)), rng.integers(0, 4, len(X)).astype(float)
    units = rounding_units(np.abs(X).max(axis=0) * 8.0, len(X), 40)
    places = np.tile(np.arange(X.shape[1]), len(X)), np.arange(len(X) + 1) * X.shape[1]
    full = sp.csr_array((X.ravel(), *places), shape=X.shape)  # zeros and all
    middle = X.mean(axis=0, dtype=np.float64)
    nothing = np.zeros_like(middle)
    for rows, shift in ((sp.csr_array(X), nothing), (full, nothing), (full, middle)):
        more = shift, coefficients, weights, order, starts, units
        dense = rounded_sums(X, *more)
        sparse = np.zeros_like(dense)
        add_sums(sparse, np.arange(len(starts)), rounded_sums(rows, *more))
        np.testing.assert_array_equal(sparse, dense)


def test_hashes(block):
    X, *_ = block
    X[3, :4] = 0.0, -0.0, X.dtype.type(2.0**-480), -X.dtype.type(2.0**-481)
    np.testing.assert_array_equal(hash_rows(X), hash_rows(X, loops))
    largest = np.abs(X).max(axis=0).astype(np.float64)
    largest[:3] = 0.0, 1e-300, 1e300
    np.testing.assert_array_equal(sampling_hashes(X, largest), sampling_hashes(X, largest, loops))


def test_sides(block):
    X, labels, *_ = block
    rng = np.random.default_rng(4)
    middles, directions = X[:9].astype(np.float64), rng.normal(size=(9, X.shape[1]))
    rows = rng.permutation(len(X))[:120]
    plain = FarSide(middles, directions, sparse=False)
    compiled = FarSide(middles, directions, sparse=False, loops=loops)
    arguments = X, rows, labels[:120]
    np.testing.assert_array_equal(plain(*arguments), compiled(*arguments))


@given(data=st.data(), dtype=strategies.dtypes)
def test_sides_of_all_shapes_and_layouts(data, dtype):
    n, d = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 11))
    X = data.draw(hnp.arrays(dtype, (n, d), elements=st.integers(-2, 2)))
    layout = data.draw(st.sampled_from([np.ascontiguousarray, np.asfortranarray, twice]))
    middles, directions = X[::-1].astype(np.float64), X.astype(np.float64) + 0.1
    sides = [
        FarSide(*map(layout, (middles, directions)), sparse=False, loops=m) for m in (None, loops)
    ]
    arguments = layout(X), np.arange(n), np.arange(n) // 2
    np.testing.assert_array_equal(*(side(*arguments) for side in sides))


def some_rounds(draw):
    """Rows, and centres that change little by little, with where each went in the next round."""
    dtype = draw(strategies.dtypes)
    n, d = draw(st.integers(5, 40)), draw(st.integers(1, 3))
    values = st.integers(-3, 3) if draw(st.booleans()) else strategies.fine
    X = draw(hnp.arrays(np.float64, (n, d), elements=values.map(float))).astype(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    centers, rounds = X[rng.integers(0, n, rng.integers(2, 9))], []
    for _ in range(5):
        k = len(centers)
        keep = rng.random(k) > 0.15
        keep[rng.integers(k)] = True
        place = np.where(keep, np.cumsum(keep) - 1, -1)
        centers = centers[keep].copy()
        moved = rng.random(len(centers)) < rng.choice([0.0, 0.2, 0.6])
        centers[moved] += rng.choice([0.25, 0.5, 1e-7], (int(moved.sum()), d)).astype(dtype)
        centers = np.concatenate([centers, X[rng.integers(0, n, rng.integers(0, 3))]])
        rounds.append((centers, place))
    return X, rng.integers(0, 3, n), rng.integers(0, 3, n).astype(float), rounds


@pytest.mark.study
@settings(max_examples=strategies.examples(800))
@given(data=st.composite(some_rounds)(), weighted=st.booleans())
def test_looking_at_what_changed_is_as_good_as_looking_at_everything(data, weighted):
    X, y, weights, rounds = data
    weights[0] = 1.0
    w = weights if weighted else None
    cut = len(X) // 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "ENOUGH", 1)
        rows = rows_of(X, y, w, 3, [cut])
    rows.assign(as_prototypes(rounds[0][0]), np.full(1, -1))
    for centers, came_from in rounds[1:]:
        before = came_from[rows.cells()]
        tally, moved = rows.assign(as_prototypes(centers), came_from)
        fresh = rows_of(X, y, w, 3)
        expected, _ = fresh.assign(as_prototypes(centers), np.full(1, -1))
        labels = rows.cells()
        squares = np.concatenate([state.cells.squares for state in rows.runner.states])
        assert labels.tolist() == fresh.cells().tolist()
        assert squares.tolist() == fresh.runner.states[0].cells.squares.tolist()
        assert moved == np.sum((labels != before) & (weights > 0 if weighted else True))
        assert tally.cells.tolist() == expected.cells.tolist()
        assert tally.classes.tolist() == expected.classes.tolist()
        for name in ("weights", "sums", "squares"):
            assert getattr(tally, name).tolist() == getattr(expected, name).tolist()


def as_prototypes(centers):
    return Prototypes(centers, np.zeros(len(centers), dtype=np.intp), np.arange(len(centers)))


@pytest.mark.study
@settings(max_examples=strategies.examples(150))
@given(data=strategies.weighted(), parameters=strategies.parameters)
def test_rounds_that_cost_what_changed_give_the_same_growth(data, parameters):
    X, y, w = data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "ENOUGH", 1)
        fast = grown(**parameters).fit(X, y, w)
        patch.setattr(compiled, "ENOUGH", 10**9)
        patch.setattr(changed, "MAX_CHANGED_SHARE", -1.0)
        plain = grown(**parameters).fit(X, y, w)
    assert fast.cluster_centers_.tobytes() == plain.cluster_centers_.tobytes()
    assert fast.labels_.tolist() == plain.labels_.tolist()
    assert fast.inertia_ == plain.inertia_
    assert fast.n_iter_ == plain.n_iter_


@pytest.mark.parametrize("parameters", [{}, {"growth": "best", "refine": "margin"}])
def test_fits_are_the_same_with_and_without(monkeypatch, parameters):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 20)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    plain = grown(30, **parameters).fit(X, y)
    monkeypatch.setattr(compiled, "ENOUGH", 1)
    fast = grown(30, **parameters).fit(X, y)
    np.testing.assert_array_equal(plain.cluster_centers_, fast.cluster_centers_)
    np.testing.assert_array_equal(plain.labels_, fast.labels_)
    assert plain.inertia_ == fast.inertia_


def test_fits_choose_the_loops_again_when_auto_has_chosen_a_number(monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 4, (400, 2))
    y = np.floor(X).sum(axis=1).astype(int) % 2
    plain = grown("auto").fit(X, y)
    k = plain.n_clusters_
    assert k > 10, "more than were guessed"
    decided, choose = [], Rows._choose_kernels

    def watched(self, n_centers):
        choose(self, n_centers)
        decided.append((n_centers, self._compiled))

    monkeypatch.setattr(Rows, "_choose_kernels", watched)
    monkeypatch.setattr(compiled, "loops_in_use", lambda: None)
    monkeypatch.setattr(compiled, "ENOUGH_PAIRS", k * X.size)
    again = grown("auto").fit(X, y)
    assert decided[0] == (8, False)
    assert decided[-1] == (k, True)
    assert again.cluster_centers_.tobytes() == plain.cluster_centers_.tobytes()


def test_loaded_loops_do_not_change_which_passes_there_are(monkeypatch):
    """A fit may be resumed by a process that has not loaded them."""
    monkeypatch.setattr(compiled, "ENOUGH_LOADED", 1)
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    passes = {}
    for loaded in (True, False):
        monkeypatch.setattr(compiled, "loops_in_use", lambda known=loaded: loops if known else None)
        seen, run = [], LocalRunner.run

        def watched(self, task, seen=seen, run=run):
            seen.append(type(task).__name__)
            return run(self, task)

        with monkeypatch.context() as patch:
            patch.setattr(LocalRunner, "run", watched)
            grown().fit(X, y)
        passes[loaded] = seen
    assert passes[True] == passes[False]


def layouts(X, folder):
    """Yield the same values in all the ways in which arrays may lie in memory."""
    yield "columns first", np.asfortranarray(X)
    wide = np.zeros((2 * len(X), 2 * X.shape[1]), dtype=X.dtype)
    wide[::2, 1::2] = X
    yield "strided", wide[::2, 1::2]
    frozen = X.copy()
    frozen.flags.writeable = False
    yield "read-only", frozen
    np.save(folder / "X.npy", X)
    yield "on disk", np.load(folder / "X.npy", mmap_mode="r")
    sparse = sp.csr_array(X)
    yield "CSR", sparse
    sparse = sparse.copy()
    sparse.indices, sparse.indptr = (a.astype(np.int64) for a in (sparse.indices, sparse.indptr))
    yield "CSR of 64 bits", sparse


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.study)])
def test_all_layouts_give_the_same(monkeypatch, tmp_path, dtype):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 7)).astype(dtype)
    X[::5] = 0.0
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    monkeypatch.setattr(compiled, "ENOUGH", 1)
    expected = grown(25, growth="paper").fit(X, y)
    for name, same in layouts(X, tmp_path):
        if dtype is np.float32 and name not in ("strided", "CSR"):
            continue  # each layout is compiled apart, which takes seconds
        model = grown(25, growth="paper").fit(same, y)
        assert model.labels_.tolist() == expected.labels_.tolist(), name
        assert model.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes(), name
        assert (model.predict_cluster(same) == expected.labels_).all(), name
        assert (model.predict_proba(same) == expected.predict_proba(X)).all(), name


def test_predictions_use_loops_that_are_loaded_sooner(monkeypatch):
    rng = np.random.default_rng(0)
    X, centers = rng.normal(size=(4000, 2)), rng.normal(size=(128, 2))
    monkeypatch.setattr(compiled, "loops_in_use", lambda: None)
    assert compiled.loops_for_nearest(X, len(centers)) is None
    plain, _ = nearest(X, centers, 1)
    monkeypatch.undo()
    assert compiled.loops_for_nearest(X, len(centers)) is loops
    np.testing.assert_array_equal(nearest(X, centers, 1)[0], plain)
    assert compiled.loops_for_nearest(X[:1000], len(centers)) is None
    assert compiled.loops_for(X, len(centers)) is None


@pytest.mark.parametrize("k", [2, 3, 23, 24])
def test_predictions_leave_a_few_centres_to_matrix_products(k):
    large = np.broadcast_to(np.float32(0), (compiled.ENOUGH, 1))
    expected = None if k in (3, 23) else loops
    assert compiled.loops_for_nearest(large, k) is expected
    assert compiled.loops_for_nearest(sp.csr_array(np.ones((3, 3))), k) is None
    rng = np.random.default_rng(k)
    X, centers = rng.normal(size=(3000, 8)).round(1), rng.normal(size=(k, 8)).round(1)
    plain, fast = np.empty((2, len(X)), dtype=np.intp)
    assign(X, pack(centers, sparse=False), plain)
    assign(X, pack(centers, sparse=False, loops=loops), fast)
    np.testing.assert_array_equal(plain, fast)


def test_small_fits_do_not_import_numba():
    code = (
        "import sys; from sklearn.datasets import load_iris; from dkmeans import "
        "DiscriminativeKMeans; DiscriminativeKMeans(6).fit(*load_iris(return_X_y=True)); "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_works_where_numba_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "dkmeans.kernels.loops", None)
    monkeypatch.delattr("dkmeans.kernels.loops", raising=False)
    monkeypatch.setattr(compiled, "ENOUGH", 1)
    compiled._loops.cache_clear()
    try:
        assert compiled.loops_for(np.zeros((3, 3))) is None
        X = np.array([[0.0], [1.0], [2.0], [3.0]])
        assert grown().fit(X, [0, 0, 1, 1]).score(X, [0, 0, 1, 1]) == 1.0
    finally:
        compiled._loops.cache_clear()


def test_compiled_code_is_made_again_when_any_kernel_changes(tmp_path, monkeypatch):
    from dkmeans.kernels import jit

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "twice_of.py").write_text("def twice(x):\n    return 2 * x\n")
    twice = importlib.import_module("twice_of").twice

    def found_on_disk(sources):
        monkeypatch.setattr(jit, "_SOURCES", sources)
        jitted = jit.compiled(twice)
        assert jitted(4) == 8
        return sum(jitted.stats.cache_hits.values()) > 0

    assert [found_on_disk(s) for s in ("one", "one", "other", "one")] == [False, True, False, True]


@given(seed=st.integers(0, 10**6), n_slices=st.integers(1, 4), whole=st.booleans())
def test_division(seed, n_slices, whole):
    rng = np.random.default_rng(seed)
    sums = np.ldexp(
        rng.integers(-(2**40), 2**40, (n_slices, 6, 5)).astype(float),
        -40 * np.arange(n_slices)[:, None, None],
    )
    sums[:, rng.random((6, 5)) < 0.3] = 0.0
    weights = rng.integers(1, 9, (1, 6, 1)) if whole else rng.integers(1, 2**50, (2, 6, 1))
    weights = weights * 2.0 ** (-45.0 * np.arange(len(weights)))[:, None, None]
    found = exact._compiled_ratio(sums, weights, loops)
    expected = exact._sparse_ratio(sums, weights)
    assert (found + 0.0).tobytes() == (expected + 0.0).tobytes()
