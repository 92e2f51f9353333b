"""Sums without zeros, beside dense ones: the same values, and the same fits to the last bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown

from dkmeans import load
from dkmeans.exact import sparse_sums
from dkmeans.exact.group_sums import GroupSums, Tally
from dkmeans.exact.sparse_sums import SparseSums, SumBuilder, dense
from dkmeans.kernels.tally import Scattered
from dkmeans.runners.encoding import decode, encode

shapes = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 5))


def some_sums(rng, shape):
    values = rng.integers(-4, 5, shape).astype(float)
    return np.where(rng.random(shape) < 0.4, values, 0.0)


def as_array(found):
    assert isinstance(found, SparseSums)
    array = dense(found)
    assert found.shape == array.shape
    return array + 0.0  # -0.0 is 0.0


@settings(deadline=None)
@given(shape=shapes, seed=st.integers(0, 999), chunk=st.sampled_from([1, 1 << 21]))
def test_operations_return_what_those_of_arrays_do(shape, seed, chunk):
    rng = np.random.default_rng(seed)
    array, other = some_sums(rng, shape), some_sums(rng, shape)
    sums, others = SparseSums.of_dense(array), SparseSums.of_dense(other)
    g = shape[1]
    assert sums.size == array.size
    for which in (rng.permutation(g), rng.random(g) < 0.5, slice(1, None)):
        np.testing.assert_array_equal(as_array(sums[:, which]), array[:, which])
    np.testing.assert_array_equal(as_array(-sums), 0.0 - array)
    np.testing.assert_array_equal(as_array(sums - others), array - other)
    np.testing.assert_array_equal(as_array(sums / 3.0), array / 3.0)
    both = np.concatenate([array, other], axis=1)
    for pair in ([sums, others], [array, others], [sums, other]):
        np.testing.assert_array_equal(as_array(sparse_sums.joined(pair)), both)
    starts = np.flatnonzero(np.append(True, rng.random(g - 1) < 0.5))
    np.testing.assert_array_equal(
        as_array(sparse_sums.add_runs(sums, starts)), np.add.reduceat(array, starts, axis=1)
    )
    again = decode(encode(sums, arrays := {}), arrays)
    np.testing.assert_array_equal(as_array(again), array)
    weights = rng.integers(1, 5, (shape[0], g)).astype(float)
    none = np.arange(g), np.zeros(g, int), weights
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_sums, "CHUNK_VALUES", chunk)
        found = sparse_sums.mapped(lambda some: 2.0 * some[:1], sums)
        np.testing.assert_array_equal(as_array(found), 2.0 * array[:1])
        one, two = (Tally(*none, some, weights).means for some in (array, sums))
        np.testing.assert_array_equal(one, two)


@given(shape=shapes, seed=st.integers(0, 999), flushed=st.sampled_from([0, 1 << 20]))
def test_terms_are_added_up(shape, seed, flushed):
    rng = np.random.default_rng(seed)
    expected = np.zeros(shape)
    builder = SumBuilder(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_sums, "MIN_FLUSHED", flushed)
        for _ in range(rng.integers(0, 4)):
            at = np.flatnonzero(rng.random(shape[1]) < 0.7)
            m = rng.integers(1, 9) if len(at) else 0
            groups, columns = (rng.integers(0, high, m) for high in (max(1, len(at)), shape[2]))
            slices = some_sums(rng, (shape[0], m))
            builder.add(at, Scattered(groups, columns, slices))
            for level, piece in zip(expected, slices, strict=True):
                np.add.at(level, (at[groups], columns), piece)
    np.testing.assert_array_equal(as_array(builder.sums()), expected)


@given(seed=st.integers(0, 999))
def test_groups_of_parts_are_merged(seed):
    rng = np.random.default_rng(seed)
    several = []
    for _ in range(3):
        keys = np.flatnonzero(rng.random(6) < 0.6)
        weights = rng.integers(1, 5, (2, len(keys))).astype(float)
        several.append(GroupSums(keys, weights, some_sums(rng, (2, len(keys), 4)), weights))
    expected = GroupSums.merge(several)
    for which in ([0], [1, 2], [0, 1, 2]):
        mixed = [
            GroupSums(one.keys, one.weights, SparseSums.of_dense(one.sums), one.squares)
            if at in which
            else one
            for at, one in enumerate(several)
        ]
        found = GroupSums.merge(mixed)
        np.testing.assert_array_equal(found.keys, expected.keys)
        np.testing.assert_array_equal(found.weights, expected.weights)
        np.testing.assert_array_equal(as_array(found.sums), expected.sums)


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 300)
    X = rng.poisson(0.3, (300, 20)) * rng.random((300, 20))
    X[:, 3] += y * rng.random(300)
    X[:, 0] += 0.1
    X[200:205], y[200:205] = X[:5], (y[:5] + 1) % 4
    return X.astype(np.float32), y, rng.integers(0, 4, 300).astype(float)


@pytest.mark.parametrize(
    "parameters",
    [
        {"growth": "paper", "max_clusters": 40},
        {"growth": "paper", "max_clusters": 40, "metric": "cosine", "prune": True},
        {"max_clusters": 12, "metric": "cosine"},
        {"max_clusters": 12, "refine": "margin"},
        {"max_clusters": "auto"},
    ],
    ids=str,
)
def test_fits_are_the_same_to_the_last_bit(words, monkeypatch, tmp_path, parameters):
    X, y, w = words
    w = w if parameters["max_clusters"] == 12 else None

    def fits(rows):
        model = grown(**parameters).fit(rows, y, w)
        yield model
        if parameters["max_clusters"] != "auto":
            yield model.partial_fit(rows[:90] * 1.5, y[:90][::-1])
        model.save(tmp_path / "model.dkm")
        yield load(tmp_path / "model.dkm")
        ids = model.cluster_ids_[model.cluster_classes_ == model.cluster_classes_[0]]
        if len(ids) > 1:
            yield model.merge(ids[:2])

    expected = [(model._fitted, model.cluster_centers_.tobytes()) for model in fits(X)]
    monkeypatch.setattr(sparse_sums, "MIN_SPARSE_VALUES", 0)
    monkeypatch.setattr(sparse_sums, "CHUNK_VALUES", 50)
    n_sparse = 0
    for (fitted, centers), model in zip(expected, fits(sp.csr_array(X)), strict=True):
        assert model.cluster_centers_.tobytes() == centers
        earlier, before = model._fitted.earlier_rows, fitted.earlier_rows
        n_sparse += isinstance(earlier.sums, SparseSums)
        assert (dense(earlier.sums) + 0.0).tobytes() == (dense(before.sums) + 0.0).tobytes()
        np.testing.assert_array_equal(model._fitted.sizes, fitted.sizes)
    assert n_sparse
