"""The promises that the estimator makes, one test each."""

import os
import subprocess
import sys
import threading
import tracemalloc
import warnings
from fractions import Fraction
from operator import mul

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from sklearn.base import clone
from sklearn.datasets import load_digits

from dkmeans import OverfittingWarning
from dkmeans.passes import assignment

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")

FITTED = ("cluster_centers_", "cluster_classes_", "cluster_sizes_", "cluster_ids_", "labels_")
FITTED = (*FITTED, "exemplars_")


def noisy(n=3000, d=8, dtype=np.float64, n_classes=5, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return (rng.normal(size=(n, d)) + 0.8 * y[:, None]).astype(dtype), y


def assert_same(a, b):
    for name in FITTED:
        left, right = getattr(a, name), getattr(b, name)
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes(), name
    assert a.inertia_ == b.inertia_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_bit_identical_for_any_number_of_threads_and_memory_budget(dtype, weighted):
    X, y = noisy(600, dtype=dtype)
    w = np.random.default_rng(1).uniform(0, 2, len(y)) if weighted else None
    first = grown(n_threads=1).fit(X, y, w)
    for n_threads, memory_mb in ((1, 0.05), (2, None), (2, 0.3), (3, 0.05)):
        again = grown(n_threads=n_threads, memory_mb=memory_mb).fit(X, y, w)
        assert_same(first, again)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_bit_identical_with_the_best_growth_and_refinement(dtype, weighted):
    X, y = noisy(400, dtype=dtype)
    w = np.random.default_rng(1).uniform(0, 2, len(y)) if weighted else None
    model = grown(30, growth="best", refine="margin")
    first = clone(model).set_params(n_threads=1).fit(X, y, w)
    for n_threads, memory_mb in ((1, 0.05), (2, None), (3, 0.3)):
        again = clone(model).set_params(n_threads=n_threads, memory_mb=memory_mb).fit(X, y, w)
        assert_same(first, again)


def test_bit_identical_in_other_processes():
    code = """
import hashlib, sys, numpy as np
from sklearn.datasets import load_digits
from dkmeans import DiscriminativeKMeans
X, y = load_digits(return_X_y=True)
m = DiscriminativeKMeans(60, refine=None, metric="euclidean", memory_mb=float(sys.argv[1]))
m.fit(X.astype(np.float32), y)
print(hashlib.sha256(m.cluster_centers_.tobytes() + m.labels_.tobytes()).hexdigest())
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code, memory],
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads, memory in (("1", "0.1"), ("3", "50"))
    }
    assert len(found) == 1


def test_nothing_random_is_used_in_fit(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a random number was asked for")

    for name in ("default_rng", "random", "rand", "randn", "permutation", "shuffle", "choice"):
        monkeypatch.setattr(np.random, name, refuse)
    X = np.arange(40.0).reshape(20, 2) % 7
    grown().fit(X, np.arange(20) % 3)


@given(data=strategies.labelled(), parameters=strategies.parameters, seed=st.integers(0, 99))
def test_labels_are_those_of_predict_cluster_and_of_transform(data, parameters, seed):
    X, y = data
    model = grown(**parameters).fit(X, y)
    assert (model.labels_ == model.predict_cluster(X)).all()
    assert (model.labels_ == model.transform(X).argmin(axis=1)).all()
    new = X[np.random.default_rng(seed).permutation(len(X))] * X.dtype.type(0.75)
    assert (model.predict_cluster(new) == model.transform(new).argmin(axis=1)).all()
    assert (model.predict(new) == model.cluster_classes_[model.predict_cluster(new)]).all()


@given(data=strategies.weighted(), parameters=strategies.parameters, extra=st.integers(0, 5))
def test_no_prototype_is_empty(data, parameters, extra):
    X, y, w = data
    for budget in (None, int(y.max()) + 1 + extra):
        model = grown(budget, **parameters).fit(X, y, w)
        assert (model.cluster_sizes_ > 0).all()
        np.testing.assert_allclose(model.cluster_sizes_, np.bincount(model.labels_, w))


@given(
    data=strategies.weighted(),
    parameters=strategies.parameters,
    extra=st.none() | st.integers(0, 12),
)
def test_a_weight_equals_the_row_so_many_times(data, parameters, extra):
    X, y, w = data
    budget = None if extra is None else int(y.max()) + 1 + extra
    weighted = grown(budget, **parameters).fit(X, y, w)
    again = np.repeat(np.arange(len(y)), w.astype(int))
    repeated = grown(budget, **parameters).fit(X[again], y[again])
    assert weighted.cluster_centers_.tobytes() == repeated.cluster_centers_.tobytes()
    assert (weighted.labels_[again] == repeated.labels_).all()
    assert (weighted.cluster_sizes_ == repeated.cluster_sizes_).all()


@given(
    data=strategies.weighted(),
    parameters=strategies.parameters,
    factor=st.sampled_from([2.0**-20, 0.1, 0.3, 3.0, 7.3, 1e9]),
)
def test_weights_times_a_constant_change_nothing(data, parameters, factor):
    X, y, w = data
    one, other = (grown(**parameters).fit(X, y, v) for v in (w, w * factor))
    assert one.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
    assert (one.labels_ == other.labels_).all()
    np.testing.assert_allclose(other.cluster_sizes_, one.cluster_sizes_ * factor, rtol=1e-12)
    np.testing.assert_allclose(other.inertia_, one.inertia_ * factor, rtol=1e-10)


@given(data=strategies.weighted())
def test_a_row_of_weight_zero_takes_no_part_but_gets_a_label(data):
    X, y, w = data
    model = grown().fit(X, y, w)
    part = w > 0
    alone = grown().fit(X[part], y[part], w[part])
    assert model.cluster_centers_.tobytes() == alone.cluster_centers_.tobytes()
    assert (model.labels_ == model.predict_cluster(X)).all()


@given(data=strategies.weighted(), parameters=strategies.parameters, seed=st.integers(0, 99))
def test_the_order_of_rows_changes_nothing(data, parameters, seed):
    X, y, w = data
    order = np.random.default_rng(seed).permutation(len(y))
    one = grown(**parameters).fit(X, y, w)
    other = grown(**parameters).fit(X[order], y[order], w[order])
    assert one.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
    assert (one.labels_[order] == other.labels_).all()
    assert one.inertia_ == other.inertia_


def test_the_names_of_classes_change_nothing():
    X, y = noisy(500)
    numbers = grown().fit(X, y)
    letters = grown().fit(X, np.array(list("abcde"))[y])
    assert numbers.cluster_centers_.tobytes() == letters.cluster_centers_.tobytes()
    assert letters.predict(X[:1])[0] in "abcde"


@given(data=strategies.weighted(), parameters=strategies.parameters)
def test_dense_equals_csr(data, parameters):
    X, y, w = data
    dense = grown(**parameters).fit(X, y, w)
    sparse = grown(**parameters).fit(sp.csr_array(X), y, w)
    assert dense.cluster_centers_.tobytes() == sparse.cluster_centers_.tobytes()
    assert (dense.labels_ == sparse.labels_).all()
    assert dense.transform(X).tobytes() == sparse.transform(sp.csr_array(X)).tobytes()
    assert sparse.inertia_ == dense.inertia_


def test_dense_equals_csr_on_digits():
    X, y = load_digits(return_X_y=True)
    dense = grown().fit(X, y)
    sparse = grown().fit(sp.csr_array(X), y)
    assert dense.cluster_centers_.tobytes() == sparse.cluster_centers_.tobytes()
    assert dense.predict_proba(X).tobytes() == sparse.predict_proba(sp.csr_matrix(X)).tobytes()


@given(data=strategies.labelled(), seed=st.integers(0, 99))
def test_ties_fall_the_same_way_in_predict_and_predict_proba(data, seed):
    X, y = data
    model = grown().fit(X, y)
    rng = np.random.default_rng(seed)
    middles = (X[rng.permutation(len(X))].astype(float) + X) / 2  # ties between prototypes
    for rows in (X, middles.astype(X.dtype)):
        predicted = model.predict(rows)
        assert (model.classes_[model.predict_proba(rows).argmax(axis=1)] == predicted).all()
        margins = model.decision_function(rows)
        if len(model.classes_) == 2:
            assert (model.classes_[(margins > 0).astype(int)] == predicted).all()
        else:
            assert (model.classes_[margins.argmax(axis=1)] == predicted).all()


@given(data=strategies.labelled(), scale=st.sampled_from([1.0, 1e6, 1e11]))
def test_probabilities_sum_to_one_however_far_the_rows(data, scale):
    X, y = data
    model = grown().fit(X, y)
    rows = (X * X.dtype.type(scale) + X.dtype.type(scale)).astype(X.dtype)
    p = model.predict_proba(rows)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert np.isfinite(model.decision_function(rows)).all()


def test_float32_stays_float32_without_a_float64_copy():
    X, y = noisy(8000, 128, np.float32, n_classes=3)
    model = grown(max_clusters=12, memory_mb=1, n_threads=2)
    model.fit(X[:100], y[:100])  # whatever is set up once is set up now
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * X.size / 2, "half a float64 copy of X"
    for method in ("transform", "predict_proba", "decision_function"):
        assert getattr(model, method)(X[:5]).dtype == np.float32
    assert model.cluster_centers_.dtype == np.float32


def test_memory_does_not_grow_with_clusters_times_classes():
    """400 classes and 800 clusters at d = 64: k x C x d alone would take 164 MB."""
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 400
    X = rng.normal(size=(400, 64))[y] + 0.3 * rng.normal(size=(4000, 64))
    tracemalloc.start()
    grown(max_clusters=800, memory_mb=8).fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_far_from_the_origin_lose_no_accuracy(dtype):
    """Moving data by a number that loses no digits moves the centres by it."""
    rng = np.random.default_rng(0)
    shift = dtype(2**10 if dtype is np.float32 else 2**30)
    moved = rng.normal(size=(300, 2)).astype(dtype) + shift
    X, y = moved - shift, rng.integers(0, 3, 300)
    for growth in ("best", "paper"):
        model = grown(growth=growth)
        here, there = model.fit(X, y), clone(model).fit(moved, y)
        assert there.score(moved, y) == 1.0
    # The paper's rounds depend on means alone, whose rounding is all that can differ.
    assert (there.labels_ == here.labels_).all()
    tolerance = 2 * np.finfo(dtype).eps * float(shift)
    np.testing.assert_allclose(
        there.cluster_centers_ - shift, here.cluster_centers_, atol=tolerance
    )


def test_inputs_are_never_written_to(tmp_path):
    X, y = noisy(400, dtype=np.float32)
    w = np.ones(len(y))
    X_map = np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)
    X_map[:] = X
    X_map = np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape)
    for array in (y, w):
        array.flags.writeable = False
    model = grown().fit(X_map, y, w)
    for method in ("predict", "transform", "predict_proba", "predict_cluster"):
        getattr(model, method)(X_map)
    sparse = sp.csr_array(X)
    for array in (sparse.data, sparse.indices, sparse.indptr):
        array.flags.writeable = False
    grown().fit(sparse, y)
    assert (X_map == X).all()


def test_ctrl_c_leaves_the_estimator_as_it_was(monkeypatch):
    X, y = noisy(600)
    model = grown(max_clusters=9, n_threads=2).fit(X, y)
    before = {name: np.copy(getattr(model, name)) for name in FITTED}
    calls = []

    def interrupted(*args, **kwargs):
        calls.append(threading.current_thread())
        if len(calls) > 1:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    original = assignment.assign
    monkeypatch.setattr(assignment, "assign", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :3], y)
    assert model.n_features_in_ == X.shape[1]
    for name, value in before.items():
        assert getattr(model, name).tobytes() == value.tobytes()
    monkeypatch.undo()
    assert (model.predict_cluster(X) == model.labels_).all()


def test_pruning_keeps_training_accuracy_with_fewer_prototypes():
    X, y = noisy(1500, 2)
    full, pruned = grown().fit(X, y), grown(prune=True).fit(X, y)
    assert pruned.n_clusters_ < full.n_clusters_
    assert pruned.score(X, y) == full.score(X, y) == 1.0
    assert (pruned.labels_ == pruned.predict_cluster(X)).all()
    assert (np.bincount(pruned.labels_) > 0).all()
    assert pruned.history_.phase[-1] == "prune"
    assert set(pruned.cluster_ids_) < set(full.cluster_ids_)


def test_warns_when_a_large_share_of_rows_become_prototypes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    with pytest.warns(OverfittingWarning, match=r"max_clusters.*min_cluster_size"):
        grown().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grown(max_clusters=20).fit(X, y)
        grown().fit(np.arange(100.0)[:, None], np.arange(100) // 50)


def test_class_weights_are_weights():
    X, y = noisy(600, 2, n_classes=3)
    by_class = grown(max_clusters=12, class_weight={0: 5, 1: 1, 2: 0.5}).fit(X, y)
    by_row = grown(max_clusters=12).fit(X, y, np.array([5, 1, 0.5])[y])
    assert by_class.cluster_centers_.tobytes() == by_row.cluster_centers_.tobytes()
    assert by_class.cluster_sizes_.sum() == 600  # sizes are sums of sample_weight
    balanced = grown(max_clusters=12, class_weight="balanced")
    repeated = np.concatenate([np.arange(600), np.flatnonzero(y == 0)])
    w = np.where(y == 0, 2.0, 1.0)
    weighted = balanced.fit(X, y, w).cluster_centers_
    doubled = balanced.fit(X[repeated], y[repeated]).cluster_centers_
    assert weighted.tobytes() == doubled.tobytes()


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.3, 2: np.pi}])
@pytest.mark.parametrize("refine", [None, "margin"])
def test_real_weights_in_any_order(class_weight, refine):
    X, y = noisy(60, 2, n_classes=3)
    w = np.random.default_rng(0).uniform(0, 2, len(y))
    model = grown(8, growth="paper", class_weight=class_weight, refine=refine)
    one, conflict = clone(model).fit(X, y, w), clone(model).fit(np.zeros((60, 1)), y, w)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        batches = [(X[rows], y[rows], w[rows]) for rows in np.array_split(order, 4)]
        for data in ((X[order], y[order], w[order]), (lambda b=batches: iter(b), None)):
            other = clone(model).fit(*data)
            assert one.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
            assert one.cluster_sizes_.tobytes() == other.cluster_sizes_.tobytes()
            assert one.inertia_ == other.inertia_
        again = clone(model).fit(np.zeros((60, 1)), y[order], w[order])
        assert again.cluster_classes_.tolist() == conflict.cluster_classes_.tolist()


@pytest.mark.parametrize("refine", [None, "margin"])
def test_whole_weights_times_class_weights(refine):
    """Class weights that have no common divisor leave whole weights what they are."""
    X, y = noisy(90, 2, n_classes=3)
    w = np.random.default_rng(0).integers(0, 8, len(y)).astype(float)
    again = np.repeat(np.arange(len(y)), w.astype(int))
    for class_weight in ("balanced", {0: 0.3, 2: np.pi}):
        model = grown(8, growth="paper", class_weight=class_weight, refine=refine)
        weighted, repeated = clone(model).fit(X, y, w), clone(model).fit(X[again], y[again])
        assert weighted.cluster_centers_.tobytes() == repeated.cluster_centers_.tobytes()
        assert weighted.cluster_sizes_.tobytes() == repeated.cluster_sizes_.tobytes()
        assert weighted.inertia_ == repeated.inertia_


@pytest.mark.parametrize(("whole", "orders"), [(True, 14), (False, 6)])
def test_means_are_rounded_once_whatever_the_range_of_a_column(whole, orders):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(45, 2)) * 10.0 ** rng.integers(-orders, orders + 1, (45, 2))
        y, w = rng.integers(0, 3, 45), rng.integers(1, 7, 45).astype(float)
        w = w if whole else rng.uniform(0.5, 2, 45)
        model = grown(growth="paper").fit(X, y, w)
        for cell, center in enumerate(model.cluster_centers_):
            rows = np.flatnonzero(model.labels_ == cell)
            weights = [Fraction(v) for v in w[rows]]
            columns = [[Fraction(v) for v in column] for column in X[rows].T]
            means = [sum(map(mul, weights, column)) / sum(weights) for column in columns]
            assert center.tolist() == [float(mean) for mean in means]


def test_beyond_that_range_means_are_off_by_little_of_the_largest_value():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(45, 2)) * 10.0 ** rng.integers(-60, 61, (45, 2))
    y = rng.integers(0, 3, 45)
    model = grown(growth="paper").fit(X, y)
    for cell, center in enumerate(model.cluster_centers_):
        columns = X[model.labels_ == cell].T
        exact = [float(sum(map(Fraction, column)) / len(column)) for column in columns]
        assert (np.abs(center - exact) <= np.abs(X).max(axis=0) * 2.0**-159).all()


def test_min_cluster_size_is_a_sum_of_sample_weights():
    X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [2.0]])
    y = np.array([0, 0, 0, 1, 1, 1])
    w = np.full(6, 0.1)
    assert grown(min_cluster_size=0.3).fit(X, y, w).n_clusters_ == 2
    assert grown(min_cluster_size=0.31).fit(X, y, w).n_clusters_ == 1


@settings(max_examples=strategies.examples(50))
@given(data=strategies.weighted(), size=st.integers(1, 4))
def test_converged_with_min_cluster_size_means_no_cell_holds_two_large_groups(data, size):
    X, y, w = data
    model = grown(min_cluster_size=size).fit(X, y, w)
    assert model.converged_
    if model.conflicts_:
        return
    for cell in range(model.n_clusters_):
        inside = model.labels_ == cell
        assert (np.bincount(y[inside], w[inside]) >= size).sum() <= 1


@pytest.mark.study
def test_many_classes_and_many_prototypes_fit_in_memory():
    """1000 classes, 20,000 prototypes, d = 256: k x C x d alone would take 40 terabytes."""
    code = """
import resource, numpy as np
from dkmeans import DiscriminativeKMeans
rng = np.random.default_rng(0)
y = np.arange(30_000) % 1000
X = rng.normal(size=(len(y), 256)).astype(np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = DiscriminativeKMeans.paper(20_000).fit(X, y)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(model.n_clusters_, (after - before) / 2**20)
"""
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    clusters, gibibytes = printed.split()
    assert int(clusters) == 20_000
    assert float(gibibytes) < 2.0
