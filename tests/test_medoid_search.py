"""The search for medoids against the oracle, compiled and not."""

from itertools import product

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from naive_medoids import NaiveMedoids

from dkmeans.kernels import compiled, medoid_costs
from dkmeans.medoids import grow, search, swaps
from dkmeans.medoids.problem import Problem, integer_weights


class Matrix:
    def __init__(self, D):
        self.D, self.n, self.largest = D, len(D), float(D.max())

    def rows(self, which):
        return self.D[which]


@pytest.fixture(params=["loops", "numpy"])
def way(request, monkeypatch):
    """Both ways to compute."""
    if request.param == "loops" and compiled.loops_if(compiled=True) is None:
        pytest.skip("nothing is compiled here")
    monkeypatch.setattr(search, "_ENOUGH", 0 if request.param == "loops" else np.inf)
    return request.param


@st.composite
def problems(draw, max_rows=12):
    """Any distances at all: asymmetric, with ties and zeros, whatever the triangle inequality."""
    n = draw(st.integers(1, max_rows))
    coarse = st.integers(0, 4).map(float)
    fine = st.floats(0, 1e3, width=32)
    values = draw(st.sampled_from([coarse, fine]))
    D = draw(hnp.arrays(np.float64, (n, n), elements=values)).astype(draw(strategies.dtypes))
    np.fill_diagonal(D, 0)
    y = draw(hnp.arrays(np.intp, n, elements=st.integers(0, 3)))
    w = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 3)))
    w[draw(st.integers(0, n - 1))] = 1
    return D, y, w


def fit(D, y, w, max_medoids=None, max_passes=50, n_threads=1):
    problem = Problem(Matrix(D), y, w, n_threads=n_threads)
    return list(grow.grow(problem, max_medoids, max_passes))


@pytest.mark.usefixtures("way")
@settings(max_examples=strategies.examples(100))
@given(
    case=problems(),
    room=st.integers(0, 6) | st.none(),
    blocks=st.sampled_from([2, 64]),
    sample=st.sampled_from([1, 1000]),
)
def test_every_round_is_that_of_the_oracle(case, room, blocks, sample):
    import naive_medoids

    D, y, w = case
    budget = None if room is None else len(np.unique(y[w > 0])) + room
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swaps, "BLOCK_ROWS", blocks)
        patch.setattr(grow, "MIN_SAMPLE", sample)
        patch.setattr(grow, "ROWS_PER_MEDOID", 1)
        patch.setattr(naive_medoids, "BLOCK_ROWS", blocks)
        stages = fit(D, y, w, budget, 12)
        rounds = NaiveMedoids(D, y, w).fit(budget, 12)
    assert [sorted(stage.medoids.tolist()) for stage in stages] == rounds


@pytest.mark.usefixtures("way")
@given(case=problems())
def test_the_end_is_a_local_optimum(case):
    D, y, w = case
    *_, last = fit(D, y, w, len(np.unique(y[w > 0])) + 2)
    assert last.converged
    naive = NaiveMedoids(D, y, w)
    medoids = last.medoids.tolist()
    now = naive.cost(medoids)
    assert {y[m] for m in medoids} == set(y[w > 0])
    assert len(set(medoids)) == len(medoids)
    for slot, x in product(range(len(medoids)), set(naive.candidates) - set(medoids)):
        swapped = [*medoids[:slot], x, *medoids[slot + 1 :]]
        assert naive.cost(swapped) >= now or {y[m] for m in swapped} != set(y[w > 0])


@given(case=problems(max_rows=30), k=st.integers(1, 6), data=st.data())
def test_compiled_loops_and_numpy_agree(case, k, data):
    loops = compiled.loops_if(compiled=True)
    if loops is None:
        pytest.skip("nothing is compiled here")
    D, y, w = case
    n = len(D)
    slots = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=k, max_size=k)))
    results = []
    for way in (None, loops):
        to_medoids = np.ascontiguousarray(D[slots].T)
        near = medoid_costs.find_neighbours(to_medoids, y[slots], y, w, way)
        near = medoid_costs.replace_medoid(to_medoids, 0, y[slots], y, w, near, way)
        removal = medoid_costs.removal_costs(near, k, way)
        is_last = np.bincount(y[slots])[y[slots]] == 1
        added, changes = np.empty(n, np.int64), np.empty(n, np.int64)
        best = np.empty(n, np.intp)
        everyone = np.arange(n)
        medoid_costs.addition_changes(D, everyone, y, w, near, added, way)
        medoid_costs.swap_changes(
            D, everyone, y, w, near, removal, y[slots], is_last, changes, best, way
        )
        results.append([near.slots, near.distances, near.squares, near.costs, near.reach])
        results[-1] += [removal, added, changes, best]
        in_order = np.sort(y[slots])
        results[-1] += medoid_costs.describe_rows(D[slots], in_order, y, way)
    for plain, fast in zip(*results, strict=True):
        np.testing.assert_array_equal(plain, fast)


def test_threads_and_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 4, 300)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    w = rng.integers(1, 5, 300)
    one = fit(D, y, w, 20)
    monkeypatch.setattr(search, "_TILE_ROWS", 3)
    monkeypatch.setattr(search, "_ENOUGH_FOR_THREADS", 0)
    monkeypatch.setattr(search, "_ENOUGH", 0)
    many = fit(D, y, w, 20, n_threads=3)
    assert [s.medoids.tolist() for s in one] == [s.medoids.tolist() for s in many]
    assert [s.record["cost"] for s in one] == [s.record["cost"] for s in many]


@given(case=problems(), budget=st.integers(0, 4))
def test_a_weight_is_as_many_copies(case, budget):
    D, y, w = case
    budget += len(np.unique(y[w > 0]))
    copies = np.repeat(np.arange(len(y)), w)
    apart = fit(D[np.ix_(copies, copies)], y[copies], np.ones(len(copies), np.int64), budget, 1)
    weighted = fit(D, y, integer_weights(w.astype(float), None, y), budget, 1)
    assert y[weighted[0].medoids].tolist() == y[copies][apart[0].medoids].tolist()
    assert weighted[0].record["cost"] == apart[0].record["cost"]
    assert weighted[0].error == apart[0].error


@given(
    w=hnp.arrays(np.float64, 8, elements=st.floats(0, 1e300) | st.integers(0, 9).map(float)),
    power=st.integers(-900, 20),
)
def test_integer_weights(w, power):
    y = np.arange(8) % 2
    w[0] += 1e-3
    whole = integer_weights(w, None, y)
    assert ((whole > 0) == (w > 0)).all()
    assert whole.sum() <= 2**26 + len(w)
    scaled = np.ldexp(w, power)
    if np.isfinite(scaled).all() and (np.ldexp(scaled, -power) == w).all():
        np.testing.assert_array_equal(integer_weights(scaled, None, y), whole)
    factors = np.array([1.0, 0.25])
    np.testing.assert_array_equal(
        integer_weights(w, factors, y), whole * np.array([2**14, 2**12])[y]
    )
    np.testing.assert_array_equal(integer_weights(np.full(8, 3.0), None, y), np.full(8, 3 << 21))


def test_promising_candidates_are_tried_again(monkeypatch):
    """Without the second look there are more rounds, or the same medoids."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 3, 200)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    ones = np.ones(200, np.int64)
    with_it = fit(D, y, ones, 15)
    monkeypatch.setattr(swaps, "PROMISING_SHARE", 0.0)
    without = fit(D, y, ones, 15)
    assert len(without) >= len(with_it)
    assert without[-1].converged
    assert with_it[-1].converged
