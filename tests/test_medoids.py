"""`DiscriminativeKMedoids`: any metric, and what every estimator of this library promises."""

import math
import os
import re

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMedoids, load, save
from dkmeans.metrics import matrices, pairwise
from dkmeans.progress import listening

IRIS, SPECIES = load_iris(return_X_y=True)


def distances(X):
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


def length_difference(a, b):
    return abs(len(a) - len(b))


def test_rows_and_their_distances_give_the_same_medoids():
    """Whole numbers: products of matrices and sums of squares are the same to the last bit."""
    rng = np.random.default_rng(0)
    X = np.unique(rng.integers(0, 40, (120, 2)), axis=0).astype(float)
    y = (X.sum(axis=1) // 16).astype(int) % 3
    order = DiscriminativeKMedoids(9)
    by_rows = order.fit(X, y)
    from dkmeans.medoid_fit import kind_for

    X = X[kind_for(order).order(X)]
    y = (X.sum(axis=1) // 16).astype(int) % 3
    by_rows = DiscriminativeKMedoids(9).fit(X, y)
    by_distances = DiscriminativeKMedoids(9, metric="precomputed").fit(distances(X), y)
    by_function = DiscriminativeKMedoids(9, metric=lambda a, b: np.hypot(*(a - b))).fit(X, y)
    np.testing.assert_array_equal(by_rows.medoid_indices_, by_distances.medoid_indices_)
    np.testing.assert_array_equal(by_rows.labels_, by_distances.labels_)
    np.testing.assert_array_equal(by_rows.medoid_indices_, by_function.medoid_indices_)
    np.testing.assert_array_equal(by_rows.labels_, by_function.labels_)
    assert by_rows.cost_ == by_distances.cost_
    assert by_rows.inertia_ == pytest.approx(by_distances.inertia_)


def test_new_rows_by_all_distances_by_those_to_medoids_and_as_objects():
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    model = DiscriminativeKMedoids(6).fit(IRIS[train], SPECIES[train])
    given = DiscriminativeKMedoids(6, metric="precomputed")
    given.fit(distances(IRIS[train]), SPECIES[train])
    D = cdist(IRIS[test], IRIS[train])
    np.testing.assert_array_equal(given.predict(D), given.predict(D[:, given.medoid_indices_]))
    np.testing.assert_array_equal(given.transform(D), D[:, given.medoid_indices_])
    assert model.score(IRIS[test], SPECIES[test]) > 0.93
    assert given.score(D, SPECIES[test]) > 0.93
    with pytest.raises(ValueError, match="is expecting 75 features as input"):
        given.predict(D[:, :10])


def test_all_rows_can_be_medoids_of_given_distances():
    D = distances(IRIS[:3] + np.arange(3)[:, None])
    y = np.array([2, 0, 1])
    model = DiscriminativeKMedoids(3, metric="precomputed").fit(D, y)
    assert model.medoid_indices_.tolist() == [1, 2, 0]
    assert model.labels_.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(model.predict(D), y)
    np.testing.assert_array_equal(model.transform(D), D[:, [1, 2, 0]])
    # A model of two rows out of three knows both shapes.
    model = DiscriminativeKMedoids(2, metric="precomputed").fit(D, [1, 0, 0])
    few = D[:, model.medoid_indices_]
    np.testing.assert_array_equal(model.transform(D), few)
    np.testing.assert_array_equal(model.transform(few), few)


def test_a_path_of_one_number_says_so():
    model = DiscriminativeKMedoids(2).fit([[0.0], [9.0]], [0, 1])
    assert repr(model.path_).startswith("Path through 1 number of clusters, 1 of them refined")


def test_no_objects_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="X has 0 objects, but DiscriminativeKMedoids needs"):
        DiscriminativeKMedoids(metric=length_difference).fit([], [])


@settings(max_examples=strategies.examples(100))
@given(case=strategies.weighted(), power=st.sampled_from([-3, 5]), data=st.data())
def test_order_weights_and_layout_change_nothing(case, power, data):
    X, y, w = case
    room = data.draw(st.integers(0, 3))
    budget = len(np.unique(y[w > 0])) + room
    metric = data.draw(st.sampled_from(["euclidean", "manhattan", "chebyshev"]))
    model = DiscriminativeKMedoids(budget, metric=metric).fit(X, y, w)
    order = np.array(data.draw(st.permutations(range(len(y)))))
    copies = np.repeat(np.arange(len(y)), w.astype(int))
    others = [
        (X[order], y[order], w[order]),
        (X, y, np.ldexp(w, power)),
        (X[copies], y[copies], None),
    ]
    if metric != "chebyshev":
        others.append((sp.csr_array(X), y, w))
    for X2, y2, w2 in others:
        other = DiscriminativeKMedoids(budget, metric=metric).fit(X2, y2, w2)
        np.testing.assert_array_equal(
            model.medoids_, other.medoids_.toarray() if sp.issparse(X2) else other.medoids_
        )
        labels = np.searchsorted(model.classes_, other.medoid_classes_)
        np.testing.assert_array_equal(
            np.searchsorted(model.classes_, model.medoid_classes_), labels
        )
        assert model.cost_ == other.cost_


@given(case=strategies.labelled(), budget=st.sampled_from(["auto", None]))
def test_promises_of_the_fitted_attributes(case, budget):
    X, y = case
    model = DiscriminativeKMedoids(budget).fit(X, y)
    np.testing.assert_array_equal(model.labels_, model.predict_medoid(X))
    np.testing.assert_array_equal(model.labels_, model.transform(X).argmin(axis=1))
    np.testing.assert_array_equal(model.predict(X), model.medoid_classes_[model.labels_])
    np.testing.assert_array_equal(y[model.medoid_indices_], model.medoid_classes_)
    np.testing.assert_array_equal(X[model.medoid_indices_], model.medoids_)
    assert model.medoid_sizes_.sum() == len(y)
    assert set(model.medoid_classes_) == set(y)
    assert model.transform(X).dtype == X.dtype
    assert model.path_.clusters[-1] >= model.n_medoids_
    assert (np.diff(model.history_.cost[model.history_.phase == "swap"]) <= 1e-12).all()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_change_nothing(n_threads):
    X, y = load_digits(return_X_y=True)
    model = DiscriminativeKMedoids(15, n_threads=n_threads).fit(X[:1100], y[:1100])
    alone = DiscriminativeKMedoids(15, n_threads=2).fit(X[:1100], y[:1100])
    np.testing.assert_array_equal(model.medoid_indices_, alone.medoid_indices_)
    assert model.history_.cost.tolist() == alone.history_.cost.tolist()


def test_a_memory_map_is_read_in_blocks_and_never_written(tmp_path):
    D = distances(IRIS).astype(np.float32)
    np.save(tmp_path / "d.npy", D)
    mapped = np.load(tmp_path / "d.npy", mmap_mode="r")
    model = DiscriminativeKMedoids(8, metric="precomputed").fit(mapped, SPECIES)
    same = DiscriminativeKMedoids(8, metric="precomputed").fit(D, SPECIES)
    np.testing.assert_array_equal(model.medoid_indices_, same.medoid_indices_)
    np.testing.assert_array_equal(model.labels_, model.predict_medoid(mapped))


def test_pages_of_a_map_are_given_back_also_if_it_is_symmetrised(tmp_path, monkeypatch):
    D = distances(IRIS) * np.random.default_rng(0).uniform(0.8, 1.2, (150, 150))
    np.save(tmp_path / "d.npy", D)
    mapped = np.load(tmp_path / "d.npy", mmap_mode="r")
    given_back = []
    monkeypatch.setattr(matrices, "give_back", given_back.append)
    matrix = matrices.checked_matrix(mapped, "max", 1)
    given_back.clear()
    found = matrix.rows(slice(3, 20))
    np.testing.assert_array_equal(found, np.maximum(D, D.T)[3:20])
    assert len(given_back) == 1
    model = DiscriminativeKMedoids(5, metric="precomputed", symmetrize="max")
    same = model.fit(D, SPECIES).medoid_indices_
    np.testing.assert_array_equal(model.fit(mapped, SPECIES).medoid_indices_, same)


@pytest.mark.parametrize("how", ["mean", "min", "max"])
def test_symmetrised_on_request(how):
    rng = np.random.default_rng(0)
    D = distances(IRIS) * rng.uniform(0.8, 1.2, (150, 150))
    with pytest.raises(ValueError, match=r"X is not symmetric: it has .* in row \d+, column \d+"):
        DiscriminativeKMedoids(5, metric="precomputed").fit(D, SPECIES)
    before = D.copy()
    model = DiscriminativeKMedoids(5, metric="precomputed", symmetrize=how).fit(D, SPECIES)
    both = {"mean": D / 2 + D.T / 2, "min": np.minimum(D, D.T), "max": np.maximum(D, D.T)}[how]
    same = DiscriminativeKMedoids(5, metric="precomputed").fit(both, SPECIES)
    np.testing.assert_array_equal(model.medoid_indices_, same.medoid_indices_)
    np.testing.assert_array_equal(D, before)
    for k in model.path_.clusters.tolist():
        few = model.at(k)
        sizes = np.bincount(few.predict_medoid(D), minlength=k)
        assert few.medoid_sizes_.tolist() == sizes.tolist()
    places = list(range(150))
    called = DiscriminativeKMedoids(5, metric=lambda a, b: D[a, b], symmetrize=how)
    np.testing.assert_array_equal(called.fit(places, SPECIES).medoid_indices_, same.medoid_indices_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({(1, 0): -1.0}, "-1 in row 1, column 0"),
        ({(3, 2): np.nan}, "NaN in row 3, column 2"),
        ({(2, 3): np.inf}, "infinity (inf) in row 2, column 3"),
        ({(4, 4): 0.5}, "0.5 in row 4, column 4, but the distance of a row to itself must be 0"),
        ({(0, 5): 9.0}, "it has 9 in row 0, column 5, and"),
    ],
)
def test_matrices_that_are_no_distances_are_refused_in_a_sentence(change, message):
    D = distances(IRIS[::10])
    for place, value in change.items():
        D[place] = value
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        DiscriminativeKMedoids(3, metric="precomputed").fit(D, SPECIES[::10])
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_medoids": 0}, "max_medoids=0 is not accepted"),
        ({"max_medoids": 2}, "max_medoids=2 is less than the number of classes"),
        ({"metric": "euclid"}, "metric='euclid' is not accepted"),
        ({"metric": "mahalanobis"}, "needs metric_params={'VI': ...}"),
        ({"metric": "correlation"}, "metric='correlation' is not defined between row"),
        ({"symmetrize": "sum"}, "symmetrize='sum' is not accepted"),
        ({"is_metric": "yes"}, "is_metric='yes' is not accepted"),
        ({"memory_mb": 1e-3}, "use dkmeans.Landmarks"),
        ({"metric": lambda a, b: -1.0}, "metric returned -1.0 for row"),
        ({"metric": lambda a, b: "far"}, "metric returned 'far' for row"),
        ({"max_iter": 0}, "max_iter=0 is not accepted"),
        ({"metric_params": [1]}, "metric_params=[1] is not accepted"),
    ],
)
def test_bad_parameters(parameters, message):
    X = np.vstack([IRIS, np.ones((1, 4))])  # a constant row has no correlation
    y = np.append(SPECIES, 0)
    with pytest.raises(ValueError, match=re.escape(message)):
        DiscriminativeKMedoids(**parameters).fit(X, y)


