"""Warnings: each is one sentence that says what to do, and ordinary fits have none."""

import pickle
import warnings

import numpy as np
import pandas as pd
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
    assert warned(DiscriminativeKMeans(None), *IRIS) == []


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


def test_repulsion_counts_in_later_parts():
    X, y = IRIS
    parts = [(X[i::3], y[i::3]) for i in range(3)]
    models = grown(6), grown(6, repulsion=5)
    for part in parts:
        for model in models:
            assert warned(model, *part, method="partial_fit") == []
    assert not np.array_equal(*(model.cluster_centers_ for model in models))


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


def test_refinement_that_no_longer_fits_every_label():
    X, y = make_moons(600, noise=0.3, random_state=0)
    (overfitting, first), (category, text) = warned(grown(None, refine="margin"), X, y)
    assert (overfitting, category) == (OverfittingWarning, UserWarning)
    assert first.startswith("Growth took ")
    assert text.startswith("refine='margin' raised the impurity of the cells from 0.0% to ")
    assert text.endswith("set max_clusters to a number or 'auto', or refine=None.")
    assert [category for category, _ in warned(grown(), X, y)] == [OverfittingWarning]
    assert warned(grown(None, refine="margin", min_cluster_size=20), X, y) == []


def test_a_learned_metric_that_no_longer_fits_every_label():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    _, (_, text) = warned(grown(None, metric="learned"), X, y)
    assert text.startswith("metric='learned' raised the impurity of the cells from 0.0% to ")
    assert text.endswith("set max_clusters to a number or 'auto', or metric='euclidean'.")
    _, (_, text) = warned(grown(None, metric="learned", refine="margin"), X, y)
    assert text.startswith("refine='margin' raised the impurity of the cells from 0.0% to ")
    assert text.endswith("or refine=None and metric='euclidean'.")


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_rank_without_effect(metric):
    ((category, text),) = warned(grown(6, metric=metric, n_components=2), *IRIS)
    assert category is UserWarning
    assert text == (
        f"n_components=2 has no effect with metric={metric!r}: set metric='learned', or leave it "
        "out."
    )
    for metric in ("learned", "auto"):
        assert warned(grown(6, metric=metric, n_components=2), *IRIS) == []


@pytest.mark.parametrize("size", [60, 200])
@pytest.mark.parametrize("budget", [6, "auto"])
def test_a_least_size_that_leaves_one_cluster(size, budget):
    model = grown(budget, min_cluster_size=size)
    ((category, text),) = warned(model, *IRIS)
    assert category is UserWarning
    assert text == (
        f"min_cluster_size={size} leaves a single cluster, as at most one class has so much "
        "weight: lower it."
    )
    assert warned(model, IRIS[0], np.zeros(150)) == []
    model.set_params(class_weight={0: 1, 1: 5, 2: 3})  # the size is that without class weights
    assert len(warned(model, *IRIS)) == 1


def test_a_least_size_that_two_classes_have():
    assert warned(grown(6, min_cluster_size=40), *IRIS) == []
    same = np.ones_like(IRIS[0])  # other causes of a single cluster
    ((_, text),) = warned(grown(6, min_cluster_size=40), same, IRIS[1])
    assert "min_cluster_size" not in text
    one = {0: 0, 1: 1, 2: 0}
    assert warned(grown(6, min_cluster_size=40, class_weight=one), *IRIS) == []


@pytest.mark.parametrize("make", [DiscriminativeKMeans, DiscriminativeKMeans.paper, grown])
def test_classes_whose_rows_are_rows_of_others(make):
    X, y = np.array([[0.0], [0], [0], [1], [1]]), np.array(["a", "a", "b", "c", "c"])
    ((category, text),) = warned(make(), X, y)
    assert category is UserWarning
    assert text == (
        "Class 'b' has no prototype, so it is never predicted: all its rows are identical to "
        "rows of other classes, which outvote them."
    )
    assert warned(make(), X, y, [1, 1, 0, 1, 1]) == []  # a weight of 0 says so already
    ((_, text),) = warned(make(), np.ones((5, 1)), np.array([0, 1, 2, 3, 4]))
    assert text.startswith("Classes 1, 2, 3 and 1 more have no prototype, so they are never")


