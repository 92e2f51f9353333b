"""The choice of `metric="auto"` between rows as they are and a learned metric."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from dkmeans import DiscriminativeKMeans
from dkmeans.geometry.dominance import has_dominant
from dkmeans.growth import metric_choice as module
from dkmeans.growth import start_metric
from dkmeans.growth.first_metric import short_rules
from dkmeans.growth.held_out import is_within_error

rng = np.random.default_rng(3)
ALIKE = rng.normal(size=(500, 6))
BLOBS = np.arange(500) % 10
ALIKE += 1.3 * rng.normal(size=(10, 6))[BLOBS]
CLASSES = BLOBS % 5
NOISE = rng.normal(size=(700, 9))
BANDS = np.digitize(NOISE[:, 0] + 0.5 * NOISE[:, 1] ** 2, [0.0, 0.6, 1.2])


WIDE = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 20))
WIDE += 0.1 * rng.normal(size=WIDE.shape)
SIDES = (WIDE[:, 0] > WIDE[:, 1]).astype(int)


def same(a, b):
    assert a.metric_ == b.metric_
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    np.testing.assert_array_equal(a.labels_, b.labels_)


@pytest.mark.parametrize("k", [12, "auto"])
@pytest.mark.parametrize(
    ("X", "y", "expected"), [(ALIKE, CLASSES, "euclidean"), (NOISE, BANDS, "learned")]
)
def test_auto_is_one_of_the_metrics(X, y, expected, k):
    model = DiscriminativeKMeans(k).fit(X, y)
    assert model.metric_ == expected
    # Rows that are held out to choose the number are chosen before the metric.
    same(model, DiscriminativeKMeans(model.n_clusters_, metric=expected).fit(X, y))


def test_nothing_but_values_and_weights_counts():
    order = rng.permutation(len(ALIKE))
    model = DiscriminativeKMeans(12).fit(ALIKE, CLASSES)
    other = DiscriminativeKMeans(12, n_threads=2, memory_mb=1).fit(ALIKE[order], CLASSES[order])
    np.testing.assert_array_equal(other.cluster_centers_, model.cluster_centers_)
    weights = rng.integers(1, 3, len(ALIKE))
    again = np.repeat(np.arange(len(ALIKE)), weights)
    heavy = DiscriminativeKMeans("auto").fit(ALIKE, CLASSES, sample_weight=weights)
    repeated = DiscriminativeKMeans("auto").fit(ALIKE[again], CLASSES[again])
    np.testing.assert_array_equal(heavy.cluster_centers_, repeated.cluster_centers_)


@pytest.fixture
def trials(monkeypatch):
    """Errors of trials on rows that they have not seen."""
    found = []

    class Watched(module.ItemLosses):
        def of(self, *model):
            found.append(super().of(*model))
            return found[-1]

    monkeypatch.setattr(module, "ItemLosses", Watched)
    return found


def test_the_number_of_clusters_and_the_fit_share_one_choice(trials):
    model = DiscriminativeKMeans().fit(ALIKE, CLASSES)
    assert len(trials) in (1, 2)
    assert {point.geometry for point in model._fitted.growth_path.waypoints} == {
        model._fitted.geometry
    }


def test_the_unit_of_one_feature_does_not_decide(trials):
    X = ALIKE * [1, 1, 1, 1, 1, 1000]
    same(
        DiscriminativeKMeans(12).fit(X, CLASSES),
        DiscriminativeKMeans(12, metric="learned").fit(X, CLASSES),
    )
    assert not trials


def test_few_rows_of_many_features_are_compared_too(trials):
    X = rng.normal(size=(120, 150))
    y = np.arange(120) % 3
    X[:, :5] += 4 * y[:, None]  # all features have much the same unit
    model = DiscriminativeKMeans(3).fit(X, y)
    assert model.metric_ == "euclidean"
    assert trials
    trials.clear()
    assert DiscriminativeKMeans(3).fit(X[:, :100], y).metric_ == "learned"
    assert not trials


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
@pytest.mark.parametrize("n", [1, 2, 3, 20, 21])
def test_the_fewest_rows_of_many_features_can_be_fitted(n):
    X = rng.normal(size=(n, 30))
    for n_classes in {1, 2, n // 2, n} - {0}:
        y = np.arange(n) % n_classes
        model = DiscriminativeKMeans().fit(X, y)
        assert (model.predict(X) == y).mean() >= 1 / n_classes


def test_a_question_about_rows_does_not_change_them(monkeypatch):
    ask, settings = module._is_alike, []

    def watched(rows, *about):
        settings.append([part.setting for part in rows._runner.parts])
        found = ask(rows, *about)
        settings.append([part.setting for part in rows._runner.parts])
        return found

    monkeypatch.setattr(module, "_is_alike", watched)
    DiscriminativeKMeans(12).fit(ALIKE * [1, 1, 1, 1, 1, 1000], CLASSES)
    before, after = settings
    assert len(before) == 1
    assert after[0] is before[0]


def work(n_rows):
    """Multiplications to project rows of WIDE."""
    return n_rows * 20 * 20


@pytest.fixture
def many_features(monkeypatch):
    """Let the features of WIDE be many."""
    monkeypatch.setattr(start_metric, "FEW_FEATURES", 16)


@pytest.mark.usefixtures("many_features")
def test_much_work_is_not_done(trials, monkeypatch):
    DiscriminativeKMeans(12).fit(WIDE, SIDES)
    assert trials
    trials.clear()
    monkeypatch.setattr(module, "MAX_WORK", work(300) - 1)
    model = DiscriminativeKMeans(12).fit(WIDE, SIDES)
    assert not trials
    same(model, DiscriminativeKMeans(12, metric="euclidean").fit(WIDE, SIDES))
    DiscriminativeKMeans(12).fit(WIDE[:, :16], SIDES)
    assert trials, "few features are little work"
    assert DiscriminativeKMeans(12, metric="learned").fit(WIDE, SIDES).metric_ == "learned"
    limited = DiscriminativeKMeans(12, n_components=3).fit(WIDE, SIDES)
    assert limited.metric_ == "learned", "a low rank is little work"


def wide_fits(X, y, weights):
    """Fits of the same rows in several forms."""
    da = pytest.importorskip("dask.array")
    chunks = len(X) // 3
    lazy = [da.from_array(a, chunks=(chunks, *a.shape[1:])) for a in (X, y, weights)]
    yield DiscriminativeKMeans(12).fit(X, y, weights)
    yield DiscriminativeKMeans(12).fit(X[::-1], y[::-1], weights[::-1])
    yield DiscriminativeKMeans(12).fit(csr_array(X), y, weights)
    yield DiscriminativeKMeans(12, memory_mb=1).fit(*lazy)


@pytest.mark.usefixtures("many_features")
@pytest.mark.parametrize("less", [0, 1])
def test_work_is_that_of_distinct_rows(trials, monkeypatch, less):
    X, y = np.concatenate([WIDE, WIDE[:40]]), np.concatenate([SIDES, SIDES[:40]])
    weights = np.ones(len(X))
    weights[50:70] = 0
    monkeypatch.setattr(module, "MAX_WORK", work(280) - less)
    first, *others = wide_fits(X, y, weights)
    assert bool(trials) == (not less)
    for other in others:
        assert other.metric_ == first.metric_
        np.testing.assert_array_equal(other.cluster_centers_[:, 0], first.cluster_centers_[:, 0])


@pytest.mark.usefixtures("many_features")
@pytest.mark.parametrize("factor", [2.0**500, 2.0**-300])
def test_values_whose_squares_overflow_are_learned_at_any_cost(monkeypatch, factor):
    monkeypatch.setattr(module, "MAX_WORK", 1.0)
    assert DiscriminativeKMeans(2).fit(factor * WIDE, SIDES).metric_ == "learned"


def test_there_is_no_trial_with_very_many_features(trials):
    X = np.hstack([WIDE] * 205)
    assert DiscriminativeKMeans(2).fit(X, SIDES).metric_ == "euclidean"
    assert not trials


def test_trials_have_no_more_prototypes_than_a_fit(trials, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "short_rules", lambda *a: asked.append(a[1]) or short_rules(*a))
    many = np.arange(500) % 25
    DiscriminativeKMeans().fit(ALIKE, many)
    assert asked == [25], "one per class, as that is more than a tenth of the rows"
    DiscriminativeKMeans(60).fit(ALIKE, many)
    assert asked == [25, 37], "a tenth of the rows that the trial sees"


@pytest.mark.parametrize("factor", [2.0**500, 2.0**-300])
def test_values_whose_squares_overflow_are_standardised(trials, factor):
    assert DiscriminativeKMeans(12).fit(factor * ALIKE, CLASSES).metric_ == "learned"
    assert not trials


@pytest.mark.parametrize(
    "setting", [{"metric": "learned"}, {"n_components": 2}, {"refine": None}], ids=str
)
def test_what_was_asked_for_is_learned(trials, setting):
    assert DiscriminativeKMeans(12, **setting).fit(ALIKE, CLASSES).metric_ == "learned"
    assert not trials


def test_a_fit_that_continues_keeps_the_metric():
    model = DiscriminativeKMeans(12, warm_start=True).fit(ALIKE, CLASSES)
    assert model.fit(ALIKE, CLASSES).metric_ == "euclidean"
    assert model.partial_fit(ALIKE[:50], CLASSES[:50]).metric_ == "euclidean"


def first_part(X, y, k=12, **settings):
    return DiscriminativeKMeans(k, **settings).partial_fit(X, y)


@pytest.mark.parametrize("k", [12, "auto"])
@pytest.mark.parametrize("refine", ["margin", None])
def test_few_rows_of_a_first_part_stay_as_they_are(trials, k, refine):
    X, y = NOISE[:180], BANDS[:180]
    model = first_part(X, y, k, refine=refine)
    same(model, first_part(X, y, k, refine=refine, metric="euclidean"))
    assert DiscriminativeKMeans(k, refine=refine).fit(X, y).metric_ == "learned"
    assert not trials
    model = model.partial_fit(NOISE[180:], BANDS[180:])
    assert model.metric_ == "euclidean"


@pytest.mark.parametrize("k", [12, "auto"])
def test_a_first_part_of_many_rows_is_a_fit(trials, k):
    X, y = np.r_[NOISE, -NOISE], np.r_[BANDS, BANDS]
    model = first_part(X, y, k)
    assert trials
    same(model, DiscriminativeKMeans(k).fit(X, y))


def test_as_many_rows_as_the_comparison_sees_count(trials):
    X, y = NOISE[:300], BANDS[:300]
    first_part(X, y, 12)
    assert trials
    trials.clear()
    assert first_part(X, y, "auto").metric_ == "euclidean", "half of the rows are held out"
    assert not trials


@pytest.mark.parametrize("k", [12, "auto"])
def test_the_unit_of_a_feature_shows_in_few_rows(k):
    X, y = ALIKE[:100] * [1, 1, 1, 1, 1, 1000], CLASSES[:100]
    assert first_part(X, y, k).metric_ == "learned"
    X[:, 5] = np.where(np.arange(100) == 50, -1e6, ALIKE[:100, 5])
    assert first_part(X, y, k).metric_ == "euclidean", "a single value says nothing of units"


def test_very_few_rows_do_not_show_units():
    for n in range(1, 10):
        X, y = ALIKE[:n, :2] * [1, 1000], CLASSES[:n]
        assert first_part(X, y).metric_ == "euclidean"
    assert first_part(ALIKE[:10, :2] * [1, 1000], CLASSES[:10]).metric_ == "learned"


def test_what_was_asked_for_is_learned_in_a_first_part():
    X, y = NOISE[:100], BANDS[:100]
    for setting in ({"metric": "learned"}, {"n_components": 2}):
        assert first_part(X, y, **setting).metric_ == "learned"
    assert first_part(2.0**500 * X, y).metric_ == "learned", "squares overflow"


def test_blocks_and_weights_of_a_first_part_change_nothing():
    pytest.importorskip("dask")
    forms = list(part_fits(ALIKE[:150], CLASSES[:150], rng.integers(0, 3, 150).astype(float)))
    for form in forms[1:]:
        assert form.metric_ == forms[0].metric_ == "euclidean"
        np.testing.assert_array_equal(form.cluster_centers_, forms[0].cluster_centers_)


def part_fits(X, y, weights):
    """Two calls of `partial_fit` with the same rows in several forms."""
    da = pytest.importorskip("dask.array")
    copies = np.repeat(np.arange(len(X)), weights.astype(int))
    lazy = [da.from_array(a, chunks=(40, *a.shape[1:])) for a in (X, y, weights)]
    order = np.arange(len(X))[::-1]
    for settings, *rows in (
        ({}, X, y, weights),
        ({"n_threads": 3, "memory_mb": 0.05}, X[order], y[order], weights[order]),
        ({}, X[copies], y[copies]),
        ({}, X, y, 4 * weights),
        ({"memory_mb": 1}, *lazy),
    ):
        model = DiscriminativeKMeans(12, **settings)
        for _ in range(2):
            model.partial_fit(rows[0], rows[1], None, *rows[2:])
        yield model


@pytest.mark.parametrize(
    ("worse", "expected"),
    [([1, 1, 1, 1], False), ([1, 0, 0], True), ([1, 1, 1, -1], True), ([-1, -1], True), ([], True)],
)
def test_one_standard_error(worse, expected):
    assert is_within_error(np.array(worse, dtype=float)) == expected


@pytest.mark.parametrize(
    ("deviations", "expected"),
    [
        ([1.0], False),
        ([1.0, 4.0], False),
        ([1.0, 5.0], True),
        ([0.0, 0.0], False),
        ([3e200, 1e190], True),
    ],
)
def test_dominant_features(deviations, expected):
    assert has_dominant(np.array(deviations)) == expected
