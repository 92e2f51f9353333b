"""Growth against the oracle, state by state."""

from contextlib import contextmanager

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from naive import Naive, NaiveBest, NaiveContinued, Proto

from dkmeans.growth import best

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")


def compare(
    X,
    y,
    w,
    repulsion=0.0,
    budget=None,
    min_size=None,
    max_iter=300,
    growth="paper",
    metric="euclidean",
):
    oracle = NaiveBest if growth == "best" else Naive
    naive = oracle(
        X,
        y,
        w,
        repulsion=repulsion,
        max_clusters=budget,
        min_size=min_size,
        max_iter=max_iter,
        unit=metric == "cosine",
    )
    expected = naive.fit()
    model = grown(
        budget,
        repulsion=repulsion,
        growth=growth,
        metric=metric,
        min_cluster_size=min_size,
        max_iter=max_iter,
        n_threads=1,
    ).fit(X, y, w)
    phases = list(
        zip(
            *(getattr(model.history_, c).tolist() for c in ("phase", "clusters", "mixed", "moved")),
            strict=True,
        )
    )
    assert phases == expected.phases
    assert model.converged_ == expected.converged
    assert model.labels_.tolist() == expected.labels
    assert model.cluster_classes_.tolist() == [p.cls for p in expected.protos]
    assert model.cluster_ids_.tolist() == [p.id for p in expected.protos]
    np.testing.assert_array_equal(
        model.cluster_centers_, np.array([p.center for p in expected.protos], X.dtype)
    )
    np.testing.assert_allclose(model.inertia_, expected.inertia, rtol=1e-12)
    assert [c.tolist() for c in model.conflicts_] == sorted(naive.conflicts)
    tree = model.tree_
    assert (
        list(zip(tree.parent.tolist(), tree.label.tolist(), tree.born.tolist(), strict=True))
        == expected.tree
    )
    return phases


@settings(max_examples=strategies.examples(300), deadline=None)
@given(data=strategies.labelled(), repulsion=strategies.repulsions)
def test_grows_as_the_oracle_does(data, repulsion):
    X, y = data
    compare(X, y, None, repulsion)


@settings(max_examples=strategies.examples(300), deadline=None)
@given(data=strategies.weighted(), extra=st.none() | st.integers(0, 12))
def test_the_best_growth_is_that_of_the_oracle(data, extra):
    X, y, w = data
    budget = None if extra is None else len(np.unique(y)) + extra
    compare(X, y, w, budget=budget, growth="best")


@settings(max_examples=strategies.examples(300), deadline=None)
@given(
    data=strategies.weighted(max_rows=40, max_features=3),
    extra=st.integers(0, 8),
    size=st.none() | st.integers(1, 5),
    rounds=st.sampled_from([300, 1, 2, 3]),
    metric=st.sampled_from(["euclidean", "cosine"]),
    per_prototype=st.integers(1, 3),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_growth_on_samples_is_that_of_the_oracle(data, extra, size, rounds, metric, per_prototype):
    X, y, w = data
    budget = len(np.unique(y)) + extra
    with small_samples(per_prototype):
        compare(X, y, w, 0.0, budget, size, rounds, "best", metric)


@contextmanager
def small_samples(per_prototype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best, "ROWS_PER_PROTOTYPE", per_prototype)
        patch.setattr(best, "SAMPLE_ROWS", 4 * per_prototype)
        patch.setattr(best, "MIN_SAMPLE_ROWS", 2 * per_prototype)
        patch.setattr(best, "SAMPLE_ROWS_PER_CLASS", 2)
        patch.setattr(NaiveBest, "per_prototype", per_prototype)
        patch.setattr(NaiveBest, "sample_rows", 4 * per_prototype)
        patch.setattr(NaiveBest, "least_sample", 2 * per_prototype)
        patch.setattr(NaiveBest, "per_class", 2)
        yield


@pytest.mark.parametrize("share_wrong", [0.0, 0.3])
def test_wrong_labels_on_samples_are_treated_as_in_the_oracle(share_wrong):
    for seed in range(3):
        X, y = blobs(120, seed)
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(len(y)) < share_wrong, rng.integers(0, 3, len(y)), y)
        w = rng.integers(1, 3, len(y)) * 1.0
        with small_samples(4):
            phases = compare(X.round(2), y, w, budget=12, growth="best")
        assert phases[0][0] == "sample", phases
        assert phases[-1][0] == "grow", phases


@settings(max_examples=strategies.examples(300), deadline=None)
@given(
    data=strategies.weighted(),
    repulsion=strategies.repulsions,
    growth=strategies.growths,
    extra=st.none() | st.integers(0, 8),
)
def test_directions_grow_as_in_the_oracle(data, repulsion, growth, extra):
    X, y, w = data
    budget = None if extra is None else len(np.unique(y)) + extra
    compare(X, y, w, repulsion, budget, growth=growth, metric="cosine")


@settings(max_examples=strategies.examples(200), deadline=None)
@given(data=strategies.weighted(), repulsion=strategies.repulsions)
def test_weights_count_as_in_the_oracle(data, repulsion):
    compare(*data, repulsion)


