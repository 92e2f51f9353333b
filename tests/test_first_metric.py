"""The short fit that finds the metric in which growth starts."""

from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse as sp
from parted import rows_of

from dkmeans import DiscriminativeKMeans
from dkmeans.geometry import Learned
from dkmeans.growth import first_metric as module
from dkmeans.growth import grow as grow_module
from dkmeans.growth import refine as refine_module
from dkmeans.growth import start_metric
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


@pytest.fixture
def steps(monkeypatch):
    """Steps of the projection, and batches, of all descents."""
    found = []

    class Watched(MetricDescent):
        def __init__(self, field, start, step):
            found.append(step)
            super().__init__(field, start, step)

    monkeypatch.setattr(refine_module, "MetricDescent", Watched)
    return found


def wide(n, d=36):
    """Fewer rows than d x d entries of the projection, of which the first columns matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2, [0.0, 0.6, 1.2])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("k", "expected"), [(12, 12), (60, 8 * 4), (None, 8 * 4)])
def test_a_short_fit_has_few_prototypes(short_fits, k, expected):
    DiscriminativeKMeans(k, metric="learned", max_iter=3, growth="best").fit(NOISE, BANDS)
    assert short_fits == [(700, expected)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_choice_of_the_step_alone_takes_fewer_prototypes(short_fits):
    X, y = wide(1200)
    DiscriminativeKMeans(60, metric="learned", max_iter=3, growth="best").fit(X, y)
    by_range = (1200 * 3 // 4, 4 * 4)
    assert short_fits == [(1200 * 3 // 4, 4 * 4), by_range]


@pytest.mark.parametrize(("n_distinct", "expected"), [(199, []), (200, [(2 * 200, 6)])])
def test_copies_of_rows_are_not_enough_for_a_short_fit(short_fits, n_distinct, expected):
    rows = np.tile(np.arange(n_distinct), 2)
    DiscriminativeKMeans(6, metric="learned", max_iter=3).fit(NOISE[rows], BANDS[rows])
    assert short_fits == expected


@pytest.mark.parametrize(("n", "expected"), [(999, [0.1]), (1000, [1.0, 0.1, 0.1])])
def test_few_rows_cannot_choose_the_step(short_fits, steps, n, expected):
    X, y = wide(n)
    rows = np.concatenate([np.arange(n), np.arange(50)])  # copies do not count
    DiscriminativeKMeans(8, metric="learned", max_iter=3).fit(X[rows], y[rows])
    assert steps == expected
    assert len(short_fits) == len(expected) - 1  # one of the two is by range


@pytest.mark.parametrize(("costs", "expected"), [((0.16, 0.2), 1.0), ((0.18, 0.2), 0.1)])
def test_the_usual_step_must_be_clearly_better(monkeypatch, steps, costs, expected):
    X, y = wide(1200)
    costs, starts = list(costs), []
    monkeypatch.setattr(module, "_cost", lambda rows, state: costs.pop(0))

    def watched(run, grown):
        before = run.rules.geometry
        starts.append(module.first_metric(run, grown))
        assert starts[0].geometry is before
        return starts[0]

    monkeypatch.setattr(grow_module, "first_metric", watched)
    DiscriminativeKMeans(6, metric="learned", max_iter=3).fit(X, y)
    assert not costs
    assert starts[0].step == expected
    assert starts[0].batches == (4 if expected == 1 else 1)
    assert steps == [1.0, 0.1, expected]


def test_many_features_choose_the_step_in_a_low_rank(monkeypatch):
    monkeypatch.setattr(start_metric, "FEW_FEATURES", 30)
    monkeypatch.setattr(module, "STEP_COMPONENTS", 5)
    X, y = wide(1200)
    tried = []

    def watched(rows, state):
        tried.append(state.geometry.components.shape)
        return 1.0

    monkeypatch.setattr(module, "_cost", watched)
    model = DiscriminativeKMeans(6, metric="learned", max_iter=3).fit(X, y)
    assert tried == [(36, 5), (36, 5)]
    assert model.components_.shape == (36, 36)
    assert (model.transform(X).argmin(axis=1) == model.labels_).all()


@pytest.mark.parametrize(
    ("step", "n_features", "expected"),
    [(1.0, 9, (3, 60)), (0.1, 9, (1, 60)), (1.0, 257, (3, 60)), (0.1, 257, (3, 22))],
)
def test_batches_and_passes_by_step_of_the_projection(monkeypatch, step, n_features, expected):
    plans = []
    monkeypatch.setattr(
        grow_module,
        "first_metric",
        lambda run, grown: module.MetricStart(run.rules.geometry, step),
    )
    plan_of = refine_module._Plan.of

    def watched(*about):
        plans.append(plan_of(*about))
        return plans[-1]

    monkeypatch.setattr(refine_module._Plan, "of", watched)
    X = np.hstack([NOISE, np.random.default_rng(0).normal(size=(700, n_features - 9))])
    DiscriminativeKMeans(6, metric="learned").fit(X, BANDS)
    assert [(plan.n_batches, plan.n_passes) for plan in plans] == [expected]


def alike(n):
    """Rows of which each feature counts as much as any other: a metric could only overfit."""
    centers = 0.5 * np.random.default_rng(0).normal(size=(12, 24))
    rng = np.random.default_rng(1)
    blob = rng.integers(0, 12, n)
    return rng.normal(size=(n, 24)) + centers[blob], blob % 3


def test_alike_features_are_only_divided_by_their_range(short_fits, steps):
    X, y = alike(1500)
    units = np.ldexp(1.0, np.arange(24) % 7 - 3)
    model = DiscriminativeKMeans(12, metric="learned").fit(X * units, y)
    assert steps == [1.0]  # in the short fit, before features by range were no worse
    assert [most for _, most in short_fits] == [12, 12]
    reach = np.ptp(X, axis=0)
    ratios = model.components_ * (reach * units)
    assert (ratios[~np.eye(24, dtype=bool)] == 0).all()
    # They are the ranges of three quarters of the rows, which the short fit has seen.
    assert 0.9 < np.diag(ratios).min() <= np.diag(ratios).max() < 1.4
    assert model.metric_ == "learned"


def test_alike_features_have_the_same_bits_in_any_order_and_units(short_fits):
    X, y = alike(1500)
    model = DiscriminativeKMeans(12, metric="learned").fit(X, y)
    order = np.random.default_rng(2).permutation(len(y))
    units = np.ldexp(1.0, np.arange(24) % 7 - 3)
    for other in (
        DiscriminativeKMeans(12, metric="learned").fit(X[order], y[order]),
        DiscriminativeKMeans(12, metric="learned", memory_mb=1, n_threads=3).fit(X, y),
        DiscriminativeKMeans(12, metric="learned").fit(sp.csr_array(X), y),
    ):
        np.testing.assert_array_equal(other.components_, model.components_)
        np.testing.assert_array_equal(other.transform(X), model.transform(X))
    other = DiscriminativeKMeans(12, metric="learned").fit(X * units, y)
    np.testing.assert_array_equal(other.transform(X * units), model.transform(X))
    assert len(short_fits) == 2 * 5


def test_fits_that_cannot_be_better_are_left_out(short_fits):
    X, y = alike(1500)
    DiscriminativeKMeans(12, metric="learned", n_components=3).fit(X, y)  # the rank is limited
    assert len(short_fits) == 1
    short_fits.clear()
    DiscriminativeKMeans(12, metric="learned").fit(X[:999], y[:999])  # too few rows to tell
    assert len(short_fits) == 1


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
    assert whole == 700


def test_irrelevant_features_are_left_out():
    train, test = slice(0, 500), slice(500, None)
    model = DiscriminativeKMeans(16, metric="learned").fit(NOISE[train], BANDS[train])
    assert len(model.components_) < NOISE.shape[1]
    assert model.feature_importances_[:2].sum() > 0.9
    only = DiscriminativeKMeans(16, metric="learned").fit(NOISE[train, :2], BANDS[train])
    assert model.score(NOISE[test], BANDS[test]) > only.score(NOISE[test, :2], BANDS[test]) - 0.05
    np.testing.assert_array_equal(model.labels_, model.transform(NOISE[train]).argmin(axis=1))


@pytest.mark.parametrize("n_features", [9, 257])
def test_no_row_is_both_seen_and_held_out_for_a_check(monkeypatch, n_features):
    """Not even of classes that have few rows, and are drawn more often than others."""
    monkeypatch.setattr(module, "SAMPLE_ROWS", 300 if n_features > 256 else 120)
    monkeypatch.setattr(module, "MIN_WIDE_SAMPLE", 50)
    monkeypatch.setattr(module, "MIN_CLASS_ROWS", 16)
    y = np.where(np.arange(700) < 40, np.arange(700) % 2 + 4, BANDS)
    rows = rows_of(NOISE, y, None, 6)
    with ExitStack() as ending:
        seen, others = module.seen_and_others(rows, n_features, ending)
        hashes = [
            some.sampling_hashes(rows.facts.largest)[1][
                slice(None) if some.weights() is None else some.weights() > 0
            ]
            for some in (seen, others)
        ]
        assert all(len(some) > 50 for some in hashes)
        assert len(hashes[0]) < (400 if n_features > 256 else 200)
        assert not set(hashes[0]) & set(hashes[1])
