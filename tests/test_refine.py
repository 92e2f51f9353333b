"""Margin refinement."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from models import grown
from naive import NaiveRefinement, distance, margins, relative, squared, unit_vector
from parted import rows_of
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from dkmeans import DiscriminativeKMeans
from dkmeans.growth import refine as refine_module
from dkmeans.growth.margins import Field
from dkmeans.growth.robust_field import RobustField
from dkmeans.growth.round import Children
from dkmeans.growth.rules import Rules
from dkmeans.growth.run import Run
from dkmeans.kernels import compiled
from dkmeans.kernels.rowhash import salted, sampling_hashes
from dkmeans.passes.batch import Batch
from dkmeans.prototypes import Prototypes

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
SLOPE = refine_module.SLOPES[1]


def cost_of(centers, classes, X, y, w=None, slope=SLOPE):
    """Mean cost, the obvious way."""
    w = np.ones(len(y)) if w is None else w
    rows = np.flatnonzero(w > 0)
    found = margins(X, y, rows, centers.tolist(), classes.tolist(), X.dtype.type)
    costs = np.ones(len(y))
    for r, (_, _, near, far, _) in found.items():
        costs[r] = 1 / (1 + np.exp(-slope * relative(near, far)))
    return np.average(costs[rows], weights=w[rows])


def some_prototypes(X, y, per_class=2):
    rows = np.concatenate([np.flatnonzero(y == c)[:per_class] for c in np.unique(y)])
    return Prototypes(X[rows], y[rows].astype(np.intp), np.arange(len(rows)))


@settings(max_examples=strategies.examples(200))
@given(data=strategies.weighted())
def test_margins_are_those_of_the_oracle(data):
    X, y, w = data
    prototypes = some_prototypes(X, y)
    if len(np.unique(prototypes.classes)) < 2:
        return
    centers, classes = prototypes.centers.tolist(), prototypes.classes.tolist()
    expected = margins(X, y, np.flatnonzero(w > 0), centers, classes, X.dtype.type)
    for rows in (X, sp.csr_array(X)):
        whole = rows_of(rows, y, w, int(y.max()) + 1, n_threads=2)
        field = Field(whole)
        margins_there = field.margins(prototypes)
        found = whole.runner.states[0].margins(margins_there.number)
        assert found.rows.tolist() == list(expected)
        for i, r in enumerate(found.rows):
            own, rival, near, far, winner = expected[r]
            assert (found.own[i], found.rival[i], found.winner[i]) == (own, rival, winner)
            assert [side[i] for side in found.sides] == [near, far]
        np.testing.assert_allclose(
            field.cost(margins_there, SLOPE),
            cost_of(prototypes.centers, prototypes.classes, X, y, w),
            rtol=1e-9,
            atol=1e-12,
        )


def noisy_rows(weights, shift=0.0):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = np.round(rng.normal(size=(60, 4)) + y[:, None], 2) + shift
    w = {"none": None, "whole": rng.integers(1, 5, 60).astype(float)}.get(
        weights, rng.uniform(0, 3, 60) * (np.arange(60) % 7 > 0)
    )
    prototypes = some_prototypes(X, y)
    return X, y, w, replace(prototypes, centers=prototypes.centers + 0.3)


def naive_refinement(X, y, w, prototypes, n_batches, n_passes):
    w = np.ones(len(y)) if w is None else w
    largest = np.abs(X[w > 0]).max(axis=0)
    hashes = salted(sampling_hashes(X, largest), 0)
    batches = [salted(hashes, p) % np.uint64(n_batches) for p in range(n_passes)]
    about = prototypes.centers, prototypes.classes.tolist(), batches, X.dtype.type
    return NaiveRefinement(X, y, w.tolist(), *about)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weights", ["none", "whole", "real"])
def test_the_gradient_is_that_of_the_cost(sparse, weights):
    X, y, w, prototypes = noisy_rows(weights, 100.0 * (not sparse))
    oracle = naive_refinement(X, y, w, prototypes, 1, 1)
    rows = rows_of(sp.csr_array(X) if sparse else X, y, w, 3, [20, 20, 45])
    field = RobustField(rows, prototypes)
    assert field.final_cost.variance == pytest.approx(oracle.variance)
    slope = 7.0
    found = field.batch_gradient(prototypes, slope, Batch(0, 1, 0))
    cost = oracle.cost(prototypes.centers, oracle.active, SLOPE)
    assert field.unpaid(found.paid) == pytest.approx(cost, rel=1e-9)
    assert field.robust_cost(found.margins, prototypes) == field.unpaid(found.paid)
    expected = np.zeros_like(found.gradient)
    for i in range(expected.shape[0]):
        for j in range(expected.shape[1]):
            sides = []
            for step in (1e-6, -1e-6):
                moved = prototypes.centers.copy()
                moved[i, j] += step
                sides.append(oracle.cost(moved, oracle.active, slope))
            expected[i, j] = (sides[0] - sides[1]) / 4e-6  # the factor of squares is left out
    np.testing.assert_allclose(found.gradient, expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(
        found.gradient,
        oracle.gradient(prototypes.centers, oracle.active, slope),
        atol=1e-8 * np.abs(expected).max(),
    )


@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("weights", ["none", "whole", "real"])
def test_passes_are_those_of_the_oracle(monkeypatch, n_batches, weights):
    monkeypatch.setattr(refine_module, "MAX_BATCHES", n_batches)
    monkeypatch.setattr(refine_module, "BATCH_ROWS", 5)
    monkeypatch.setattr(refine_module, "PASSES", 6)
    monkeypatch.setattr(refine_module, "LEAST_PASSES", 1.0)
    X, y, w, prototypes = noisy_rows(weights)
    oracle = naive_refinement(X, y, w, prototypes, n_batches, 6)
    run = Run(rows_of(X, y, w, 3, [20, 20, 45]), Rules(1.0, 6, 300))
    state = run.advance(
        run.begin(), "grow", Children(np.zeros(6, int), prototypes.classes, prototypes.centers)
    )
    steps = list(refine_module.refine_margins(run, state))
    expected = list(oracle.run(prototypes.centers, n_batches))
    assert len(steps) == len(expected) + 1
    for step, (cost, centers) in zip(steps, expected, strict=False):
        assert step.cost == pytest.approx(cost, rel=1e-6)
        np.testing.assert_allclose(step.prototypes.centers, centers, atol=1e-6)
    start = oracle.cost(prototypes.centers, oracle.active, SLOPE)
    end = oracle.cost(expected[-1][1], oracle.active, SLOPE)
    best = min([start, end] + [cost for cost, _ in expected] * (n_batches == 1))
    won = {winner for *_, winner in oracle.margins(expected[-1][1], oracle.active).values()}
    if len(won) == len(prototypes):
        assert steps[-1].margin_cost == pytest.approx(best, rel=1e-6)
    else:  # a prototype was placed next to another
        assert steps[-1].margin_cost < best


def test_a_pass_visits_every_row_once():
    X, y, w, prototypes = noisy_rows("real")
    rows = rows_of(X, y, w, 3, [20, 20, 45])
    field = RobustField(rows, prototypes)
    found = [field.batch_gradient(prototypes, 7.0, Batch(b, 4, 9)) for b in range(4)]
    joined = field.joined([one.margins for one in found])
    whole = field.batch_gradient(prototypes, 7.0, Batch(0, 1, 9))
    assert (joined.counts == whole.margins.counts).all()
    assert len({tuple(one.margins.counts) for one in found}) > 1
    assert field.moved(joined, whole.margins) == 0
    assert field.unpaid(np.sum([one.paid for one in found], axis=0)) == field.unpaid(whole.paid)
    gradient = np.sum([one.gradient for one in found], axis=0)
    np.testing.assert_allclose(gradient, whole.gradient, atol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_batches_depend_on_values_only(monkeypatch, metric):
    """Order of rows, layout, copies and powers of two change nothing, as without batches."""
    monkeypatch.setattr(refine_module, "BATCH_ROWS", 30)
    X, y = load_wine(return_X_y=True)
    model = DiscriminativeKMeans(9, refine="margin", metric=metric)
    expected = clone(model).fit(X, y)
    plan = refine_module._Plan.of(178, refine_module._Batches(30), 300)
    assert (plan.n_batches, plan.n_passes) == (5, 15)
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = clone(model).fit(X[order], y[order])
    assert shuffled.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    for name, rows, labels, weights, which in of_other_layouts_and_weights(X, y):
        found = clone(model).fit(rows, labels, weights)
        assert found.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes(), name
        assert (found.labels_ == expected.labels_[which]).all(), name


def test_the_descent_ends_when_the_cost_has_stopped_falling():
    plan = refine_module._Plan(1, 20)
    falling = [0.9**p for p in range(20)]
    assert [plan.is_over(falling[:n]) for n in (0, 5, 19, 20)] == [False, False, False, True]
    flat = [0.5] * 20
    assert [plan.is_over(flat[:n]) for n in (5, 10, 11)] == [False, False, True]


@settings(max_examples=strategies.examples(60))
@given(data=strategies.weighted(), parameters=strategies.parameters)
def test_the_cost_never_ends_higher_than_it_began(data, parameters):
    X, y, w = data
    budget = int(y.max()) + 3
    before, after = (
        grown(budget, **parameters | {"refine": refine}).fit(X, y, w) for refine in (None, "margin")
    )
    assert before.n_clusters_ == after.n_clusters_
    assert before.cluster_ids_.tolist() == after.cluster_ids_.tolist()
    if len(np.unique(before.cluster_classes_)) < 2:
        return
    in_conflict = np.zeros(len(y), dtype=bool)
    for rows in before.conflicts_:
        in_conflict[rows] = True
    if in_conflict.any():
        return  # the labels that count are the majority's
    if parameters["metric"] == "cosine":  # the cost is that of the directions
        X = np.array([unit_vector(x, X.dtype.type) for x in X], dtype=X.dtype)
    start = Prototypes(before.cluster_centers_, before.cluster_classes_, before.cluster_ids_)
    oracle = naive_refinement(X, y, w, start, 1, 1)
    costs = [oracle.cost(m.cluster_centers_, oracle.active, SLOPE) for m in (before, after)]
    assert costs[1] <= costs[0] * (1 + 1e-9) + 1e-12


@settings(max_examples=strategies.examples(100))
@given(data=strategies.labelled(values=strategies.wild))
def test_prototypes_never_fly_off(data):
    X, y = data
    model = grown(growth="best", refine="margin").fit(X, y)
    low, high = X.astype(float).min(axis=0), X.astype(float).max(axis=0)
    room = (high - low) * 0.5001 + np.abs(X).max() * 1e-6
    assert (model.cluster_centers_ >= low - room).all()
    assert (model.cluster_centers_ <= high + room).all()
    assert (model.cluster_sizes_ > 0).all()


@pytest.fixture(scope="module")
def digits():
    return train_test_split(*load_digits(return_X_y=True), random_state=0, test_size=0.3)


@pytest.mark.parametrize("growth", ["paper", "best"])
def test_held_out_digits_are_recognised_better(digits, growth):
    X, X_test, y, y_test = digits
    plain = grown(20, growth=growth).fit(X, y)
    refined = clone(plain).set_params(refine="margin").fit(X, y)
    assert refined.n_clusters_ == plain.n_clusters_ == 20
    assert 1 - refined.score(X_test, y_test) < 0.6 * (1 - plain.score(X_test, y_test))


def test_all_that_is_fitted_belongs_together(digits):
    X, _, y, _ = digits
    model = grown(40, refine="margin").fit(X, y)
    assert (model.labels_ == model.predict_cluster(X)).all()
    np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(model.labels_))
    closest = model.transform(X).min(axis=1)
    np.testing.assert_allclose(model.inertia_, (closest**2).sum(), rtol=1e-10)
    history = model.history_
    refining = np.asarray(history.phase) == "refine"
    assert refine_module.PASSES // 2 < refining.sum() <= refine_module.PASSES + 1
    assert not refining[: len(refining) - refining.sum()].any()
    cost = np.asarray(history.cost)
    assert not np.isnan(cost).any()
    start = grown(40).fit(X, y)
    prototypes = Prototypes(start.cluster_centers_, start.cluster_classes_, start.cluster_ids_)
    oracle = naive_refinement(X, y, None, prototypes, 1, 1)
    before, after = (oracle.cost(m.cluster_centers_, oracle.active, SLOPE) for m in (start, model))
    np.testing.assert_allclose(cost[refining][[0, -1]], [before, after], rtol=1e-9)
    assert after < before
    assert model.n_iter_ == len(history) == history.round[-1]
    impurity = 1 - np.mean(
        [np.bincount(y[model.labels_ == i]).max() for i in range(40)] / np.float64(1)
    ) * 40 / len(y)
    np.testing.assert_allclose(history.impurity[-1], impurity)


@pytest.mark.parametrize("sparse", [False, True])
def test_idle_prototypes_share_the_rows_of_others(sparse):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 3)) + 6.0 * y[:, None]
    classes = np.array([0, 0, 0, 1, 1])
    centers = np.array([[-9.0], [-5.0], [900.0], [15.0], [800.0]]) + np.zeros((5, 3))
    prototypes = Prototypes(centers, classes, np.arange(5))
    field = Field(rows_of(sp.csr_array(X) if sparse else X, y, None, 2, [30]))
    assert field.margins(prototypes).wins.tolist() == [False, True, False, True, False]
    busy = prototypes.take(np.array([1, 3]))
    which, places = field.twins(field.margins(prototypes), prototypes, np.array([0, 4]))
    assert which.tolist() == [0, 4]
    assert (np.abs(places - busy.centers) < 0.01).all()
    moved = centers.copy()
    moved[which] = places
    found = field.margins(replace(prototypes, centers=moved))
    assert found.wins[[0, 1, 3, 4]].all()
    before, after = (cost_of(c, classes, X, y) for c in (centers, moved))
    assert abs(after - before) < 1e-3 * before + 1e-9


def test_nothing_to_share_is_no_error():
    X, y = np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 1])
    field = Field(rows_of(X, y, None, 2))
    prototypes = Prototypes(
        np.array([[0.5]] * 4 + [[9.0]]), np.repeat([0, 1], [4, 1]), np.arange(5)
    )
    which, places = field.twins(field.margins(prototypes), prototypes, np.array([1, 2, 3]))
    assert which.shape == (1,)  # around 0.5 there is room for one more
    assert places.shape == (1, 1)


def of_other_layouts_and_weights(X, y):
    """Yield the same rows stored or weighted in another way, and which rows they are."""
    n, d = X.shape
    same = np.arange(n)
    full = X.ravel(), np.tile(np.arange(d), n), np.arange(n + 1) * d
    yield "CSR", sp.csr_array(X), y, None, same
    yield "CSR that stores zeros", sp.csr_array(full, shape=X.shape), y, None, same
    for weight in (2.0, 3.0, 0.25):
        yield f"weights of {weight}", X, y, np.full(n, weight), same
    thrice = np.repeat(same, 3)
    yield "three times", X[thrice], y[thrice], None, thrice


@pytest.mark.parametrize("size_of_compiled", [1, compiled.ENOUGH])
@pytest.mark.parametrize("load", [pytest.param(load_wine, marks=pytest.mark.study), load_iris])
def test_other_layouts_and_constant_weights_change_nothing(monkeypatch, load, size_of_compiled):
    monkeypatch.setattr(compiled, "ENOUGH", size_of_compiled)
    X, y = (part[::2] for part in load(return_X_y=True))
    model = grown(9, refine="margin")
    expected = clone(model).fit(X, y)
    for name, rows, labels, weights, which in of_other_layouts_and_weights(X, y):
        found = clone(model).fit(rows, labels, weights)
        assert found.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes(), name
        assert (found.labels_ == expected.labels_[which]).all(), name


@pytest.mark.parametrize("growth", ["paper", "best"])
def test_whole_weights_are_the_rows_so_many_times(growth):
    X, y = load_wine(return_X_y=True)
    w = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    again = np.repeat(np.arange(len(y)), w.astype(int))
    model = grown(15, growth=growth, refine="margin")
    weighted = clone(model).fit(X, y, w)
    for factor in (0.5, 4.0):
        other = clone(model).fit(X, y, factor * w)
        assert other.cluster_centers_.tobytes() == weighted.cluster_centers_.tobytes()
    if growth == "paper":
        repeated = clone(model).fit(X[again], y[again])
        assert repeated.cluster_centers_.tobytes() == weighted.cluster_centers_.tobytes()


def test_many_rows_are_refined_as_few_are():
    """Sums of many terms take more slices, and are the same."""
    X, y = load_iris(return_X_y=True)
    model = grown(9, refine="margin")
    few, many = clone(model).fit(X, y), clone(model).fit(X, y, np.full(len(y), 3.0 * 2**20))
    assert few.cluster_centers_.tobytes() == many.cluster_centers_.tobytes()


def test_a_column_far_from_zero_may_be_sparse_elsewhere():
    """The second column is far from zero in all rows, the third in all but those of weight 0."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 3)) + 1.5 * y[:, None] + [0.0, 1e6, 1e6]
    X[:, 0] *= rng.random(120) < 0.3
    w = (rng.random(120) < 0.8).astype(float)
    X[w == 0, 2] = 0.0
    model = grown(9, refine="margin")
    dense, sparse = clone(model).fit(X, y, w), clone(model).fit(sp.csr_array(X), y, w)
    assert dense.cluster_centers_.tobytes() == sparse.cluster_centers_.tobytes()
    assert dense.inertia_ == sparse.inertia_
    part = w > 0
    shift = [0.0, 1e6, 1e6]
    near = clone(model).fit(X[part] - shift, y[part])
    np.testing.assert_allclose(dense.cluster_centers_ - shift, near.cluster_centers_, atol=1e-4)


