"""Condensing: what is kept and what it weighs, against the definitions; the sampler convention."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from strategies import examples, parameters, weighted

import dkmeans
from dkmeans import Condenser, condense
from dkmeans.kernels.sphere import unit_rows


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:200], y[:200]


def naive_keep(model, X, y, w):
    """Row and weight of each prototype, straight from the definitions; a row of None if none."""
    D = model.transform(X).astype(float)
    # Distances are those in the space of the metric, to which rows are mapped in their own type.
    centers = model._fitted.prototypes.centers.astype(float)
    unit = model._fitted.geometry.rows(X).astype(float)
    rows, weight = [], np.zeros(model.n_clusters_)
    members = [[] for _ in centers]
    for i, label in enumerate(y):
        own = [j for j in range(len(centers)) if model.cluster_classes_[j] == label]
        if w[i] > 0 and own:
            nearest = min(own, key=lambda j: (D[i, j], j))
            members[nearest].append(i)
            weight[nearest] += w[i]
    for center, mine in zip(centers, members, strict=True):
        far = {i: float(((unit[i] - center) ** 2).sum()) for i in mine}
        least = min(far.values(), default=0)
        near = [i for i in mine if far[i] <= least * (1 + 1e-12) + 1e-300]
        rows.append(near)
    return rows, weight


@settings(max_examples=examples(12), deadline=None)
@given(weighted(), parameters, st.sampled_from([None, 4, 9, 0.5]))
def test_what_is_kept_and_what_it_weighs(data, options, n):
    X, y, w = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = unit_rows(X) if options["metric"] == "cosine" else X
        different = len(np.unique(rows[w > 0], axis=0))
        share = max(round(0.5 * different), len(np.unique(y)))
        model = grown(share if n == 0.5 else n, **options).fit(X, y, w)
        prototypes = condense(X, y, n, sample_weight=w, **options)
        exemplars = condense(X, y, n, keep="exemplars", sample_weight=w, **options)
    near, weight = naive_keep(model, X, y, w)
    assert prototypes.X.tobytes() == model.cluster_centers_.tobytes()
    assert prototypes.y.tolist() == model.cluster_classes_.tolist()
    assert prototypes.weight.tolist() == weight.tolist()
    assert prototypes.indices is None
    there = [j for j, rows in enumerate(near) if rows]
    assert exemplars.weight.tolist() == weight[there].tolist()
    assert exemplars.y.tolist() == model.cluster_classes_[there].tolist()
    assert len(set(exemplars.indices.tolist())) == len(there)
    for j, row in zip(there, exemplars.indices.tolist(), strict=True):
        assert row in near[j]
    assert (X[exemplars.indices] == exemplars.X).all()
    assert exemplars.X.dtype == prototypes.X.dtype == X.dtype
    assert (y[exemplars.indices] == exemplars.y).all()


@pytest.mark.parametrize("keep", ["prototypes", "exemplars"])
def test_a_share_counts_each_row_once_however_often_it_is_repeated(digits, keep):
    X, y = digits
    w = 1 + np.arange(len(y)) % 3
    again = np.repeat(np.arange(len(y)), w)
    weighted = condense(X, y, 0.1, keep=keep, sample_weight=w)
    repeated = condense(X[again], y[again], 0.1, keep=keep)
    assert weighted.X.tobytes() == repeated.X.tobytes()
    assert weighted.weight.tolist() == repeated.weight.tolist()


@settings(max_examples=examples(12), deadline=None)
@given(weighted(), st.sampled_from(["euclidean", "cosine"]), st.randoms())
def test_order_of_rows_changes_nothing_that_is_kept(data, metric, random):
    X, y, w = data
    order = np.array(random.sample(range(len(y)), len(y)), dtype=np.intp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"keep": "exemplars", "metric": metric}
        one = condense(X, y, 8, sample_weight=w, **options)
        two = condense(X[order], y[order], 8, sample_weight=w[order], **options)
    assert one.X.tobytes() == two.X.tobytes()
    assert one.y.tolist() == two.y.tolist()
    assert one.weight.tolist() == two.weight.tolist()


@pytest.mark.parametrize("keep", ["prototypes", "exemplars"])
def test_blocks_threads_and_sparsity_change_nothing(digits, keep, monkeypatch):
    X, y = digits
    one = condense(X, y, 30, keep=keep, refine=None, n_threads=1)
    monkeypatch.setattr("dkmeans.questions.condense._TILE_VALUES", 640)
    for matrix in (sp.csr_matrix, sp.csr_array):
        two = condense(matrix(X), y, 30, keep=keep, refine=None, n_threads=2)
        assert isinstance(two.X, matrix)
        assert two.X.toarray().tobytes() == one.X.tobytes()
        assert two.y.tolist() == one.y.tolist()
        assert two.weight.tolist() == one.weight.tolist()
    assert one.weight.sum() == len(y)
    assert np.array_equal(np.bincount(one.y, one.weight), np.bincount(y))


@pytest.mark.parametrize(
    ("n", "kept"), [(25, 25), (0.1, 20), (np.float32(0.1), 20), (0.01, 10), (np.int64(12), 12)]
)
def test_how_many_are_kept(digits, n, kept):
    X, y = digits
    assert condense(X, y, n, keep="exemplars").X.shape == (kept, 64)


def test_auto_and_none_are_those_of_the_estimator():
    X, y = load_iris(return_X_y=True)
    for n in ("auto", None):
        model = grown(n).fit(X, y)
        assert len(condense(X, y, n, keep="exemplars").y) == model.n_clusters_


def test_refinement_is_for_prototypes_unless_asked_for(digits):
    X, y = digits
    refined = grown(15, refine="margin").fit(X, y)
    assert (refined.cluster_centers_ == condense(X, y, 15).X).all()
    plain = grown(15).fit(X, y)
    assert (plain.cluster_centers_ == condense(X, y, 15, refine=None).X).all()
    sampler = Condenser(15, keep="exemplars")
    sampler.fit(X, y)
    assert (sampler.estimator_.cluster_centers_ == plain.cluster_centers_).all()


@pytest.mark.parametrize("keep", ["prototypes", "exemplars"])
def test_tables_and_text_come_back_as_they_went_in(keep):
    pd = pytest.importorskip("pandas")
    iris = load_iris()
    X = pd.DataFrame(iris.data.astype(np.float32), columns=iris.feature_names)
    X.index = [f"row {i}" for i in range(len(X))]
    y = pd.Series(iris.target_names[iris.target], index=X.index, name="kind", dtype="category")
    sampler = Condenser(9, keep=keep)
    X_small, y_small = sampler.fit_resample(X, y)
    assert isinstance(X_small, pd.DataFrame)
    assert list(X_small.columns) == iris.feature_names
    assert set(X_small.dtypes) == {np.dtype(np.float32)}
    assert y_small.name == "kind"
    assert y_small.dtype == y.dtype
    assert len(X_small) == len(y_small) == 9
    assert sampler.feature_names_in_.tolist() == iris.feature_names
    if keep == "exemplars":
        assert X_small.equals(X.iloc[sampler.sample_indices_])
        assert (np.asarray(y_small) == np.asarray(y)[sampler.sample_indices_]).all()
    KNeighborsClassifier(1).fit(X_small, y_small).predict(X)


@pytest.mark.parametrize("keep", ["prototypes", "exemplars"])
def test_rows_labels_and_weights_of_pandas_have_one_index(keep):
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    X, y = X[::-1], y[::-1]
    weights = pd.Series(np.arange(150.0), index=X.index, name="count")
    small = condense(X, y, 75, keep=keep, sample_weight=weights)
    table = small.X.assign(label=small.y, weight=small.weight)  # by index
    assert table.label.tolist() == small.y.tolist()
    assert table.weight.tolist() == small.weight.tolist()
    assert small.weight.name == "count"
    if keep == "exemplars":
        assert (table.label == y[table.index]).all()
        assert table.index.tolist() == X.index[small.indices].tolist()


@pytest.mark.parametrize("keep", ["prototypes", "exemplars"])
def test_indices_that_differ_rows_that_have_none_and_repeated_ones(keep):
    """Rows and labels are paired by position, as scikit-learn does, and stay so."""
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    y = pd.Series(y.to_numpy(), index=[f"label {i}" for i in range(150)])
    apart = condense(X, y, 30, keep=keep)
    assert apart.y.index.equals(apart.X.index)
    assert isinstance(apart.weight, np.ndarray)
    bare = condense(X.to_numpy(), y, 30, keep=keep)
    assert isinstance(bare.X, np.ndarray)
    assert bare.y.tolist() == apart.y.tolist()
    if keep == "exemplars":
        assert bare.y.equals(y.iloc[bare.indices])
    twice = condense(X.set_axis([7] * 150), y.to_numpy(), 30, keep=keep)
    assert isinstance(twice.y, np.ndarray)
    assert twice.y.tolist() == apart.y.tolist()


@pytest.mark.parametrize("keep", ["prototypes", "exemplars"])
def test_polars_comes_back_as_polars(keep):
    pl = pytest.importorskip("polars")
    iris = load_iris()
    X = pl.DataFrame(iris.data, schema=list("abcd"))
    y = pl.Series("kind", iris.target_names[iris.target])
    small = condense(X, y, 9, keep=keep)
    plain = condense(iris.data, y.to_numpy(), 9, keep=keep)
    assert isinstance(small.X, pl.DataFrame)
    assert small.X.schema == X.schema
    assert (small.X.to_numpy() == plain.X).all()
    assert isinstance(small.y, pl.Series)
    assert (small.y.name, small.y.dtype) == ("kind", pl.String)
    assert small.y.to_list() == plain.y.tolist()
    assert small.weight.tolist() == plain.weight.tolist()


def test_rows_are_not_copied_into_another_type(digits):
    X, y = digits
    whole = X.astype(np.uint8)
    assert condense(whole, y, 20, keep="exemplars").X.dtype == np.uint8
    assert condense(whole.tolist(), y.tolist(), 20).X.tobytes() == condense(X, y, 20).X.tobytes()


def test_the_sampler_is_an_estimator(digits):
    X, y = digits
    base = grown(growth="paper", warm_start=True)
    sampler = Condenser(14, keep="exemplars", estimator=base)
    again = clone(sampler).set_params(estimator__refine="margin", n=12)
    assert again.get_params()["estimator__growth"] == "paper"
    assert base.refine is None
    X_small, y_small = sampler.fit_resample(X, y, sample_weight=np.full(len(y), 2.0))
    assert not hasattr(base, "cluster_centers_")
    assert sampler.estimator_.max_clusters == 14
    assert sampler.sample_weight_.sum() == 2 * len(y)
    same = sampler.fit_resample(X, y)[0]
    assert (same == X_small).all()
    sampler.set_params(keep="prototypes").fit(X, y)
    assert not hasattr(sampler, "sample_indices_")
    assert len(y_small) == 14


class Chain:
    """The part of a pipeline of imbalanced-learn that concerns samplers, and no more."""

    def __init__(self, *steps):
        for step in steps[:-1]:
            assert hasattr(step, "fit_resample") != hasattr(step, "transform")
        self.steps = steps

    def fit(self, X, y):
        self.fitted = [clone(step) for step in self.steps]
        for step in self.fitted[:-1]:
            if hasattr(step, "fit_resample"):
                X, y = step.fit_resample(X, y)
            else:
                X = step.fit_transform(X, y)
        self.fitted[-1].fit(X, y)
        return self

    def predict(self, X):
        for step in self.fitted[:-1]:
            X = step.transform(X) if hasattr(step, "transform") else X
        return self.fitted[-1].predict(X)


def test_a_sampler_is_a_step_before_a_classifier(digits):
    X, y = digits
    chain = Chain(StandardScaler(), Condenser(20), KNeighborsClassifier(1)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    small = condense(scaled, y, 20)
    alone = KNeighborsClassifier(1).fit(small.X, small.y)
    assert chain.predict(X).tolist() == alone.predict(scaled).tolist()
    assert chain.fitted[-1].n_samples_fit_ == 20


def test_pipelines_of_imbalanced_learn_take_the_sampler(digits):
    pipeline = pytest.importorskip("imblearn.pipeline", reason="imbalanced-learn is not installed")
    X, y = digits
    steps = (StandardScaler(), Condenser(20, keep="exemplars"), KNeighborsClassifier(1))
    model = pipeline.make_pipeline(*steps).fit(X, y)
    assert model.predict(X).tolist() == Chain(*steps).fit(X, y).predict(X).tolist()
    assert model[1].sample_indices_.shape == (20,)
    search = GridSearchCV(model, {"condenser__n": [12, 20]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].n_samples_fit_ == search.best_params_["condenser__n"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n=0 is not accepted: it must be an integer >= 1, a share"),
        ({"n": 1.5}, "n=1.5 is not accepted"),
        ({"n": True}, "n=True is not accepted"),
        ({"n": "half"}, "n='half' is not accepted"),
        ({"n": 2}, "n=2 is less than the number of classes in y, which is 3"),
        ({"keep": "rows"}, "keep='rows' is not accepted: it must be 'prototypes' or 'exemplars'"),
        ({"max_clusters": 5}, "condense has no parameter 'max_clusters'"),
        ({"grow": "best"}, "condense has no parameter 'grow'"),
        ({"growth": "fast"}, "growth='fast' is not accepted"),
        ({"sample_weight": [1.0]}, "one weight per row"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises((ValueError, TypeError), match=message):
        condense(X, y, **arguments)


def test_bad_rows_and_estimators_are_named():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"There is no file or folder table.csv"):
        condense("table.csv", "label")
    with pytest.raises(ValueError, match=r"estimator=.* is not accepted: it must be None or"):
        Condenser(estimator=KNeighborsClassifier()).fit_resample(X, y)
    sampler = Condenser(9).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        sampler.fit_resample(np.where(X > 7, np.nan, X), y)
    assert sampler.estimator_.n_clusters_ == 9


def test_public_names():
    assert {"condense", "Condensed", "Condenser"} < set(dir(dkmeans))
    assert dkmeans.condense is condense