def test_values_that_cannot_be_squared_are_refused():
    with pytest.raises(ValueError, match="squares overflow"):
        DiscriminativeKMedoids().fit([[1e200], [-1e200]], [0, 1])
    with pytest.raises(ValueError, match="multiply all distances by a constant"):
        DiscriminativeKMedoids(metric="precomputed").fit([[0, 1e-200], [1e-200, 0]], [0, 1])


def test_a_failed_fit_leaves_the_estimator_as_it_was():
    model = DiscriminativeKMedoids(4).fit(IRIS, SPECIES)
    before = vars(model).copy()
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.full((4, 2), np.nan), [0, 1, 0, 1])

    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(stop):
        model.fit(IRIS[:, :2], SPECIES)
    assert vars(model) == before


def test_a_listener_ends_the_fit():
    X, y = load_digits(return_X_y=True)
    with listening(lambda step: step.record["clusters"] >= 13):
        model = DiscriminativeKMedoids(30).fit(X[:300], y[:300])
    assert 13 <= model.n_medoids_ < 30
    assert not model.converged_


def test_objects_of_any_kind():
    words = ["a", "to", "the", "of", "wonderful", "marvellous", "incredible", "fantastic"]
    y = np.array(["short"] * 4 + ["long"] * 4)
    model = DiscriminativeKMedoids(2, metric=length_difference).fit(words, y)
    assert model.predict(["by", "extraordinary"]).tolist() == ["short", "long"]
    assert model.medoids_ == [words[i] for i in model.medoid_indices_]
    assert not hasattr(model, "n_features_in_")
    series = [np.arange(n) for n in (2, 3, 4, 9, 10, 11)]
    model = DiscriminativeKMedoids(2, metric=length_difference).fit(series, [0, 0, 0, 1, 1, 1])
    assert model.predict([np.arange(5), np.arange(8)]).tolist() == [0, 1]
    scores = cross_val_score(DiscriminativeKMedoids(2, metric=length_difference), words, y, cv=2)
    assert scores.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="a sequence of objects is needed"):
        model.predict("word")
    # Without weight, objects are no medoids, but get a label.
    model.fit(series, [0, 0, 0, 1, 1, 1], [1, 0, 1, 1, 0, 1])
    assert not {1, 4} & set(model.medoid_indices_)
    np.testing.assert_array_equal(model.labels_, model.predict_medoid(series))


