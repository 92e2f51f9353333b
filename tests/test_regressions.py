"""Inputs that once went wrong."""

import threading
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from models import grown
from threadpoolctl import threadpool_info

from dkmeans import DiscriminativeKMeans
from dkmeans.kernels.rowhash import hash_rows

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")


def column(*values):
    return np.array(values, dtype=float)[:, None]


@pytest.mark.parametrize(
    ("X", "y", "params"),
    [
        (
            column(-1, 1, -4, 2, -5, 2, -4, -1, -1, 5, 6, 1),
            [3, 4, 1, 2, 2, 0, 3, 1, 3, 2, 2, 4],
            {"repulsion": 10.0},
        ),
        (column(5, -6, 2, 4, 4), [2, 1, 2, 0, 1], {"repulsion": 3.0, "min_cluster_size": 2}),
        (column(-5, 0, -1, -3, 2, 6, 1, -1), [0, 3, 3, 3, 1, 2, 3, 0], {"min_cluster_size": 2}),
        (
            column(-1, -2, 4, -3, 5, -1, -5, 1, -4, 0, -2, 4, 0, 2, -2, 5, 5, -2, 4, 3, -2),
            [5, 3, 1, 3, 0, 1, 1, 5, 3, 0, 1, 3, 1, 4, 4, 3, 4, 3, 5, 2, 1],
            {"repulsion": 3.0},
        ),
    ],
)
def test_a_pure_cell_of_another_class_does_not_keep_a_fit_from_ending(X, y, params):
    assert grown(**params).fit(X, y).converged_


def test_weights_without_a_power_of_two_equal_repeated_rows():
    X = column(3, 0, 3, -1, -3, -1, 1, -1, 3, -2, 1)
    y, w = np.array([0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0]), np.array([6, 7, 3, 3, 4, 7, 6, 4, 7, 6, 5])
    again = np.repeat(np.arange(11), w)
    weighted = grown().fit(X, y, w)
    repeated = grown().fit(X[again], y[again])
    assert weighted.cluster_centers_.tobytes() == repeated.cluster_centers_.tobytes()


@pytest.mark.parametrize(
    ("seed", "n", "d", "budget", "refine"), [(107, 24, 1, 9, None), (41, 40, 2, 16, "margin")]
)
def test_how_often_a_row_is_repeated_does_not_count_where_prototypes_win_nothing(
    seed, n, d, budget, refine
):
    """They are put on the worst of the different rows, or beside the heaviest of their class."""
    rng = np.random.default_rng(seed)
    X, y, w = rng.normal(size=(n, d)), rng.integers(0, 3, n), rng.integers(1, 4, n)
    X = X if refine is None else X.round(1)
    again = np.repeat(np.arange(n), w)
    model = grown(budget, refine=refine)
    weighted = model.fit(X, y, w).cluster_centers_
    assert weighted.tobytes() == model.fit(X[again], y[again]).cluster_centers_.tobytes()


def test_a_group_of_exactly_the_least_size_earns_a_cluster():
    for first in np.arange(1, 60) / 100:
        model = grown(min_cluster_size=0.7)
        model.fit(column(0, 10, 20), [0, 1, 2], [first, 0.7, 0.7])
        assert model.n_clusters_ == 2


def test_one_huge_value_does_not_spoil_means_or_inertia():
    model = grown().fit(column(1e30, 1, 2, 3, -5, -6), [0, 1, 1, 1, 0, 0])
    assert sorted(model.cluster_centers_.ravel()) == [-5.5, 2.0, 1e30]
    assert model.inertia_ == 2.5


def test_a_budget_is_spent_beside_one_huge_value():
    rng = np.random.default_rng(58)
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    X[0, 0] = 1e30
    unlimited = grown().fit(X, y).n_clusters_
    for budget in range(3, unlimited + 1):
        assert grown(budget).fit(X, y).n_clusters_ == budget