@settings(max_examples=strategies.examples(200), deadline=None)
@given(data=strategies.labelled(), repulsion=strategies.repulsions, extra=st.integers(0, 8))
def test_budgets_are_spent_as_in_the_oracle(data, repulsion, extra):
    X, y = data
    compare(X, y, None, repulsion, budget=int(y.max()) + 1 + extra)


@settings(max_examples=strategies.examples(200), deadline=None)
@given(
    data=strategies.weighted(max_rows=20, max_features=1, max_classes=10),
    growth=strategies.growths,
    extra=st.none() | st.integers(0, 2),
    size=st.none() | st.integers(1, 9),
    rounds=st.sampled_from([300, 1, 2]),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classes_get_their_prototypes_back_as_in_the_oracle(data, growth, extra, size, rounds):
    X, y, w = data
    budget = None if extra is None else int(y.max()) + 1 + extra
    compare(X, y, w, "size", budget, size, rounds, growth)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_gain_below_rounding_is_none_as_in_the_oracle():
    # The first split moves the cost by less than growth rounds it to.
    left = [-1, 1, 1, -2, -3, -3, 2, -2, 0, 2, -3, 2, 0, -3, 3, 2, -2, 2, -2, -1, 0]
    right = [-1, -1, 3, -3, 3, -2, 1, 3, -1, 0, 3, -1, 2, -3, -2, 2, 3, 2, -2, -3, 0]
    X = np.stack([left, right], axis=1) / 2
    y = np.array([0, 4, 3, 5, 2, 3, 3, 1, 0, 3, 0, 4, 1, 0, 3, 3, 3, 4, 2, 1, 3])
    w = np.array([4.0, 5, 3, 5, 5, 2, 5, 5, 4, 4, 0, 2, 2, 0, 5, 1, 2, 1, 0, 0, 0])
    compare(X, y, w, budget=8, min_size=3, max_iter=3, growth="best")


@settings(max_examples=strategies.examples(150), deadline=None)
@given(data=strategies.weighted(), repulsion=strategies.repulsions, size=st.integers(1, 5))
def test_small_groups_earn_no_child_as_in_the_oracle(data, repulsion, size):
    compare(*data, repulsion, min_size=size)


@settings(max_examples=strategies.examples(100), deadline=None)
@given(data=strategies.labelled(), repulsion=strategies.repulsions, rounds=st.integers(1, 4))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_stops_where_the_oracle_does_when_rounds_run_out(data, repulsion, rounds):
    X, y = data
    compare(X, y, None, repulsion, max_iter=rounds)


def blobs(n, seed, n_classes=3, d=2):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, d)) + y[:, None], y


@pytest.mark.parametrize("repulsion", [0.0, 0.25, 1.0, 10.0, "size"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_larger_sets_grow_as_the_oracle_does(repulsion, dtype):
    for seed in range(3):
        X, y = blobs(80, seed)
        compare(X.astype(dtype), y, None, repulsion)
        compare(X.astype(dtype), y, None, repulsion, budget=12)


@settings(max_examples=strategies.examples(150), deadline=None)
@given(
    batches=st.lists(strategies.weighted(max_rows=10, max_features=2), min_size=2, max_size=3),
    repulsion=strategies.repulsions,
)
def test_goes_on_as_the_oracle_does(batches, repulsion):
    """Each call of partial_fit against the oracle that starts from the state before it."""
    d, dtype = batches[0][0].shape[1], batches[0][0].dtype
    model, memory = grown(growth="paper", repulsion=repulsion, n_threads=1), None
    for X, y, w in batches:
        X = np.resize(X, (len(X), d)).astype(dtype)
        if memory is None:
            naive = Naive(X, y, w, repulsion=repulsion)
        else:
            columns = (model.cluster_centers_.tolist(), model.cluster_classes_, model.cluster_ids_)
            protos = [Proto(c, int(k), int(i)) for c, k, i in zip(*columns, strict=True)]
            naive = NaiveContinued(
                X, y, w, protos=protos, memory=memory, tree=tree_rows(model), repulsion=repulsion
            )
        expected = naive.fit()
        memory = naive.remembers()
        model.partial_fit(X, y, classes=range(4), sample_weight=w)
        assert list(phases(model)) == expected.phases
        assert model.labels_.tolist() == expected.labels
        assert model.cluster_ids_.tolist() == [p.id for p in expected.protos]
        assert model.cluster_classes_.tolist() == [p.cls for p in expected.protos]
        centers = np.array([p.center for p in expected.protos], X.dtype)
        np.testing.assert_array_equal(model.cluster_centers_, centers)
        assert model.converged_ == expected.converged
        assert tree_rows(model) == expected.tree
        found = sorted(rows.tolist() for rows in model.conflicts_)
        assert found == sorted(naive.conflicts)


def phases(model):
    columns = ("phase", "clusters", "mixed", "moved")
    return zip(*(getattr(model.history_, c).tolist() for c in columns), strict=True)


def tree_rows(model):
    columns = (model.tree_.parent, model.tree_.label, model.tree_.born)
    return list(zip(*(c.tolist() for c in columns), strict=True))