def test_class_and_sample_weights():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], (y[:400] == 8).astype(int)
    plain = DiscriminativeKMedoids(4).fit(X, y)
    heavy = DiscriminativeKMedoids(4, class_weight={0: 1, 1: 30}).fit(X, y)
    assert heavy.predict(X).sum() > plain.predict(X).sum()
    weighted = DiscriminativeKMedoids(4).fit(X, y, np.where(y == 1, 30.0, 1.0))
    np.testing.assert_array_equal(heavy.medoid_indices_, weighted.medoid_indices_)
    none = DiscriminativeKMedoids(4, class_weight={0: 1, 1: 0}).fit(X, y)
    assert set(none.medoid_classes_) == {0}


def test_auto_chooses_by_held_out_rows():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    model = DiscriminativeKMedoids("auto").fit(X, y)
    path = model.path_
    best = path.heldout_error.min()
    chosen = path.heldout_error[path.clusters == model.n_medoids_]
    assert len(chosen) <= 1 or chosen[0] <= best + 0.05
    assert 10 < model.n_medoids_ < 200
    assert np.isfinite(path.heldout_error).any()


@pytest.mark.parametrize("kind", ["rows", "CSR", "distances", "objects", "weights", "auto"])
def test_at_gives_the_models_of_the_path(kind):
    X, y = load_digits(return_X_y=True)
    X, y, w, metric = X[:300], y[:300], None, "euclidean"
    if kind == "CSR":
        X = sp.csr_array(X)
    elif kind == "distances":
        X, metric = distances(X), "precomputed"
    elif kind == "objects":
        D = distances(X)
        X, metric = list(range(300)), lambda a, b: D[a, b]
    elif kind == "weights":
        w = np.arange(300) % 3.0
    model = DiscriminativeKMedoids("auto" if kind == "auto" else 30, metric=metric).fit(X, y, w)
    there = np.ones(300) if w is None else w
    for row in model.path_:
        k = row["clusters"]
        found = model.at(k)
        assert (found.n_medoids_, found.max_medoids) == (k, k)
        assert found.converged_ == row["refined"]
        assert found.history_.clusters[-1] == k
        assert (found.cost_, found.inertia_) == (row["cost"], row["inertia"])
        assert found.medoid_classes_.tolist() == y[found.medoid_indices_].tolist()
        sizes = np.bincount(found.predict_medoid(X), there, k)
        assert found.medoid_sizes_.tolist() == sizes.tolist()
        if kind != "auto":
            assert found.score(X, y, w) == pytest.approx(1 - row["training_error"])
        assert hasattr(found, "labels_") == (k == model.n_medoids_)
    if kind != "auto":
        assert model.path_.refined.tolist() == [False] * (len(model.path_) - 1) + [True]
    assert model.at(model.n_medoids_ + 1).path_.clusters.tolist() == model.path_.clusters.tolist()
    few = model.path_.clusters[:3].tolist()
    gains = [model.at(k).cost_ - model.at(k, X, y, w).cost_ for k in few]
    if kind != "auto":  # whose models on the way have costs of fewer rows
        assert min(gains) >= 0
    assert max(gains) > 0
    better = model.at(20, X, y, w)
    assert better.converged_
    assert better.n_medoids_ == model.at(20).n_medoids_
    assert better.path_.refined.tolist() == [True]
    np.testing.assert_array_equal(better.labels_, better.predict_medoid(X))
    # The end is a local optimum: nothing changes any more.
    again = better.at(20, X, y, w)
    np.testing.assert_array_equal(again.medoid_indices_, better.medoid_indices_)


