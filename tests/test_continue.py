"""Going on from an earlier fit: warm start, new rows, new classes, edits by hand."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
FITTED = ("cluster_centers_", "cluster_classes_", "cluster_sizes_", "cluster_ids_", "labels_")


def assert_same(a, b, names=FITTED):
    for name in names:
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name


def check_contract(model, X):
    """What holds after every call."""
    k = model.n_clusters_
    assert (
        len(model.cluster_centers_) == len(model.cluster_classes_) == len(model.cluster_ids_) == k
    )
    assert (model.cluster_sizes_ > 0).all()
    assert (model.predict_cluster(X) == model.transform(X).argmin(axis=1)).all()
    assert (model.predict(X) == model.cluster_classes_[model.predict_cluster(X)]).all()
    order = np.lexsort((model.cluster_ids_, model.cluster_classes_))
    assert order.tolist() == list(range(k))
    tree = model.tree_
    assert sorted(model.cluster_ids_) == tree.id[tree.ended == -1].tolist()
    assert (tree.label[model.cluster_ids_] == model.cluster_classes_).all()
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all()


class TestWarmStart:
    @given(data=strategies.weighted(), repulsion=strategies.repulsions, extra=st.integers(0, 5))
    def test_without_changes_a_state_stays_to_the_last_bit_in_one_round(
        self, data, repulsion, extra
    ):
        X, y, w = data
        for budget in (None, int(y.max()) + 1 + extra):
            model = grown(budget, repulsion=repulsion, warm_start=True).fit(X, y, w)
            before = pickle.loads(pickle.dumps(model))
            model.fit(X, y, w)
            if before.converged_ or before.n_clusters_ == budget:
                assert model.n_iter_ == 1
                assert model.converged_ or not before.converged_
                assert_same(model, before)
                assert len(model.changes_) == 0

    def test_digits_stay_to_the_last_bit(self):
        X, y = load_digits(return_X_y=True)
        model = grown(warm_start=True).fit(X, y)
        before = pickle.loads(pickle.dumps(model))
        assert_same(model.fit(X, y), before)
        assert (model.n_iter_, repr(model.changes_).splitlines()[0]) == (1, "Changes: none")

    def test_classes_may_be_added(self):
        X, y = load_digits(return_X_y=True)
        few = y < 7
        model = grown(warm_start=True).fit(X[few], y[few])
        ids = dict(zip(model.cluster_ids_, model.cluster_classes_, strict=True))
        model.fit(X, y)
        assert model.score(X, y) == 1.0
        assert model.classes_.tolist() == list(range(10))
        check_contract(model, X)
        for i, label in zip(model.cluster_ids_, model.cluster_classes_, strict=True):
            assert ids.get(i, label) == label
        assert model.tree_.call[model.cluster_ids_].max() == 2

    def test_a_larger_budget_goes_on_growing(self):
        X, y = load_digits(return_X_y=True)
        model = grown(20, warm_start=True).fit(X, y)
        assert model.set_params(max_clusters=50).fit(X, y).n_clusters_ == 50

    def test_another_number_of_features_is_an_error(self):
        X, y = load_digits(return_X_y=True)
        model = grown(warm_start=True).fit(X, y)
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match=r"63 features.*64 features"):
            model.fit(X[:, 1:], y)
        assert pickle.dumps(model) == before

    def test_without_it_fit_starts_afresh(self):
        X, y = load_digits(return_X_y=True)
        model = grown().fit(X[:500], y[:500])
        assert_same(model.fit(X, y), grown().fit(X, y))


class TestPartialFit:
    @given(data=strategies.weighted(), repulsion=strategies.repulsions)
    def test_the_first_call_is_a_fit(self, data, repulsion):
        X, y, w = data
        one = grown(repulsion=repulsion).partial_fit(X, y, sample_weight=w)
        assert_same(one, grown(repulsion=repulsion).fit(X, y, w))

    def test_pure_cells_average_old_and_new_as_if_all_rows_were_there(self):
        rng = np.random.default_rng(0)
        y = np.arange(400) % 4
        X = rng.normal(size=(400, 3)) + 40 * y[:, None]
        parts = grown()
        for rows in np.array_split(np.arange(400), 7):
            parts.partial_fit(X[rows], y[rows])
        whole = grown().fit(X, y)
        assert parts.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
        assert parts.cluster_sizes_.tolist() == [100.0] * 4

    @settings(max_examples=strategies.examples(200))
    @given(
        data=st.lists(strategies.weighted(max_rows=12), min_size=2, max_size=4),
        repulsion=strategies.repulsions,
    )
    def test_promises_hold_after_every_call(self, data, repulsion):
        d, dtype = data[0][0].shape[1], data[0][0].dtype
        model = grown(repulsion=repulsion)
        total, classes_of = 0.0, {}
        for X, y, w in data:
            X = np.resize(X, (len(X), d)).astype(dtype)
            model.partial_fit(X, y, sample_weight=w)
            total += w.sum()
            assert (model.labels_ == model.predict_cluster(X)).all()
            assert model.cluster_sizes_.sum() == pytest.approx(total)
            own = model.transform(X)[np.arange(len(X)), model.labels_].astype(float)
            scale = 1e-5 if dtype == np.float32 else 1e-9
            assert model.inertia_ == pytest.approx((w * own**2).sum(), rel=scale, abs=1e-9)
            check_contract(model, X)
            assert model.converged_
            excused = w == 0
            for rows in model.conflicts_:
                excused[rows] = True
            assert (model.predict(X) == y)[~excused].all()
            for i, label in zip(model.tree_.id, model.tree_.label, strict=True):
                assert classes_of.setdefault(i, label) == label  # an id is of one class for life

    @given(data=strategies.weighted(), seed=st.integers(0, 99))
    def test_threads_memory_and_sparsity_change_nothing(self, data, seed):
        X, y, w = data
        order = np.random.default_rng(seed).permutation(len(y))
        forms = [
            grown(n_threads=1),
            grown(n_threads=3, memory_mb=0.01),
        ]
        for model in forms:
            model.fit(X, y, w).partial_fit(X[order] + X.dtype.type(0.5), y, sample_weight=w)
        assert_same(*forms)
        sparse = grown().fit(sp.csr_array(X), y, w)
        sparse.partial_fit(sp.csr_array(X[order] + X.dtype.type(0.5)), y, sample_weight=w)
        assert_same(forms[0], sparse)

    def test_prototypes_far_from_new_rows_keep_their_place_to_the_last_bit(self):
        X, y = load_digits(return_X_y=True)
        model = grown().fit(X[:1500], y[:1500])
        before = dict(zip(model.cluster_ids_.tolist(), model.cluster_centers_, strict=True))
        touched = set(model.cluster_ids_[model.predict_cluster(X[1500:1520])].tolist())
        model.partial_fit(X[1500:1520], y[1500:1520])
        after = dict(zip(model.cluster_ids_.tolist(), model.cluster_centers_, strict=True))
        same = {i for i in before if i in after and before[i].tobytes() == after[i].tobytes()}
        assert set(before) - same <= touched
        assert len(same) > 0.8 * len(before)
        assert not same & set(model.changes_.id[model.changes_.change == "moved"].tolist())

    def test_classes_need_not_be_announced_but_can_be(self):
        X, y = load_digits(return_X_y=True)
        model = grown().partial_fit(X[y < 5], y[y < 5], classes=range(12))
        assert model.classes_.tolist() == list(range(12))
        assert (model.predict_proba(X[:3])[:, 5:] == 0).all()
        unannounced = grown().partial_fit(X[y < 5], y[y < 5])
        unannounced.partial_fit(X[y >= 5], y[y >= 5])
        assert unannounced.classes_.tolist() == list(range(10))
        assert unannounced.score(X, y) > 0.9

    def test_rows_on_a_prototype_of_another_class_yield_to_the_heavier(self):
        model = grown().fit([[0.0], [0.0], [9.0]], ["a", "a", "b"])
        model.partial_fit([[0.0]], ["b"])
        assert [rows.tolist() for rows in model.conflicts_] == [[0]]
        assert model.predict([[0.0]])[0] == "a"
        model.partial_fit([[0.0]] * 9, ["b"] * 9)
        assert model.predict([[0.0]])[0] == "b"

    def test_a_fresh_and_a_continued_fit_agree(self):
        X, y = load_digits(return_X_y=True)
        X_train, X_test, y_train, _ = train_test_split(X, y, stratify=y, random_state=0)
        whole = grown().fit(X_train, y_train)
        parts = grown()
        for rows in np.array_split(np.arange(len(y_train)), 10):
            parts.partial_fit(X_train[rows], y_train[rows])
        assert (whole.predict(X_test) == parts.predict(X_test)).mean() > 0.95


class TestBudget:
    def test_it_is_never_passed(self):
        X, y = load_digits(return_X_y=True)
        model = grown(max_clusters=25)
        for rows in np.array_split(np.arange(len(y)), 12):
            model.partial_fit(X[rows], y[rows])
            assert model.n_clusters_ <= 25
            check_contract(model, X[:50])
        assert model.cluster_sizes_.sum() == len(y)
        assert set(model.cluster_classes_) == set(range(10))

    def test_the_lightest_of_a_class_with_several_gives_way_to_a_new_class(self):
        X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [20.0]])
        model = grown(max_clusters=4).fit(X, [0, 0, 1, 0, 0, 1])
        assert model.n_clusters_ == 4
        # Ids 1 and 3 are of class 1 and lightest; the new rows come into the cell of 1.
        assert model.cluster_ids_[model.cluster_sizes_ == 1].tolist() == [1, 3]
        model.partial_fit([[30.0], [31.0], [32.0]], [2, 2, 2])
        assert model.n_clusters_ == 4
        assert (model.cluster_classes_ == 2).sum() == 1
        removed = model.changes_.id[model.changes_.change == "removed"]
        assert removed.tolist() == [3]
        assert model.cluster_sizes_.sum() == 9

    def test_more_classes_than_the_budget_is_an_error_that_changes_nothing(self):
        model = grown(max_clusters=2).fit([[0.0], [1.0]], [0, 1])
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match=r"max_clusters=2 .*which is 3"):
            model.partial_fit([[5.0]], [2])
        assert pickle.dumps(model) == before


def drifting_stream(n_batches=60, size=50, seed=0):
    """Two classes that go round each other, and change places on the way."""
    rng = np.random.default_rng(seed)
    for batch in range(n_batches):
        angle = 2 * np.pi * batch / n_batches
        y = rng.integers(0, 2, size)
        middle = np.array([np.cos(angle), np.sin(angle)]) * np.where(y == 0, 2, -2)[:, None]
        yield middle + 0.7 * rng.normal(size=(size, 2)), y


def test_forgetting_beats_remembering_on_a_drifting_stream():
    errors = {}
    for half_life in (None, 100):
        model, wrong = grown(max_clusters=10, half_life=half_life), []
        for batch, (X, y) in enumerate(drifting_stream()):
            if batch > 5:
                wrong.append(1 - model.score(X, y))  # before it learns from them
            model.partial_fit(X, y)
        errors[half_life] = np.mean(wrong)
    assert errors[100] < 0.5 * errors[None]


@pytest.mark.parametrize("exponent", [-1074, -1022, 1000, 1023])
def test_weights_far_from_earlier_ones_are_refused_in_one_sentence(exponent):
    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    model = grown(4, growth="paper").partial_fit(X, y)
    before = model.cluster_centers_
    told = r"^sample_weight is at most .* earlier calls, whose unit is 1: .* in the same unit\.$"
    with pytest.raises(ValueError, match=told):
        model.partial_fit(X, y, sample_weight=np.full(12, 2.0**exponent))
    assert model.cluster_centers_ is before
    model.partial_fit(X, y, sample_weight=np.full(12, 2.0 ** np.copysign(600, exponent)))


def test_a_half_life_halves():
    model = grown(half_life=4).fit([[0.0], [10.0]], [0, 1])
    model.partial_fit([[10.0]] * 4, [1] * 4)
    assert model.cluster_sizes_.tolist() == [0.5, 4.5]


def test_all_earlier_rows_may_be_forgotten():
    model = grown(half_life=1).fit([[0.0], [10.0]], [0, 1])
    model.partial_fit([[1.0], [9.0], [5.0]] * 200, [0, 1, 0] * 200)
    assert model.cluster_sizes_.sum() == 600


def test_a_weight_of_three_ages_earlier_rows_as_three_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    weights = rng.integers(0, 4, 30)

    def continued(*rows, sample_weight=None):
        model = grown(6, half_life=20).fit(X[:30], y[:30])
        return model.partial_fit(*rows, sample_weight=sample_weight)

    weighted = continued(X[30:], y[30:], sample_weight=weights)
    repeated = continued(X[30:].repeat(weights, axis=0), y[30:].repeat(weights))
    assert weighted.cluster_sizes_.tolist() == repeated.cluster_sizes_.tolist()
    assert (weighted.cluster_centers_ == repeated.cluster_centers_).all()


class TestEdits:
    def fitted(self):
        X, y = load_digits(return_X_y=True)
        return grown(max_clusters=30).fit(X, y), X, y

    def test_drop(self):
        model, X, y = self.fitted()
        gone = model.cluster_ids_[[3, 7]]
        sizes = model.cluster_sizes_.sum() - model.cluster_sizes_[[3, 7]].sum()
        model.drop(gone)
        assert model.n_clusters_ == 28
        assert not np.isin(gone, model.cluster_ids_).any()
        assert model.cluster_sizes_.sum() == sizes
        assert not hasattr(model, "labels_")
        assert model.changes_.change.tolist() == ["removed", "removed"]
        check_contract(model, X)
        self.goes_on(model, X, y)

    def test_merge(self):
        model, X, y = self.fitted()
        pair = np.flatnonzero(model.cluster_classes_ == 5)[:2]
        ids, sizes = model.cluster_ids_[pair], model.cluster_sizes_[pair]
        own = X[np.isin(model.labels_, pair) & (y == 5)]
        total = model.cluster_sizes_.sum()
        model.merge(ids)
        heir = ids[sizes.argmax()]
        assert set(ids) - set(model.cluster_ids_) == set(ids) - {heir}
        np.testing.assert_allclose(
            model.cluster_centers_[model.cluster_ids_ == heir][0], own.mean(axis=0)
        )
        assert model.cluster_sizes_.sum() == total
        check_contract(model, X)
        self.goes_on(model, X, y)

    def test_set_center(self):
        model, X, y = self.fitted()
        which = model.cluster_ids_[11]
        model.set_center(which, X[0])
        assert model.cluster_ids_[model.predict_cluster(X[:1])[0]] == which
        assert model.predict(X[:1])[0] == model.cluster_classes_[11]
        assert model.changes_.change.tolist() == ["moved"]
        check_contract(model, X)
        self.goes_on(model, X, y)

    def goes_on(self, model, X, y):
        ids = set(model.tree_.id.tolist())
        model.set_params(max_clusters=None).partial_fit(X[:200], y[:200])
        assert model.converged_
        assert set(model.tree_.id.tolist()) >= ids
        check_contract(model, X)
        model.set_params(warm_start=True).fit(X, y)
        assert model.score(X, y) == 1.0

    @pytest.mark.parametrize(
        ("edit", "pattern"),
        [
            (lambda m: m.drop(999), "no prototype with id 999"),
            (lambda m: m.drop(m.cluster_ids_), "At least one prototype must remain"),
            (lambda m: m.drop([]), "one or more whole numbers"),
            (lambda m: m.drop("all"), "one or more whole numbers"),
            (lambda m: m.merge(m.cluster_ids_[:1]), "two or more prototypes of one class"),
            (lambda m: m.merge(m.cluster_ids_[[0, -1]]), "two or more prototypes of one class"),
            (lambda m: m.set_center(m.cluster_ids_[0], [1.0]), "1 features"),
            (lambda m: m.set_center(m.cluster_ids_[:2], [1.0] * 64), "one prototype, but id has 2"),
            (lambda m: m.set_center(m.cluster_ids_[0], [np.nan] * 64), "NaN"),
        ],
    )
    def test_mistakes_change_nothing(self, edit, pattern):
        model, _, _ = self.fitted()
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match=pattern):
            edit(model)
        assert pickle.dumps(model) == before


X0, Y0 = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]), np.array([0, 0, 1])


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        ((np.ones((2, 3)), [0, 1]), "3 features.*2 features"),
        ((np.array([[np.nan, 1.0]]), [0]), "NaN in row 0, column 0"),
        ((np.array([[1.0, 1.0]]), ["a"]), "labels such as .*a.*all must be numbers"),
        ((np.array([[1.0, 1.0]]), [0], ["a", "b"]), "all must be numbers"),
        ((np.array([[1.0, 1.0]]), [0.5]), "continuous"),
        ((np.array([[1.0, 1.0]]), [0, 1]), "inconsistent numbers"),
        ((np.array([[1e200, 1.0]]), [0]), "squares overflow"),
        ((np.array([[1.0, 1.0]]), [0], None, [-1.0]), "not negative"),
        ((np.array([[1.0, 1.0]]), [0], None, [0.0]), "zero for every row"),
    ],
)
def test_bad_input_in_partial_fit_changes_nothing(arguments, pattern):
    model = grown().fit(X0, Y0)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=pattern):
        model.partial_fit(*arguments)
    assert pickle.dumps(model) == before


def test_balanced_class_weights_need_all_rows():
    model = grown(class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight='balanced' needs all rows"):
        model.partial_fit(X0, Y0)


def test_changes_tell_what_a_call_did():
    model = grown().fit([[0.0], [1.0], [10.0]], ["a", "a", "b"])
    assert set(model.changes_.change) == {"added"}
    model.partial_fit([[2.0], [0.4]], ["a", "b"])
    changes = model.changes_
    assert {"added", "split"} <= set(changes.change.tolist())
    moved = changes.change == "moved"
    assert (changes.distance[moved] > 0).all()
    assert np.isnan(changes.distance[~moved]).all()
    assert repr(changes).startswith("Changes: ")
