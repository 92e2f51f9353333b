"""Strong imbalance: one row of a class to a hundred of another."""

import numpy as np
import pytest
from models import grown
from sklearn.metrics import balanced_accuracy_score


def two_classes(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(101 * n, 4))
    y = np.repeat([0, 1], [100 * n, n])
    X[y == 1] += (1.5, 1, 0, 0)
    return X, y


def four_classes(n, seed):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2, 3], [100 * n, 100 * n, n, n])
    return rng.normal(scale=0.8, size=(len(y), 2)) + np.array([[0, 0], [2, 0], [0, 2], [2, 2]])[
        y
    ], y


@pytest.mark.parametrize("refine", [None, pytest.param("margin", marks=pytest.mark.study)])
@pytest.mark.parametrize("growth", ["paper", "best"])
@pytest.mark.parametrize("budget", [4, 20])
@pytest.mark.parametrize("draw", [two_classes, four_classes])
def test_balanced_weights_raise_balanced_accuracy(draw, budget, growth, refine):
    (X, y), (X_test, y_test) = draw(20, 0), draw(100, 1)
    scores = {}
    for weights in (None, "balanced"):
        model = grown(budget, growth=growth, refine=refine, class_weight=weights)
        model.fit(X, y)
        assert set(model.cluster_classes_) == set(y)  # no class is lost
        assert model.n_clusters_ == budget
        scores[weights] = balanced_accuracy_score(y_test, model.predict(X_test))
    if not (draw is four_classes and budget == 4 and growth == "best" and refine is None):
        assert scores["balanced"] > scores[None]
    else:  # four class means either way
        assert scores["balanced"] == scores[None]


def test_only_a_class_that_loses_every_conflict_has_no_prototype():
    X = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [2.0]])
    y = np.array([0, 0, 1, 2, 1, 2])
    for growth in ("paper", "best"):
        for refine in (None, "margin"):
            model = grown(growth=growth, refine=refine).fit(X, y, [1, 1, 1, 3, 1, 1])
            assert set(model.cluster_classes_) == {0, 2}
            assert model.classes_.tolist() == [0, 1, 2]
            heavier = model.fit(X, y, [1, 1, 3, 3, 1, 1])
            assert set(heavier.cluster_classes_) == {1, 2}
