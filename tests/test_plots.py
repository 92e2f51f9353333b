"""Figures: what is on them, not how they look."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons

from dkmeans import DiscriminativeKMeans
from dkmeans.apps.baselines import ClasswiseKMeans

pytest.importorskip("matplotlib")

from dkmeans.plots.growth import GrowthDisplay
from dkmeans.plots.images import PrototypeImagesDisplay
from dkmeans.plots.style import COLORS, color, marker


def test_growth_shows_the_start_and_every_round():
    X, y = make_moons(60, noise=0.1, random_state=0)
    estimator = DiscriminativeKMeans(max_clusters=8)
    display = GrowthDisplay.from_estimator(estimator, X, y).plot()
    assert not hasattr(estimator, "labels_")
    fitted = estimator.fit(X, y)
    assert [panel.round for panel in display.panels] == list(range(fitted.n_iter_ + 1))
    assert display.panels[0].prototypes.ids.tolist() == [0]
    last = display.panels[-1].prototypes
    assert last.centers.tobytes() == fitted.cluster_centers_.tobytes()
    titles = [axes.get_title() for axes in display.axes_.flat if axes.get_visible()]
    assert titles[0] == "start: 1 cluster, 1 mixed"
    assert titles[-1].startswith(f"round {fitted.n_iter_}: 8 clusters")
    assert [t.get_text() for t in display.figure_.legends[0].get_texts()] == [
        "class 0",
        "class 1",
        "prototype of class 0",
        "prototype of class 1",
    ]


def test_growth_leaves_out_rounds_in_the_middle():
    X, y = make_moons(200, noise=0.3, random_state=0)
    display = GrowthDisplay.from_estimator(DiscriminativeKMeans(), X, y, max_panels=6)
    rounds = [panel.round for panel in display.panels]
    assert len(rounds) == 6
    assert rounds[:2] == [0, 1]
    assert rounds == sorted(set(rounds))
    assert display.panels[-1].n_mixed == 0


def test_growth_needs_two_features():
    with pytest.raises(ValueError, match="3 features"):
        GrowthDisplay.from_estimator(DiscriminativeKMeans(), np.eye(3), [0, 1, 2])


def test_images_are_in_lines_by_class_largest_first():
    X, y = load_digits(return_X_y=True)
    model = DiscriminativeKMeans(max_clusters=25).fit(X, y)
    display = PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8)).plot()
    assert display.axes_.shape[0] == 10
    drawn = [axes for axes in display.axes_.flat if axes.images]
    assert len(drawn) == 25
    for line, label in zip(display.axes_, range(10), strict=True):
        sizes = [float(axes.get_xlabel()) for axes in line if axes.images]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] == model.cluster_sizes_[model.cluster_classes_ == label].max()


def test_images_need_a_fitting_shape():
    model = DiscriminativeKMeans().fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"image_shape=\(3, 3\) has 9 pixels.*4 features"):
        PrototypeImagesDisplay.from_estimator(model, image_shape=(3, 3))


def test_classes_differ_by_colour_or_marker():
    looks = {(color(c), marker(c)) for c in range(len(COLORS) ** 2)}
    assert len(looks) == len(COLORS) ** 2


def test_classwise_kmeans_shares_centres_evenly():
    X, y = load_digits(return_X_y=True)
    model = ClasswiseKMeans(23).fit(X, y)
    assert np.bincount(model.cluster_classes_).tolist() == [3, 3, 3, 2, 2, 2, 2, 2, 2, 2]
    assert model.score(X, y) > 0.9