@pytest.mark.parametrize("kind", ["rows", "distances", "objects", "auto"])
def test_sizes_on_the_path_count_rows_of_classes_of_weight_0(kind):
    X, y = load_digits(return_X_y=True)
    X, y, metric = X[:300], y[:300], "euclidean"
    w = np.where(np.arange(300) % 7, 0.1, 0.0)
    if kind == "distances":
        X, metric = distances(X), "precomputed"
    elif kind == "objects":
        D = distances(X)
        X, metric = list(range(300)), lambda a, b: D[a, b]
    model = DiscriminativeKMedoids(
        "auto" if kind == "auto" else 16,
        metric=metric,
        class_weight={c: int(c != 3) for c in range(10)},
    ).fit(X, y, w)
    assert len(model.path_) > 1
    for k in model.path_.clusters.tolist():
        found = model.at(k)
        cells = found.predict_medoid(X)
        assert found.medoid_sizes_.tolist() == [math.fsum(w[cells == i]) for i in range(k)]


def test_at_refuses_what_it_does_not_have(tmp_path):
    model = DiscriminativeKMedoids(9).fit(IRIS, SPECIES)
    with pytest.raises(ValueError, match="k=2 is too small: the fewest medoids on path_ are 3"):
        model.at(2)
    with pytest.raises(ValueError, match="k=0 is not accepted"):
        model.at(0)
    with pytest.raises(ValueError, match="at has no use for y without X"):
        model.at(9, y=SPECIES)
    for X, y in ((IRIS[::-1], SPECIES[::-1]), (IRIS + 1, SPECIES), (IRIS[:101], SPECIES[:101])):
        with pytest.raises(ValueError, match="is not the medoid that the model has there"):
            model.at(9, X, y)
    model.save(tmp_path / "m.dkm")
    with pytest.raises(ValueError, match="save it with_path=True"):
        load(tmp_path / "m.dkm").at(5)
    with pytest.raises(ValueError, match="with_path=True: the model has no models on the way"):
        load(tmp_path / "m.dkm").save(tmp_path / "n.dkm", with_path=True)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_files_keep_the_path(tmp_path, metric):
    X = distances(IRIS) if metric == "precomputed" else IRIS.astype(np.float32)
    model = DiscriminativeKMedoids(9, metric=metric).fit(X, SPECIES)
    model.save(tmp_path / "m.dkm", with_path=True)
    again = load(tmp_path / "m.dkm")
    for k in model.path_.clusters.tolist():
        few, same = model.at(k), again.at(k)
        assert repr(few) == repr(same)
        assert vars(few).keys() == vars(same).keys()
        for name in ("medoid_indices_", "medoid_classes_", "medoid_sizes_"):
            np.testing.assert_array_equal(getattr(few, name), getattr(same, name))
        np.testing.assert_array_equal(few.transform(X), same.transform(X))
        assert (few.cost_, few.inertia_, few.n_iter_) == (same.cost_, same.inertia_, same.n_iter_)
        assert repr(few.history_) == repr(same.history_)
    np.testing.assert_array_equal(
        again.at(6, X, SPECIES).medoid_indices_, model.at(6, X, SPECIES).medoid_indices_
    )


