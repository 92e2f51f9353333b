"""Learning prototypes and projection together."""

import numpy as np
import pytest
import scipy.sparse as sp
from models import grown
from naive import margins, robust_cost, squared
from parted import rows_of
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine

from dkmeans import DiscriminativeKMeans
from dkmeans.geometry import Learned
from dkmeans.growth import first_metric, metric_descent, refine
from dkmeans.growth.descent import Model
from dkmeans.growth.metric_descent import MetricDescent
from dkmeans.growth.robust_field import RobustField
from dkmeans.passes.batch import Batch
from dkmeans.prototypes import Prototypes

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")


@pytest.fixture
def quick(monkeypatch):
    """Few passes, in several batches."""
    monkeypatch.setattr(refine, "PASSES", 8)
    monkeypatch.setattr(refine, "MIN_BATCH_ROWS", 30)


def noisy(rng, n=80):
    y = rng.integers(0, 3, n)
    X = np.round(rng.normal(size=(n, 4)) * [1, 5, 1, 0.1] + y[:, None] * [1, 0, 2, 0], 3)
    return X, y


def geometry_of(X, components):
    about = (function(X, axis=0) for function in (np.mean, np.std, np.min, np.max))
    return Learned.of_features(*about, components)


@pytest.mark.parametrize(("n", "share"), [(30, 1.0), (200, (6 * 3 + 4 * 3) / (0.4 * 200))])
def test_the_noise_counts_the_entries_of_the_projection(n, share):
    rng = np.random.default_rng(1)
    X, y = noisy(rng, n)
    geometry = geometry_of(X, rng.normal(size=(4, 3)))
    first = np.concatenate([np.flatnonzero(y == c)[:2] for c in range(3)])
    Z = geometry.rows(X)
    prototypes = Prototypes(Z[first], np.repeat(np.arange(3), 2), np.arange(6))
    rows = rows_of(X, y, None, 3, [n // 3])
    rows.map_rows(geometry)
    squares = np.square(Z[:, None] - prototypes.centers).sum(axis=2)
    squares[y[:, None] != prototypes.classes] = np.inf
    cells = squares.argmin(axis=1)
    means = np.array([Z[cells == i].mean(axis=0) for i in range(6)])
    scatter = np.square(Z - means[cells]).sum(axis=1).mean()
    found = RobustField(rows, prototypes, learns_metric=True).final_cost.variance
    assert found == pytest.approx((0.5 * share) ** 2 * scatter / 3, rel=1e-6)


@pytest.mark.parametrize("layout", ["array", "CSR", "shifted"])
@pytest.mark.parametrize("weights", ["none", "whole", "real"])
def test_the_gradient_is_that_of_the_cost(layout, weights):
    rng = np.random.default_rng(0)
    X, y = noisy(rng)
    X = X + 50.0 * (layout == "shifted")
    w = {"none": np.ones(80), "whole": rng.integers(0, 5, 80).astype(float)}.get(
        weights, rng.uniform(0, 3, 80)
    )
    geometry = geometry_of(X, rng.normal(size=(4, 3)))
    first = [np.flatnonzero((y == c) & (w > 0))[:2] for c in range(3)]
    prototypes = Prototypes(
        geometry.rows(X[np.concatenate(first)]) + 0.3, np.repeat(np.arange(3), 2), np.arange(6)
    )
    given = sp.csr_array(X) if layout == "CSR" else X
    rows = rows_of(given, y, None if weights == "none" else w, 3, [20, 45])
    rows.map_rows(geometry)
    field = RobustField(rows, prototypes, learns_metric=True)
    slope, bound = 7.0, field.bound_row_gradients(prototypes)
    found = field.metric_gradient(prototypes, geometry, slope, Batch(0, 1, 0), 2 * bound)
    cost, active = field.final_cost.at(slope), np.flatnonzero(w > 0).tolist()
    standard = geometry.standardised(X)

    def mean_cost(components, centers):
        Z, total = standard @ components, 0.0
        seen = margins(Z, y, active, centers.tolist(), prototypes.classes.tolist(), np.float64)
        for r, (own, rival, near, far, _) in seen.items():
            gap = squared(centers[own], centers[rival])
            about = slope, cost.variance, cost.n_features, cost.least
            total += w[r] * robust_cost(near, far, gap, *about)
        return total / w.sum()

    for actual, at in ((found.products[:-1], 0), (found.gradient, 1)):
        expected = np.zeros_like(actual)
        for place in np.ndindex(*actual.shape):
            sides = []
            for step in (1e-6, -1e-6):
                values = [geometry.components.copy(), prototypes.centers.copy()]
                values[at][place] += step
                sides.append(mean_cost(*values))
            expected[place] = (sides[0] - sides[1]) / 4e-6  # the factor of squares is left out
        # Rows and gradients are rounded to multiples of 2**-13 of their bounds in the products.
        rounding = 2.0**-14 * bound * (16 + 2 * np.abs(standard).max())
        atol = 1e-6 * np.abs(expected).max() if at else rounding
        np.testing.assert_allclose(actual, expected, atol=atol)


def same(one, other):
    """Whether two models have the same bits."""
    a, b = one._fitted, other._fitted
    return (
        a.prototypes.centers.tobytes() == b.prototypes.centers.tobytes()
        and a.geometry.components.tobytes() == b.geometry.components.tobytes()
    )


@pytest.mark.usefixtures("quick")
def test_order_layout_copies_and_units_change_nothing():
    X, y = load_wine(return_X_y=True)
    X = X.astype(np.float32)
    model = DiscriminativeKMeans(9, metric="learned")
    expected = clone(model).fit(X, y)
    order = np.random.default_rng(0).permutation(len(y))
    thrice = np.repeat(np.arange(len(y)), 3)
    units = np.ldexp(1.0, np.arange(13) - 6).astype(np.float32)
    others = {
        "order": (X[order], y[order]),
        "CSR": (sp.csr_array(X), y),
        "copies": (X[thrice], y[thrice]),
        "weights": (X, y, np.full(len(y), 0.25)),
        "units": (X * units, y),
    }
    for name, data in others.items():
        assert same(clone(model).fit(*data), expected), name
    threads = clone(model).set_params(n_threads=2).fit(X, y)
    assert same(threads, expected)


@pytest.mark.usefixtures("quick")
def test_whole_weights_are_the_rows_so_many_times():
    X, y = load_wine(return_X_y=True)
    w = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    again = np.repeat(np.arange(len(y)), w.astype(int))
    model = DiscriminativeKMeans(9, metric="learned", growth="paper")
    assert same(clone(model).fit(X, y, w), clone(model).fit(X[again], y[again]))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("seed", [1, 3])
def test_a_constant_factor_on_weights_changes_nothing(seed):
    """It used to change the last bit, unless it was a power of two."""
    rng = np.random.default_rng(seed)
    X, y = noisy(rng)
    w = rng.integers(0, 4, len(y)).astype(float)
    model = DiscriminativeKMeans(6, metric="learned")
    weighted, plain = clone(model).fit(X, y, w), clone(model).fit(X, y)
    for factor in (3, 5):
        assert same(clone(model).fit(X, y, w * factor), weighted)
        copies = np.repeat(np.arange(len(y)), factor)
        assert same(clone(model).fit(X[copies], y[copies]), plain)


def test_features_that_matter_count_more():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    X = rng.normal(size=(600, 20))
    X[:, 3] += 2.0 * y
    X *= 10.0 ** rng.uniform(-3, 3, 20)
    model = DiscriminativeKMeans(6, metric="learned").fit(X[:400], y[:400])
    assert model.feature_importances_.argmax() == 3
    assert model.feature_importances_[3] > 0.3
    plain = grown(6, refine="margin").fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > plain.score(X[400:], y[400:]) + 0.1
    assert (model.labels_ == model.predict_cluster(X[:400])).all()
    assert (model.labels_ == model.transform(X[:400]).argmin(axis=1)).all()


def test_small_differences_between_dependent_features_are_learned(monkeypatch):
    shape, rng = np.random.default_rng(0), np.random.default_rng(1)
    means, loadings = shape.normal(size=(6, 20)), shape.normal(size=(3, 20))
    y = rng.integers(0, 6, 3000)
    X = rng.normal(size=(3000, 3)) @ loadings + 0.05 * (means[y] + rng.normal(size=(3000, 20)))
    train, test = (X[:1000], y[:1000]), (X[1000:], y[1000:])
    model = DiscriminativeKMeans(12, metric="learned", refine="margin")
    # Nothing but the steps may differ: no metric that is not learned, nor fewer rows at the start.
    monkeypatch.setattr(first_metric, "MIN_CHECKED_ROWS", np.inf)
    error = 1 - clone(model).fit(*train).score(*test)
    monkeypatch.setattr(metric_descent, "MAX_DECORRELATED", 0)
    plain_error = 1 - clone(model).fit(*train).score(*test)
    assert error < 0.1
    assert error < plain_error / 2


def test_a_step_keeps_the_norm_of_the_projection():
    X, y = noisy(np.random.default_rng(1))
    geometry = geometry_of(X, np.eye(4))
    rows = rows_of(X, y, None, 3, [30])
    rows.map_rows(geometry)
    first = [np.flatnonzero(y == c)[:2] for c in range(3)]
    start = Prototypes(
        geometry.rows(X[np.concatenate(first)]), np.repeat(np.arange(3), 2), np.arange(6)
    )
    descent = MetricDescent(RobustField(rows, start, learns_metric=True), Model(start, geometry))
    np.testing.assert_allclose(descent.model.prototypes.centers, start.centers, atol=1e-12)
    for batch in range(4):
        descent.step(10.0, 1.0, Batch(batch, 4, 0))
    components = descent.model.geometry.components
    assert (components != geometry.components).any()
    assert np.linalg.norm(components) == pytest.approx(2.0, rel=1e-4)


DEGENERATE = {
    "constant features": (np.column_stack([np.arange(12.0), np.full((12, 2), 7.0)]), [0, 1] * 6),
    "duplicate features": (np.repeat(np.arange(12.0)[:, None], 3, axis=1), [0] * 6 + [1] * 6),
    "more features than rows": (np.random.default_rng(0).normal(size=(6, 30)), [0, 1, 2] * 2),
    "one class": (np.random.default_rng(0).normal(size=(8, 3)), [0] * 8),
    "all rows equal": (np.ones((6, 2)), [0, 1] * 3),
    "one feature": (np.arange(8.0)[:, None], [0, 0, 0, 0, 1, 1, 1, 1]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_rows(name):
    X, y = DEGENERATE[name]
    model = DiscriminativeKMeans(len(set(y)), metric="learned").fit(X, y)
    assert np.isfinite(model._fitted.prototypes.centers).all()
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.cluster_centers_).all()
    assert (model.labels_ == model.predict_cluster(X)).all()


@pytest.mark.usefixtures("quick")
def test_auto_budgets_warm_start_and_partial_fit():
    X, y = load_iris(return_X_y=True)
    auto = DiscriminativeKMeans("auto", metric="learned").fit(X, y)
    assert auto.score(X, y) > 0.9
    same_k = DiscriminativeKMeans(auto.n_clusters_, metric="learned").fit(X, y)
    assert same(same_k, auto)
    again = clone(same_k).set_params(warm_start=True).fit(X, y)
    assert again.fit(X, y).score(X, y) >= same_k.score(X, y)
    parts = DiscriminativeKMeans(6, metric="learned").partial_fit(X[::2], y[::2])
    learned = parts._fitted.geometry
    assert parts.partial_fit(X[1::2], y[1::2])._fitted.geometry is learned
    assert parts.score(X, y) > 0.9


@pytest.mark.usefixtures("quick")
def test_a_model_of_a_pass_predicts_in_its_own_metric():
    X, y = load_iris(return_X_y=True)
    from dkmeans.progress import listening

    seen = []
    with listening(lambda step: seen.append(step)):
        model = DiscriminativeKMeans(6, metric="learned").fit(X, y)
    passes = [step for step in seen if step.record["phase"] == "refine"]
    assert len({id(step.geometry) for step in passes}) > 2
    assert passes[-1].geometry is model._fitted.geometry
