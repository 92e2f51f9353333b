"""Kernels against slow and obvious computations."""

import itertools
import math
from fractions import Fraction
from unittest.mock import patch

import naive
import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dkmeans.exact.group_sums import by_values
from dkmeans.kernels import assign as assign_module
from dkmeans.kernels import product as product_module
from dkmeans.kernels.assign import assign, assign_own_and_rival
from dkmeans.kernels.compiled import ENOUGH, loops_for
from dkmeans.kernels.distances import FarSide, OwnDistances, all_distances
from dkmeans.kernels.exact import cut, grid_units, product, ratio, slice_count
from dkmeans.kernels.pack import pack
from dkmeans.kernels.product import assign_by_product
from dkmeans.kernels.reference import squared_distances, stable_squares
from dkmeans.kernels.rowhash import hash_rows, salted, sampling_hashes
from dkmeans.kernels.tally import add_sums, exact_totals, group_sums, group_totals

loops = loops_for(np.empty((1, ENOUGH)))
ways = [None] if loops is None else [None, loops]  # what NumPy does, and what is compiled


def matrices(max_rows=12, max_columns=4, elements=strategies.wild):
    shapes = st.tuples(st.integers(1, max_rows), st.integers(1, max_columns))
    return shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=elements))


@given(
    X=matrices() | matrices(elements=strategies.far),
    k=st.integers(1, 12),
    dtype=strategies.dtypes,
    sparse=st.booleans(),
    way=st.sampled_from(ways),
)
def test_assign_gives_the_labels_of_the_reference(X, k, dtype, sparse, way):
    X = np.clip(X, -1e15, 1e15).astype(dtype)
    centers = np.concatenate([X, (X[:1] + X) / 2])[:k]
    labels = np.empty(len(X), dtype=np.intp)
    squares = None if sparse else np.empty(len(X))
    block = sp.csr_array(X) if sparse else X
    finite = assign(block, pack(centers, sparse=sparse, loops=way), labels, squares=squares)
    assert labels.tolist() == naive.nearest(X, centers, dtype)
    if squares is not None:
        np.testing.assert_array_equal(squares, squared_distances(X, centers[labels]))
    # Rows far away, or centres that hardly differ: what is scaled to the one is large in the other.
    assert finite or np.abs(X).max() > 1e10 * np.abs(centers - centers.mean(axis=0)).max()


@given(
    X=matrices(30) | matrices(30, elements=strategies.far),
    k=st.integers(2, 40),
    dtype=strategies.dtypes,
    sparse=st.booleans(),
    way=st.sampled_from(ways),
    short_run=st.sampled_from([0, 128]),  # class by class, or all at once
)
def test_own_and_rival_are_those_of_the_reference(X, k, dtype, sparse, way, short_run):
    X = np.clip(X, -1e15, 1e15).astype(dtype)
    centers = np.concatenate([X, (X[:1] + X) / 2, X + X[::-1]])[:k]
    classes = np.sort(np.arange(len(centers)) % 3)
    y = np.arange(len(X)) * 3 // len(X) % (classes.max() + 1)
    if len(centers) < 2:
        return
    y = np.sort(y)
    runs = [
        (slice(*np.searchsorted(y, [c, c + 1])), np.flatnonzero(classes == c)) for c in np.unique(y)
    ]
    packed = pack(centers, sparse=sparse, loops=way, classes=classes)
    own, rival = np.empty((2, len(X)), dtype=np.intp)
    with patch.object(assign_module, "SHORT_RUN", short_run):
        assign_own_and_rival(sp.csr_array(X) if sparse else X, packed, runs, own, rival)
    for row, c, mine, other in zip(X, y, own, rival, strict=True):
        for found, which in (
            (mine, np.flatnonzero(classes == c)),
            (other, np.flatnonzero(classes != c)),
        ):
            assert found == which[naive.nearest(row[None], centers[which], dtype)[0]]


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "k"), [(7, 1, 2), (400, 8, 16), (250, 63, 17), (97, 130, 100)])
def test_assign_at_all_shapes(n, d, k, dtype, way):
    rng = np.random.default_rng(n)
    X = np.round(rng.normal(size=(n, d)) * 4).astype(dtype) / dtype(4)
    centers = X[rng.integers(0, n, k)]
    labels = np.empty(n, dtype=np.intp)
    for rows in (X, sp.csr_array(X)):
        assign(rows, pack(centers, sparse=sp.issparse(rows), loops=way), labels)
        assert labels.tolist() == naive.nearest(X, centers, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 3, 65])
