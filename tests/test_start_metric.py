"""What `metric="learned"` starts from: standardised features and their principal axes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from parted import parts_of
from scipy.stats import chi2_contingency, norm
from strategies import examples

from dkmeans import DiscriminativeKMeans
from dkmeans.growth import start_metric as module
from dkmeans.growth.start_metric import start_metric
from dkmeans.runners.local import LocalRunner


def metric_of(X, weights=None, n_components=None, cuts=(), by_class=None, y=None):
    y = np.zeros(X.shape[0], dtype=int) if y is None else y
    runner = LocalRunner(parts_of(X, y, weights, int(y.max()) + 1, cuts))
    return start_metric(runner, X.shape[1], n_components, by_class)


def rows(seed, n=80, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    X[rng.random((n, d)) < 0.2] = 0
    X[:, 1] += 1e4  # far from the origin
    X[:, 2] = np.abs(X[:, 2]) + 1e-3
    return X * 10.0 ** rng.integers(-8, 9, d)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_standardised(seed, dtype):
    X = rows(seed).astype(dtype)
    found = metric_of(X)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(found.center, wide.mean(axis=0), rtol=1e-9, atol=1e-9 * wide.std())
    np.testing.assert_allclose(found.scale, wide.std(axis=0), rtol=1e-6)
    has_zero = (X == 0).any(axis=0) | ((X.min(axis=0) < 0) & (X.max(axis=0) > 0))
    np.testing.assert_array_equal(found.shift == 0, has_zero)


@pytest.mark.parametrize("seed", range(4))
def test_axes_are_the_principal_ones(seed):
    X = rows(seed)
    found = metric_of(X, n_components=3)
    # Features that are nearly constant, relative to their range, count less.
    weights = np.sqrt(X.std(axis=0) / np.ptp(X, axis=0))
    S = (X - X.mean(axis=0)) / X.std(axis=0) * weights
    _, _, axes = np.linalg.svd(S, full_matrices=False)
    chosen = found.components / weights[:, None]
    np.testing.assert_allclose(np.linalg.svd(axes[:3] @ chosen)[1], 1, atol=1e-3)
    assert (chosen[np.abs(chosen).argmax(axis=0), np.arange(3)] > 0).all()
    np.testing.assert_allclose(metric_of(X).components, np.diag(weights), rtol=1e-5)


def relevance(x, y):
    """Chi-squared statistic of the classes and of eight bins, above chance, from 0.25 to 1."""
    bins = np.searchsorted(norm.ppf(np.arange(1, 8) / 8), (x - x.mean()) / x.std(), side="right")
    table = np.array([[np.sum((bins == b) & (y == c)) for c in np.unique(y)] for b in range(8)])
    chi, _, freedom, _ = chi2_contingency(table[table.any(axis=1)], correction=False)
    return np.clip((chi - freedom) / np.sqrt(2 * freedom) / 10, 0.25, 1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("copies", [1, 4])
def test_features_that_tell_nothing_of_the_classes_count_less(n_classes, copies):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(400, 5))
    height = X[:, 0] + np.sin(3 * X[:, 1]) + 0.7 * X[:, 2] ** 2
    y = np.searchsorted(np.quantile(height, np.arange(1, n_classes) / n_classes), height)
    y[X[:, 3] < -1.5] = 0
    expected = np.array([relevance(x, y) for x in X.T])
    assert len(np.unique(expected)) >= 3, "all cases: clear, in between, and noise"
    plain = metric_of(X).components
    again = np.tile(np.arange(len(X)), copies)
    found = metric_of(X[again], y=y[again]).components
    np.testing.assert_allclose(found, plain * (expected / expected.max()), rtol=1e-5)


@settings(max_examples=examples(100), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    weights=st.sampled_from(["none", "whole", "large", "fractional"]),
    power=st.integers(-3, 20),
)
def test_every_bit_is_the_same_in_any_order_and_parts(seed, weights, power):
    rng = np.random.default_rng(seed)
    X = rows(seed, n=int(rng.integers(2, 60)))
    w = {
        "none": None,
        "whole": rng.integers(0, 4, len(X)).astype(float),
        "large": rng.integers(0, 2**30, len(X)).astype(float),
        "fractional": rng.random(len(X)),
    }[weights]
    if w is not None:
        w[0] = 1
    y = (X[:, 0] > X[0, 0]) + rng.integers(0, 2, len(X))
    found = metric_of(X, w, 2, y=y)
    order = rng.permutation(len(X))
    cuts = sorted(rng.integers(0, len(X), 2).tolist())
    others = [
        metric_of(X[order], None if w is None else w[order], 2, cuts, y=y[order]),
        metric_of(sp.csr_array(X), w, 2, y=y),
    ]
    if weights == "whole":
        again = np.repeat(np.arange(len(X)), w.astype(int))
        others.append(metric_of(X[again], None, 2, y=y[again]))
        others.append(metric_of(X, w * 2.0 ** max(power, 0), 2, y=y))
    if weights == "none":
        others.append(metric_of(X, np.full(len(X), 2.0 ** max(power, 0)), 2, y=y))
    units = 2.0 ** rng.integers(-40, 40, X.shape[1])
    scaled = metric_of(X * units, w, 2, y=y)
    np.testing.assert_array_equal(scaled.scale, found.scale * units)
    np.testing.assert_array_equal(scaled.components, found.components)
    for other in others:
        for name in ("shift", "scale", "center", "components"):
            assert getattr(other, name).tobytes() == getattr(found, name).tobytes(), name


def test_sums_of_products_are_exact_for_heavy_weights():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(400, 3)), rng.integers(0, 2**20, 400).astype(float)
    light = metric_of(X, w, 2)
    assert metric_of(X, w * 2.0**10, 2).components.tobytes() == light.components.tobytes()


@pytest.mark.parametrize(
    "X",
    [
        np.ones((6, 3)),
        np.zeros((6, 3)),
        np.repeat(np.arange(6.0)[:, None], 3, axis=1),
        np.column_stack([np.arange(6.0), np.full(6, 7.0), np.zeros(6)]),
        np.random.default_rng(0).normal(size=(6, 40)),
        np.array([[1.0, 2.0]]),
    ],
    ids=["ones", "zeros", "duplicates", "constants", "d > n", "one row"],
)
@pytest.mark.parametrize("n_components", [None, 1, 100])
def test_degenerate_rows_are_fitted(X, n_components):
    y = np.arange(len(X)) % 2
    model = DiscriminativeKMeans(2, metric="learned", n_components=n_components, refine="margin")
    model.fit(X, y)
    rank = np.linalg.matrix_rank(X - X.mean(axis=0))
    most = X.shape[1] if n_components is None else n_components
    assert len(model.components_) == max(1, min(rank, most))
    assert np.isfinite(model.cluster_centers_).all()
    np.testing.assert_array_equal(model.labels_, model.transform(X).argmin(axis=1))
    constant = (X[0] == X).all(axis=0)
    assert not model.feature_importances_[constant].any()


@pytest.mark.parametrize("size", [1e-307, 1e-309, 1e-320])
def test_features_of_tiny_values_count_as_constant(size):
    X, constant = rows(0), rows(0)
    X[:, 4] *= size / np.abs(X[:, 4]).max()
    constant[:, 4] = 0.0
    found, expected = metric_of(X), metric_of(constant)
    np.testing.assert_array_equal(found.scale, expected.scale)
    np.testing.assert_array_equal(found.components, expected.components)


def test_too_many_features_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_FEATURES", 3)
    with pytest.raises(ValueError, match="at most 3 features, and X has 4"):
        grown(metric="learned").fit(np.eye(4), [0, 1, 0, 1])


def test_another_metric_cannot_be_continued():
    model = grown(metric="learned").fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="metric='euclidean' cannot continue"):
        model.set_params(metric="euclidean").partial_fit(np.eye(4), [0, 1, 0, 1])
    model = grown().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="metric='learned' cannot continue"):
        model.set_params(metric="learned", warm_start=True).fit(np.eye(4), [0, 1, 0, 1])


def test_partial_fit_keeps_the_projection():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * [1, 10, 100, 1000]
    y = (X[:, 0] > 0).astype(int)
    model = DiscriminativeKMeans(6, metric="learned", n_components=2).partial_fit(X[:30], y[:30])
    before = model._fitted.geometry
    model.partial_fit(X[30:] * 3, y[30:])
    assert model._fitted.geometry is before
    np.testing.assert_array_equal(model.labels_, model.transform(X[30:] * 3).argmin(axis=1))


def test_a_low_rank_starts_from_axes_that_tell_classes_apart():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 8))  # what rows vary along most
    X = np.hstack([3 * common + 0.3 * rng.normal(size=(600, 8)), rng.normal(size=(600, 2))])
    y = (X[:, 8] * X[:, 9] > 0).astype(int)
    X_test, y_test, X, y = X[:200], y[:200], X[200:], y[200:]
    model = DiscriminativeKMeans(8, metric="learned", n_components=2).fit(X, y)
    assert len(model.components_) == 2
    assert model.feature_importances_[8:].sum() > 0.9
    assert model.score(X_test, y_test) > 0.85


@pytest.mark.parametrize("n_components", [2, None])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_short_fit_has_the_same_bits_in_any_order_and_parts(weighted, n_components):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(250, 6)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
    w = rng.integers(1, 4, len(X)).astype(float) if weighted else np.ones(len(X))

    def fitted(X, y, w=None, **options):
        model = grown(6, metric="learned", n_components=n_components, max_iter=8, **options)
        model.fit(X, y, sample_weight=w)
        return model.components_.tobytes(), model.transform(X[:1]).tobytes()

    components, _ = found = fitted(X, y, w)
    assert fitted(X, y, w, n_threads=1) == fitted(X, y, w, n_threads=3, memory_mb=1) == found
    assert fitted(sp.csr_array(X), y, w) == found
    units = 2.0 ** np.arange(-3, 3, dtype=np.float32)
    assert fitted(X * units, y, w)[1] == found[1]
    order = rng.permutation(len(X))
    assert fitted(X[order], y[order], w[order])[0] == components
    again = np.repeat(np.arange(len(X)), w.astype(int))
    assert fitted(X[again], y[again])[0] == components


def test_many_distinct_rows_of_many_features_get_a_lower_rank_by_default(monkeypatch):
    X = np.random.default_rng(0).normal(size=(100, 300)).astype(np.float32)
    work = 100 * 300 * 70
    monkeypatch.setattr(module, "MAX_WORK", work)
    found = metric_of(X)
    assert found.components.shape[1] == 70
    twice = metric_of(np.repeat(X, 2, axis=0))
    assert twice.components.tobytes() == found.components.tobytes()  # copies do not count
    assert metric_of(X, n_components=90).components.shape[1] == 90
    assert metric_of(X[:, :250]).components.shape[1] == 99  # the rank of the rows
    monkeypatch.setattr(module, "MAX_WORK", work / 2)
    assert metric_of(X).components.shape[1] == module.MIN_COMPONENTS
