"""Warnings: each is one sentence that says what to do, and ordinary fits have none."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from models import grown
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import StandardScaler

from dkmeans import (
    DiscriminativeKMeans,
    DiscriminativeKMedoids,
    Landmarks,
    OverfittingWarning,
    ScaleWarning,
)

IRIS = load_iris(return_X_y=True)


def warned(model, *data, method="fit"):
    """Fit, and return the warnings, which must name this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(model, method)(*data)
    assert all(warning.filename == __file__ for warning in caught)
    return [(warning.category, str(warning.message)) for warning in caught]


def test_ordinary_fits_do_not_warn():
    for data in (IRIS, load_digits(return_X_y=True), make_moons(400, noise=0.2, random_state=0)):
        assert warned(grown(20), *data) == []
        assert warned(grown("auto"), *data) == []
    assert warned(grown(), *IRIS) == []
    assert warned(grown(None, refine="margin"), *IRIS) == []


def test_repulsion_without_effect():
    ((category, text),) = warned(grown(6, repulsion=5), *IRIS)
    assert category is UserWarning
    assert text.startswith("repulsion=5 has no effect with growth='best': set growth='paper'")
    plain = grown(6).fit(*IRIS)
    with pytest.warns(UserWarning, match="no effect"):
        pushed = grown(6, repulsion=5).fit(*IRIS)
    np.testing.assert_array_equal(pushed.cluster_centers_, plain.cluster_centers_)


@pytest.mark.parametrize("settings", [{"growth": "paper"}, {"warm_start": True}])
def test_repulsion_that_counts(settings):
    assert warned(grown(6, repulsion=0.5, **settings), *IRIS) == []
    assert warned(DiscriminativeKMeans.paper(6, repulsion=0.5), *IRIS) == []


def test_refinement_that_moves_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    model = grown(None, refine="margin")
    (overfitting, _), (category, text) = warned(model, X, y)
    assert (overfitting, category) == (OverfittingWarning, UserWarning)
    assert text.startswith("refine='margin' moved nothing, as max_clusters=None")
    with pytest.warns(OverfittingWarning):
        plain = grown().fit(X, y)
    np.testing.assert_array_equal(model.cluster_centers_, plain.cluster_centers_)
    assert warned(grown(30, refine="margin"), X, y) == []


def test_many_prototypes():
    X, y = make_moons(600, noise=0.25, random_state=0)
    ((category, text),) = warned(grown(), X, y)
    assert category is OverfittingWarning
    assert " prototypes to fit every label of 600 rows (2" in text
    assert "set max_clusters (a budget, or 'auto') or min_cluster_size." in text
    assert warned(grown(min_cluster_size=10), X, y) == []


def test_a_feature_that_dominates_is_named():
    wine = load_wine(as_frame=True)
    ((category, text),) = warned(grown(9), wine.data, wine.target)
    assert category is ScaleWarning
    assert text.startswith("Feature 'proline' has 99.8% of the variance of all 13 features")
    assert "metric='learned'" in text
    X, y = load_breast_cancer(return_X_y=True)
    for rows in (X, sp.csr_array(X), X.astype(np.float32), X.tolist()):
        assert [text[:24] for _, text in warned(grown(9), rows, y)] == ["Feature number 23 has 71"]
    assert warned(grown(9), StandardScaler().fit_transform(X), y) == []
    for metric in ("learned", "cosine"):
        assert warned(grown(3, metric=metric), wine.data, wine.target) == []