@pytest.mark.parametrize("shift", [0.0, 1.0, 50.0])
@pytest.mark.parametrize(("n", "d"), [(300, 30), (10_001, 3)])  # of the latter, rows share norms
def test_products_settle_nearly_all_rows(n, d, shift, k, dtype):
    rng = np.random.default_rng(k)
    X, centers = ((rng.normal(size=(m, d)) + shift).astype(dtype) for m in (n, k))
    packed = pack(centers, sparse=False)
    if shift != 1:
        assert (packed.factors.shift is None) == (shift == 0 and k > 1)
    some = np.arange(0, n, n // 60)
    expected = np.array(naive.nearest(X[some], centers, dtype))
    for rows in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        labels = np.full(n, -1)
        doubtful = assign_by_product(rows, packed, labels)
        assert len(doubtful) <= n * (0.02 if dtype is np.float32 else 0)
        settled = ~np.isin(some, doubtful)
        assert labels[some][settled].tolist() == expected[settled].tolist()
        assign(rows, packed, labels)
        assert labels[some].tolist() == expected.tolist()


@pytest.mark.parametrize(("d", "far"), [(3, 1e30), (900_000, 1.0)])
def test_products_leave_all_rows_where_no_bound_holds(d, far):
    X = (np.arange(3 * d).reshape(3, d) % 7 - 3).astype(np.float32)
    packed = pack(X[:2].copy(), sparse=False)
    X[1:] *= np.float32(far)
    labels, squares = np.full(3, 10**12), np.empty(3)
    with np.errstate(over="ignore", invalid="ignore"):
        assert assign_by_product(X, packed, labels).tolist() == [0, 1, 2]
    labels[:] = 10**12
    assign(X, packed, labels, squares=squares)
    assert labels.tolist() == naive.nearest(X, packed.centers, np.float32)
    np.testing.assert_array_equal(squares, squared_distances(X, packed.centers[labels]))


@given(
    X=matrices() | matrices(elements=strategies.far),
    k=st.integers(1, 12),
    dtype=strategies.dtypes,
    lines=st.sampled_from([0, 64]),  # scores with a line per row, or per centre
    tile=st.sampled_from([1, 5]),
    together=st.sampled_from([1, 3]),
)
def test_products_give_the_labels_of_the_reference(X, k, dtype, lines, tile, together):
    X = np.clip(X, -1e15, 1e15).astype(dtype)
    centers = np.concatenate([X, (X[:1] + X) / 2])[:k]
    labels = np.empty(len(X), dtype=np.intp)
    with (
        patch.object(product_module, "MAX_LINES", lines),
        patch.object(product_module, "TILE_ROWS", tile),
        patch.object(product_module, "TILE_BYTES", 1),
        patch.object(product_module, "rows_together", lambda *_: together),
    ):
        assign(X, pack(centers, sparse=False), labels)
    assert labels.tolist() == naive.nearest(X, centers, dtype)


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_assign_tells_of_rows_that_are_not_numbers(value, way):
    X = np.arange(24.0).reshape(12, 2)
    packed = pack(X[[1, 7]], sparse=False, loops=way)
    labels = np.empty(12, dtype=np.intp)
    assert assign(X, packed, labels)
    X[5, 1] = value
    assert not assign(X, packed, labels)
    assert labels[[0, 11]].tolist() == [0, 1]


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 50, 700])
@pytest.mark.parametrize("way", ways)
def test_assign_settles_near_ties_by_the_reference(d, dtype, offset, way):
    """Rows half-way between two centres, give or take the last bits."""
    rng = np.random.default_rng(d)
    centers = (offset + rng.normal(size=(6, d))).astype(dtype)
    pairs = rng.integers(0, 6, (40, 2))
    X = ((centers[pairs[:, 0]].astype(float) + centers[pairs[:, 1]]) / 2).astype(dtype)
    labels = np.empty(len(X), dtype=np.intp)
    assign(X, pack(centers, sparse=False, loops=way), labels)
    assert labels.tolist() == naive.nearest(X, centers, dtype)


