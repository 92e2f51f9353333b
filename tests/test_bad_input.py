"""Everything that people pass by mistake: one clear sentence, and nothing is changed."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from dkmeans import DiscriminativeKMeans

X = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 4.0], [4.0, 5.0], [9.0, 0.0], [9.0, 1.0]])
Y = np.array([0, 0, 1, 1, 2, 2])


def with_value(value, row=3, column=1):
    changed = X.copy()
    changed[row, column] = value
    return changed


def frame(**changes):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"age": X[:, 0], "size": X[:, 1]}).assign(**changes)


def weights(value, row=2):
    changed = np.ones(len(Y))
    changed[row] = value
    return changed


FIT = {
    "NaN": (
        lambda: (with_value(np.nan), Y),
        {},
        ValueError,
        r"NaN in row 3, column 1.*SimpleImputer",
    ),
    "infinity": (lambda: (with_value(-np.inf), Y), {}, ValueError, r"inf.* in row 3, column 1"),
    "NaN in a table": (
        lambda: (frame(size=np.nan), Y),
        {},
        ValueError,
        r"NaN in row 0, column 'size'",
    ),
    "NaN in a sparse matrix": (
        lambda: (sp.csr_array(with_value(np.nan)), Y),
        {},
        ValueError,
        r"NaN in row 3, column 1",
    ),
    "text in a table": (
        lambda: (frame(age=["Ann"] * 6), Y),
        {},
        ValueError,
        r"column 'age' holds 'Ann'",
    ),
    "text in an array": (
        lambda: ([*X.astype(str).tolist()[:5], ["1", "x"]], Y),
        {},
        ValueError,
        r"column 1 holds 'x'",
    ),
    "complex numbers": (lambda: (X + 1j, Y), {}, ValueError, r"Complex data not supported"),
    "an empty table": (lambda: (np.empty((0, 2)), []), {}, ValueError, r"0 sample"),
    "no features": (lambda: (np.empty((6, 0)), Y), {}, ValueError, r"0 feature"),
    "one dimension": (lambda: (X[:, 0], Y), {}, ValueError, r"Expected 2D array, got 1D"),
    "squares overflow": (
        lambda: (with_value(1e200), Y),
        {},
        ValueError,
        r"1e\+200.*squares overflow float64",
    ),
    "squares overflow float32": (
        lambda: (with_value(1e30).astype(np.float32), Y),
        {},
        ValueError,
        r"1e\+30.*squares overflow float32",
    ),
    "squares overflow by repulsion": (
        lambda: (X, Y),
        {"repulsion": 1e300},
        ValueError,
        r"squares overflow",
    ),
    "y missing": (lambda: (X, None), {}, ValueError, r"y"),
    "y of another length": (
        lambda: (X, Y[:4]),
        {},
        ValueError,
        r"inconsistent numbers of samples: \[6, 4\]",
    ),
    "y continuous": (lambda: (X, X[:, 0] + 0.5), {}, ValueError, r"continuous"),
    "y with NaN": (lambda: (X, np.where(Y == 2, np.nan, Y)), {}, ValueError, r"y contains NaN"),
    "y in two columns": (lambda: (X, np.stack([Y, Y], 1)), {}, ValueError, r"1d array"),
    "weight negative": (
        lambda: (X, Y, weights(-1.0)),
        {},
        ValueError,
        r"-1.0 at row 2.*not negative",
    ),
    "weight NaN": (lambda: (X, Y, weights(np.nan)), {}, ValueError, r"nan at row 2.*finite"),
    "weight infinite": (lambda: (X, Y, weights(np.inf)), {}, ValueError, r"inf at row 2.*finite"),
    "weights all zero": (lambda: (X, Y, np.zeros(6)), {}, ValueError, r"zero for every row"),
    "weights of another length": (
        lambda: (X, Y, np.ones(4)),
        {},
        ValueError,
        r"\(4,\), expected \(6,\)",
    ),
    "weights in two columns": (
        lambda: (X, Y, np.ones((6, 2))),
        {},
        ValueError,
        r"1D array or scalar",
    ),
    "weights of text": (
        lambda: (X, Y, ["a"] * 6),
        {},
        ValueError,
        r"sample_weight must be numbers",
    ),
    "repulsion negative": (
        lambda: (X, Y),
        {"repulsion": -0.1},
        ValueError,
        r"repulsion=-0.1 .*>= 0",
    ),
    "repulsion NaN": (lambda: (X, Y), {"repulsion": np.nan}, ValueError, r"repulsion=nan"),
    "repulsion unknown": (
        lambda: (X, Y),
        {"repulsion": "strong"},
        ValueError,
        r"repulsion='strong'.*'size'",
    ),
    "repulsion of a wrong type": (
        lambda: (X, Y),
        {"repulsion": None},
        TypeError,
        r"repulsion=None",
    ),
    "growth unknown": (lambda: (X, Y), {"growth": "fast"}, ValueError, r"growth='fast'.*'paper'"),
    "budget below classes": (
        lambda: (X, Y),
        {"max_clusters": 2},
        ValueError,
        r"max_clusters=2 .*which is 3",
    ),
    "budget zero": (lambda: (X, Y), {"max_clusters": 0}, ValueError, r"max_clusters=0 .*>= 1"),
    "budget not whole": (
        lambda: (X, Y),
        {"max_clusters": 4.5},
        TypeError,
        r"max_clusters=4.5 .*integer",
    ),
    "budget a truth value": (
        lambda: (X, Y),
        {"max_clusters": True},
        TypeError,
        r"max_clusters=True",
    ),
    "rounds zero": (lambda: (X, Y), {"max_iter": 0}, ValueError, r"max_iter=0 .*>= 1"),
    "size zero": (lambda: (X, Y), {"min_cluster_size": 0}, ValueError, r"min_cluster_size=0 .*> 0"),
    "memory negative": (lambda: (X, Y), {"memory_mb": -5}, ValueError, r"memory_mb=-5 .*> 0"),
    "threads zero": (lambda: (X, Y), {"n_threads": 0}, ValueError, r"n_threads=0 .*>= 1"),
    "prune of a wrong type": (lambda: (X, Y), {"prune": "yes"}, TypeError, r"prune='yes'"),
    "class weight unknown": (
        lambda: (X, Y),
        {"class_weight": "even"},
        ValueError,
        r"class_weight='even'",
    ),
    "class weight of no class": (
        lambda: (X, Y),
        {"class_weight": {7: 1}},
        ValueError,
        r"names 7, which is not in y, and does not name 0",
    ),
    "class weight negative": (
        lambda: (X, Y),
        {"class_weight": {1: -2}},
        ValueError,
        r"class_weight\[1\]=-2",
    ),
    "class weights all zero": (
        lambda: (X, Y),
        {"class_weight": {0: 0, 1: 0, 2: 0}},
        ValueError,
        r"class_weight is zero",
    ),
}

PREDICT = {
    "another number of features": (lambda: X[:, :1], ValueError, r"1 features.*2 features"),
    "NaN": (lambda: with_value(np.nan), ValueError, r"NaN in row 3, column 1"),
    "infinity": (lambda: with_value(np.inf), ValueError, r"inf.* in row 3, column 1"),
    "text": (lambda: [["a", "b"]], ValueError, r"column 0 holds 'a'"),
    "squares overflow": (lambda: with_value(1e300), ValueError, r"squares overflow"),
    "no rows": (lambda: np.empty((0, 2)), ValueError, r"0 sample"),
    "complex numbers": (lambda: X + 1j, ValueError, r"Complex"),
}
METHODS = ("predict", "predict_cluster", "predict_proba", "decision_function", "transform")


def one_sentence(message):
    return "\n" not in message.strip() and len(message) < 300


@pytest.mark.parametrize("name", FIT)
def test_fit_says_what_is_wrong_and_changes_nothing(name):
    arguments, params, error, pattern = FIT[name]
    model = DiscriminativeKMeans().fit(frame(), Y)
    model.set_params(**params)
    before = pickle.dumps(model)
    with pytest.raises(error, match=pattern) as caught:
        model.fit(*arguments())
    assert pickle.dumps(model) == before
    if "dkmeans" in str(caught.traceback[-1].path):  # scikit-learn's own messages are its own
        assert one_sentence(str(caught.value))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PREDICT)
def test_predicting_says_what_is_wrong(name, method):
    rows, error, pattern = PREDICT[name]
    model = DiscriminativeKMeans().fit(X, Y)
    with pytest.raises(error, match=pattern):
        getattr(model, method)(rows())


@pytest.mark.parametrize("method", METHODS)
def test_predicting_before_fitting_is_an_error(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(DiscriminativeKMeans(), method)(X)


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_other_sparse_formats_are_converted(form):
    sparse = sp.csr_array(X).asformat(form)
    model = DiscriminativeKMeans().fit(sparse, Y)
    assert (model.predict(sparse) == model.predict(X)).all()


def test_sparse_matrices_with_repeated_entries_are_added_up_on_a_copy():
    repeated = sp.csr_array((np.ones(12), np.tile([0, 0, 1], 4), np.arange(0, 13, 3)), shape=(4, 2))
    model = DiscriminativeKMeans().fit(repeated, [0, 0, 1, 1])
    assert model.conflicts_[0].tolist() == [0, 1, 2, 3]
    assert repeated.nnz == 12
    assert model.cluster_centers_.tolist() == [[2.0, 1.0]]


def test_a_model_refuses_another_order_of_columns():
    model = DiscriminativeKMeans().fit(frame(), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame()[["size", "age"]])
