"""A fit ends, with pure cells, on everything that could keep it from ending."""

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from models import grown

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
REPULSIONS = [0.0, 0.25, 1.0, 10.0, "size"]


def grid(n):
    side = np.arange(n) - (n - 1) / 2
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def rings():
    """Three rings whose points come in pairs x, -x, so that class means are equal exactly."""
    angle = np.arange(20) * np.pi / 20
    half = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    ring = np.concatenate([half, -half])
    return np.concatenate([ring, 2 * ring, 3 * ring]), np.repeat([0, 1, 0], 40)


def cases():
    rng = np.random.default_rng(0)
    for n in (4, 20):
        X = grid(n)
        yield f"xor {n}x{n}", X, ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    yield "rings", *rings()
    yield "checkerboard of points", grid(12), (np.indices((12, 12)).sum(0) % 2).ravel()
    yield "checkerboard of squares", grid(16), ((np.indices((16, 16)) // 4).sum(0) % 2).ravel()
    yield "random labels", rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    yield "one point", np.array([[3.0, 4.0]]), np.array([0])
    yield "one class", rng.normal(size=(50, 3)), np.zeros(50, dtype=int)
    yield "a class per point", rng.normal(size=(40, 2)), np.arange(40)
    yield "a constant feature", np.c_[rng.normal(size=100), np.ones(100)], rng.integers(0, 2, 100)
    yield "one feature", rng.normal(size=(100, 1)), rng.integers(0, 2, 100)
    yield "points on a line", np.outer(np.arange(60.0), [1.0, 2.0, -1.0]), np.arange(60) % 3
    yield "far from the origin", 1e6 + 1e-3 * rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    yield "a point amid its opposites", np.array([[0.0], [1.0], [-1.0]]), np.array([0, 1, 1])


# scikit-learn asks whether y is meant for regression when there is a class per point.
@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("repulsion", [*REPULSIONS, "best growth"])
@pytest.mark.parametrize(("X", "y"), [pytest.param(X, y, id=name) for name, X, y in cases()])
def test_converges_with_every_training_label_right(X, y, repulsion):
    how = {"growth": "best"} if repulsion == "best growth" else {"repulsion": repulsion}
    model = grown(**how).fit(X, y)
    assert model.converged_
    assert model.score(X, y) == 1.0
    assert model.conflicts_ == []
    assert model.history_.mixed[-1] == 0
    assert (np.bincount(model.labels_, minlength=model.n_clusters_) > 0).all()


@pytest.mark.parametrize("repulsion", REPULSIONS)
def test_xor_needs_four_clusters(repulsion):
    X = grid(20)
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    assert grown(repulsion=repulsion).fit(X, y).n_clusters_ == 4


@pytest.mark.parametrize("repulsion", REPULSIONS)
def test_identical_rows_take_the_label_of_their_heaviest_class(repulsion):
    X = np.array([[0.0], [0.0], [0.0], [5.0], [5.0], [9.0]])
    y = np.array(["b", "b", "a", "b", "a", "b"])
    model = grown(repulsion=repulsion).fit(X, y)
    assert [rows.tolist() for rows in model.conflicts_] == [[0, 1, 2], [3, 4]]
    assert model.predict(X).tolist() == ["b", "b", "b", "a", "a", "b"]  # a tie goes to the lowest
    weighted = grown(repulsion=repulsion).fit(X, y, sample_weight=[1, 1, 3, 2, 1, 1])
    assert weighted.predict(X).tolist() == ["a", "a", "a", "b", "b", "b"]


def test_all_points_identical():
    X = np.ones((9, 2))
    model = grown().fit(X, np.arange(9) % 2)
    assert model.n_clusters_ == 1
    assert [rows.tolist() for rows in model.conflicts_] == [list(range(9))]
    assert model.predict(X).tolist() == [0] * 9
    assert model.predict_proba(X)[0].tolist() == [1.0, 0.0]  # class 1 lost every conflict


@pytest.mark.parametrize("repulsion", REPULSIONS)
def test_weights_may_span_eighteen_orders_of_magnitude(repulsion):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 3, 200)
    w = 10.0 ** rng.uniform(-9, 9, 200)
    w[::7] = 0.0
    model = grown(repulsion=repulsion).fit(X, y, sample_weight=w)
    taking_part = w > 0
    assert model.converged_
    assert model.score(X[taking_part], y[taking_part]) == 1.0


@settings(max_examples=strategies.examples(300))
@given(
    data=strategies.labelled(values=strategies.wild),
    repulsion=strategies.repulsions,
    growth=strategies.growths,
)
def test_ends_pure_for_all_finite_input(data, repulsion, growth):
    X, y = data
    model = grown(repulsion=repulsion, growth=growth).fit(X, y)
    assert model.converged_
    right = model.predict(X) == y
    in_conflict = np.zeros(len(y), dtype=bool)
    for rows in model.conflicts_:
        in_conflict[rows] = True
        assert len(np.unique(y[rows])) > 1
        assert (np.abs(X[rows].astype(float) - X[rows[0]]) < 1e-140).all()
        assert len(np.unique(model.predict(X[rows]))) == 1
    assert right[~in_conflict].all()


@given(data=strategies.labelled(), repulsion=strategies.repulsions, growth=strategies.growths)
def test_a_budget_is_spent_exactly_wherever_growth_would_pass_it(data, repulsion, growth):
    X, y = data
    unlimited = grown(repulsion=repulsion, growth=growth).fit(X, y).n_clusters_
    for budget in range(int(y.max()) + 1, unlimited + 2):
        model = grown(budget, repulsion=repulsion, growth=growth).fit(X, y)
        assert model.n_clusters_ <= budget
        if budget <= unlimited:
            assert model.n_clusters_ == budget
