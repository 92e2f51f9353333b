"""Every class has a prototype, as the budget is never less than the number of classes."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
import strategies
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from models import grown
from test_combinations import kernels

from dkmeans import condense
from dkmeans.growth import refine
from dkmeans.kernels.sphere import unit_rows

many = settings(max_examples=strategies.examples(300))
budgets = st.none() | st.integers(0, 3) | st.just("auto")  # more than there are classes


@st.composite
def crowded(draw):
    """Rows of many classes where there is hardly room for them, with weights."""
    values = draw(st.sampled_from([strategies.coarse, strategies.fine]))
    X, y = draw(strategies.labelled(values, max_rows=30, max_features=2, max_classes=10))
    w = draw(hnp.arrays(np.float64, len(y), elements=st.sampled_from([1.0, 1.0, 0.0, 0.3, 5.0])))
    w[draw(st.integers(0, len(y) - 1))] = 1.0
    return X, y, draw(st.sampled_from([None, w]))


def overlapping(seed, n_rows, n_classes, d=1, apart=0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    middles = apart * rng.normal(size=(n_classes, d))
    return rng.normal(size=(n_rows, d)) + middles[y], y, None


options = st.fixed_dictionaries(
    {
        "repulsion": strategies.repulsions,
        "growth": strategies.growths,
        "refine": st.sampled_from([None, "margin"]),
        "metric": st.sampled_from(["euclidean", "cosine"]),
        "prune": st.booleans(),
        "min_cluster_size": st.sampled_from([None, None, 1.0, 2.5]),
        "class_weight": st.sampled_from([None, None, "balanced", "lopsided"]),
        "max_iter": st.sampled_from([300, 300, 1, 3]),
    }
)


def make(y, budget, parameters, **more):
    """Make an estimator for these classes."""
    n_classes = int(y.max()) + 1
    if isinstance(budget, int):
        budget += n_classes
    if parameters.get("class_weight") == "lopsided":
        factors = {c: [1.0, 0.0, 20.0, 0.3][c % 4] for c in range(n_classes)}
        parameters = parameters | {"class_weight": factors}
    return grown(budget, n_threads=1, **(parameters | more))


def factors_of(y, w, model):
    """Class weights, by class."""
    factors = np.ones(int(y.max()) + 1)
    if model.class_weight == "balanced":
        mass = np.bincount(y, w)
        factors[mass > 0] = 1 / mass[mass > 0]
    elif model.class_weight is not None:
        factors = np.array([model.class_weight[c] for c in range(len(factors))])
    return factors


def due(X, y, w, model):
    """Classes that must have a prototype."""
    w = np.ones(len(y)) if w is None else w
    factors = factors_of(y, w, model)
    groups = {}
    for row, c, weight in zip(X, y.tolist(), w * factors[y], strict=True):
        votes = groups.setdefault(tuple(float(v) + 0.0 for v in row), {})
        votes[c] = votes.get(c, 0) + Fraction(weight)
    won = np.zeros(len(factors))
    for votes in groups.values():
        first, *others = sorted(votes.values(), reverse=True)
        if others and float(others[0]) > 0.999 * float(first):
            continue  # as good as a tie, which rounding decides
        won[max(votes, key=votes.get)] += float(sum(votes.values()))
    least = 0.0 if model.min_cluster_size is None else model.min_cluster_size
    return set(np.flatnonzero((won > 0) & (won >= least * factors * 1.001)).tolist())


def fitted(fit, *args):
    """Fit, with less refinement than usual."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(refine, "PASSES", 8)
        return fit(*args)


def seen(X, model):
    """Return the rows as the metric sees them: rows that are equal here cannot be told apart."""
    if model.metric == "learned":
        return model._fitted.geometry.standardised(X)
    return unit_rows(X) if model.metric == "cosine" else X


@many
@given(data=crowded(), budget=budgets, parameters=options)
@example(data=overlapping(34, 60, 6), budget=0, parameters={})
@example(data=overlapping(34, 60, 6), budget=0, parameters={"refine": "margin", "prune": True})
@example(data=overlapping(8, 500, 20, 2, 2.0), budget=0, parameters={"growth": "paper"})
def test_every_class_has_a_prototype(data, budget, parameters):
    X, y, w = data
    model = make(y, budget, parameters)
    assume((factors_of(y, w, model)[y] * (1.0 if w is None else w)).any())
    fitted(model.fit, X, y, w)
    assert due(seen(X, model), y, w, model) <= set(model.cluster_classes_.tolist())
    assert (model.cluster_sizes_ > 0).all()
    if isinstance(budget, int):
        assert model.n_clusters_ <= int(y.max()) + 1 + budget


@many
@given(case=strategies.cases(), extra=st.integers(0, 3))
def test_every_class_has_a_prototype_with_all_options(case, extra):
    n_classes = int(case.y.max()) + 1
    model = grown(**(case.parameters | {"max_clusters": n_classes + extra}))
    with kernels(case):
        fitted(model.fit, case.X, case.y, case.weights)
    expected = due(seen(case.X, model), case.y, case.weights, model)
    assert expected <= set(model.cluster_classes_.tolist())


@many
@given(first=crowded(), second=crowded(), budget=budgets, parameters=options)
def test_also_when_a_fit_goes_on_with_all_rows(first, second, budget, parameters):
    X, y, w = first
    model = make(np.array([9]), budget, parameters, warm_start=True)
    if isinstance(model.class_weight, dict):
        model.set_params(class_weight=None)
    fitted(model.fit, X, y, w)
    X, y, w = np.resize(second[0], (len(second[1]), X.shape[1])).astype(X.dtype), *second[1:]
    y = np.unique(y, return_inverse=True)[1]
    fitted(model.fit, X, y, w)
    assert due(seen(X, model), y, w, model) <= set(model.cluster_classes_.tolist())


@many
@given(batches=st.lists(crowded(), min_size=2, max_size=3), budget=budgets, parameters=options)
def test_also_when_a_fit_goes_on_with_new_rows(batches, budget, parameters):
    parameters = parameters | {"min_cluster_size": None, "class_weight": None}
    model = make(np.array([9]), budget, parameters)
    d, dtype = batches[0][0].shape[1], batches[0][0].dtype
    for X, y, w in batches:
        X = np.resize(X, (len(X), d)).astype(dtype)
        fitted(model.partial_fit, X, y, None, w)
        disputed = np.concatenate([np.empty(0, int), *model.conflicts_])
        there = np.ones(len(y)) if w is None else w.copy()
        there[disputed] = 0.0
        there = set(y[there > 0].tolist())
        assert there <= set(model.cluster_classes_.tolist())


def test_condensed_rows_are_of_all_classes():
    X, y, _ = overlapping(34, 60, 6)
    small = condense(X, y, 6, refine=None)
    assert sorted(small.y.tolist()) == list(range(6))
    assert small.weight.sum() == 60
