"""The learned geometry: rows are standardised and projected, with the same bits in any way."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from dkmeans.geometry.learned import Learned
from dkmeans.kernels import projection


def geometry_for(X, components):
    """Standardise the features of some rows."""
    X = X.astype(np.float64)
    constant = (X[0] == X).all(axis=0)
    deviations = np.where(constant, 0.0, X.std(axis=0))
    return Learned.of_features(X.mean(axis=0), deviations, X.min(axis=0), X.max(axis=0), components)


@st.composite
def problems(draw):
    """Rows in mixed units, some of them far from all others or constant, and a projection."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 40)), draw(st.sampled_from([1, 2, 5, 17, 130]))
    p = draw(st.integers(1, 6))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    units = 10.0 ** rng.integers(-12, 13, d)
    X = rng.normal(size=(n, d))
    X[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0.0
    X = X + rng.integers(0, 2, d) * rng.normal(size=d) * 100
    X[:, rng.random(d) < 0.1] = 3.0
    X = (X * units).astype(dtype)
    A = rng.normal(size=(d, p)) * 10.0 ** rng.integers(-3, 4, p)
    known = geometry_for(X, A)
    if draw(st.booleans()):
        X[rng.integers(n)] *= dtype(10.0 ** draw(st.integers(1, 18)))  # not seen before
    return known, X


@settings(max_examples=examples(200), deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_blocks_order_and_sparsity_change_no_bit(problem, random):
    geometry, X = problem
    whole = geometry.rows(X)
    assert whole.dtype == X.dtype
    order = random.sample(range(len(X)), len(X))
    np.testing.assert_array_equal(geometry.rows(X[order]), whole[order])
    one_by_one = np.concatenate([geometry.rows(X[i : i + 1]) for i in range(len(X))])
    assert one_by_one.tobytes() == whole.tobytes()
    assert geometry.rows(np.asfortranarray(X)).tobytes() == whole.tobytes()
    sparse = sp.csr_array(X)
    assert geometry.rows(sparse).tobytes() == whole.tobytes()
    sparse.indices = sparse.indices.astype(np.int64)
    sparse.indptr = sparse.indptr.astype(np.int64)
    assert geometry.rows(sparse).tobytes() == whole.tobytes()
    if X.dtype == np.float32:
        np.testing.assert_array_equal(geometry.rows(X.astype(np.float64)).astype("f4"), whole)


@settings(max_examples=examples(100), deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_features_changes_no_bit_within_the_range(problem, random):
    geometry, X = problem
    there = np.abs(geometry.standardised(X)).max(axis=1) <= projection.RANGE
    order = random.sample(range(X.shape[1]), X.shape[1])
    fields = [getattr(geometry, name)[order] for name in ("shift", "scale", "center", "components")]
    np.testing.assert_array_equal(
        Learned(*fields).rows(X[:, order])[there], geometry.rows(X)[there]
    )


@settings(max_examples=examples(100), deadline=None)
@given(problems())
def test_products_are_exact(problem):
    geometry, X = problem
    S = geometry.standardised(X)
    found = projection.project_rows(X, geometry.shift, geometry.scale, geometry.components)
    for i in np.flatnonzero(np.abs(S).max(axis=1) <= projection.RANGE)[:3]:
        terms = [
            [Fraction(s) * Fraction(a) for s, a in zip(S[i], column, strict=True)]
            for column in geometry.components.T
        ]
        np.testing.assert_array_equal([float(sum(t)) for t in terms], found[i])
        assert all(Fraction(float(sum(t))) == sum(t) for t in terms)


@settings(max_examples=examples(100), deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_units_that_differ_by_a_power_of_two_change_no_bit(problem, random):
    geometry, X = problem
    X = X.astype(np.float64)
    factors = 2.0 ** np.array([random.randint(-100, 100) for _ in range(X.shape[1])])
    other = Learned(
        geometry.shift * factors, geometry.scale * factors, geometry.center * factors,
        geometry.components,
    )  # fmt: skip
    assert other.rows(X * factors).tobytes() == geometry.rows(X).tobytes()


@settings(max_examples=examples(100), deadline=None)
@given(problems())
def test_is_close_to_the_plain_formula(problem):
    geometry, X = problem
    scale = np.where(geometry.scale > 0, geometry.scale, np.inf)
    S = (X.astype(np.float64) - geometry.shift) / scale
    S = np.clip(S, -projection.SATURATION, projection.SATURATION)
    plain = S @ geometry.components
    terms = np.abs(S) @ np.abs(geometry.components)
    room = 2 * np.finfo(X.dtype).eps * terms
    room += projection.GRID / 2 * np.abs(geometry.components).sum(axis=0)
    assert (np.abs(geometry.rows(X) - plain) <= room * 1.001).all()


@pytest.mark.parametrize("d", [1, 30, 2000])
def test_a_projection_keeps_its_leading_bits(d):
    A = np.random.default_rng(0).normal(size=(d, 4)) * [1e-100, 1e-3, 1.0, 1e18]
    rounded = projection.round_projection(A)
    sums = np.abs(A).sum(axis=0)
    assert (np.abs(rounded - A) <= 2.0**-projection.COLUMN_BITS * sums).all()
    assert not projection.round_projection(np.zeros((d, 2))).any()
    assert projection.is_rounded(rounded)
    assert not projection.is_rounded(rounded * [1, 1, 1 + 2.0**-40, 1])


def test_rows_far_beyond_all_others_saturate():
    geometry = Learned.of_features(*np.array([[0.0], [1e-140], [-1.0], [1.0]]), np.eye(1))
    for dtype, most in ((np.float32, 1e38), (np.float64, 1e308)):
        z = geometry.rows(np.array([[most], [-most]], dtype=dtype))
        assert z.tolist() == [[projection.SATURATION], [-projection.SATURATION]]


@pytest.mark.parametrize("p", [1, 3, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_is_the_row_nearest_to_the_mean_with_the_same_image(dtype, p):
    rng = np.random.default_rng(p)
    X = rng.normal(size=(50, 5)) * [1e-6, 1.0, 5.0, 1e8, 0.0] + [0, 0, 90, 0, 7]
    geometry = geometry_for(X, rng.normal(size=(5, p)))
    z = geometry.rows(X.astype(dtype))
    shown = geometry.inverse(z)
    assert shown.dtype == dtype
    if p < 5:  # the last feature is constant: not all images are possible
        np.testing.assert_allclose(geometry.rows(shown), z, atol=10 * projection.GRID)
    np.testing.assert_array_equal(shown[:, 4], 7)
    standard = [((M - geometry.center)[:, :4] / geometry.scale[:4]) for M in (shown, X)]
    lengths = np.linalg.norm(standard, axis=2)
    assert (lengths[0] <= lengths[1] * 1.0001).all()
    mean = geometry.inverse(geometry.rows(geometry.center[None]))[0]
    assert (np.abs(mean - geometry.center) <= 1e-3 * geometry.scale).all()


def test_another_projection_keeps_the_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    geometry = geometry_for(X, np.eye(4))
    other = geometry.with_components(rng.normal(size=(4, 2)))
    assert other.rows(X).shape == (50, 2)
    assert other.scale is geometry.scale
    again = pickle.loads(pickle.dumps(other))
    assert again.rows(X).tobytes() == other.rows(X).tobytes()


def test_features_of_scale_zero_are_ignored():
    X = np.array([[0.0, 5.0], [1.0, 5.0], [4.0, 5.0]])
    geometry = geometry_for(X, np.ones((2, 1)))
    np.testing.assert_array_equal(geometry.rows(X), geometry.rows(X * [1, -1e9]))