def test_far_from_the_origin_it_works_as_well():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = np.round((rng.normal(size=(300, 2)) + 1.2 * y[:, None]) * 2**20) / 2**20
    near = grown(6, refine="margin").fit(X, y)
    far = grown(6, refine="margin").fit(X + 2.0**20, y)
    np.testing.assert_allclose(far.cluster_centers_ - 2.0**20, near.cluster_centers_, atol=1e-5)


def test_the_scale_of_the_data_does_not_matter():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 200)
    X = rng.normal(size=(200, 2)) + 1.2 * y[:, None]
    one = grown(8, growth="best", refine="margin").fit(X, y)
    other = grown(8, growth="best", refine="margin").fit(X * 2.0**30, y)
    assert (other.cluster_centers_ / 2.0**30).tobytes() == one.cluster_centers_.tobytes()


def test_partial_fit_refines_on_its_first_call_only(digits):
    X, X_test, y, y_test = digits
    model = grown(40, refine="margin").partial_fit(X[:800], y[:800])
    assert model.history_.phase[-1] == "refine"
    whole = grown(40, refine="margin").fit(X[:800], y[:800])
    assert model.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    model.partial_fit(X[800:], y[800:])
    assert "refine" not in set(model.history_.phase)
    assert model.score(X_test, y_test) > 0.9


