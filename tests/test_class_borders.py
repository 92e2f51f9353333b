"""Pairs of classes that meet: what the table says, against the definitions."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import grown
from naive import distance
from sklearn.datasets import load_digits, load_iris
from strategies import examples, parameters, weighted

import dkmeans
from dkmeans.questions.class_adjacency import find_facing


def naive_borders(model, X, y, w):
    """All columns by pair of classes, straight from the definitions."""
    centers = model._fitted.prototypes.centers  # those of a learned metric are projected
    D = np.array([[distance(a, b, centers.dtype.type) for b in centers] for a in centers])
    labels, k = model.cluster_classes_.tolist(), model.n_clusters_
    tree, ids = model.tree_, model.cluster_ids_.tolist()
    found = {}

    def entry(a, b):
        a, b = sorted((a, b))
        empty = {"prototypes": 0, "facing": 0, "gap": np.inf, "a_in_b": 0.0, "b_in_a": 0.0}
        return found.setdefault((a, b), empty)

    for i in range(k):
        for j in range(i):
            if labels[i] != labels[j]:
                pair = entry(labels[i], labels[j])
                pair["gap"] = min(pair["gap"], D[i, j])
                pair["facing"] += not any(max(D[i, m], D[j, m]) < D[i, j] for m in range(k))
    for i in range(k):
        if ids[i] == min(ids[j] for j in range(k) if labels[j] == labels[i]):
            continue
        parent = tree.parent[ids[i]]
        rival = labels[i] if parent < 0 else tree.label[parent]
        others = [j for j in range(k) if labels[j] != labels[i]]
        if rival == labels[i] and others:
            rival = labels[min(others, key=lambda j: (D[i, j], j))]
        if rival != labels[i]:
            entry(labels[i], rival)["prototypes"] += 1
    for c in np.unique(y[w > 0]).tolist():
        mine = (y == c) & (w > 0)
        for other in np.unique(model.cluster_classes_[model.labels_[mine]]).tolist():
            if other != c:
                there = mine & (model.cluster_classes_[model.labels_] == other)
                name = "a_in_b" if c < other else "b_in_a"
                entry(c, other)[name] = w[there].sum() / w[mine].sum()
    meets = ("prototypes", "facing", "a_in_b", "b_in_a")
    return {pair: row for pair, row in found.items() if any(row[name] for name in meets)}


@settings(max_examples=examples(20), deadline=None)
@given(weighted(), parameters, st.integers(0, 12))
def test_the_table_is_what_its_definitions_say(data, options, more):
    X, y, w = data
    # Identical rows with different labels count as one with the heaviest label.
    _, which = np.unique(X, axis=0, return_inverse=True)
    for group in np.unique(which):
        y[which.ravel() == group] = y[which.ravel() == group][0]
    y = np.unique(y, return_inverse=True)[1]
    budget = len(np.unique(y)) + more if more else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = grown(budget, **options).fit(X, y, w)
    assume(not model.conflicts_)  # also rows of one direction, for the cosine
    table = model.class_borders()
    expected = naive_borders(model, X, y, w)
    assert {(row["a"], row["b"]) for row in table} == set(expected)
    for row in table:
        want = expected[row["a"], row["b"]]
        assert (row["prototypes"], row["facing"]) == (want["prototypes"], want["facing"])
        assert row["gap"] == want["gap"] or np.isinf(row["gap"])
        assert row["a_in_b"] == pytest.approx(want["a_in_b"])
        assert row["b_in_a"] == pytest.approx(want["b_in_a"])
    order = [(-r["prototypes"], -r["facing"], r["gap"], r["a"], r["b"]) for r in table]
    assert order == sorted(order)
    alive = len(np.unique(model.cluster_classes_))
    assert table.prototypes.sum() == (model.n_clusters_ - alive if alive > 1 else 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_change_nothing(dtype):
    rng = np.random.default_rng(0)
    centers = rng.integers(0, 9, size=(40, 3)).astype(dtype)  # with ties
    classes = np.sort(rng.integers(0, 5, size=40))
    whole = find_facing(centers, classes, 5, 1)
    for tile in (9, 20, 39):
        part = find_facing(centers, classes, 5, 2, tile)
        assert np.array_equal(part.pairs, whole.pairs)
        assert np.array_equal(part.gaps, whole.gaps)
        assert np.array_equal(part.rivals, whole.rivals)


@pytest.mark.parametrize("growth", ["best", "paper"])
def test_order_of_rows_and_names_of_classes_change_nothing(growth):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    table = grown(40, growth=growth).fit(X, y).class_borders()
    order = np.random.default_rng(0).permutation(len(y))
    named = np.array([f"digit {c}" for c in range(10)])[y]
    other = grown(40, growth=growth).fit(X[order], named[order]).class_borders()
    assert [f"digit {c}" for c in table.a] == other.a.tolist()
    for name in ("prototypes", "facing", "gap", "a_in_b", "b_in_a"):
        assert getattr(table, name).tolist() == getattr(other, name).tolist()


def test_shares_do_not_depend_on_class_weights(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = grown(3, class_weight="balanced").fit(X[:130], y[:130])
    taken = model.predict(X[:130])
    row = next(r for r in model.class_borders() if (r["a"], r["b"]) == (1, 2))
    assert row["a_in_b"] == pytest.approx(np.mean(taken[50:100] == 2))
    assert row["b_in_a"] == pytest.approx(np.mean(taken[100:130] == 1))
    model.save(tmp_path / "model.dkm")
    loaded = dkmeans.load(tmp_path / "model.dkm").class_borders()
    assert repr(loaded) == repr(model.class_borders())


def test_one_class_has_no_borders():
    table = grown().fit([[0.0], [1.0]], ["a", "a"]).class_borders()
    assert len(table) == 0
    assert repr(table).startswith("Borders between 0 pairs of classes")


def test_models_on_the_way_and_after_edits_have_borders():
    X, y = load_iris(return_X_y=True)
    model = grown(10).fit(X, y)
    small = model.at(6)
    assert small.class_borders().prototypes.sum() == small.n_clusters_ - 3
    model.drop(model.cluster_ids_[-1])
    assert model.class_borders().prototypes.sum() == 6


def test_the_picture_shows_the_table():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from dkmeans.plots import ClassBordersDisplay

    X, y = load_digits(return_X_y=True)
    model = grown(40).fit(X, y)
    table = model.class_borders()
    display = ClassBordersDisplay.from_estimator(model)
    assert np.tril(display.matrix("prototypes")).sum() == table.prototypes.sum() == 30
    assert np.triu(display.matrix("facing")).sum() == table.facing.sum()
    written = {tuple(map(int, t.get_position())): t.get_text() for t in display.ax_.texts}
    for row in table:
        a, b = row["a"], row["b"]
        assert written.get((a, b)) == (str(row["prototypes"]) if row["prototypes"] else None)
        assert written.get((b, a)) == (str(row["facing"]) if row["facing"] else None)
    title = f"Classes meet in {len(table)} pairs; telling them apart cost 30 prototypes"
    assert display.ax_.get_title() == title
    first = table[0]
    pair = f"{first['a']}\N{EN DASH}{first['b']}\N{NO-BREAK SPACE}({first['prototypes']})"
    assert pair in display.ax_.get_xlabel()
    axes = Figure().subplots()
    assert table.plot(axes).ax_ is axes
    alone = grown().fit([[0.0], [1.0]], ["a", "a"])
    assert ClassBordersDisplay.from_estimator(alone).ax_.get_xlabel() == ""
