"""The short fit that finds the metric in which growth starts."""

import numpy as np
import pytest

from dkmeans import DiscriminativeKMeans
from dkmeans.geometry import Learned
from dkmeans.growth import first_metric as module
from dkmeans.growth import grow as grow_module
from dkmeans.growth import refine as refine_module
from dkmeans.growth.metric_descent import MetricDescent

rng = np.random.default_rng(5)
NOISE = rng.normal(size=(700, 9))
HEIGHT = NOISE[:, 0] + 0.5 * NOISE[:, 1] ** 2
BANDS = np.digitize(HEIGHT, [0.0, 0.6, 1.2])


def geometry(components):
    d = len(components)
    ones = np.ones(d)
    return Learned.of_features(0 * ones, ones, -ones, ones, components)


@pytest.mark.parametrize("seed", range(5))
def test_short_axes_are_dropped(seed):
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.normal(size=(7, 4)))
    V, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    lengths = np.array([3.0, 1.0, 0.61, 0.59])  # a fifth of the longest is 0.6
    found = module._without_short_axes(geometry(U * lengths @ V)).components
    kept = U[:, :3] * lengths[:3]
    np.testing.assert_allclose(found @ found.T, kept @ kept.T, atol=1e-5)
    assert found.shape == (7, 3)
    assert (found[np.abs(found).argmax(axis=0), np.arange(3)] > 0).all()


@pytest.mark.parametrize("components", [np.eye(3), np.zeros((3, 2)), np.diag([1.0, 0.5, 0.3])])
def test_a_metric_without_short_axes_stays_as_it_is(components):
    start = geometry(components)
    assert module._without_short_axes(start) is start


@pytest.fixture
def short_fits(monkeypatch):
    """Numbers of rows and prototypes of the short fits."""
    found = []

    def watched(run, grown):
        def heard(short):
            found.append((short.rows.facts.n_active, short.rules.max_clusters))
            return grown(short)

        return module.first_metric(run, heard)

    monkeypatch.setattr(grow_module, "first_metric", watched)
    return found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("k", "expected"), [(12, 12), (60, 8 * 4), (None, 8 * 4)])
def test_a_short_fit_has_few_prototypes(short_fits, k, expected):
    DiscriminativeKMeans(k, metric="learned", max_iter=3, growth="best").fit(NOISE, BANDS)
    assert short_fits == [(700 * 3 // 4, expected)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_choice_of_the_step_alone_takes_fewer_prototypes(short_fits):
    X = np.hstack([NOISE, NOISE**2, NOISE**3])  # fewer rows than 27 x 27 entries
    DiscriminativeKMeans(60, metric="learned", max_iter=3, growth="best").fit(X, BANDS)
    assert short_fits == [(700 * 3 // 4, 4 * 4)]


@pytest.mark.parametrize(("n_distinct", "expected"), [(199, []), (200, [(2 * 150, 6)])])
def test_copies_of_rows_are_not_enough_for_a_short_fit(short_fits, n_distinct, expected):
    rows = np.tile(np.arange(n_distinct), 2)
    DiscriminativeKMeans(6, metric="learned", max_iter=3).fit(NOISE[rows], BANDS[rows])
    assert short_fits == expected


@pytest.mark.parametrize("n_features", [9, 30])
@pytest.mark.parametrize(("costs", "expected"), [((0.2, 0.3), 1.0), ((0.3, 0.2), 0.1)])
def test_the_step_is_the_one_that_other_rows_prefer(monkeypatch, n_features, costs, expected):
    X = np.random.default_rng(0).normal(size=(700, n_features))  # fewer rows than 30 x 30 entries
    X[:, :9] = NOISE
    costs, starts, steps = list(costs), [], []
    monkeypatch.setattr(module, "_cost", lambda rows, state: costs.pop(0))

    def watched(run, grown):
        before = run.rules.geometry
        starts.append(module.first_metric(run, grown))
        assert (starts[0].geometry is before) == (n_features == 30 or expected < 1)
        return starts[0]

    class Watched(MetricDescent):
        def __init__(self, field, start, step):
            steps.append(step)
            super().__init__(field, start, step)

    monkeypatch.setattr(grow_module, "first_metric", watched)
    monkeypatch.setattr(refine_module, "MetricDescent", Watched)
    DiscriminativeKMeans(6, metric="learned", max_iter=3).fit(X, BANDS)
    assert not costs
    assert starts[0].step == expected
    assert steps == [1.0, 0.1, expected]


def test_a_continued_fit_keeps_its_space(short_fits):
    model = DiscriminativeKMeans(6, metric="learned", max_iter=3, warm_start=True)
    model.fit(NOISE, BANDS).fit(NOISE, BANDS)
    assert len(short_fits) == 1


@pytest.mark.parametrize("n_components", [None, 2])
def test_rows_that_are_held_out_are_not_seen(short_fits, n_components):
    DiscriminativeKMeans("auto", metric="learned", n_components=n_components, max_iter=3).fit(
        NOISE, BANDS
    )
    (seen, _), (whole, _) = short_fits
    assert seen < 0.7 * whole
    assert whole == (700 * 3 // 4 if n_components is None else 700)


def test_irrelevant_features_are_left_out():
    train, test = slice(0, 500), slice(500, None)
    model = DiscriminativeKMeans(16, metric="learned").fit(NOISE[train], BANDS[train])
    assert len(model.components_) < NOISE.shape[1]
    assert model.feature_importances_[:2].sum() > 0.9
    only = DiscriminativeKMeans(16, metric="learned").fit(NOISE[train, :2], BANDS[train])
    assert model.score(NOISE[test], BANDS[test]) > only.score(NOISE[test, :2], BANDS[test]) - 0.05
    np.testing.assert_array_equal(model.labels_, model.transform(NOISE[train]).argmin(axis=1))
