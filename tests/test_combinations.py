"""What a fit promises holds for all combinations of its options, to the last bit.

Each test makes a fit and one that must come to the same result: of the same rows in another order,
in another layout, in blocks, with weights in another unit, and so on. `make test` tries a few
combinations, always the same; `make fuzz` looks for new ones for as long as it is told.
"""

import itertools
import warnings
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from models import draw_small_samples, grown
from strategies import Case, cases

from dkmeans.growth import refine
from dkmeans.kernels import compiled
from dkmeans.passes import part, sketch_search

# One cell whose squared distances have many digits, though rows and weights have few.
UNEVEN = Case(
    X=np.array([[0.0]] * 7 + [[1.0]], dtype=np.float32),
    y=np.zeros(8, dtype=np.int64),
    weights=np.array([2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 3.0]),
    parameters={
        "max_clusters": None,
        "growth": "paper",
        "metric": "euclidean",
        "min_cluster_size": None,
        "class_weight": None,
    },
    sparse=False,
    compiled=False,
)

UNEVEN_TWENTY = replace(
    UNEVEN,
    X=np.array([[0.0]] * 19 + [[1.0]], dtype=np.float32),
    y=np.zeros(20, dtype=np.int64),
    weights=None,
)

few = settings(max_examples=strategies.examples(100))
shifts = st.sampled_from([-20, -3, -1, 1, 2, 10])  # exponents of two


def fit(case, *, cuts=None):
    """Fit, all at once or in batches that end at `cuts`."""
    model = grown(**case.parameters)
    X = sp.csr_array(case.X) if case.sparse else case.X
    with kernels(case), warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(refine, "PASSES", 8)  # enough to tell fits apart, and much quicker
        if case.sampled:
            draw_small_samples(patch, 6)
        if cuts is None:
            return model.fit(X, case.y, case.weights)
        columns = [X, case.y] if case.weights is None else [X, case.y, case.weights]
        ends = [0, *sorted(cuts), len(case.y)]
        parts = [slice(*pair) for pair in itertools.pairwise(ends)]
        return model.fit(lambda: [tuple(column[part] for column in columns) for part in parts])


