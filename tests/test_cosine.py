"""`metric="cosine"`: only directions count."""

import numpy as np
import pytest
import scipy.sparse as sp
from models import grown
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import cosine_similarity

from dkmeans.kernels.sphere import unit_rows, unit_vectors

X, y = load_digits(return_X_y=True)
DIGITS = X[:400], y[:400]


def fit(X, y, **parameters):
    return grown(30, metric="cosine", **parameters).fit(X, y)


@pytest.mark.parametrize("refine", [None, "margin"])
@pytest.mark.parametrize("growth", ["paper", "best"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_is_the_one_with_the_largest_cosine(dtype, growth, refine):
    X, y = DIGITS[0].astype(dtype), DIGITS[1]
    model = fit(X, y, growth=growth, refine=refine)
    assert model.cluster_centers_.dtype == dtype
    tiny = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, rtol=tiny)
    cosine = cosine_similarity(X, model.cluster_centers_)
    distances = model.transform(X)
    np.testing.assert_allclose(distances**2, 2 - 2 * cosine, atol=40 * tiny)
    chosen = cosine[np.arange(len(X)), model.labels_]
    assert (chosen >= cosine.max(axis=1) - 4 * tiny).all()
    np.testing.assert_array_equal(model.labels_, model.predict_cluster(X))
    np.testing.assert_array_equal(model.labels_, distances.argmin(axis=1))


@pytest.mark.parametrize("refine", [None, "margin"])
def test_the_length_of_rows_does_not_matter(refine):
    X, y = DIGITS
    model = fit(X, y, refine=refine)
    scale = 2.0 ** np.random.default_rng(0).integers(-30, 30, size=(len(X), 1))
    other = fit(X * scale, y, refine=refine)
    np.testing.assert_array_equal(model.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(model.predict(X), other.predict(X * 1e150))


def test_equals_euclidean_nearness_on_unit_vectors():
    X, y = DIGITS
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = fit(X, y)
    distances = np.linalg.norm(unit[:, None] - model.cluster_centers_, axis=2)
    np.testing.assert_allclose(model.transform(X), distances, atol=1e-12)
    np.testing.assert_array_equal(model.predict_cluster(X), model.predict_cluster(unit))


def test_normalising_twice_changes_nothing():
    for scale in (1e-30, 1.0, 1e30):
        for dtype in (np.float32, np.float64):
            once = unit_rows((scale * DIGITS[0]).astype(dtype))
            assert unit_rows(once) is once  # nothing is copied
            sparse = sp.csr_array(once)
            assert unit_rows(sparse) is sparse
            mixed = np.concatenate([once, 2 * once[:3]])
            for rows in (unit_rows(mixed), unit_rows(sp.csr_array(mixed)).toarray()):
                np.testing.assert_array_equal(rows, unit_vectors(mixed, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_csr_rows_give_the_same_model(dtype):
    X, y = DIGITS[0].astype(dtype), DIGITS[1]
    dense, sparse = fit(X, y), fit(sp.csr_matrix(X), y)
    np.testing.assert_array_equal(dense.cluster_centers_, sparse.cluster_centers_)
    np.testing.assert_array_equal(dense.predict(X), sparse.predict(sp.csr_matrix(X)))


def test_rows_of_zeros_are_no_trouble():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.1], [0.0, 3.0], [0.1, 1.0]])
    model = grown(metric="cosine").fit(X, [0, 0, 0, 1, 1])
    assert model.score(X, [0, 0, 0, 1, 1]) == 1.0
    assert np.isfinite(model.predict_proba(X)).all()
    only_zeros = grown(metric="cosine").fit(np.zeros((3, 2)), [0, 1, 1])
    assert only_zeros.predict(X[:1]).tolist() == [1]


def test_the_rows_given_are_not_changed():
    X, y = DIGITS
    given, sparse = X.copy(), sp.csr_matrix(X)
    fit(given, y).predict(given)
    fit(sparse, y).predict(sparse)
    np.testing.assert_array_equal(given, X)
    np.testing.assert_array_equal(sparse.toarray(), X)


def test_edits_keep_length_one():
    X, y = DIGITS
    model = fit(X, y)
    label = model.classes_[np.argmax([(model.cluster_classes_ == c).sum() for c in range(10)])]
    same = model.cluster_ids_[model.cluster_classes_ == label][:2]
    model.merge(same)
    model.set_center(int(model.cluster_ids_[0]), 5 * X[0])
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)


def test_goes_on_with_new_rows():
    X, y = DIGITS
    model = grown(metric="cosine").fit(X[:300], y[:300])
    model.partial_fit(X[300:], y[300:])
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)
    assert model.score(X[300:], y[300:]) == 1.0
    again = grown(metric="cosine", warm_start=True).fit(X[:300], y[:300])
    before = again.cluster_centers_
    np.testing.assert_array_equal(again.fit(X[:300], y[:300]).cluster_centers_, before)