@pytest.mark.parametrize("way", ways)
def test_assign_copes_with_rows_far_beyond_the_centres(way):
    centers = np.array([[1e-30], [2e-30]], dtype=np.float32)
    X = np.array([[1e15], [-1e15], [0.0], [1.6e-30]], dtype=np.float32)
    labels = np.empty(4, dtype=np.intp)
    assign(X, pack(centers, sparse=False, loops=way), labels)
    assert labels.tolist() == naive.nearest(X, centers, np.float32)


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("d", [300, 1000, 20_001])
def test_assign_bears_sums_that_no_longer_grow(d, sparse, way):
    """Each of many small terms is rounded away where the sum is large already."""
    large, small = 1.345**0.5, (2.0**-23 * 0.995) ** 0.5
    centers, row = np.zeros((4, d)), np.zeros((1, d))
    centers[:, 0] = large, large, -large, -large
    centers[2:, 1] = 3.5, -3.5
    centers[0, 3:], centers[1, 3:] = -small, small
    row[0, 0], row[0, 3:] = -large, small
    row[0, 2] = centers[0, 2] = ((d - 3) * small**2 * 0.95) ** 0.5
    centers[1, 2] = -centers[0, 2]
    centers, row = centers.astype(np.float32), row.astype(np.float32)
    label = np.empty(1, dtype=np.intp)
    packed = pack(centers, sparse=sparse, loops=way)
    assign(sp.csr_array(row) if sparse else row, packed, label)
    assert label.tolist() == naive.nearest(row, centers, np.float32)


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("dtype", "near", "far"), [(np.float32, 1e-30, 1e8), (np.float64, 1e-165, 1e-165)]
)
def test_assign_at_the_ends_of_the_range(dtype, near, far, sparse, way):
    rng = np.random.default_rng(0)
    centers, X = (rng.normal(size=(n, 16)) for n in (5, 2000))
    centers, X = (centers * near).astype(dtype), (X * far).astype(dtype)
    labels = np.empty(len(X), dtype=np.intp)
    packed = pack(centers, sparse=sparse, loops=way)
    assign(sp.csr_array(X) if sparse else X, packed, labels)
    assert labels.tolist() == naive.nearest(X, centers, dtype)


@given(X=matrices(), dtype=strategies.dtypes, sparse=st.booleans())
def test_all_distances_are_the_reference(X, dtype, sparse):
    X = np.clip(X, -1e15, 1e15).astype(dtype)
    centers = X[::2]
    out = np.empty((len(X), len(centers)), dtype=dtype)
    all_distances(sp.csr_array(X) if sparse else X, centers, out)
    assert out.tolist() == [[naive.distance(x, c, dtype) for c in centers] for x in X]


@given(
    X=matrices(elements=strategies.fine)
    | matrices(elements=strategies.far | st.just(0.0))
    | matrices(),
    dtype=strategies.dtypes,
)
def test_own_distances_agree_for_dense_and_sparse(X, dtype):
    X = np.clip(X, -1e15, 1e15).astype(dtype)
    centers = X[::2]
    labels = np.arange(len(X)) % len(centers)
    dense, sparse = np.empty(len(X)), np.empty(len(X))
    OwnDistances(centers, sparse=False)(X, labels, dense)
    OwnDistances(centers, sparse=True)(sp.csr_array(X), labels, sparse)
    assert dense.tolist() == [naive.squared(x, centers[i]) for x, i in zip(X, labels, strict=True)]
    stable = [naive.stable(x, centers[i]) for x, i in zip(X, labels, strict=True)]
    assert stable_squares(dense, X.shape[1]).tolist() == sparse.tolist() == stable


