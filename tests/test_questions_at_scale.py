"""Questions about rows that are not in memory have the answers of the same rows in memory."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from models import grown
from pyarrow import parquet as pq

from dkmeans import Condenser, DiscriminativeKMeans, condense
from dkmeans.data import TableBlocks
from dkmeans.data.blocks import SourceError

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
METRICS = (
    pytest.param("euclidean", marks=pytest.mark.study),
    pytest.param("cosine", marks=pytest.mark.study),
    "learned",
)


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = (rng.normal(size=(300, 4)) + 1.5 * y[:, None]).astype(np.float32)
    X[200:205] = X[:5]
    return X, np.array(["red", "green", "blue"])[y], rng.integers(1, 4, 300).astype(float)


def sources(X, y, w, folder):
    """The same rows as all kinds of data that a fit takes, with names of labels and weights."""
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    halves = slice(0, 130), slice(130, 130), slice(130, 300)
    columns = dict(zip("abcd", X.T, strict=True)) | {"kind": y, "weight": w}
    (folder / "tables").mkdir()
    for number, half in enumerate(halves):
        part = pa.table({name: values[half] for name, values in columns.items()})
        pq.write_table(part, folder / "tables" / f"{number}.parquet")
    np.save(folder / "rows.npy", X)
    mapped = np.memmap(folder / "rows", X.dtype, "w+", shape=X.shape)
    mapped[:] = X
    frame = dd.from_pandas(pa.table(columns).to_pandas(), npartitions=3)
    return {
        "path": (folder / "tables", "kind", "weight"),
        "paths": ([str(folder / "tables" / f"{n}.parquet") for n in range(3)], "kind", "weight"),
        "array file": (str(folder / "rows.npy"), y, w),
        "table": (TableBlocks(folder / "tables", "kind", "weight", list("abcd")), None, None),
        "batches": (lambda: [(X[h], y[h], w[h]) for h in halves], None, None),
        "map": (mapped, y, w),
        "Dask array": (
            da.from_array(X, chunks=(90, 4)),
            da.from_array(y, chunks=90),
            da.from_array(w, chunks=90),
        ),
        "Dask frame": (frame, "kind", "weight"),
    }


def equal(a, b):
    """Whether two tables are the same, bit for bit."""
    for name, values in a.items():
        assert values.tolist() == b[name].tolist(), name


def columns(table):
    return {name: np.asarray(values) for name, values in table.to_pandas().items()}


class Dataset:
    """Batches by number, as data loaders have them."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, number):
        return self.batches[number]

    def __iter__(self):
        return iter(self.batches)


@pytest.mark.parametrize("metric", [*METRICS, "auto"])
@pytest.mark.parametrize("method", ["fit", pytest.param("partial_fit", marks=pytest.mark.study)])
def test_fits_take_what_questions_take(labelled, tmp_path, metric, method):
    X, y, w = labelled
    every = sources(X, y, w, tmp_path)
    paths = every["paths"]
    every["pathlib paths"] = ([Path(path) for path in paths[0]], *paths[1:])
    every["data set"] = (Dataset(every["batches"][0]()), None, None)
    expected = getattr(grown(12, metric=metric), method)(X, y, sample_weight=w)
    for kind, (rows, labels, weights) in every.items():
        found = getattr(grown(12, metric=metric), method)(rows, labels, sample_weight=weights)
        np.testing.assert_array_equal(
            found.cluster_centers_, expected.cluster_centers_, err_msg=kind
        )