def test_classes_below_a_least_size():
    X, y = IRIS[0][:110], IRIS[1][:110]  # 50, 50, 10
    ((_, text),) = warned(DiscriminativeKMeans.paper(6, min_cluster_size=20), X, y)
    assert text == (
        "Class 2 has no prototype, so it is never predicted: its weight is below "
        "min_cluster_size=20."
    )


@pytest.mark.parametrize("settings", [{}, {"refine": "margin"}, {"growth": "paper"}])
def test_a_budget_that_is_not_reached_is_none(settings):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    ((category, text),) = warned(grown(500, **settings), X, y)
    assert category is OverfittingWarning
    assert text.startswith("Growth ended at ")
    assert " prototypes for 200 rows (" in text
    assert " before max_clusters=500, as no cell was mixed any more, so noise is " in text
    assert warned(grown(80, **settings), X, y) == []


def test_a_large_budget_that_needs_few_prototypes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    assert warned(DiscriminativeKMeans.paper(500), np.c_[X, 9 * y], y) == []


def test_many_prototypes():
    X, y = make_moons(600, noise=0.25, random_state=0)
    ((category, text),) = warned(grown(), X, y)
    assert category is OverfittingWarning
    assert text.startswith("Growth took ")
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
    assert warned(grown(3, metric="learned"), wine.data, wine.target) == []


def test_several_features_that_dominate_together_are_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 10))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    X[:, 8] *= 1e4
    X[:, 3] *= 2e4
    for rows in (X, sp.csr_array(X), X.astype(np.float32), pd.DataFrame(X).add_prefix("x")):
        ((category, text),) = warned(grown(9), rows, y)
        assert category is ScaleWarning
        named = "'x3' and 'x8'" if hasattr(rows, "columns") else "number 3 and 8"
        assert text.startswith(
            f"Features {named} have 100.0% of the variance of all 10 features, so they decide most "
            "distances: use metric='learned', or scale the features"
        )
    assert warned(grown(9), StandardScaler().fit_transform(X), y) == []
    assert warned(DiscriminativeKMeans(9), X, y) == []  # learns a metric


def test_features_that_dominate_where_no_metric_can_be_learned():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4100)), np.arange(60) % 2
    X[:, :20] *= 100 + np.arange(20)
    ((_, text),) = warned(DiscriminativeKMeans(4), X, y)
    assert text.startswith("Features number ")
    assert " and 17 more have 98." in text
    assert "metric=" not in text


def test_features_in_the_order_of_their_variance_may_fall_smoothly():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 200)), np.arange(500) % 2
    components = X / np.arange(1, 201)
    assert warned(grown(4), components, y) == []
    assert len(warned(grown(4), components[:, rng.permutation(200)], y)) == 1
    assert len(warned(grown(4), np.c_[1e3 * X[:, :1], components], y)) == 1


def test_a_constant_feature_does_not_vary_by_rounding():
    constant = np.full((40, 6), 0.1)
    X = np.c_[constant, np.arange(40.0), np.arange(40.0)[::-1] ** 1.1]
    assert warned(grown(4), X, np.arange(40) // 20) == []
    assert warned(grown(4), sp.csr_array(X), np.arange(40) // 20) == []


def test_no_feature_dominates_where_nothing_varies():
    X, y = np.ones((8, 2)), np.arange(8) % 2
    assert [text[:7] for _, text in warned(grown(), X, y)] == ["Class 1"]
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


@pytest.mark.parametrize("kind", [np.asarray, np.float32, list])
def test_values_far_from_all_others(kind):
    X, y = load_wine(return_X_y=True)
    X[::40, 3] = -9999.0
    X[::20, 5] = -9999.0  # more than a few of the values are no outliers, as far as one can tell
    ((category, text),) = warned(DiscriminativeKMeans(6, metric="learned"), kind(X), y)
    assert category is ScaleWarning
    assert text.startswith("Feature number 3 has a standard deviation of 1.66e+03, but most of")
    assert text.endswith("look for outliers, and for codes of missing values.")


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_digits])
def test_rare_values_are_no_outliers(load):
    X, y = load(return_X_y=True)
    X[:, 0] = np.arange(len(X)) % 100 == 0
    assert warned(DiscriminativeKMeans(12, metric="learned"), X, y) == []
    assert warned(DiscriminativeKMeans(12, metric="learned"), sp.csr_array(X), y) == []


