"""The compiled loops against the NumPy code that they stand in for: the same to the last bit."""

import subprocess
import sys

import numpy as np
import pytest

from dkmeans import DiscriminativeKMeans
from dkmeans.kernels import compiled
from dkmeans.kernels.distances import OwnDistances, on_far_side
from dkmeans.kernels.exact import grid_units
from dkmeans.kernels.tally import group_sums, rounded_sums

loops = pytest.importorskip("dkmeans.kernels.loops")


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
    units = grid_units(np.abs(X).max(axis=0) * 8.0, len(X), 1)[0]
    for weights in (None, rng.integers(0, 4, len(X)).astype(float)):
        arguments = X, shift, coefficients, weights, order, starts, units
        np.testing.assert_array_equal(rounded_sums(*arguments), rounded_sums(*arguments, loops))


def test_sides(block):
    X, labels, *_ = block
    rng = np.random.default_rng(4)
    middles, directions = X[:9].astype(np.float64), rng.normal(size=(9, X.shape[1]))
    rows = rng.permutation(len(X))[:120]
    arguments = X, rows, middles, directions, labels[:120]
    np.testing.assert_array_equal(on_far_side(*arguments), on_far_side(*arguments, loops))


@pytest.mark.parametrize("parameters", [{}, {"growth": "best", "refine": "margin"}])
def test_fits_are_the_same_with_and_without(monkeypatch, parameters):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 20)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    plain = DiscriminativeKMeans(30, **parameters).fit(X, y)
    monkeypatch.setattr(compiled, "ENOUGH", 1)
    fast = DiscriminativeKMeans(30, **parameters).fit(X, y)
    np.testing.assert_array_equal(plain.cluster_centers_, fast.cluster_centers_)
    np.testing.assert_array_equal(plain.labels_, fast.labels_)
    assert plain.inertia_ == fast.inertia_


def test_small_fits_do_not_import_numba():
    code = (
        "import sys; from sklearn.datasets import load_iris; from dkmeans import "
        "DiscriminativeKMeans; DiscriminativeKMeans().fit(*load_iris(return_X_y=True)); "
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
        assert DiscriminativeKMeans().fit(X, [0, 0, 1, 1]).score(X, [0, 0, 1, 1]) == 1.0
    finally:
        compiled._loops.cache_clear()