def test_explain_certifies_only_what_the_triangle_inequality_proves():
    model = DiscriminativeKMedoids(9).fit(IRIS, SPECIES)
    why = model.explain(IRIS)
    D = model.transform(IRIS)
    for row in range(0, 150, 7):
        rivals = model.medoid_classes_ != why.label[row]
        assert why.distance[row] == D[row].min()
        assert why.rival_distance[row] == D[row, rivals].min()
        assert why.rival_label[row] != why.label[row]
        assert why.exemplar[row] == model.medoid_indices_[why.prototype[row]]
    np.testing.assert_allclose(why.radius, (why.rival_distance - why.distance) / 2, atol=1e-12)
    rng = np.random.default_rng(0)
    steps = rng.normal(size=IRIS.shape)
    steps *= (why.radius * 0.999 / np.linalg.norm(steps, axis=1))[:, None]
    np.testing.assert_array_equal(model.predict(IRIS + steps), why.label)
    signs = np.where(model.classes_ == why.label[:, None], why.margin[:, None], -2)
    np.testing.assert_allclose(signs.max(axis=1), model.decision_function(IRIS).max(axis=1))
    D = distances(IRIS)
    for metric, declared, known in (
        ("precomputed", None, False),
        ("precomputed", True, True),
        ("sqeuclidean", None, False),
        ("cityblock", None, True),
        ("cityblock", False, False),
    ):
        X = D if metric == "precomputed" else IRIS
        other = DiscriminativeKMedoids(5, metric=metric, is_metric=declared).fit(X, SPECIES)
        assert np.isfinite(other.explain(X).radius).all() == known
    one = DiscriminativeKMedoids().fit(IRIS[:4], [7, 7, 7, 7]).explain(IRIS[:2])
    assert one.rival.tolist() == [-1, -1]
    assert one.radius.tolist() == [np.inf, np.inf]