def in_parts(model, X, y, n_parts):
    """Call `partial_fit` for each part, and return the warnings of each call."""
    parts = [slice(i, None, n_parts) for i in range(n_parts)]
    return [[t for _, t in warned(model, X[p], y[p], method="partial_fit")] for p in parts]


def test_a_number_of_clusters_that_parts_keep_is_named_once():
    model = grown("auto")
    first, (text,), *others = in_parts(model, *IRIS, 4)
    assert (first, others) == ([], [[], []]), "the first part may be all rows"
    assert text.startswith('max_clusters="auto" keeps the number of clusters that was chosen on ')
    assert f"there are {model.n_clusters_} clusters now: set max_clusters to the number" in text
    again = pickle.loads(pickle.dumps(model))
    assert warned(again, *IRIS, method="partial_fit") == []
    assert in_parts(grown(6), *IRIS, 4) == [[]] * 4
    model = grown("auto")
    assert warned(model, *IRIS) == []
    (text,), *_ = in_parts(model, *IRIS, 2)
    assert "the first call" not in text, "the user has called fit"


@pytest.mark.parametrize("k", [20, "auto"])
def test_a_metric_that_parts_keep_is_named_once_if_its_rows_were_few(k):
    X, y = load_digits(return_X_y=True)
    number = int(k == "auto")

    def kept(n_parts, **settings):
        first, second, *others = in_parts(DiscriminativeKMeans(k, **settings), X, y, n_parts)
        assert first == [] or "constant in the first call" in first[0]
        assert others == [[]] * (n_parts - 2)
        assert sum(text.startswith("max_clusters=") for text in second) == number
        return second[number:]

    enough = 410 if k == "auto" else 200
    (text,) = kept(12)
    assert text == (
        'metric="auto" keeps "euclidean" that was found on the first 150 rows, too few to compare '
        f"metrics: start with at least {enough} rows, or scale the features and set "
        'metric="euclidean".'
    )
    for settings in ({"metric": "learned"}, {"n_components": 4}):
        (text,) = kept(12, **settings)
        found = "keeps the projection that was found on the first 150 rows, too few to learn it"
        assert f"{found}: start with at least 200 rows, or scale" in text
    assert kept(4) == []
    assert kept(12, metric="euclidean") == []


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
    units = [1, 0, 0, 1000]
    (text,) = texts(table * units, y, metric="auto")
    assert text.startswith("Features 'sepal width (cm)' and 'petal length (cm)' are constant")
    assert 'metric="auto" ignores them' in text
    (text,) = texts(X[:1], y[:1])
    assert text.startswith("All 4 features are constant in the first call")
    (text,) = texts(np.c_[np.zeros((150, 8)), X], y)
    assert text.startswith("Features number 0, 1, 2 and 5 more are constant")
    assert texts(X * [1, 0, 1, 1], y, metric="euclidean") == []
    model = grown(6, metric="learned")
    warned(model, X[:1], y[:1], method="partial_fit")
    ((_, text),) = warned(model, X, y, method="partial_fit")
    assert "that was found on the first row, too few to learn it" in text
    assert warned(grown(6, metric="learned"), X * [1, 0, 1, 1], y) == []