def test_warm_start_goes_on_refining(digits):
    X, _, y, _ = digits
    model = grown(20, refine="margin", warm_start=True).fit(X, y)
    first = model.history_.cost[-1]
    history = model.fit(X, y).history_
    cost = np.asarray(history.cost)[np.asarray(history.phase) == "refine"]
    assert cost[-1] <= cost[0]
    assert cost[0] < 2 * first  # it starts from prototypes that were refined


def test_one_class_has_nothing_to_refine():
    X = np.arange(8.0).reshape(4, 2)
    for growth in ("paper", "best"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = grown(growth=growth, refine="margin").fit(X, np.zeros(4))
        assert model.n_clusters_ == 1
        np.testing.assert_array_equal(model.cluster_centers_[0], X.mean(axis=0))


def test_distances_that_count_decide_who_wins():
    # In float32 both distances round to the same number, so the lower index wins.
    X = np.array([[0.0], [1.0], [2.0 + 2e-8]], dtype=np.float32)
    prototypes = Prototypes(X[[0, 2]], np.array([0, 1]), np.array([0, 1]))
    rows = rows_of(X, np.array([0, 1, 1]), None, 2)
    margins_there = Field(rows).margins(prototypes)
    assert distance(X[1], X[0], np.float32) == distance(X[1], X[2], np.float32)
    assert squared(X[1], X[0]) == squared(X[1], X[2])
    assert rows.runner.states[0].margins(margins_there.number).winner.tolist() == [0, 0, 1]


@pytest.mark.parametrize("growth", ["paper", "best"])
def test_no_class_is_lost(growth):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(1000, 2)), rng.normal(size=(10, 2)) * 0.5 + 1])
    y = np.repeat([0, 1], [1000, 10])
    balanced, plain = (
        grown(10, growth=growth, refine="margin", class_weight=weights).fit(X, y)
        for weights in ("balanced", None)
    )
    assert set(balanced.cluster_classes_) == set(plain.cluster_classes_) == {0, 1}
    recall = [np.mean(m.predict(X[y == 1]) == 1) for m in (plain, balanced)]
    assert recall[1] >= recall[0]