@pytest.mark.parametrize("metric", METRICS)
def test_answers_are_those_in_memory(labelled, tmp_path, metric):
    X, y, w = labelled
    model = grown(12, metric=metric).fit(X, y)
    expected = (
        columns(model.explain(X)),
        columns(model.suspects(X, y, sample_weight=w)),
        columns(model.set_rejection(X).rejection_),
        model.score(X, y, w),
        model.memberships(X, 1.5),
        model.calibrate(X, y).temperature_,
        model.predict_set(X, 0.2),
        model.predict(X).tolist(),
        columns(model.explain(X, y)),
    )
    plain = model.set_params(memory_mb=0.003)  # so little that rows go to the file
    named = grown(12, metric=metric, memory_mb=0.003).fit(labelled_frame(X), y)
    for name, (rows, labels, weights) in sources(X, y, w, tmp_path).items():
        small = named if name in ("path", "paths", "table", "Dask frame") else plain
        unlabelled = rows
        equal(columns(small.explain(unlabelled)), expected[0])
        equal(columns(small.suspects(rows, labels, sample_weight=weights)), expected[1])
        equal(columns(small.set_rejection(unlabelled).rejection_), expected[2])
        assert small.score(rows, labels, weights) == expected[3], name
        lazy = name.startswith("Dask")
        given = rows[list("abcd")] if name == "Dask frame" else rows
        shares = small.memberships(given, 1.5)
        np.testing.assert_array_equal(shares.compute() if lazy else shares, expected[4])
        assert small.calibrate(rows, labels).temperature_ == expected[5], name
        sets, labels_found = small.predict_set(given, 0.2), small.predict(given)
        if lazy:
            sets, labels_found = sets.compute(), labels_found.compute()
        np.testing.assert_array_equal(sets, expected[6])
        assert labels_found.tolist() == expected[7], name
        if isinstance(labels, str):
            equal(columns(small.explain(rows, labels)), expected[8])


def labelled_frame(X):
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))


@pytest.mark.parametrize("keep", ["prototypes", "exemplars"])
def test_condensed_rows_are_those_in_memory(labelled, tmp_path, keep):
    X, y, w = labelled
    settings = {"keep": keep, "refine": None, "metric": "cosine", "growth": "paper"}
    whole = condense(X, y, 0.04, sample_weight=w, **settings)
    given = sources(X, y, w, tmp_path)
    for name in ("path", "batches", "Dask array"):
        rows, labels, weights = given[name]
        small = condense(rows, labels, 0.04, sample_weight=weights, **settings, memory_mb=0.01)
        for one, other in zip(small, whole, strict=True):
            np.testing.assert_array_equal(one, other)


def test_sparse_batches(labelled):
    X, y, _ = labelled
    X = np.where(X > 1, X, 0)
    model = grown(9, memory_mb=0.002).fit(X, y)
    rows = sp.csr_array(X)

    def batches():
        return [(rows[:100], y[:100]), (rows[100:], y[100:])]

    equal(columns(model.suspects(batches)), columns(model.suspects(rows, y)))
    equal(columns(model.explain(batches)), columns(model.explain(rows)))
    assert model.score(batches) == model.score(X, y)
    one, other = (condense(d, n=9, keep="exemplars") for d in (batches, lambda: [(rows, y)]))
    np.testing.assert_array_equal(one.X.toarray(), other.X.toarray())
    assert Condenser(9).fit(batches, None).estimator_.n_clusters_ == 9


def wrong_weights(w):
    """Weights that will not do, the block of the first that is wrong, and what is said of them."""
    bad = w.copy()
    bad[150] = np.nan
    odd = r"sample_weight has nan at row {}: weights must be finite"
    short = r"sample_weight.shape == \({},\), expected"
    yield bad, 1, odd.format(150), odd.format(20)
    yield w[:-1], 1, short.format(299), short.format(169)
    yield 0 * w, None, "sample_weight is zero for every row", "sample_weight is zero for every row"


@pytest.mark.parametrize("question", ["score", "suspects"])
def test_wrong_weights_are_told_alike(labelled, question):
    X, y, w = labelled
    ask = getattr(grown(9).fit(X, y), question)
    for weights, number, told, told_of_block in wrong_weights(w):
        with pytest.raises(ValueError, match=f"^{told}"):
            ask(X, y, sample_weight=weights)
        where = "^" if number is None else f"^In batch {number}: "
        halves = [(X[h], y[h], weights[h]) for h in (slice(0, 130), slice(130, 300))]
        with pytest.raises(ValueError, match=where + told_of_block):
            ask(lambda halves=halves: halves)


