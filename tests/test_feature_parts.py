"""`explain(X, features=True)`: the margin split over features, and the display of it."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from learned_models import model_with
from models import grown
from sklearn.datasets import load_digits, load_wine
from strategies import examples, labelled

from dkmeans import DiscriminativeKMeans, plots

X, y = load_digits(return_X_y=True)
X, y = X[:400], y[:400]
METRICS = ["euclidean", "cosine", "learned"]


@pytest.fixture(scope="module", params=METRICS)
def model(request):
    return grown(24, metric=request.param).fit(X, y)


def assert_adds_up(why):
    """Compare with sums in several orders, and with exact sums."""
    for order in (slice(None), slice(None, None, -1)):
        in_order = np.add.accumulate(why.parts[:, order], axis=1)[:, -1]
        np.testing.assert_array_equal(in_order, why.squared_margin)
    np.testing.assert_array_equal(why.parts.sum(axis=1), why.squared_margin)
    exact = [math.fsum(parts) for parts in why.parts]
    np.testing.assert_array_equal(exact, why.squared_margin)


@settings(max_examples=examples(150), deadline=None)
@given(data=labelled(), metric=st.sampled_from(METRICS), sparse=st.booleans())
def test_parts_add_up_exactly(data, metric, sparse):
    rows, classes = data
    assume(len(np.unique(classes)) > 1)
    budget = int(classes.max()) + 1
    model = grown(budget, metric=metric, growth="paper").fit(rows, classes)
    why = model.explain(sp.csr_array(rows) if sparse else rows, features=True)
    assume((why.rival >= 0).all())
    assert_adds_up(why)
    squares = why.rival_distance.astype(np.float64) ** 2, why.distance.astype(np.float64) ** 2
    room = 8 * np.finfo(rows.dtype).eps * (squares[0] + squares[1]) + 1e-300
    room += 1e-12 * np.abs(why.parts).sum(axis=1)
    assert (np.abs(why.squared_margin - (squares[0] - squares[1])) <= room).all()


def test_parts_are_differences_of_squares_by_feature():
    model = grown(24).fit(X, y)
    why = model.explain(X[:50], features=True)
    own, rival = (model.cluster_centers_[which] for which in (why.prototype, why.rival))
    expected = (X[:50] - rival) ** 2 - (X[:50] - own) ** 2
    np.testing.assert_allclose(why.parts, expected, atol=1e-9)
    assert_adds_up(why)


def test_a_learned_part_depends_on_its_feature_only():
    A = np.random.default_rng(0).normal(size=(64, 10))
    model = model_with(A, X, y, 20)
    why = model.explain(X[:30], features=True)
    assert_adds_up(why)
    moved = X[:30].copy()
    moved[:, 20] += 1e-3
    again = model.explain(moved, features=True)
    assert (again.prototype == why.prototype).all()
    assert (again.rival == why.rival).all()
    others = np.arange(64) != 20
    np.testing.assert_allclose(again.parts[:, others], why.parts[:, others], atol=1e-9)
    geometry, centers = model._fitted.geometry, model._fitted.prototypes.centers
    weights = 2 * (centers[why.prototype] - centers[why.rival]) @ geometry.input_components[:, 20]
    steps = geometry.standardised(moved)[:, 20] - geometry.standardised(X[:30])[:, 20]
    expected = weights * steps * geometry.scale[20]
    np.testing.assert_allclose(again.parts[:, 20] - why.parts[:, 20], expected, atol=1e-9)


def test_at_the_point_midway_all_learned_parts_vanish():
    A = np.random.default_rng(0).normal(size=(64, 10))
    model = model_with(A, X, y, 20)
    centers = model._fitted.prototypes.centers
    middle = model._fitted.geometry.inverse((centers[:1] + centers[5:6]) / 2)
    parts = model._fitted.geometry.margin_parts(middle, centers[:1], centers[5:6])
    assert np.abs(parts).max() < 1e-3 * np.square(centers[0] - centers[5]).sum()


def test_columns_of_the_table(model):
    why = model.explain(X[:7], features=True)
    table = why.to_pandas()
    assert table.columns[-65:].tolist() == ["squared_margin", *(f"part_x{j}" for j in range(64))]
    np.testing.assert_array_equal(table.iloc[:, -64:].to_numpy(), why.parts)
    few = why.take(np.array([2, 5]))
    np.testing.assert_array_equal(few.parts, why.parts[[2, 5]])
    assert "part_" not in repr(why)
    plain = model.explain(X[:7])
    assert plain.parts is None
    assert "squared_margin" not in plain.columns
    assert plain.to_pandas().shape == (7, 12)


def test_names_of_features():
    wine = load_wine(as_frame=True)
    model = DiscriminativeKMeans(6, metric="learned").fit(wine.data, wine.target)
    why = model.explain(wine.data[:3], features=True)
    assert why.features.tolist() == list(wine.data.columns)
    assert isinstance(why.to_pandas(), pd.DataFrame)


def test_a_single_class_has_no_parts():
    why = grown().fit(X, np.zeros(len(X))).explain(X[:3], features=True)
    assert np.isinf(why.squared_margin).all()
    assert np.isnan(why.parts).all()
    with pytest.raises(ValueError, match="two classes"):
        why.plot()
    assert len(why.plot(image_shape=(8, 8)).ax_.images) == 3 * 2


def test_bars_of_the_largest_parts(model):
    why = model.explain(X[:5], features=True)
    display = plots.FeaturePartsDisplay.from_estimator(model, X[:5], max_features=6)
    panels = display.plot().axes_
    assert panels.shape == (2, 3)
    bars = [bar.get_width() for bar in panels[0, 0].patches]
    assert len(bars) == 7
    order = np.argsort(-np.abs(why.parts[0]), kind="stable")
    np.testing.assert_array_equal(bars[:6], why.parts[0][order[:6]])
    assert sum(bars) == pytest.approx(why.squared_margin[0])
    assert panels[0, 0].get_yticklabels()[6].get_text() == "58 others"
    assert not panels[1, 2].get_visible()


def test_a_picture_of_the_parts(model):
    why = model.explain(X[:2], features=True)
    images = why.plot(image_shape=(8, 8), X_train=X).ax_.images
    assert len(images) == 2 * 5
    first, second = images[-2:]
    np.testing.assert_array_equal(second.get_array(), why.parts[1].reshape(8, 8))
    assert first.get_clim() == second.get_clim()


def test_nothing_to_draw_is_said_in_a_sentence(model):
    with pytest.raises(ValueError, match="features=True"):
        model.explain(X[:2]).plot()
    with pytest.raises(ValueError, match="max_rows=0"):
        model.explain(X[:2], features=True).plot(max_rows=0)


class TestImportances:
    def test_bars_with_the_largest_first(self):
        wine = load_wine(as_frame=True)
        A = np.diag(np.arange(1.0, 14.0))
        model = model_with(A, wine.data.to_numpy(), wine.target, 6)
        display = plots.FeatureImportancesDisplay.from_estimator(model)
        ax = display.plot(max_features=5).ax_
        widths = [bar.get_width() for bar in ax.patches]
        np.testing.assert_allclose(widths, np.arange(13.0, 8, -1) ** 2 / 819)
        assert ax.get_yticklabels()[0].get_text() == "x12"
        assert "5 of 13" in ax.get_title()

    def test_features_are_named_as_in_explanations(self):
        X, y = load_wine(return_X_y=True)
        model = model_with(np.eye(13), X, y, 6)
        names = plots.FeatureImportancesDisplay.from_estimator(model).names
        assert names == model.explain(X[:1], features=True).features.tolist()

    def test_a_picture_of_pixels(self):
        A = np.random.default_rng(0).normal(size=(64, 10))
        model = model_with(A, X, y, 20)
        display = plots.FeatureImportancesDisplay.from_estimator(model, image_shape=(8, 8))
        shown = display.plot().ax_.images[0].get_array()
        np.testing.assert_array_equal(shown.ravel(), model.feature_importances_)

    def test_other_metrics_have_none(self):
        model = grown(12).fit(X, y)
        with pytest.raises(AttributeError, match="metric='learned'"):
            plots.FeatureImportancesDisplay.from_estimator(model)
