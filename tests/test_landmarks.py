"""`Landmarks`: deterministic Nystroem features for any metric or kernel."""

import re

import numpy as np
import pytest
from models import grown
from sklearn.datasets import load_iris, make_circles
from sklearn.metrics.pairwise import pairwise_distances, pairwise_kernels
from sklearn.pipeline import make_pipeline

from dkmeans import Landmarks

IRIS, SPECIES = load_iris(return_X_y=True)
X = np.unique(IRIS, axis=0)[::3]


@pytest.mark.parametrize("metric", ["rbf", "laplacian", "linear", "poly"])
def test_with_all_rows_as_landmarks_inner_products_are_the_kernel(metric):
    landmarks = Landmarks(len(X), metric=metric).fit(X)
    features = landmarks.transform(X)
    if metric == "rbf":
        K = np.exp(-landmarks.gamma_ * pairwise_distances(X) ** 2)
    else:
        K = pairwise_kernels(X, metric=metric)
    np.testing.assert_allclose(features @ features.T, K, atol=1e-4 * np.abs(K).max())


@pytest.mark.parametrize("values", ["kernel", "distance"])
def test_with_all_rows_as_landmarks_inner_products_are_the_given_kernel(values):
    D = pairwise_distances(X)
    K = np.exp(-0.5 * D**2)
    given = K if values == "kernel" else D
    features = (
        Landmarks(len(X), metric="precomputed", values=values, gamma=0.5)
        .fit(given)
        .transform(given)
    )
    np.testing.assert_allclose(features @ features.T, K, atol=1e-4)


def test_given_matrices_and_functions_are_the_same_as_names():
    D, K = pairwise_distances(X), pairwise_kernels(X, metric="laplacian")
    named = Landmarks(9).fit(X)
    order = np.argsort(named.landmark_indices_[0] != np.arange(len(X)), kind="stable")
    rows = X[order]  # ties and the first landmark follow the order of rows
    named = Landmarks(9).fit(rows)
    D = pairwise_distances(rows)
    given = Landmarks(9, metric="precomputed").fit(D)
    called = Landmarks(9, metric=lambda a, b: np.linalg.norm(a - b)).fit(rows)
    for other, new in ((given, D), (given, D[:, given.landmark_indices_]), (called, rows)):
        np.testing.assert_array_equal(other.landmark_indices_, named.landmark_indices_)
        features = other.transform(new)
        np.testing.assert_allclose(features, named.transform(rows), atol=1e-6)
    kernel = Landmarks(9, metric="precomputed", values="kernel").fit(K)
    assert kernel.transform(K).shape == (len(X), 9)
    assert not hasattr(kernel, "gamma_")


def test_farthest_first():
    """Every landmark is as far from those before it as any row is."""
    which = Landmarks(12).fit(X).landmark_indices_
    D = pairwise_distances(X)
    for m in range(1, 12):
        nearest = D[:, which[:m]].min(axis=1)
        assert nearest[which[m]] == pytest.approx(nearest.max())


def test_the_order_of_rows_changes_nothing():
    order = np.random.default_rng(0).permutation(len(X))
    one, other = Landmarks(10).fit(X), Landmarks(10).fit(X[order])
    np.testing.assert_array_equal(one.landmarks_, other.landmarks_)
    np.testing.assert_array_equal(one.transform(X), other.transform(X))


def test_fewer_distinct_rows_than_landmarks():
    landmarks = Landmarks(10).fit([[0.0], [1.0], [0.0], [1.0]])
    assert landmarks.n_landmarks_ == 2
    assert Landmarks(3).fit([[1.0], [1.0]]).transform([[1.0]]).tolist() == [[1.0]]


@pytest.mark.parametrize("metric", ["rbf", "poly"])
def test_medoids_as_landmarks(metric):
    landmarks = Landmarks(12, metric=metric, selection="medoids").fit(IRIS, SPECIES)
    assert set(SPECIES[landmarks.landmark_indices_]) == {0, 1, 2}
    with pytest.raises(ValueError, match="requires y to be passed"):
        Landmarks(selection="medoids").fit(IRIS)


def test_rings_need_one_prototype_each():
    rows, y = make_circles(200, factor=0.5, noise=0.05, random_state=0)
    model = make_pipeline(Landmarks(30), grown(max_clusters=2)).fit(rows, y)
    assert model.score(rows, y) == 1
    assert grown(max_clusters=2).fit(rows, y).score(rows, y) < 0.8


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_landmarks": 0}, "n_landmarks=0 is not accepted"),
        ({"metric": "rfb"}, "metric='rfb' is not accepted"),
        ({"values": "similarity"}, "values='similarity' is not accepted"),
        ({"gamma": 0}, "gamma=0 is not accepted"),
        ({"selection": "random"}, "selection='random' is not accepted"),
        ({"metric": lambda a, b: -1.0, "values": "kernel"}, "no positive eigenvalue"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Landmarks(**parameters).fit(X)
