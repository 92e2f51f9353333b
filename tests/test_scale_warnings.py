"""Features that dominate are named for every kind of input, and with the cosine, too."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
import scipy.sparse as sp
from models import grown
from sklearn.datasets import load_digits, load_wine
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler
from test_cluster import a_cluster

from dkmeans import DiscriminativeKMeans, ScaleWarning
from dkmeans.data import row_sample
from dkmeans.sources import dask_cluster

X, Y = load_wine(return_X_y=True)
NAMED = load_wine(as_frame=True).data.assign(kind=Y)
PROLINE = (
    " has 99.8% of the variance of all 13 features, so it decides most distances: "
    "use metric='learned', or scale the features, for instance with "
    "sklearn.preprocessing.StandardScaler."
)


def scale_texts(model, *data, method="fit"):
    """Fit, and return what is said about the scale of features."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(model, method)(*data)
    ours = [warning for warning in caught if warning.category is ScaleWarning]
    assert all(warning.filename == __file__ for warning in ours)
    return [str(warning.message) for warning in ours]


def batches(X, y, *sizes):
    """Make a function that returns batches of these sizes, and one of the other rows."""
    return lambda: zip(np.split(X, np.cumsum(sizes)), np.split(y, np.cumsum(sizes)), strict=True)


def on_disk(folder, kind, values):
    """Write wine to a file, and return what `fit` takes."""
    table = NAMED.copy()
    table.iloc[:, :-1] = values
    path = folder / f"wine.{kind}"
    if kind == "npy":
        np.save(path, values)
        return str(path), Y
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path, index=False)
    return str(path), "kind"


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_files(tmp_path, kind, metric):
    named = "Feature number " if kind == "npy" else "Feature '"
    feature = {
        "euclidean": "12" if kind == "npy" else "proline'",
        "cosine": "4" if kind == "npy" else "magnesium'",
    }
    for memory_mb, disk_mb in ((None, None), (0.001, 0)):  # the second is read in every pass
        model = grown(8, metric=metric, memory_mb=memory_mb, disk_mb=disk_mb)
        (text,) = scale_texts(model, *on_disk(tmp_path, kind, X))
        assert text.startswith(named + feature[metric])
        assert metric == "cosine" or text.endswith(PROLINE)
    scaled = StandardScaler().fit_transform(X)
    assert scale_texts(grown(8, metric=metric), *on_disk(tmp_path, kind, scaled)) == []


def test_batches():
    scaled = StandardScaler().fit_transform(X)
    for sizes in ((), (0, 1, 60, 7)):
        assert scale_texts(grown(8), batches(X, Y, *sizes)) == [f"Feature number 12{PROLINE}"]
        assert scale_texts(grown(8), batches(scaled, Y, *sizes)) == []
    sparse = [(sp.csr_array(X[i::2]), Y[i::2]) for i in range(2)]
    assert scale_texts(grown(8), lambda: sparse) == [f"Feature number 12{PROLINE}"]


def test_calls_that_go_on_say_nothing():
    model = grown(8)
    assert len(scale_texts(model, X[::2], Y[::2], method="partial_fit")) == 1
    assert scale_texts(model, X[1::2], Y[1::2], method="partial_fit") == []
    assert scale_texts(model.set_params(warm_start=True), batches(X, Y, 90)) == []


@pytest.mark.parametrize("with_cluster", [False, True])
def test_dask(with_cluster, monkeypatch):
    rows, labels = da.from_array(X, chunks=(50, 5)), da.from_array(Y, chunks=70)
    table = dd.from_pandas(NAMED, npartitions=4, sort=False)
    sparse = da.from_array(X, chunks=(50, -1)).map_blocks(sp.csr_matrix)

    def check():
        assert scale_texts(grown(8), rows, labels) == [f"Feature number 12{PROLINE}"]
        assert scale_texts(grown(8), table, "kind") == [f"Feature 'proline'{PROLINE}"]
        assert scale_texts(grown(8), sparse, labels) == [f"Feature number 12{PROLINE}"]
        (text,) = scale_texts(grown(8, metric="cosine"), table, "kind")
        assert text.startswith("Feature 'magnesium' has 87.8% ")
        scaled = da.from_array(StandardScaler().fit_transform(X), chunks=(50, 5))
        assert scale_texts(grown(8), scaled, labels) == []

    if not with_cluster:
        check()
        return
    with a_cluster(processes=False):
        check()
        # Few rows travel.
        monkeypatch.setattr(row_sample, "MAX_ROWS", 12 * 8)
        sizes = []
        monkeypatch.setattr(
            dask_cluster, "stacked", lambda parts: sizes.append([len(p) for p in parts]) or parts[0]
        )
        scale_texts(grown(8), rows, labels)
        assert len(sizes[0]) == 4
        assert all(2 <= size <= 4 for size in sizes[0])


def test_values_far_from_all_others_in_blocks():
    odd = X.copy()
    odd[::40, 3] = -9999.0
    model = DiscriminativeKMeans(6, metric="learned")
    (text,) = scale_texts(model, batches(odd, Y, 50, 50))
    assert [text] == scale_texts(model, odd, Y)
    assert text.startswith("Feature number 3 has a standard deviation of 1.66e+03, but most of")


def test_cosine():
    (text,) = scale_texts(grown(8, metric="cosine"), NAMED.drop(columns="kind"), Y)
    assert text == (
        "Feature 'magnesium' has 87.8% of the variance of all 13 features in unit vectors, so it "
        "decides most distances: use metric='learned', or scale the features, for instance with "
        "sklearn.preprocessing.StandardScaler, which also measures angles from the mean row."
    )
    (text,) = scale_texts(grown(8, metric="cosine"), sp.csr_array(X), Y)
    assert text.endswith(
        ": use metric='learned', or divide each feature by its standard deviation."
    )
    # Lengths do not count.
    lengths = np.logspace(-2, 2, len(X))[:, None]
    assert len(scale_texts(grown(8, metric="cosine"), X * lengths, Y)) == 1
    for scaled in (StandardScaler().fit_transform(X), X / X.std(axis=0)):
        assert scale_texts(grown(8, metric="cosine"), scaled * lengths, Y) == []
    digits = load_digits(return_X_y=True)
    assert scale_texts(grown(20, metric="cosine"), *digits) == []


def test_cosine_in_the_plane_has_one_angle():
    rng = np.random.default_rng(0)
    rows = np.c_[np.full(60, 100.0), rng.normal(size=60)]
    assert scale_texts(grown(4, metric="cosine"), rows, np.arange(60) % 2) == []
    assert scale_texts(grown(4, metric="cosine"), np.zeros((8, 5)), np.arange(8) % 2) == []


@pytest.mark.parametrize("n_words", [50, 2_000, 6_000])
@pytest.mark.parametrize("of_blocks", [False, True])
def test_text_has_no_feature_that_dominates(n_words, of_blocks):
    """Words are as frequent as in a language, and each class has its own among them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    shares = 1 / np.arange(1, n_words + 1)
    of_class = shares * rng.choice([1.0, 5.0], size=(3, n_words), p=[0.9, 0.1])
    of_class /= of_class.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(80, of_class[c]) for c in y])
    rows = TfidfTransformer().fit_transform(sp.csr_array(counts))
    halves = [(rows[:250], y[:250]), (rows[250:], y[250:])]
    data = (lambda: halves,) if of_blocks else (rows, y)
    assert scale_texts(grown(9, metric="cosine"), *data) == []