def test_the_score_does_not_depend_on_blocks_or_order(labelled):
    X, y, _ = labelled
    w = np.random.default_rng(1).random(300) * 10.0 ** np.arange(-150, 150)
    w[::7] *= -1  # as scikit-learn allows
    model = grown(9).fit(X, y)
    right = model.predict(X) == y
    assert not right.all()
    exact = float(sum(map(Fraction, w[right]))) / float(sum(map(Fraction, w)))
    assert model.score(X, y, w) == exact
    mixed = np.random.default_rng(2).permutation(300)
    assert model.score(X[mixed], y[mixed], w[mixed]) == exact
    for size in (1, 7, 300):
        parts = np.split(mixed, range(size, 300, size))
        assert model.score([(X[p], y[p], w[p]) for p in parts].__iter__) == exact


@pytest.mark.parametrize("unit", [2.0**1023, 5e-324])
def test_the_unit_of_weights_does_not_change_the_score(labelled, unit):
    X, y, _ = labelled
    model = grown(9).fit(X, y)
    weights = np.full(300, unit)
    halves = [(X[h], y[h], weights[h]) for h in (slice(0, 99), slice(99, 300))]
    assert model.score(X, y, weights) == model.score(lambda: halves) == model.score(X, y) < 1


def test_labels_of_both_kinds_are_told_alike(labelled):
    X, y, w = labelled
    model = grown(9).fit(X, y)

    def batches():
        return [(X[:100], y[:100], w[:100]), (X[100:], np.arange(200), w[100:])]

    for ask in (model.suspects, model.score, model.calibrate):
        with pytest.raises(SourceError, match=r"In batch 1: y has labels such as 0, but .* text"):
            ask(batches)
    model.explain(batches)  # which needs no labels


def test_what_is_wrong_is_said(labelled, tmp_path):
    X, y, _ = labelled
    model = DiscriminativeKMeans.paper(9, memory_mb=0.001, disk_mb=0.001).fit(X, y)
    with pytest.raises(SourceError, match=r"files than the 0\.001 MiB that disk_mb"):
        model.explain(lambda: [(X, y)])
    bad = np.where(X > 3, np.nan, X)
    with pytest.raises(SourceError, match=r"In batch 1: .*NaN"):
        model.suspects(lambda: [(X[:2], y[:2]), (bad, y)])
    with pytest.raises(SourceError, match=r"In batch 0: .*expecting 4 features"):
        model.score(lambda: [(X[:, :2], y)])
    with pytest.raises(SourceError, match="no rows"):
        model.set_rejection(lambda: [])
    with pytest.raises(SourceError, match="no file or folder"):
        model.explain(tmp_path / "nothing.parquet")
    with pytest.raises(SourceError, match="name of the label column"):
        model.score(tmp_path / "nothing.parquet", y)
    pq.write_table(pa.table({"a": X[:, 0], "kind": y}), tmp_path / "t.parquet")
    model.fit(labelled_frame(X), y)
    with pytest.raises(SourceError, match="no column 'b', which the model was fitted on"):
        model.explain(tmp_path / "t.parquet")
    with pytest.raises(SourceError, match=r"columns of X are \['a'\], but the estimator"):
        model.score(TableBlocks(tmp_path / "t.parquet", "kind"))
    with pytest.raises(ValueError, match="y is None, but X is given"):
        model.suspects(X)
    with pytest.raises(ValueError, match=r"needs the class labels .* y is None"):
        model.calibrate(labelled_frame(X))
    with pytest.raises(SourceError, match=r"no file .*nothing\.npy"):
        model.explain(tmp_path / "nothing.npy")
    (tmp_path / "text.npy").write_text("a,b")
    with pytest.raises(SourceError, match=r"text\.npy is not a \.npy file"):
        model.fit(tmp_path / "text.npy", y)