@given(
    values=hnp.arrays(np.float64, st.integers(1, 60), elements=strategies.wild),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_do_not_depend_on_the_order(values, seed):
    n = len(values)
    units = grid_units(np.array([np.abs(values).max()]), n, slice_count(n, 89))
    slices = cut(values[:, None], units)
    shuffled = slices[:, np.random.default_rng(seed).permutation(n)]
    assert (slices.sum(axis=1) == shuffled.cumsum(axis=1)[:, -1]).all()
    exact = sum(Fraction(v) for v in values)
    found = sum(Fraction(float(v)) for v in slices.sum(axis=1).ravel())
    assert abs(found - exact) <= n * Fraction(float(units[-1, 0]))


@given(a=strategies.fine, b=strategies.fine)
def test_product_loses_nothing(a, b):
    p, rest = product(np.array([a]), np.array([b]))
    assert Fraction(a) * Fraction(b) == Fraction(float(p[0])) + Fraction(float(rest[0]))


@given(value=strategies.fine, count=st.integers(1, 1000))
def test_mean_of_equal_values_is_the_value(value, count):
    units = grid_units(np.array([abs(value)]), count, slice_count(count, 89))
    sums = cut(np.full((count, 1), value), units).sum(axis=1)
    assert ratio(sums, np.array([[float(count)]]))[0] == value


@given(
    values=hnp.arrays(np.float64, st.integers(1, 40), elements=strategies.fine),
    weights=st.lists(st.integers(1, 9), min_size=40, max_size=40),
)
def test_weighted_means_are_those_of_fractions(values, weights):
    w = np.array(weights[: len(values)], dtype=np.float64)
    n, heaviest = len(values), w.max()
    n_slices = slice_count(n, 93)
    units = grid_units(np.array([np.abs(values).max() * heaviest]), n, n_slices)
    sums = group_sums(values[:, None], w, np.arange(n), np.array([0]), units)
    mean = ratio(sums[:, 0], np.array([[w.sum()]]))[0]
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(values, w, strict=True)) / Fraction(
        w.sum()
    )
    assert mean == float(exact)


@given(
    values=hnp.arrays(np.float64, st.integers(1, 12), elements=st.integers(-(2**53), 2**53)),
    weights=hnp.arrays(np.float64, 12, elements=st.floats(0.1, 10)),
    orders=hnp.arrays(np.int64, 12, elements=st.integers(-60, 60)),
)
def test_means_are_rounded_once_whatever_the_range(values, weights, orders):
    n = len(values)
    x, w = np.ldexp(values, orders[:n]), weights[:n]
    bound = np.array([np.abs(x).max() * w.max()])
    units = grid_units(bound, n, slice_count(n, 290))
    order, starts = np.arange(n), np.array([0])
    weight = group_totals(w, grid_units(np.array([w.max()]), n, slice_count(n, 70)), order, starts)
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(x, w, strict=True))
    for way in ways:
        sums = group_sums(x[:, None], w, order, starts, units, way)
        assert ratio(sums[:, 0], weight)[0] == float(exact / sum(map(Fraction, w)))
    sums = np.zeros_like(sums)
    add_sums(sums, starts, group_sums(sp.csr_array(x[:, None]), w, order, starts, units))
    assert ratio(sums[:, 0], weight)[0] == float(exact / sum(map(Fraction, w)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_smallest_slice_decides_what_is_half_way(sign):
    slices = np.array(
        [[1.0, 1.0, 1.0, 0.0], [2.0**-53] * 3 + [0.0], [2.0**-120, -(2.0**-120), 0, 0]]
    )
    found = ratio(sign * slices, np.ones((1, 4)))
    assert found.tolist() == [sign * v for v in (1 + 2.0**-52, 1.0, 1.0, 0.0)]


@given(
    values=hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1e300)),
    groups=hnp.arrays(np.int64, 30, elements=st.integers(0, 2)),
)
def test_totals_are_rounded_once(values, groups):
    groups = groups[: len(values)]
    found = exact_totals(groups, values, 3)
    small = values.max() * 2.0**-100
    for g in range(3):
        exact = math.fsum(values[groups == g])
        assert found[g] == pytest.approx(exact, rel=2.0**-52, abs=small)
        if not ((values > 0) & (values < small)).any():
            assert found[g] == exact
    assert exact_totals(groups, None, 3).tolist() == np.bincount(groups, minlength=3).tolist()


