"""Figures of errors: confusion between classes, and distances to own and rival class."""

import numpy as np
import pytest
from models import grown
from sklearn.datasets import load_iris, make_moons

pytest.importorskip("matplotlib")

from dkmeans.plots import ConfusionDisplay, MarginDisplay, PathDisplay


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    y = load_iris().target_names[y]
    return X, y, grown(max_clusters=6).fit(X, y)


# Confusion


def test_confusion_counts_and_totals(iris):
    X, y, model = iris
    display = ConfusionDisplay.from_estimator(model, X, y)
    predicted = model.predict(X)
    for i, true in enumerate(model.classes_):
        for j, taken in enumerate(model.classes_):
            assert display.matrix[i, j] == np.sum((y == true) & (predicted == taken))
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == list(model.classes_)
    written = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in display.ax_.texts}
    assert written[0, 0] == "50"
    assert (0, 1) not in written
    beside, above = display.ax_.child_axes
    assert [t.get_text() for t in beside.texts] == ["50", "50", "50"]
    totals = display.matrix.sum(axis=0)
    assert [t.get_text() for t in above.texts] == [str(t) for t in totals]
    n_wrong = int(np.sum(predicted != y))
    assert display.ax_.get_title() == f"{n_wrong / 150:.1%} of 150 rows misclassified"


def test_confusion_names_and_frames_the_worst_pairs():
    y = np.repeat(np.arange(38), 20)
    predicted = y.copy()
    predicted[5 * 20 : 5 * 20 + 9] = 31
    predicted[20 * 20 : 20 * 20 + 4] = 2
    display = ConfusionDisplay.from_predictions(y, predicted)
    assert display.most_confused() == [(5, 31, 9), (20, 2, 4)]
    frames = [patch.get_xy() for patch in display.ax_.patches]
    assert frames == [(30.5, 4.5), (1.5, 19.5)]
    label = display.ax_.get_xlabel().replace("\u00a0", " ")
    assert label == "predicted class\nmost confused: 5 → 31 (9), 20 → 2 (4)"
    assert display.most_confused(1) == [(5, 31, 9)]
    predicted[30 * 20 : 30 * 20 + 4] = 3
    tied = ConfusionDisplay.from_predictions(y, predicted)
    assert tied.most_confused(2) == [(5, 31, 9)]
    assert tied.most_confused(3) == [(5, 31, 9), (20, 2, 4), (30, 3, 4)]
    errors = display.ax_.images[1].get_array()
    assert errors[5, 31] == 9 / 20
    assert errors.count() == 2


@pytest.mark.parametrize(
    ("normalize", "cell"), [("true", "25"), ("pred", "50"), ("all", "12.5"), (None, "1")]
)
def test_confusion_in_shares(normalize, cell):
    y, predicted = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0, 0, 1]
    display = ConfusionDisplay.from_predictions(y, predicted, normalize=normalize)
    written = {t.get_position(): t.get_text() for t in display.ax_.texts}
    assert written[1, 0] == cell
    assert ("cells in %" in display.ax_.get_title()) == (normalize is not None)


def test_confusion_takes_weights_and_refuses_nonsense():
    display = ConfusionDisplay.from_predictions(["a", "b"], ["a", "a"], sample_weight=[1, 2.5])
    assert display.matrix.tolist() == [[1, 0], [2.5, 0]]
    with pytest.raises(ValueError, match="normalize='rows' must be"):
        ConfusionDisplay.from_predictions([0], [0], normalize="rows")
    with pytest.raises(ValueError, match=r"y has shape \(2,\) and y_pred \(1,\)"):
        ConfusionDisplay.from_predictions([0, 1], [0])
    with pytest.raises(ValueError, match="there are 2 rows"):
        ConfusionDisplay.from_predictions([0, 1], [0, 1], sample_weight=[1])


def test_confusion_of_a_single_class():
    display = ConfusionDisplay.from_predictions(["a", "a"], ["a", "a"])
    assert display.matrix.tolist() == [[2]]
    assert display.ax_.get_xlabel() == "predicted class"
    assert not display.ax_.patches


# Margins


def test_margins_are_distances_to_own_and_rival_class(iris):
    X, y, model = iris
    display = MarginDisplay.from_estimator(model, X, y)
    distances = model.transform(X)
    for i in (0, 70, 133):
        mine = model.cluster_classes_ == y[i]
        assert display.own[i] == distances[i, mine].min()
        assert display.rival[i] == distances[i, ~mine].min()
    wrong = model.predict(X) != y
    np.testing.assert_array_equal(display.wrong, wrong)
    border, right, crosses = display.ax_.lines
    assert list(border.get_xdata()) == list(border.get_ydata())
    np.testing.assert_array_equal(right.get_xdata(), display.own[~wrong])
    np.testing.assert_array_equal(crosses.get_ydata(), display.rival[wrong])
    assert (right.get_marker(), crosses.get_marker()) == ("o", "X")
    assert right.get_color() != crosses.get_color()
    assert display.ax_.get_title() == f"{wrong.mean():.1%} of 150 rows misclassified"
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels[2:] == [f"right ({(~wrong).sum()})", f"wrong ({wrong.sum()})"]


def test_margins_of_rows_that_are_not_drawn_are_counted():
    X, y = make_moons(200, noise=0.15, random_state=0)
    model = grown(max_clusters=10).fit(X, y)
    strange = np.where(np.arange(200) < 3, 7, y)
    display = MarginDisplay.from_estimator(model, X, strange, max_rows=50)
    title = display.ax_.get_title()
    assert display.wrong[:3].all()
    assert ", 49 shown\n3 rows of classes without a prototype not shown" in title
    assert f"{display.wrong.mean():.1%} of 200 rows misclassified" in title


def test_margins_need_a_rival():
    model = grown().fit([[0.0], [1.0]], ["a", "a"])
    with pytest.raises(ValueError, match="All prototypes are of class a"):
        MarginDisplay.from_estimator(model, [[0.0], [1.0]], ["a", "a"])


def test_path_after_an_edit_is_refused(iris):
    X, y, _ = iris
    model = grown(max_clusters=6).fit(X, y)
    model.drop(model.cluster_ids_[-1])
    with pytest.raises(ValueError, match="edited by hand"):
        PathDisplay.from_estimator(model)