def test_hashes_spread_for_values_with_high_bits_only():
    X = 2.0 * np.random.default_rng(0).integers(0, 2, (5000, 40))
    assert len(np.unique(hash_rows(X))) == len(np.unique(X, axis=0))


def test_pruning_below_a_budget_is_not_a_failure_to_converge():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grown(40, prune=True).fit(rng.normal(size=(500, 2)), rng.integers(0, 3, 500))


def test_predicting_in_several_threads_leaves_blas_as_it_was():
    def blas():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 8)), rng.integers(0, 3, 20_000)
    model = grown(30).fit(X, y)
    before = blas()
    threads = [
        threading.Thread(target=lambda: [model.predict(X) for _ in range(5)]) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas() == before


@pytest.mark.parametrize(
    ("class_weight", "weight"),
    [({0: 1e5, 1: 1}, 1e300), ({0: 1, 1: 2}, 1e308), ({0: 1e-10, 1: 1e-10}, 5e-320)],
)
def test_weights_near_the_ends_of_the_range(class_weight, weight):
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    model = grown(class_weight=class_weight).fit(X, y, np.full(8, weight))
    assert model.score(X, y) == 1.0


def test_balanced_weights_near_the_ends_of_the_range():
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    models = [
        grown(2, class_weight="balanced").fit(X, y, np.full(8, weight))
        for weight in (1.0, 2.0**-1060, 2.0**1023)
    ]
    for model in models[1:]:
        assert (model.cluster_centers_ == models[0].cluster_centers_).all()
    assert models[2].cluster_sizes_.tolist() == [np.inf, np.inf]  # as sums of such weights are


@pytest.mark.parametrize("exponent", [-430, -500, -600, -1050])
def test_rows_whose_squares_underflow_are_refused(exponent):
    X = np.ldexp(np.random.default_rng(0).uniform(0.5, 1, (40, 2)), exponent)
    y = np.arange(40) % 2
    with pytest.raises(ValueError, match=r"squares of such values underflow.*2\.0\*\*") as caught:
        grown().fit(X, y)
    times = eval(str(caught.value).split("by ")[-1].strip("."))
    grown().fit(X * times, y)
    grown(metric="cosine").fit(X, y)


@pytest.mark.parametrize("metric", ["learned", "auto"])
def test_rows_that_are_standardised_may_be_small(metric):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    expected = DiscriminativeKMeans(4, metric=metric).fit(X, y).predict(X)
    small = DiscriminativeKMeans(4, metric=metric).fit(np.ldexp(X, -400), y)
    np.testing.assert_array_equal(small.predict(np.ldexp(X, -400)), expected)
    with pytest.raises(ValueError, match="squares of such values underflow"):
        DiscriminativeKMeans(4, metric=metric).fit(np.ldexp(X, -500), y)


def test_small_rows_that_are_accepted_do_not_collapse():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.arange(40) % 2
    for dtype, exponent, refine in (("d", -410, None), ("d", -195, "margin"), ("f", -76, "margin")):
        model = grown(8, refine=refine)
        rows = X.astype(dtype)
        centers = model.fit(rows, y).cluster_centers_
        assert (
            model.fit(np.ldexp(rows, exponent), y).cluster_centers_ == np.ldexp(centers, exponent)
        ).all()
    with pytest.raises(ValueError, match="underflow with refine='margin'"):
        grown(8, refine="margin").fit(X * 2.0**-300, y)


def test_classes_without_weight_do_not_count():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 3)) + 1.5 * y[:, None]
    some = y < 2
    for params in ({"max_clusters": "auto"}, {"max_clusters": 2}):
        for extra in ({}, {"class_weight": {2: 0.0}}):
            weights = some.astype(float) if not extra else None
            whole = grown(**params, **extra).fit(X, y, weights)
            part = grown(**params).fit(X[some], y[some])
            assert (whole.cluster_centers_ == part.cluster_centers_).all()
            assert whole.n_clusters_ == 2


