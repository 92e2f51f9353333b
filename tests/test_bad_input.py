"""Everything that people pass by mistake: one clear sentence, and nothing is changed."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from models import grown
from sklearn.exceptions import NotFittedError

from dkmeans import DiscriminativeKMedoids
from dkmeans.data.blocks import SourceError
from dkmeans.plots import CellsDisplay

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
        r"NaN in row 3, column 1, which is not accepted: drop.*SimpleImputer",
    ),
    "two values": (
        lambda: (with_value([np.nan, np.inf], column=slice(None)), Y),
        {},
        ValueError,
        r"NaN in row 3, column 0; 2 values are NaN or inf, which is not accepted: drop",
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
    "one dimension": (
        lambda: (X[:, 0], Y),
        {},
        ValueError,
        r"Expected 2D array, got 1D.*\(6,\).*X.reshape\(-1, 1\)",
    ),
    "three dimensions": (
        lambda: (X[:, :, None], Y),
        {},
        ValueError,
        r"shape \(6, 2, 1\).*X.reshape\(len\(X\), -1\)",
    ),
    "nothing": (lambda: (None, Y), {}, ValueError, r"X is None: pass rows"),
    "ragged rows": (lambda: ([[1, 2], [3]], [0, 1]), {}, ValueError, r"such as 1 and 2 values"),
    "masked values": (
        lambda: (np.ma.masked_equal(X.astype(int), 5), Y),
        {},
        ValueError,
        r"NaN in row 3, column 1",
    ),
    "a dict": (lambda: ({"age": [1]}, [0]), {}, ValueError, r"X is a dict.*DataFrame\(X\)"),
    "dates": (
        lambda: (frame(day=np.datetime64("2024-01-01", "s") + np.arange(6)), Y),
        {},
        ValueError,
        r"column 'day' holds Timestamp",
    ),
    "metric of another estimator": (
        lambda: (X, Y),
        {"metric": "manhattan"},
        ValueError,
        r"metric='manhattan'.*'learned'; DiscriminativeKMedoids",
    ),
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
    "y a name": (
        lambda: (frame(), "size"),
        {},
        ValueError,
        r"y='size' names a column.* as in fit\(df.drop\(columns='size'\), df\['size'\]\)",
    ),
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
    "disk negative": (lambda: (X, Y), {"disk_mb": -1}, ValueError, r"disk_mb=-1 .*>= 0"),
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
    model = grown().fit(frame(), Y)
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
    model = grown().fit(X, Y)
    with pytest.raises(error, match=pattern):
        getattr(model, method)(rows())


@pytest.mark.parametrize("method", METHODS)
def test_predicting_before_fitting_is_an_error(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(grown(), method)(X)


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_other_sparse_formats_are_converted(form):
    sparse = sp.csr_array(X).asformat(form)
    model = grown().fit(sparse, Y)
    assert (model.predict(sparse) == model.predict(X)).all()


def test_sparse_matrices_with_repeated_entries_are_added_up_on_a_copy():
    repeated = sp.csr_array((np.ones(12), np.tile([0, 0, 1], 4), np.arange(0, 13, 3)), shape=(4, 2))
    model = grown().fit(repeated, [0, 0, 1, 1])
    assert model.conflicts_[0].tolist() == [0, 1, 2, 3]
    assert repeated.nnz == 12
    assert model.cluster_centers_.tolist() == [[2.0, 1.0]]


def string_dtype(**options):
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("NumPy has no StringDType before version 2")
    return np.dtypes.StringDType(**options)


def series(values, dtype):
    return pytest.importorskip("pandas").Series(values, dtype=dtype)


LABELS = {
    "None": (lambda: ["a", "a", None, "b", None, "c"], r"None: 2 of .*, the first in row 2"),
    "None in an array": (
        lambda: np.array(["a", "a", "b", "b", "c", None], object),
        r"None: 1 of .* missing, the first in row 5",
    ),
    "NaN": (lambda: [0, 0, 1, 1, np.nan, 2], r"NaN: 1 of .* missing, the first in row 4"),
    "NaN in text": (lambda: ["a", "a", "b", "b", np.nan, "c"], r"NaN: 1 of .* in row 4"),
    "pandas.NA": (lambda: series(["a", None, "b", "b", "c", "c"], "string"), r"1 of .* in row 1"),
    "an Int64 column": (lambda: series([0, None, 1, 1, 2, 2], "Int64"), r"1 of .* in row 1"),
    "missing in a StringDType": (
        lambda: np.array(["a", "a", "b", "b", "c", None], string_dtype(na_object=None)),
        r"None: 1 of .* in row 5",
    ),
    "numbers and text": (lambda: ["a", "a", 1, 1, 2, 2], r"text, such as 'a', and .* such as 1:"),
    "numbers and text in an array": (
        lambda: np.array([1, 1, "a", "a", 2, 2], object),
        r"text, such as 'a', and .* such as 1:",
    ),
}


@pytest.mark.parametrize("way", ["fit", "partial_fit", "batches"])
@pytest.mark.parametrize("name", LABELS)
def test_labels_that_are_none_are_named(name, way):
    make, pattern = LABELS[name]
    y = make()
    model = grown()
    arguments = (lambda: iter([(X, y)]),) if way == "batches" else (X, y)
    with pytest.raises(ValueError, match=pattern) as caught:
        getattr(model, way if way == "partial_fit" else "fit")(*arguments)
    assert one_sentence(str(caught.value))


def test_labels_of_several_batches_are_of_one_kind():
    with pytest.raises(ValueError, match=r"text, such as 'a', and .* such as 0:"):
        grown().fit(lambda: iter([(X, Y), (X, list("aabbcc"))]))


LABEL_KINDS = {
    "StringDType": lambda: np.array(list("aabbcc"), string_dtype()),
    "objects": lambda: np.array(list("aabbcc"), object),
    "a text column": lambda: series(list("aabbcc"), "string"),
    "a category column": lambda: series(list("aabbcc"), "category"),
    "numbers as objects": lambda: np.array([0, 0, 1, 1, 2, 2], object),
    "an Int64 column": lambda: series([0, 0, 1, 1, 2, 2], "Int64"),
}


@pytest.mark.parametrize("estimator", [grown(), DiscriminativeKMedoids()])
def test_a_score_without_labels(estimator):
    model = estimator.fit(X, Y)
    with pytest.raises(ValueError, match=r"^score needs the class labels .*, but y is None\.$"):
        model.score(X, None)


NOT_SOURCES = {
    "a list of batches": (lambda: [(X[:3], Y[:3]), (X[3:], Y[3:])], "a list of batches"),
    "a list of weighted batches": (lambda: [(GOOD, Y, np.ones(6))], "a list of batches"),
    "a tuple of batches of frames": (lambda: ((frame(), Y),), "a list of batches"),
    "a path in bytes": (lambda: b"rows.csv", "X is bytes, but a path must be text: .*fsdecode"),
    "paths in bytes": (lambda: [b"a.csv", b"b.csv"], "X is a list of bytes, but a path must be"),
}


@pytest.mark.parametrize("name", NOT_SOURCES)
@pytest.mark.parametrize("y", [None, "kind", Y])
def test_what_could_be_taken_for_other_data(name, y):
    make, told = NOT_SOURCES[name]
    model = grown().fit(X, Y)
    for question in (grown().fit, grown().partial_fit, model.score, model.calibrate):
        with pytest.raises(SourceError, match=told):
            question(make(), y)
    with pytest.raises(SourceError, match=told):
        model.predict(make())


def test_batches_in_a_list_are_accepted_as_the_error_says():
    batches = [(X[:3], Y[:3]), (X[3:], Y[3:])]
    model = grown().fit(lambda: batches)
    np.testing.assert_array_equal(model.cluster_centers_, grown().fit(X, Y).cluster_centers_)


@pytest.mark.parametrize("nothing", [[], ()])
def test_no_paths_at_all(nothing):
    with pytest.raises(SourceError, match=r"^X is an empty list: at least one path is needed\.$"):
        grown().fit(nothing, "kind")


@pytest.mark.parametrize("name", LABEL_KINDS)
def test_labels_of_many_kinds(name):
    y = LABEL_KINDS[name]()
    model = grown().fit(X, y)
    assert model.predict(X).tolist() == list(y)
    assert model.score(X, y) == 1.0
    assert model.partial_fit(X, y).predict(X).tolist() == list(y)
    assert model.fit(lambda: iter([(X, y)])).predict(X).tolist() == list(y)


def broken_csr(form=sp.csr_array, **arrays):
    """CSR of X with other index arrays than it should have; SciPy does not mind."""
    broken = form(X)
    for name, values in arrays.items():
        setattr(broken, name, np.array(values, dtype=getattr(broken, name).dtype))
    return broken


GOOD = sp.csr_array(X)  # 8 values
BROKEN = {
    "an index beyond the last column": ({"indices": [2, *GOOD.indices[1:]]}, r"indices has 2,"),
    "a huge index": ({"indices": [10**9, *GOOD.indices[1:]]}, r"indices has 1000000000,"),
    "a negative index": ({"indices": [*GOOD.indices[:-1], -1]}, r"indices has -1, which is none"),
    "indptr that falls": ({"indptr": [0, 7, 1, 3, 5, 6, 8]}, r"falls from 7 to 1 at position 2"),
    "a negative indptr": ({"indptr": [0, -1, 1, 3, 5, 6, 8]}, r"falls from 0 to -1"),
    "indptr that starts late": ({"indptr": [1, 1, 1, 3, 5, 6, 8]}, r"starts with 1, and must"),
    "indptr that ends late": ({"indptr": [0, 0, 1, 3, 5, 6, 9]}, r"ends with 9, but indices has 8"),
    "a short indptr": ({"indptr": [0, 0, 1, 3, 8]}, r"indptr has 5 entries, and must have 7"),
    "too few values": ({"data": GOOD.data[:5]}, r"indices has 8 entries, but data has 5"),
}


def ways_in():
    """All ways for rows to come in."""
    fitted = grown().fit(X, Y)
    fresh = grown()
    ways = {method: getattr(fitted, method) for method in (*METHODS, "explain")}
    ways["fit"] = lambda rows: fresh.fit(rows, Y)
    ways["partial_fit"] = lambda rows: fitted.partial_fit(rows, Y)
    ways["score"] = lambda rows: fitted.score(rows, Y)
    ways["a plot"] = lambda rows: CellsDisplay.from_estimator(fitted, rows)
    ways["a batch"] = lambda rows: fresh.fit(lambda: iter([(X, Y), (rows, Y)]))
    return ways


@pytest.mark.parametrize("way", ways_in())
@pytest.mark.parametrize("name", BROKEN)
def test_index_arrays_that_point_out_of_a_matrix_are_refused(name, way):
    arrays, pattern = BROKEN[name]
    with pytest.raises(ValueError, match=r"CSR matrix of the shape \(6, 2\).*" + pattern) as caught:
        ways_in()[way](broken_csr(**arrays))
    assert one_sentence(str(caught.value))


@pytest.mark.parametrize("method", ["fit", "predict"])
def test_index_arrays_of_dask_partitions_are_checked(method):
    da = pytest.importorskip("dask.array")
    arrays, pattern = BROKEN["a huge index"]
    rows = da.from_array(X, chunks=(6, 2)).map_blocks(
        # A matrix: Dask of 2024 does not know sparse arrays.
        lambda _: broken_csr(sp.csr_matrix, **arrays),
        meta=sp.csr_matrix((0, 2)),
        dtype=X.dtype,
    )
    model = grown().fit(X, Y)
    with pytest.raises(ValueError, match=pattern) as caught:
        model.fit(rows, Y) if method == "fit" else model.predict(rows).compute()
    assert ("partition 0" in str(caught.value)) == (method == "fit")


@pytest.mark.parametrize("form", [sp.csc_array, sp.bsr_array])
def test_other_compressed_formats_are_checked_before_they_are_converted(form):
    broken = broken_csr(form, indices=np.full(len(form(X).indices), 10**6))
    with pytest.raises(ValueError, match=r"matrix of the shape \(6, 2\).*indices has 1000000"):
        grown().fit(X, Y).predict(broken)


def test_what_lies_behind_the_last_row_of_a_sparse_matrix_does_not_count():
    longer = sp.csr_array(X)
    longer.data = np.append(longer.data, np.nan)
    longer.indices = np.append(longer.indices, np.int32(7))
    model = grown().fit(longer, Y)
    assert (model.cluster_centers_ == grown().fit(X, Y).cluster_centers_).all()
    assert len(longer.data) == 9


def test_a_model_refuses_another_order_of_columns():
    model = grown().fit(frame(), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame()[["size", "age"]])