@given(X=matrices(elements=strategies.coarse), weighted=st.booleans(), dtype=strategies.dtypes)
def test_group_sums_agree_for_dense_and_sparse(X, weighted, dtype):
    X = X.astype(dtype)
    n = len(X)
    weights = 1.0 + np.arange(n) % 3 if weighted else None
    units = grid_units(3 * np.abs(X).max(axis=0).astype(float), n, slice_count(n, 91))
    order, starts = np.argsort(np.arange(n) % 3, kind="stable"), np.arange(min(n, 3))
    starts = np.searchsorted(np.sort(np.arange(n) % 3), starts)
    dense = group_sums(X, weights, order, starts, units)
    sparse = np.zeros_like(dense)
    everyone = np.arange(len(starts))
    add_sums(sparse, everyone, group_sums(sp.csr_array(X), weights, order, starts, units))
    assert (dense == sparse).all()


@given(
    X=matrices(elements=strategies.coarse) | matrices(elements=strategies.far),
    dtype=strategies.dtypes,
    pair=st.tuples(st.integers(0, 11), st.integers(0, 11)),
)
def test_sides_agree_for_dense_and_sparse(X, dtype, pair):
    """Also of rows on the border itself, where rounding decides."""
    X = X.astype(dtype)
    a, b = (X[i % len(X)].astype(np.float64) for i in pair)
    middles, directions = np.array([(a + b) / 2, a, X.mean(axis=0)]), np.array([a - b, b - a, b])
    rows, groups = np.arange(len(X)), np.arange(len(X)) % 3
    dense = FarSide(middles, directions, sparse=False)(X, rows, groups)
    sparse = FarSide(middles, directions, sparse=True)(sp.csr_array(X), rows, groups)
    assert (sparse == dense).all()


@given(
    X=matrices(elements=strategies.coarse),
    keys=hnp.arrays(np.int64, 12, elements=st.integers(0, 2)),
)
def test_rows_are_sorted_by_values(X, keys):
    X, keys = np.repeat(X, 2, axis=0), np.tile(keys[: len(X)], 2)
    assert by_values(X, keys).tolist() == np.lexsort((*X.T[::-1], keys)).tolist()


@given(X=matrices(), dtype=strategies.dtypes)
def test_hashes_agree_for_dense_and_sparse_and_for_signed_zeros(X, dtype):
    X = np.clip(X, -1e15, 1e15).astype(dtype)
    hashes = hash_rows(X)
    assert (hashes == hash_rows(sp.csr_array(X))).all()
    assert (hashes == hash_rows(np.where(X == 0, dtype(-0.0), X))).all()


@given(X=matrices(), dtype=strategies.dtypes, shifts=st.lists(st.integers(-60, 60), min_size=1))
def test_sampling_hashes_do_not_depend_on_layout_type_or_powers_of_two(X, dtype, shifts):
    X = np.where(np.abs(X) < 1e-15, 0.0, np.clip(X, -1e15, 1e15)).astype(dtype)
    hashes = sampling_hashes(X, np.abs(X).max(axis=0))
    factors = 2.0 ** np.resize(shifts, X.shape[1])
    for other in (
        sp.csr_array(X),
        X.astype(np.float64),
        np.where(X == 0, dtype(-0.0), X),
        X * factors.astype(dtype),
    ):
        dense = other.toarray() if sp.issparse(other) else other
        assert (sampling_hashes(other, np.abs(dense).max(axis=0)) == hashes).all()


@pytest.mark.parametrize("n_columns", [1, 5])
def test_salted_hashes_draw_other_rows_each_time(n_columns):
    X = np.random.default_rng(0).normal(size=(4000, n_columns)).round(2).astype(np.float32)
    X = np.unique(X, axis=0)
    hashes = sampling_hashes(X, np.abs(X).max(axis=0))
    assert len(np.unique(hashes)) == len(X)
    drawn = np.array([salted(hashes, salt) < np.uint64(2**62) for salt in range(8)])
    assert (np.abs(drawn.mean(axis=1) - 0.25) < 4 * np.sqrt(0.25 * 0.75 / len(X))).all()
    both = np.array([(a & b).mean() for a, b in itertools.combinations(drawn, 2)])
    assert (np.abs(both - 0.25**2) < 5 * np.sqrt(0.06 / len(X))).all()
    assert len(np.unique(salted(hashes, 3))) == len(X)


def test_hashes_tell_rows_apart():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (2000, 8)).astype(np.float32)
    distinct = len(np.unique(X, axis=0))
    assert len(np.unique(hash_rows(X))) == distinct
