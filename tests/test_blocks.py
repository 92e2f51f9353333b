"""Data that is read block by block gives, bit for bit, what the same rows in memory give."""

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from dkmeans import DiscriminativeKMeans

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
SETTINGS = [
    {"growth": "paper"},
    {"growth": "paper", "max_clusters": 9, "prune": True},
    {"growth": "best", "max_clusters": 12},
    {"growth": "best", "max_clusters": 12, "refine": "margin"},
    {"max_clusters": "auto"},
    {"metric": "cosine", "max_clusters": 9, "refine": "margin"},
]


def same(a, b):
    """Whether two fits agree to the last bit."""
    for name in ("cluster_centers_", "cluster_sizes_", "cluster_ids_", "labels_"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
    assert a.cluster_classes_.tolist() == b.cluster_classes_.tolist()
    assert (a.inertia_, a.n_iter_, a.converged_) == (b.inertia_, b.n_iter_, b.converged_)
    for name in a.history_.dtype.names if hasattr(a.history_, "dtype") else ():
        if name != "seconds":
            np.testing.assert_array_equal(a.history_[name], b.history_[name])
    assert [c.tolist() for c in a.conflicts_] == [c.tolist() for c in b.conflicts_]
    np.testing.assert_array_equal(a.path_.training_error, b.path_.training_error)


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = (rng.normal(size=(400, 4)) + 1.5 * y[:, None]).astype(np.float32)
    X[200:205] = X[:5]  # the same rows with other labels, in other blocks
    return X, np.array(["red", "green", "blue"])[y], rng.integers(0, 4, 400).astype(float)


def batches(X, y, w, sizes):
    """A function that makes batches."""
    ends = np.cumsum(sizes)
    cuts = [slice(b - a, b) for a, b in zip(sizes, ends, strict=True)]
    return lambda: ((X[c], y[c]) if w is None else (X[c], y[c], w[c]) for c in cuts)


@pytest.mark.parametrize("parameters", SETTINGS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_batches(labelled, parameters, weighted, n_threads):
    X, y, w = labelled
    w = w if weighted else None
    whole = DiscriminativeKMeans(**parameters).fit(X, y, w)
    model = DiscriminativeKMeans(**parameters, n_threads=n_threads)
    same(model.fit(batches(X, y, w, [150, 0, 1, 99, 150])), whole)


@pytest.mark.parametrize("parameters", SETTINGS[:4])
def test_sparse_batches(labelled, parameters):
    X, y, _ = labelled
    X = np.where(X > 1, X, 0)
    whole = DiscriminativeKMeans(**parameters).fit(sp.csr_array(X), y)
    parts = batches(sp.csr_array(X), y, None, [100, 100, 200])
    same(DiscriminativeKMeans(**parameters).fit(parts), whole)


@settings(max_examples=60, deadline=None)
@given(data=strategies.weighted(), parameters=strategies.parameters, cut=st.integers(0, 30))
def test_parts_do_not_matter(data, parameters, cut):
    X, y, w = data
    sizes = [min(cut, len(X)), len(X) - min(cut, len(X))]
    whole = DiscriminativeKMeans(**parameters).fit(X, y, w)
    same(DiscriminativeKMeans(**parameters).fit(batches(X, y, w, sizes)), whole)