def test_suspects_are_those_of_single_rows():
    y = SPECIES.copy()
    y[[3, 60]] = 2, 0
    model = DiscriminativeKMedoids(12).fit(IRIS, y)
    found = model.suspects(IRIS, y, n=2)
    assert set(found.row) == {3, 60}
    assert dict(zip(found.row.tolist(), found.suggested.tolist(), strict=True)) == {3: 0, 60: 1}
    D = distances(IRIS)
    given = DiscriminativeKMedoids(12, metric="precomputed").fit(D, y)
    same = given.suspects(D, y, n=2)
    np.testing.assert_allclose(same.score, found.score)
    called = DiscriminativeKMedoids(3, metric=lambda a, b: D[a, b]).fit(range(150), y)
    np.testing.assert_allclose(called.suspects(range(150), y, n=2).score, found.score)
    with pytest.raises(ValueError, match="the distances between all rows"):
        given.suspects(D[:5], y[:5])
    twins = DiscriminativeKMedoids(2).fit([[0.0], [0.0], [1.0]], [0, 1, 1])
    assert "conflict" in twins.suspects([[0.0], [0.0], [1.0]], [0, 1, 1]).reason


def test_rejection():
    X, y = load_digits(return_X_y=True)
    known = y != 7
    model = DiscriminativeKMedoids(30).fit(X[:500][known[:500]], y[:500][known[:500]])
    model.set_rejection(X[500:900][known[500:900]])
    later = X[900:]
    share = model.is_known(later[known[900:]]).mean()
    assert share > 0.9
    assert model.is_known(later[~known[900:]]).mean() < share
    labels = model.predict_or_reject(later, rejected=-1)
    np.testing.assert_array_equal(labels == -1, ~model.is_known(later))
    assert len(model.rejection_) == model.n_medoids_
    np.testing.assert_array_equal(model.rejection_.id, model.medoid_indices_)


