"""The rejection curve: shares by counting, and the thresholds marked where they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import grown
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("matplotlib")

from dkmeans.plots import RejectionDisplay

IRIS, SPECIES = load_iris(return_X_y=True)
KNOWN = SPECIES > 0
X, Y, OTHERS = IRIS[KNOWN], SPECIES[KNOWN], IRIS[~KNOWN]


@pytest.fixture(scope="module")
def pipe():
    pipe = make_pipeline(StandardScaler(), grown(6)).fit(X[::3], Y[::3])
    pipe[-1].set_rejection(pipe[:-1].transform(X[1::3]), false_alarm_rate=0.1)
    return pipe


scores = st.lists(st.integers(0, 6), min_size=1, max_size=20).map(lambda s: np.array(s) / 2)


@given(known=scores, unknown=scores)
def test_shares_are_counts_and_the_area_is_that_of_the_roc_curve(known, unknown):
    display = RejectionDisplay(known, 0.05, unknown=unknown)
    for factor in (0.0, 0.3, 1.0, 2.0, 9.0):
        expected = (known > factor).mean(), (unknown > factor).mean()
        assert display.at(factor) == pytest.approx(expected)
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    area = roc_auc_score(truth, np.append(known, unknown))
    assert display.area == pytest.approx(area)
    false_alarms, gain = display.curve()
    assert (false_alarms[0], gain[0], false_alarms[-1], gain[-1]) == (0, 0, 1, 1)


@given(known=scores, seed=st.integers(0, 99))
def test_error_of_the_rows_that_are_not_rejected(known, seed):
    wrong = np.random.default_rng(seed).random(len(known)) < 0.4
    display = RejectionDisplay(known, 0.05, wrong=wrong)
    for factor in (0.0, 0.5, 1.0, 9.0):
        kept = known <= factor
        expected = wrong[kept].mean() if kept.any() else np.nan
        assert display.at(factor) == pytest.approx((1 - kept.mean(), expected), nan_ok=True)
    false_alarms, gain = display.curve()
    assert gain[0] == pytest.approx(wrong.mean())
    assert np.isfinite(gain).all()
    assert (false_alarms < 1).all()


def test_the_marker_is_what_the_model_rejects(pipe):
    model, rows, others = pipe[-1], pipe[:-1].transform(X[2::3]), pipe[:-1].transform(OTHERS)
    known = model.is_known(rows)
    for options, gain in (
        ({"unknown": OTHERS}, 1 - model.is_known(others).mean()),
        ({"y": Y[2::3]}, (model.predict(rows) != Y[2::3])[known].mean()),
    ):
        display = RejectionDisplay.from_estimator(pipe, X[2::3], **options)
        curve, point, promise = display.ax_.lines
        (x,), (y,) = point.get_data()
        assert (x, y) == pytest.approx((100 - 100 * known.mean(), 100 * gain))
        assert promise.get_xdata()[0] == pytest.approx(100 * model.rejection_.rate.max())
        distance = np.abs(np.transpose(curve.get_data()) - (x, y)).max(axis=1)
        assert distance.min() < 1e-9


def test_the_legend_leaves_the_curve_free():
    scores = np.linspace(0, 2, 50)
    late = {"wrong": np.arange(50) < 2}  # most errors among the last rows that are not rejected
    missed = {"unknown": np.full(20, 0.1)}  # unknown rows that look more known than the known ones
    for rows in (late, missed):
        display = RejectionDisplay(scores, 0.1, **rows).plot()
        display.figure_.canvas.draw()
        box = display.ax_.get_legend().get_window_extent()
        line = display.ax_.lines[0]
        points = line.get_transform().transform(line.get_xydata())
        assert not box.count_contains(points)


def test_it_says_what_it_needs(pipe):
    with pytest.raises(ValueError, match="neither of them given"):
        RejectionDisplay.from_estimator(pipe, X)
    with pytest.raises(ValueError, match="both of them given"):
        RejectionDisplay.from_estimator(pipe, X, Y, unknown=OTHERS)
    with pytest.raises(ValueError, match="one label for each"):
        RejectionDisplay.from_estimator(pipe, X, Y[:3])
    with pytest.raises(NotFittedError, match="call set_rejection"):
        RejectionDisplay.from_estimator(grown(4).fit(X, Y), X, Y)