def test_no_feature_dominates_where_nothing_varies():
    X, y = np.ones((8, 2)), np.arange(8) % 2
    assert warned(grown(), X, y) == []
    assert warned(grown(), np.arange(8.0)[:, None], np.arange(8) // 4) == []


def test_medoids_and_landmarks_name_a_feature_that_dominates():
    wine = load_wine(as_frame=True)
    X, y = wine.data, wine.target
    for model in (
        DiscriminativeKMedoids(6),
        DiscriminativeKMedoids(6, metric="manhattan"),
        Landmarks(10),
        Landmarks(10, selection="medoids"),
        Landmarks(10, metric="linear"),
    ):
        ((category, text),) = warned(model, X, y)
        assert category is ScaleWarning
        assert text.startswith("Feature 'proline' has 99.8% of the variance of all 13 features")
        assert "metric=" not in text
    for rows in (X.to_numpy().tolist(), sp.csr_array(X)):
        ((_, text),) = warned(DiscriminativeKMedoids(6), rows, y)
        assert text.startswith("Feature number 12 has")
    distances = pairwise_distances(X)
    for model, rows in (
        (DiscriminativeKMedoids(6), StandardScaler().fit_transform(X)),
        (DiscriminativeKMedoids(6, metric="cosine"), X),
        (DiscriminativeKMedoids(6, metric="precomputed"), distances),
        (DiscriminativeKMedoids(6, metric=lambda a, b: abs(a - b)), list(range(len(y)))),
        (Landmarks(10, metric="precomputed"), distances),
    ):
        assert warned(model, rows, y) == []


@pytest.mark.parametrize("metric", ["euclidean", "learned", "auto"])
def test_a_number_of_clusters_that_parts_keep(metric):
    X, y = IRIS
    model = grown("auto", metric=metric)
    for part in (slice(0, None, 4), slice(1, None, 4)):
        ((category, text),) = warned(model, X[part], y[part], method="partial_fit")
        assert category is UserWarning
        assert text.startswith('max_clusters="auto" keeps the number of clusters that the first ')
        assert f"there are {model.n_clusters_} clusters now: set max_clusters" in text
        assert (f'and metric="{metric}" its metric' in text) == (metric != "euclidean")
        assert ("in the first call, for the metric" in text) == (metric != "euclidean")
    assert warned(grown(6, metric=metric), X, y, method="partial_fit") == []
    assert warned(grown("auto", metric=metric), X, y) == []


def test_a_number_of_clusters_that_a_warm_start_keeps():
    X, y = load_digits(return_X_y=True)
    model = grown("auto", warm_start=True)
    assert warned(model, X[:100], y[:100]) == []
    ((category, text),) = warned(model, X, y)
    assert category is UserWarning
    assert "keeps the number of clusters that an earlier fit chose" in text
    assert f"there are {model.n_clusters_} clusters now: set max_clusters to the number" in text
    assert "warm_start=False" in text
    assert warned(model.set_params(warm_start=False), X, y) == []
    assert warned(model.set_params(warm_start=True, max_clusters=40), X, y) == []


def test_features_that_a_first_call_does_not_know():
    pytest.importorskip("pandas")
    table, y = load_iris(return_X_y=True, as_frame=True)
    X = table.to_numpy()

    def texts(X, y, metric="learned"):
        return [text for _, text in warned(grown(6, metric=metric), X, y, method="partial_fit")]

    assert texts(X, y) == []
    (text,) = texts(X * [1, 0, 1, 1], y)
    assert text.startswith("Feature number 1 is constant in the first call, so ")
    assert 'metric="learned" ignores it in all later calls, too: pass more rows' in text
    (text,) = texts(table * [1, 0, 0, 1], y, metric="auto")
    assert text.startswith("Features 'sepal width (cm)', 'petal length (cm)' are constant")
    assert 'metric="auto" ignores them' in text
    (text,) = texts(X[:1], y[:1])
    assert text.startswith("All 4 features are constant in the first call")
    (text,) = texts(np.c_[np.zeros((150, 8)), X], y)
    assert text.startswith("Features number 0, 1, 2, 3, 4 and 3 more are constant")
    assert texts(X * [1, 0, 1, 1], y, metric="euclidean") == []
    model = grown(6, metric="learned")
    warned(model, X[:1], y[:1], method="partial_fit")
    assert warned(model, X, y, method="partial_fit") == []
    assert warned(grown(6, metric="learned"), X * [1, 0, 1, 1], y) == []