@pytest.mark.parametrize("metric", ["euclidean", "precomputed", "minkowski"])
def test_files_keep_all(tmp_path, metric):
    X = distances(IRIS) if metric == "precomputed" else IRIS
    params = {"p": 3} if metric == "minkowski" else None
    model = DiscriminativeKMedoids(
        7, metric=metric, metric_params=params, class_weight={0: 1, 1: 2.0, 2: 1}
    ).fit(X, SPECIES)
    model.set_rejection(X[::2])
    model.save(tmp_path / "m.dkm")
    again = load(tmp_path / "m.dkm")
    assert again.get_params() == model.get_params()
    assert vars(again).keys() == vars(model).keys()
    for name in ("medoid_indices_", "medoid_classes_", "medoid_sizes_", "labels_", "classes_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.unknown_score(X), model.unknown_score(X))
    model.save(tmp_path / "m.dkm", with_labels=False)
    assert vars(model).keys() - vars(load(tmp_path / "m.dkm")).keys() == {"labels_"}
    assert repr(again.history_) == repr(model.history_)
    assert again.cost_ == model.cost_
    save(model, tmp_path / "n.dkm", with_labels=False)
    assert not hasattr(load(tmp_path / "n.dkm"), "labels_")


def test_files_of_pipelines_and_of_functions(tmp_path):
    model = make_pipeline(StandardScaler(), DiscriminativeKMedoids(5)).fit(IRIS, SPECIES)
    save(model, tmp_path / "m.dkm")
    np.testing.assert_array_equal(load(tmp_path / "m.dkm").predict(IRIS), model.predict(IRIS))
    words = DiscriminativeKMedoids(2, metric=length_difference).fit(["a", "bbb"], [0, 1])
    with pytest.raises(ValueError, match="metric='precomputed'"):
        words.save(tmp_path / "w.dkm")
    assert os.listdir(tmp_path) == ["m.dkm"]


@pytest.mark.parametrize("metric", sorted(set(pairwise.NAMES) - {"haversine"}))
def test_named_metrics(metric):
    """All distances of a fit, by tiles, are those between rows."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 6)).astype(float) + 1e3 * (metric not in pairwise.BOOLEAN)
    params = {"mahalanobis": {"VI": np.eye(6)}, "seuclidean": {"V": np.ones(6)}}.get(metric, {})
    D = pairwise.all_pairs(X, metric, params, 2)
    name = {"l1": "cityblock", "l2": "euclidean", "manhattan": "cityblock"}.get(metric, metric)
    truth = X != 0 if metric in pairwise.BOOLEAN else X
    expected = cdist(truth, truth, name, **params)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(D, expected, rtol=1e-9, atol=1e-11)
    part = pairwise.distances(X[:7], X[5:], metric, params, 1)
    np.testing.assert_allclose(part[:, 3:], expected[:7, 8:], rtol=1e-9, atol=1e-11)


def test_euclidean_tiles_lose_nothing_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = 1e6 + np.repeat(rng.normal(size=(60, 4)), 5, axis=0) + 1e-4 * rng.normal(size=(300, 4))
    D = pairwise.all_pairs(X, "euclidean", {}, 2)
    np.testing.assert_allclose(D, distances(X), rtol=1e-8)
    np.testing.assert_array_equal(D, pairwise.all_pairs(sp.csr_array(X), "euclidean", {}, 1))


def test_the_check_of_a_matrix_sees_every_tile(monkeypatch):
    monkeypatch.setattr(matrices, "TILE", 4)
    D = distances(IRIS[:11])
    assert matrices.checked_matrix(D, None, 2).largest == D.max()
    for place in ((10, 0), (0, 10), (9, 10), (5, 2)):
        wrong = D.copy()
        wrong[place] += 1
        with pytest.raises(ValueError, match="not symmetric"):
            matrices.checked_matrix(wrong, None, 2)


def test_it_separates_better_than_medoids_of_each_class():
    """What swaps on the margin cost gain over the medoids that they start from."""
    X, y = load_digits(return_X_y=True)
    model = DiscriminativeKMedoids(10).fit(X[:900], y[:900])
    D = pairwise_distances(X[:900])
    first = [
        np.flatnonzero(y[:900] == c)[D[np.ix_(y[:900] == c, y[:900] == c)].sum(axis=1).argmin()]
        for c in range(10)
    ]
    later = pairwise_distances(X[900:], X[:900])
    assert model.score(X[900:], y[900:]) > (later[:, first].argmin(axis=1) == y[900:]).mean()


def test_memberships():
    model = grown(max_clusters=7).fit(IRIS, SPECIES)
    medoids = DiscriminativeKMedoids(7).fit(IRIS, SPECIES)
    for m in (model, medoids):
        D = m.transform(IRIS)
        k = D.shape[1]
        for fuzzifier in (1, 1.0001, 1.5, 2.0, 7, 1e9, np.inf):
            shares = m.memberships(IRIS, fuzzifier)
            np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
            assert (shares.argmax(axis=1) == D.argmin(axis=1)).all() or fuzzifier > 1e8
        shares = m.memberships(IRIS)
        away = (D > 0).all(axis=1)
        inverse = 1 / D[away] ** 2
        np.testing.assert_allclose(shares[away], inverse / inverse.sum(axis=1, keepdims=True))
        hard = np.eye(k)[D.argmin(axis=1)]
        np.testing.assert_allclose(m.memberships(IRIS, 1), hard)
        np.testing.assert_allclose(m.memberships(IRIS, np.inf)[away], 1 / k)
        by_class = m.memberships(IRIS, per="class")
        classes = m.cluster_classes_ if m is model else m.medoid_classes_
        for c in range(3):
            np.testing.assert_allclose(by_class[:, c], shares[:, classes == c].sum(axis=1))
        for bad in (0.5, np.nan, "two", True):
            with pytest.raises(ValueError, match="fuzzifier="):
                m.memberships(IRIS, bad)
        with pytest.raises(ValueError, match="per="):
            m.memberships(IRIS, per="row")
    on = medoids.memberships(medoids.medoids_, 3.0)
    np.testing.assert_array_equal(on, np.eye(len(on)))
    np.testing.assert_array_equal(medoids.memberships(medoids.medoids_, np.inf), np.eye(len(on)))
    two = DiscriminativeKMedoids(2).fit([[0.0], [2.0]], [0, 1])
    assert two.memberships([[1.0]], 1).tolist() == [[0.5, 0.5]]
