"""Figures of images: prototypes, exemplars, and captions that do not overlap."""

import numpy as np
import pytest
from models import grown
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

pytest.importorskip("matplotlib")

from dkmeans.plots import ExplanationDisplay, PrototypeImagesDisplay, SuspectImagesDisplay
from dkmeans.results.answers import Suspects


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X, y, grown(max_clusters=25).fit(X, y)


def lines_of(display):
    """Return the captions of each line of images, from left to right, by class label."""
    texts = display.ax_.texts
    labels = {text.get_position()[1]: text.get_text() for text in texts if "class" in str(text)}
    lines = {label: [] for label in labels.values()}
    for text in texts:
        if not text.get_text().startswith("class"):
            below = min(y for y in labels if y > text.get_position()[1])
            lines[labels[below]].append((text.get_position()[0], text.get_text()))
    return {label: [caption for _, caption in sorted(line)] for label, line in lines.items()}


def test_images_are_in_lines_by_class_largest_first(digits):
    _, _, model = digits
    display = PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8))
    assert len(display.ax_.images) == 25
    lines = lines_of(display)
    assert list(lines) == [f"class {label}" for label in range(10)]
    for label, captions in zip(range(10), lines.values(), strict=True):
        sizes = [float(caption.split(": ")[1]) for caption in captions]
        assert sizes == sorted(sizes, reverse=True)
        mine = model.cluster_classes_ == label
        ids = {caption.split(": ")[0] for caption in captions}
        assert ids == {f"#{id}" for id in model.cluster_ids_[mine]}
        assert sizes[0] == model.cluster_sizes_[mine].max()


def test_images_that_are_left_out_are_counted(digits):
    _, _, model = digits
    display = PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8), columns=2)
    for label, (title, captions) in enumerate(lines_of(display).items()):
        count = int((model.cluster_classes_ == label).sum())
        assert title == f"class {label}" + (f"\n2 of {count}" if count > 2 else "")
        assert len(captions) == min(count, 2)


def test_many_classes_are_drawn_in_blocks():
    X = np.eye(38).repeat(2, axis=0)
    model = grown().fit(X, [f"someone {i // 2:02d}" for i in range(76)])
    display = PrototypeImagesDisplay.from_estimator(model, image_shape=(2, 19))
    wide, tall = display.figure_.get_size_inches()
    assert 0.5 < wide / tall < 4
    assert len(display.ax_.images) == 38


def test_exemplars_are_training_rows(digits):
    X, _, model = digits
    display = PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8), X_train=X)
    np.testing.assert_array_equal(display.images.reshape(25, 64), X[model.exemplars_])
    assert display.ax_.get_title().startswith("Exemplars")
    with pytest.raises(ValueError, match=r"X_train has 10 rows.*rows that the model was fitted on"):
        PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8), X_train=X[:10])
    model.exemplars_ = np.where(np.arange(25) == 3, -1, model.exemplars_)
    unknown = PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8), X_train=X)
    assert len(unknown.ax_.images) == 24


def test_steps_that_can_be_undone_are_undone(digits):
    X, y, _ = digits
    pipeline = make_pipeline(PCA(10), grown(20)).fit(X, y)
    display = PrototypeImagesDisplay.from_estimator(pipeline, image_shape=(8, 8))
    expected = pipeline[0].inverse_transform(pipeline[-1].cluster_centers_)
    np.testing.assert_allclose(display.images.reshape(20, 64), expected)


def test_images_may_have_colours():
    X = np.arange(24.0).reshape(2, 12)
    model = grown().fit(X, [0, 1])
    display = PrototypeImagesDisplay.from_estimator(model, image_shape=(2, 2, 3))
    assert display.ax_.images[0].get_array().shape == (2, 2, 3)
    with pytest.raises(ValueError, match=r"image_shape=\(2, 3, 2\) must be"):
        PrototypeImagesDisplay.from_estimator(model, image_shape=(2, 3, 2))
    with pytest.raises(ValueError, match=r"image_shape=\(3, 3\) has 9 pixels.*12 features"):
        PrototypeImagesDisplay.from_estimator(model, image_shape=(3, 3))


def overlaps(display):
    """Count pairs of captions that overlap."""
    display.figure_.draw_without_rendering()
    boxes = [text.get_window_extent() for text in display.ax_.texts]
    return sum(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_captions_do_not_overlap(digits):
    X, _, model = digits
    names = [f"a long name of digit {label}" for label in range(10)]
    shown = {"image_shape": (8, 8), "display_labels": names}
    assert not overlaps(PrototypeImagesDisplay.from_estimator(model, **shown))
    assert not overlaps(ExplanationDisplay.from_estimator(model, X[:3], **shown, X_train=X))
    found = Suspects(
        row=np.arange(12) + 10**6,
        label=np.array(names)[[0, 1] * 6],
        suggested=np.array(names)[[3, 4] * 6],
        score=np.linspace(1, 0.5, 12),
    )
    images = np.zeros((12, 8, 8))
    assert not overlaps(SuspectImagesDisplay(images, found, 12).plot())