@contextmanager
def kernels(case):
    """Let compiled loops do all the work, or none."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ENOUGH", "ENOUGH_PAIRS"):
            patch.setattr(compiled, name, 1 if case.compiled else 1 << 60)
        patch.setattr(part, "MIN_FEATURES", 1)
        patch.setattr(sketch_search, "MIN_COMPARED", 1)
        patch.setattr(sketch_search, "MIN_COMPARED_ONCE", 1)
        yield


def describe(case, model, rows=None):
    """All that a fit came to, with what it says of rows and of places between them.

    `rows` are those of the fitted rows that stand for the rows of the case.
    """
    rows = np.arange(len(case.y)) if rows is None else rows
    new = np.concatenate([case.X, case.X / 2 + case.X[::-1] / 2])
    asked = sp.csr_array(new) if case.sparse else new
    facts = {
        "centers": model.cluster_centers_,
        "classes": model.cluster_classes_,
        "ids": model.cluster_ids_,
        "sizes": model.cluster_sizes_,
        "labels": model.labels_[rows],
        "rounds": np.array([model.n_iter_, model.converged_]),
        "inertia": np.array(model.inertia_),
    }
    for name, table in (("history", model.history_), ("tree", model.tree_), ("path", model.path_)):
        facts |= {f"{name}.{c}": getattr(table, c) for c in table.columns if c != "seconds"}
    with kernels(case):
        for method in ("predict", "predict_proba", "transform", "decision_function"):
            facts[method] = getattr(model, method)(asked)
        assert (model.predict_cluster(asked)[: len(case.y)] == facts["labels"]).all()
    assert (model.cluster_sizes_ > 0).all()
    return facts


def assert_same(one, other, but=()):
    """Compare to the last bit."""
    assert one.keys() == other.keys()
    differ = [
        name
        for name in one
        if name not in but
        and (one[name].dtype, one[name].tobytes()) != (other[name].dtype, other[name].tobytes())
    ]
    told = [f"{name}:\n{one[name]}\n{other[name]}" for name in differ[:4]]
    assert not differ, "\n".join([f"differ: {', '.join(differ)}", *told])


@few
@given(case=cases(), seed=st.integers(0, 999))
def test_order_of_rows(case, seed):
    order = np.random.default_rng(seed).permutation(len(case.y))
    place = np.argsort(order)
    weights = None if case.weights is None else case.weights[order]
    other = replace(case, X=case.X[order], y=case.y[order], weights=weights)
    one, two = fit(case), fit(other)
    assert_same(describe(case, one), describe(case, two, place))
    rows = [np.sort(order[group]).tolist() for group in two.conflicts_]
    assert sorted(rows) == sorted(group.tolist() for group in one.conflicts_)
    alive = one.exemplars_ >= 0
    assert (alive == (two.exemplars_ >= 0)).all()
    X = one._fitted.geometry.rows(case.X)  # rows that it does not tell apart are identical
    assert (X[one.exemplars_[alive]] == X[order][two.exemplars_[alive]]).all()


@few
@given(case=cases())
def test_names_of_classes(case):
    names = np.array(["10", "9", "Zoe", "alpha", "b"])  # in order, as text
    parameters = dict(case.parameters)
    if isinstance(parameters["class_weight"], dict):
        parameters["class_weight"] = {
            str(names[c]): factor for c, factor in parameters["class_weight"].items()
        }
    other = replace(case, y=names[case.y], parameters=parameters)
    numbers, text = describe(case, fit(case)), describe(other, fit(other))
    for fact in ("classes", "tree.label", "predict"):
        numbers[fact] = names[numbers[fact]]
    assert_same(numbers, text)


@few
@given(case=cases(), shift=shifts)
def test_weights_times_a_power_of_two(case, shift):
    factor = 2.0**shift
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    size = case.parameters["min_cluster_size"]
    parameters = case.parameters | {"min_cluster_size": None if size is None else size * factor}
    other = replace(case, weights=weights * factor, parameters=parameters)
    one, two = describe(case, fit(case)), describe(other, fit(other))
    for fact in ("sizes", "inertia", "history.inertia", "path.inertia"):
        one[fact] = one[fact] * factor
    assert_same(one, two)


@few
@given(case=cases(max_rows=25, weights=["whole"]))
@example(case=UNEVEN)
def test_whole_weights_are_the_rows_so_many_times(case):
    again = np.repeat(np.arange(len(case.y)), case.weights.astype(int))
    there = np.unique(again)
    first = np.searchsorted(again, there)
    other = replace(case, X=case.X[again], y=case.y[again], weights=None)
    assume(len(np.unique(other.y)) == len(np.unique(case.y)))
    weighted, repeated = fit(case), fit(other)
    shown = replace(case, X=case.X[there], y=case.y[there])
    # Rows are counted, not weighed, where it is told how many moved.
    assert_same(
        describe(shown, weighted, there), describe(shown, repeated, first), but=("history.moved",)
    )


@few
@given(case=cases(), seed=st.integers(0, 999))
@example(case=UNEVEN_TWENTY, seed=0)
def test_rows_of_weight_zero_take_no_part(case, seed):
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    case = replace(
        case, weights=weights * np.random.default_rng(seed).choice([0, 1, 1], len(weights))
    )
    part = np.flatnonzero(case.weights)
    assume(np.array_equal(np.unique(case.y[part]), np.unique(case.y)))
    other = replace(case, X=case.X[part], y=case.y[part], weights=case.weights[part])
    assert_same(describe(other, fit(case), part), describe(other, fit(other)))


@few
@given(case=cases())
def test_dense_equals_csr(case):
    dense, sparse = replace(case, sparse=False), replace(case, sparse=True)
    assert_same(describe(dense, fit(dense)), describe(sparse, fit(sparse)))


@few
@given(case=cases(), shift=shifts)
def test_columns_times_a_power_of_two(case, shift):
    factor = case.X.dtype.type(2.0**shift)
    other = replace(case, X=case.X * factor)
    one, two = describe(case, fit(case)), describe(other, fit(other))
    metric = case.parameters["metric"]
    if metric != "cosine":
        one["centers"] = one["centers"] * factor
    if metric == "euclidean":
        one["transform"] = one["transform"] * factor
        for fact in ("inertia", "history.inertia", "path.inertia"):
            one[fact] = one[fact] * 4.0**shift
    assert_same(one, two)


@few
@given(case=cases(), cuts=st.lists(st.integers(0, 40), max_size=3), memory=st.booleans())
def test_blocks_equal_memory(case, cuts, memory):
    small = case.parameters | {"memory_mb": 1e-5 if memory else None}
    cuts = [min(cut, len(case.y)) for cut in cuts]
    whole, blocks = fit(case), fit(replace(case, parameters=small), cuts=cuts)
    assert_same(describe(case, whole), describe(case, blocks))
    assert whole.exemplars_.tolist() == blocks.exemplars_.tolist()
    assert [g.tolist() for g in whole.conflicts_] == [g.tolist() for g in blocks.conflicts_]


@few
@given(case=cases(), n_threads=st.integers(2, 4))
def test_number_of_threads(case, n_threads):
    many = replace(case, parameters=case.parameters | {"n_threads": n_threads, "memory_mb": 1e-4})
    assert_same(describe(case, fit(case)), describe(many, fit(many)))


@few
@given(case=cases())
def test_compiled_loops_equal_numpy(case):
    fast, plain = replace(case, compiled=True), replace(case, compiled=False)
    assert_same(describe(fast, fit(fast)), describe(plain, fit(plain)))