def test_sizes_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(120, 2)), np.arange(120) % 3, rng.random(120)
    order = np.append(rng.permutation(60), 60 + rng.permutation(60))
    found = []
    for rows in (np.arange(120), order):
        model = grown(6).fit(X[rows], y[rows], weights[rows])
        sizes = [model.at(k).cluster_sizes_.tolist() for k in (3, 6)]
        first, second = rows[:60], rows[60:]
        model.fit(X[first], y[first], weights[first])
        model.partial_fit(X[second], y[second], sample_weight=weights[second])
        found.append([*sizes, model.cluster_sizes_.tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize("growth", ["best", "paper"])
def test_memory_for_sparse_rows_is_that_of_a_few_sets_of_centers(growth):
    """Not that of arrays with all features for each row that is looked at."""
    X = sp.random(400, 20_000, density=0.001, format="csr", random_state=0)
    y = np.random.default_rng(0).integers(0, 3, 400)
    model = grown(6, growth=growth, repulsion=0.25)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * model.cluster_centers_.nbytes


def test_subnormal_sparse_rows_get_the_labels_of_transform():
    tiny = np.float32(2.0**-149)
    X = np.array([[2.0**-100 / tiny] * 2, [1, 4], [5, 1], [2, 0]], dtype=np.float32) * tiny
    model = grown().fit(sp.csr_array(X), [0, 1, 2, 3])
    rows = np.indices((8, 8)).reshape(2, -1).T.astype(np.float32) * tiny
    for form in (rows, sp.csr_array(rows)):
        assert (model.predict_cluster(form) == model.transform(form).argmin(axis=1)).all()


def test_filling_up_a_budget_is_not_convergence():
    model = grown(5, growth="paper", repulsion=3.0)
    model.fit(column(4, 1, -2, -2, 1, -3, -4), [2, 2, 1, 0, 1, 0, 2])
    assert model.history_.phase[-1] == "fill"
    assert not model.converged_


def test_two_prototypes_at_one_place_both_take_the_class_of_the_rows():
    # In float32 all these are the same point. Old rows left prototypes of two classes there, and
    # rows of a third, heavier one came.
    place = np.full((1, 3), 1e6, dtype=np.float32)
    model = grown(repulsion=0.25).fit(np.append(place, place + 1e3, axis=0), [0, 1])
    model.set_center(int(model.cluster_ids_[1]), place[0])
    assert (model.cluster_centers_ == place).all()
    model.partial_fit(place, [3], sample_weight=[5.0])
    assert model.converged_
    assert model.predict(place).tolist() == [3]


def test_rows_of_weight_0_whose_prototype_was_dropped(monkeypatch):
    """They get another one, and the distance to it: a later round begins with both."""
    monkeypatch.setattr("dkmeans.kernels.compiled.ENOUGH", 1)
    X = np.zeros((8, 2))
    X[1, 0], X[7, 0] = -0.5, 0.5
    y, weights = [1, 0, 1, 1, 1, 1, 1, 1], [0, 1, 0, 0, 0, 0, 1, 0]
    model = grown(growth="paper", metric="cosine", repulsion=0.25)
    model.fit(X, y, weights)
    assert model.labels_.tolist() == model.predict_cluster(X).tolist()


@pytest.mark.parametrize("class_weight", ["balanced", {0: np.pi, 1: 1.0, 2: 1 / 3}])
def test_whole_weights_times_class_weights_are_the_rows_so_many_times(class_weight):
    """The product of a weight and a class's factor was rounded; the factor so many times is not."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(-3, 4, (12, 2)).astype(float), rng.permutation(np.arange(12) % 3)
    w = rng.integers(1, 6, 12)
    model = grown(5, growth="paper", class_weight=class_weight)
    weighted = model.fit(X, y, w).cluster_centers_
    repeated = model.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).cluster_centers_
    assert weighted.tobytes() == repeated.tobytes()
