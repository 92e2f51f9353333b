"""Model files: what is saved comes back to the last bit, and nothing else is believed."""

import contextlib
import csv
import hashlib
import io
import json
import os
import stat
import struct
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from safetensors.numpy import load as load_tensors
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import dkmeans
from dkmeans import DiscriminativeKMeans, ModelFileError, atomic, load, save
from dkmeans.files import to_csv, to_json, write
from dkmeans.geometry import name_of

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
STORED = Path(__file__).parent / "data" / "model-v1.dkm"
ROWS, CODES = load_iris(return_X_y=True)
TABLES = ("tree_", "history_", "path_", "changes_", "rejection_")
LABELS = {
    "int64": CODES - 1,
    "int8": CODES.astype(np.int8) - 1,
    "uint64": CODES.astype(np.uint64) + np.uint64(2**63),
    "float32": CODES.astype(np.float32),
    "bool": CODES == 1,
    "<U7": np.array(["a", "b\u00e9\U0001f600", '"q\\"[{']).astype("<U7")[CODES],
    "object": pd.Series(["setosa", "versicolor", "virginica"]).iloc[CODES].to_numpy(dtype=object),
}


def same_bits(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same_bits, a, b))
    if isinstance(a, np.ndarray) and a.dtype != object:
        return (
            a.dtype.kind == b.dtype.kind
            and a.shape == b.shape
            and (a.tobytes() == b.tobytes() if a.dtype.kind != "U" else bool((a == b).all()))
        )
    return type(a) is type(b) and bool(np.all(a == b))


def assert_same(a, b, *, leave_out=()):
    """All parameters and all that was fitted, to the last bit, but for the times of rounds."""
    assert a.get_params() == b.get_params()
    mine, theirs = (
        {n: v for n, v in vars(m).items() if n not in ("_fitted", *leave_out)} for m in (a, b)
    )
    assert mine.keys() == theirs.keys()
    for name in mine:
        if name in TABLES:
            assert mine[name].columns == theirs[name].columns
            for column in set(mine[name].columns) - {"seconds"}:
                assert same_bits(getattr(mine[name], column), getattr(theirs[name], column)), name
        else:
            assert same_bits(mine[name], theirs[name]), name
    assert a._fitted.weight_unit == b._fitted.weight_unit
    for part in ("ids", "classes", "weights", "sums"):
        mine, theirs = (getattr(m._fitted.earlier_rows, part) for m in (a, b))
        assert same_bits(mine, theirs), part


def there_and_back(model, folder, **options):
    save(model, folder / "model.dkm", **options)
    return load(folder / "model.dkm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


class TestRoundTrip:
    @pytest.mark.parametrize("kind", LABELS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_all_kinds_of_labels_come_back(self, folder, kind, dtype):
        X, y = ROWS.astype(dtype), LABELS[kind]
        model = grown(8).fit(X, y)
        again = there_and_back(model, folder)
        assert_same(model, again)
        assert again.classes_.dtype.kind == np.dtype(kind).kind
        if again.classes_.dtype.kind != "U":
            assert again.classes_.dtype == again.predict(X).dtype == kind
        assert same_bits(model.predict_proba(X), again.predict_proba(X))
        assert same_bits(model.transform(X), again.transform(X))

    @given(
        data=strategies.weighted(),
        options=st.sampled_from(
            [
                {},
                {"growth": "paper", "prune": True},
                {"metric": "cosine"},
                {"refine": "margin", "repulsion": 0.5},
                {"half_life": 20.0, "min_cluster_size": 0.5, "class_weight": {0: 1.0, 1: 2}},
                {"warm_start": True, "n_threads": 1, "memory_mb": 64.0},
            ]
        ),
        edit=st.sampled_from([None, "drop", "set_center", "partial_fit"]),
    )
    @settings(max_examples=strategies.examples(60))
    def test_going_on_after_loading_is_as_without(self, folder, data, options, edit):
        X, y, w = data
        model = grown(**options).fit(X, y, w)
        if edit == "drop" and model.n_clusters_ > 1:
            model.drop(model.cluster_ids_[0])
        elif edit == "set_center":
            model.set_center(model.cluster_ids_[-1], X[0])
        elif edit == "partial_fit":
            model.partial_fit(X + 1, np.roll(y, 1), sample_weight=w)
        again = there_and_back(model, folder)
        assert_same(model, again)
        assert same_bits(model.predict(X), again.predict(X))
        Z, z = X[::-1] + 0.5, np.where(y == y[0], y.max() + 1, y)  # with a class that is new
        if "class_weight" not in options:
            assert_same(model.partial_fit(Z, z), again.partial_fit(Z, z))
        assert_same(model.fit(X, y, w), again.fit(X, y, w))

    @pytest.mark.parametrize("options", [{"half_life": 70.0}, {"class_weight": {0: 0.3, 1: 0.7}}])
    def test_a_memory_of_fractions_comes_back(self, folder, options):
        rng = np.random.default_rng(0)
        order, w = rng.permutation(len(ROWS)), rng.random(len(ROWS)) + 0.1
        model = grown(12, **options)
        for part in np.array_split(order, 4):
            model.partial_fit(ROWS[part], CODES[part], sample_weight=w[part])
            again = there_and_back(model, folder)
            assert_same(model, again)
            model = again
        straight = grown(12, **options)
        for part in np.array_split(order, 4):
            straight.partial_fit(ROWS[part], CODES[part], sample_weight=w[part])
        assert (straight._fitted.earlier_rows.weights[0] % 0.1 > 0).any()
        assert (straight._fitted.earlier_rows.sums[1] != 0).any()  # trailing parts, too
        assert_same(straight, model)

    def test_models_on_the_way_can_be_saved_but_are_not_kept(self, folder):
        model = grown(30).fit(ROWS, CODES)
        small = model.at(10)
        assert_same(small, there_and_back(small, folder))
        again = there_and_back(model, folder)
        assert again.path_.clusters.tolist() == model.path_.clusters.tolist()
        with pytest.raises(ValueError, match="without the models on the way"):
            again.at(10)

    def test_auto_and_conflicts_come_back(self, folder):
        X, y = np.concatenate([ROWS, ROWS[:4], ROWS[7:8]]), np.append(CODES, [1, 1, 2, 2, 1])
        model = grown("auto").fit(X, y)
        assert len(model.conflicts_) > 1
        assert_same(model, there_and_back(model, folder))
        lean = there_and_back(model, folder, with_labels=False)
        assert not hasattr(lean, "labels_")
        assert not hasattr(lean, "conflicts_")
        assert (lean.exemplars_ == -1).all()
        assert lean.exemplars_.shape == model.exemplars_.shape
        assert_same(model, lean, leave_out=("labels_", "conflicts_", "exemplars_"))

    def test_feature_names_come_back(self, folder):
        table = pd.DataFrame(ROWS, columns=["a", "b [cm]", "\u00e7", '"'])
        model = grown(8).fit(table, CODES)
        again = there_and_back(model, folder)
        assert_same(model, again)
        assert same_bits(model.predict(table), again.predict(table))

    @pytest.mark.parametrize("options", [{}, {"with_mean": False}, {"with_std": False}])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_scaling_comes_back(self, folder, options, dtype):
        X = pd.DataFrame(ROWS.astype(dtype), columns=list("abcd"))
        model = make_pipeline(StandardScaler(**options), grown(8)).fit(X, CODES)
        again = there_and_back(model, folder)
        assert [name for name, _ in again.steps] == [name for name, _ in model.steps]
        assert_same(model[-1], again[-1])
        assert again.feature_names_in_.tolist() == list("abcd")
        assert same_bits(model.predict(X), again.predict(X))
        assert same_bits(model.predict_proba(X), again.predict_proba(X))
        for part in (model, again):
            part[0].partial_fit(X + 1)
        assert same_bits(model[0].transform(X), again[0].transform(X))

    def test_equal_models_make_equal_files(self, folder):
        model = grown(8).fit(ROWS, LABELS["object"])
        model.save(folder / "one.dkm")
        load(folder / "one.dkm").save(str(folder / "two.dkm"))
        assert (folder / "one.dkm").read_bytes() == (folder / "two.dkm").read_bytes()

    def test_other_programs_can_read_it(self, folder):
        model = grown(8).fit(ROWS, CODES)
        model.save(folder / "model.dkm")
        data = (folder / "model.dkm").read_bytes()
        assert same_bits(load_tensors(data)["centers"], model.cluster_centers_)
        (n,) = struct.unpack("<Q", data[:8])
        document = json.loads(json.loads(data[8 : 8 + n])["__metadata__"]["dkmeans"])
        assert document["classes"] == {"dtype": "int64", "values": [0, 1, 2]}
        assert document["library_version"] == dkmeans.__version__
        blank = data.replace(document["sha256"].encode(), b"0" * 64)
        assert hashlib.sha256(blank).hexdigest() == document["sha256"]

    def test_the_first_version_stays_loadable(self):
        model = load(STORED)
        scaler, prototypes = model[0], model[-1]
        expected = json.loads(STORED.with_suffix(".json").read_text())
        rows = np.array(expected["rows"])
        assert model.predict(rows).tolist() == expected["labels"]
        np.testing.assert_allclose(
            model.predict_proba(rows), expected["probabilities"], rtol=1e-12, atol=1e-15
        )
        assert prototypes.cluster_ids_.tolist() == expected["ids"]
        assert prototypes.get_params()["max_clusters"] == expected["max_clusters"]
        assert scaler.n_samples_seen_ == expected["n_samples_seen"]
        prototypes.partial_fit(scaler.transform(rows), expected["labels"])
        assert prototypes.cluster_sizes_.sum() == expected["n_samples_seen"] + len(rows)

    @pytest.mark.parametrize("missing", [(), ("metric",), ("max_clusters", "metric", "refine")])
    def test_files_of_the_first_version_mean_what_they_meant(self, folder, missing):
        def forget(document, arrays):
            for name in missing:
                del document["parameters"][name]

        (folder / "first.dkm").write_bytes(forge(STORED.read_bytes(), forget))
        model = load(folder / "first.dkm")[-1]
        then = {"max_clusters": None if "max_clusters" in missing else 7}
        then |= {"growth": "best", "refine": None, "metric": "euclidean", "repulsion": "size"}
        assert then.items() <= model.get_params().items()
        assert name_of(model._fitted.geometry) == "euclidean"
        # Fitting again does what it did then, not what the defaults of today do.
        names = np.array(["setosa", "versicolor", "virginica"])[CODES]
        again = clone(model).fit(ROWS, names)
        asked = DiscriminativeKMeans(class_weight={"setosa": 1.0}, **then).fit(ROWS, names)
        assert same_bits(again.cluster_centers_, asked.cluster_centers_)
        assert again.converged_ == ("max_clusters" in missing)
        assert set(again.history_.phase) == {"grow"}


class TestSaving:
    def test_what_cannot_be_saved_is_refused(self, tmp_path):
        fitted = grown(4).fit(ROWS, CODES)
        with pytest.raises(NotFittedError):
            grown().save(tmp_path / "model.dkm")
        with pytest.raises(TypeError, match="not StandardScaler"):
            save(StandardScaler(), tmp_path / "model.dkm")
        with pytest.raises(NotFittedError):
            save(make_pipeline(MinMaxScaler(), fitted), tmp_path / "model.dkm")
        with pytest.raises(ValueError, match="max_iter"):
            clone(fitted).fit(ROWS, CODES).set_params(max_iter=0).save(tmp_path / "model.dkm")
        assert os.listdir(tmp_path) == []

    def test_what_could_not_be_loaded_is_not_saved(self, tmp_path):
        model = grown(4).fit(ROWS, CODES)
        model.cluster_centers_[1, 2] = np.nan
        with pytest.raises(
            ValueError, match="cannot be saved, as its file has centres that are NaN"
        ):
            model.save(tmp_path / "model.dkm")
        assert os.listdir(tmp_path) == []

    def test_where_nothing_can_be_written(self, tmp_path):
        model = grown(4).fit(ROWS, CODES)
        with pytest.raises(FileNotFoundError, match="make it first"):
            model.save(tmp_path / "nowhere" / "model.dkm")
        with pytest.raises(IsADirectoryError, match="is a folder"):
            model.save(tmp_path)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_a_failure_leaves_the_earlier_file_and_nothing_else(self, tmp_path, monkeypatch, step):
        model = grown(4).fit(ROWS, CODES)
        model.save(tmp_path / "model.dkm")
        before = (tmp_path / "model.dkm").read_bytes()

        def fail(*_):
            raise OSError("disk full")

        monkeypatch.setattr(atomic.os, step, fail)
        with pytest.raises(OSError, match="disk full"):
            grown(8).fit(ROWS, CODES).save(tmp_path / "model.dkm")
        assert os.listdir(tmp_path) == ["model.dkm"]
        assert (tmp_path / "model.dkm").read_bytes() == before

    def test_readers_never_see_half_a_file(self, tmp_path):
        models = [grown(k).fit(ROWS, CODES) for k in (4, 40)]
        path = tmp_path / "model.dkm"
        models[0].save(path)
        done = threading.Event()

        def keep_writing():
            for i in range(40):
                models[i % 2].save(path)
            done.set()

        writer = threading.Thread(target=keep_writing)
        writer.start()
        seen = set()
        while not done.is_set():
            seen.add(load(path).n_clusters_)
        writer.join()
        assert seen <= {4, 40}
        assert os.listdir(tmp_path) == ["model.dkm"]

    @pytest.mark.skipif(os.name != "posix", reason="file modes and links as POSIX has them")
    def test_links_and_usual_rights(self, tmp_path):
        model = grown(4).fit(ROWS, CODES)
        (tmp_path / "plain").write_text("x")
        (tmp_path / "link.dkm").symlink_to(tmp_path / "model.dkm")
        model.save(tmp_path / "link.dkm")
        assert (tmp_path / "link.dkm").is_symlink()
        mode = stat.S_IMODE((tmp_path / "model.dkm").stat().st_mode)
        assert mode == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def small_file(folder):
    model = grown(3).fit(ROWS[:, :2], LABELS["<U7"]).set_rejection(ROWS[:, :2])
    model.save(folder / "small.dkm")
    return model, (folder / "small.dkm").read_bytes()


def refused(path, data=None):
    """The one sentence that a file is refused with, or None if it is not."""
    if data is not None:
        path.write_bytes(data)
    try:
        load(path)
    except ModelFileError as error:
        message = str(error)
    else:
        return None
    assert str(path) in message
    assert message.endswith(".")
    return message


def forge(data, change):
    """Change arrays and document of a file, and put the right sizes and checksum on it."""
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    document = json.loads(header["__metadata__"]["dkmeans"])
    document["sha256"] = "0" * 64
    arrays = load_tensors(data)
    change(document, arrays)
    header, chunks, at = {}, [], 0
    for name, array in arrays.items():
        kind = {"i8": "I64", "f8": "F64", "f4": "F32", "i4": "I32", "u1": "U8"}[array.dtype.str[1:]]
        span = [at, at + array.nbytes]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": span}
        chunks.append(array.tobytes())
        at += array.nbytes
    return sealed({"__metadata__": {"dkmeans": json.dumps(document)}, **header}, b"".join(chunks))


def sealed(header, body):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    whole = struct.pack("<Q", len(text)) + text + body
    if whole.count(b"0" * 64) == 1:
        whole = whole.replace(b"0" * 64, hashlib.sha256(whole).hexdigest().encode())
    return whole


def put(*keys, value):
    def change(document, arrays):
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


def array(name, value):
    def change(document, arrays):
        arrays[name] = np.asarray(value(arrays[name]) if callable(value) else value)

    return change


def at(name, index, value):
    def change(document, arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return change


def without(name):
    return lambda document, arrays: (document.pop(name, None), arrays.pop(name, None))


HOSTILE = {
    "NaN in a centre": at("centers", (0, 0), np.nan),
    "infinity in a centre": at("centers", (0, 0), -np.inf),
    "whole numbers as centres": array("centers", lambda a: a.astype(np.int64)),
    "small whole numbers as ids": array("ids", lambda a: a.astype(np.int32)),
    "bytes as codes": array("class_codes", lambda a: a.astype(np.uint8)),
    "centres of other features": array("centers", lambda a: a[:, :1]),
    "fewer centres": array("centers", lambda a: a[1:]),
    "no centres": array("centers", lambda a: a[:0]),
    "flat centres": array("centers", np.ravel),
    "an unknown class": at("class_codes", -1, 7),
    "a class below zero": at("class_codes", 0, -1),
    "prototypes out of order": array("class_codes", lambda a: a[::-1]),
    "an id twice": array("ids", lambda a: np.full_like(a, a[0])),
    "an unknown id": at("ids", -1, 10**9),
    "an id below zero": at("ids", 0, -1),
    "negative sizes": at("sizes", 0, -1.0),
    "NaN as a size": at("sizes", 0, np.nan),
    "labels beyond": at("labels", 0, 3),
    "labels below": at("labels", 0, -1),
    "labels as floats": array("labels", lambda a: a.astype(np.float64)),
    "a conflict that ends late": array("conflict_ends", np.array([5])),
    "conflicts without end": without("conflict_ends"),
    "a circle in the tree": array("tree.parent", lambda a: np.roll(np.arange(len(a)), -1)),
    "a tree of unknown classes": at("tree.label", 0, 99),
    "a tree of other classes": array("tree.label", np.zeros_like),
    "a tree with a column of its own": lambda d, a: (
        a.update({"tree.extra": a["tree.id"]}),
        d["tables"]["tree"].update(extra=None),
    ),
    "a short column": array("tree.call", lambda a: a[1:]),
    "a column as a matrix": array("history.round", lambda a: a[:, None]),
    "no tree": lambda d, a: [d["tables"].pop("tree"), *(a.pop(n) for n in list(a) if "tree." in n)],
    "a tree without arrays": lambda d, a: [a.pop(n) for n in list(a) if "tree." in n],
    "no memory": without("memory_sums"),
    "a memory of nobody": at("memory_ids", 0, 10**6),
    "a memory of no class": at("memory_class_codes", 0, -5),
    "a memory without weight": at("memory_weights", (0, 0), 0.0),
    "a memory at infinity": at("memory_sums", (0, 0, 0), np.inf),
    "a memory twice": lambda d, a: [
        a.__setitem__(n, np.repeat(a[n], 2, axis=0 if a[n].ndim == 1 else 1))
        for n in ("memory_ids", "memory_class_codes", "memory_weights", "memory_sums")
    ],
    "thresholds of others": array("rejection.id", lambda a: a[::-1]),
    "thresholds of other classes": array("rejection.label", np.zeros_like),
    "a threshold too few": lambda d, a: [
        a.__setitem__(n, a[n][1:]) for n in list(a) if n.startswith("rejection.")
    ],
    "a threshold below zero": at("rejection.threshold", 0, -1.0),
    "NaN as a threshold": at("rejection.threshold", 0, np.nan),
    "a threshold at infinity": at("rejection.threshold", 0, np.inf),
    "a threshold of no rows": at("rejection.rows", 0, 0),
    "a rate of one": at("rejection.rate", 0, 1.0),
    "a rate of NaN": at("rejection.rate", 0, np.nan),
    "thresholds per something": put("tables", "rejection", "per", value=["x"]),
    "thresholds per number": put("tables", "rejection", "per", value=None),
    "changes of nobody": at("changes.id", 0, 10**6),
    "words that are missing": put("tables", "changes", "change", value=[]),
    "words without end": put("tables", "changes", "change", value=["x" * 10**6]),
    "words for numbers": put("tables", "history", "inertia", value=["x"]),
    "an unknown table": put("tables", "secrets", value={"id": None}),
    "an unlisted column": lambda d, a: d["tables"]["history"].pop("round"),
    "a column that is not there": put("tables", "history", "mood", value=None),
    "an array too many": array("weights_of_something", np.zeros(3)),
    "no classes": put("classes", value={"dtype": "text", "values": []}),
    "classes out of order": put("classes", "values", value=["b", "a", "c"]),
    "a class twice": put("classes", "values", value=["a", "a", "c"]),
    "fewer classes": put("classes", "values", value=["a"]),
    "numbers as text": put("classes", "values", value=[1, 2, 3]),
    "text as numbers": put("classes", "dtype", value="int64"),
    "classes as objects of anything": put("classes", "values", value=[{}, [], None]),
    "numbers too large": put("classes", value={"dtype": "int8", "values": [1, 2, 300]}),
    "an endless float": put("classes", value={"dtype": "float32", "values": [1, 2, 1e300]}),
    "classes of an odd type": put("classes", "dtype", value="datetime64[ns]"),
    "classes of a huge type": put("classes", "dtype", value="<U1000000000"),
    "one long class, many short": put(
        "classes", "values", value=sorted(["x" * 10**6, *(f"{i}" for i in range(10**5))])
    ),
    "names for other features": put("feature_names", value=["a"] * 7),
    "numbers as names": put("feature_names", value=[1, 2]),
    "another number of features": put("n_features", value=10**12),
    "features by halves": put("n_features", value=2.0),
    "an unknown parameter": put("parameters", "telepathy", value=1),
    "a parameter out of range": put("parameters", "max_iter", value=-1),
    "a parameter of another type": put("parameters", "repulsion", value=[[]]),
    "a class weight that is none": put("parameters", "class_weight", value={"a": 1}),
    "a class weight below zero": put(
        "parameters", "class_weight", value={"classes": ["a"], "weights": [-1]}
    ),
    "no parameters": put("parameters", value=None),
    "no results": put("fitted", value={}),
    "rounds by halves": put("fitted", "n_iter", value=1.5),
    "a weight unit of zero": put("fitted", "weight_unit", value=0),
    "no document to speak of": lambda d, a: d.clear(),
    "version 0": put("format_version", value=0),
    "version 3": put("format_version", value=3),
    "version as text": put("format_version", value="1"),
    "a version of many digits": put("format_version", value=10**4000),
    "a scaling that is none": put("scaling", value=[1]),
    "a scaling without arrays": put(
        "scaling",
        value={"steps": ["a", "b"], "with_mean": True, "with_std": True, "feature_names": None},
    ),
}
_DOCUMENT = json.dumps({"sha256": "0" * 64, "format_version": 1})
_ABOUT = {"__metadata__": {"dkmeans": _DOCUMENT}}
HEADERS = {
    "empty": "{}",
    "a list": "[]",
    "text": '"x"',
    "not JSON": "{oops",
    "no metadata": {"centers": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}},
    "foreign metadata": {"__metadata__": {"format": "pt"}},
    "metadata of numbers": {"__metadata__": {"dkmeans": 1}},
    "a huge shape": {
        **_ABOUT,
        "centers": {"dtype": "F64", "shape": [10**9, 10**9], "data_offsets": [0, 8]},
    },
    "a shape that overflows": {
        **_ABOUT,
        "centers": {"dtype": "F64", "shape": [2**32, 2**32], "data_offsets": [0, 0]},
    },
    "a shape below zero": {
        **_ABOUT,
        "centers": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]},
    },
    "huge and empty": {
        **_ABOUT,
        "centers": {"dtype": "F64", "shape": [0, 2**61], "data_offsets": [0, 0]},
        "ids": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
    },
    "offsets beyond": {
        **_ABOUT,
        "centers": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]},
    },
    "offsets backwards": {
        **_ABOUT,
        "centers": {"dtype": "F64", "shape": [1], "data_offsets": [8, 0]},
    },
    "overlapping": {
        **_ABOUT,
        "centers": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
        "ids": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
    },
    "an unknown type": {
        **_ABOUT,
        "centers": {"dtype": "F128", "shape": [1], "data_offsets": [0, 8]},
    },
    "a type that is none": {
        **_ABOUT,
        "centers": {"dtype": ["F64"], "shape": [1], "data_offsets": [0, 8]},
    },
    "many dimensions": {
        **_ABOUT,
        "centers": {"dtype": "F64", "shape": [1] * 64, "data_offsets": [0, 8]},
    },
    "deep lists": "[" * 100_000,
    "deep objects": '{"a":' * 100_000,
    "deep and closed": '{"a":' + "[" * 900 + "]" * 900 + "}",
    "deep inside": json.dumps({"__metadata__": {"dkmeans": "[" * 100_000 + "]" * 100_000}}),
    "wide": '{"a":[' + "[]," * 1_000_000 + "[]]}",
    "many quotes": '{"' + '\\"' * 1_000_000,
    "a name twice": '{"__metadata__":{"dkmeans":"{}"},"__metadata__":{"dkmeans":"{}"}}',
    "NaN": '{"__metadata__":{"dkmeans":"{\\"format_version\\":NaN}"}}',
    "a number of many digits": '{"__metadata__":' + "9" * 100_000 + "}",
    "lone surrogates": '{"__metadata__":{"dkmeans":"\\ud800"}}',
    "bytes that are no text": b"{\xff\xfe}".decode("latin-1"),
}


class TestDamage:
    """Whatever is in a file, it is a model or there is one sentence about it."""

    def test_forging_works(self, folder):
        # Else the tests below would be refused for the wrong reason.
        model, data = small_file(folder)
        (folder / "forged.dkm").write_bytes(forge(data, lambda document, arrays: None))
        assert_same(model, load(folder / "forged.dkm"))

    def test_every_truncation_is_refused(self, folder):
        _, data = small_file(folder)
        cases = [*range(0, 200), *range(200, len(data), 13), *range(len(data) - 64, len(data))]
        assert len(cases) > 500
        for n in cases:
            assert refused(folder / "cut.dkm", data[:n]), n
        for more in (b"\0", b"\0" * 8, data):
            assert refused(folder / "cut.dkm", data + more)

    def test_every_flipped_bit_is_noticed(self, folder):
        _, data = small_file(folder)
        rng = np.random.default_rng(0)
        header = 8 + struct.unpack("<Q", data[:8])[0]
        bits = np.concatenate(
            [
                np.arange(64),
                rng.choice(8 * header, 1500, replace=False),
                8 * header + rng.choice(8 * (len(data) - header), 1500, replace=False),
            ]
        )
        for bit in bits.tolist():
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            assert refused(folder / "flipped.dkm", bytes(flipped)), bit

    @pytest.mark.parametrize("name", HOSTILE)
    def test_forged_models_are_refused_though_the_checksum_is_right(self, folder, name):
        _, data = small_file(folder)
        message = refused(folder / "forged.dkm", forge(data, HOSTILE[name]))
        assert message
        assert "checksum" not in message or name == "no document to speak of"
        assert len(message) < 600 + len(str(folder))
        if name.startswith("version") and name != "version as text":
            assert "update dkmeans" in message

    @pytest.mark.parametrize("name", HEADERS)
    def test_hostile_headers_are_refused_without_much_memory(self, folder, name):
        header = HEADERS[name]
        text = header if isinstance(header, str) else json.dumps(header)
        data = struct.pack("<Q", len(text.encode("latin-1"))) + text.encode("latin-1") + b"\0" * 8
        data = data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode())
        (folder / "hostile.dkm").write_bytes(data)
        tracemalloc.start()
        try:
            assert refused(folder / "hostile.dkm")
            assert tracemalloc.get_traced_memory()[1] < (1 << 22) + 12 * len(data)
        finally:
            tracemalloc.stop()

    @given(data=st.binary(max_size=300), start=st.sampled_from([b"", struct.pack("<Q", 40) + b"{"]))
    def test_any_bytes_are_refused(self, folder, data, start):
        assert refused(folder / "any.dkm", start + data)

    @given(seed=st.integers(0, 2**32 - 1))
    @settings(max_examples=strategies.examples(150))
    def test_wrong_values_with_a_right_checksum_do_no_harm(self, folder, seed):
        """Bits of arrays flip before the checksum is made: a model, or a sentence."""
        _, data = small_file(folder)
        rng = np.random.default_rng(seed)

        def change(document, arrays):
            for name in rng.choice(list(arrays), 2):
                raw = bytearray(arrays[name].tobytes())
                if raw:
                    raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
                arrays[name] = np.frombuffer(raw, arrays[name].dtype).reshape(arrays[name].shape)

        if refused(folder / "odd.dkm", forge(data, change)) is None:
            model = load(folder / "odd.dkm")
            repr(model.history_), model.tree_.ancestors(len(model.tree_) - 1)
            # Centres may have become too large to be squared, which has a sentence of its own.
            with contextlib.suppress(ValueError):
                model.predict(ROWS[:5, :2])
                model.unknown_score(ROWS[:5, :2])

    def test_other_things_are_refused(self, folder, tmp_path):
        text = tmp_path / "plain.dkm"
        assert "not a dkmeans model file" in refused(text, b"Dear all,\n" * 50)
        assert refused(text, b"")
        assert refused(tmp_path)
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "nowhere.dkm")
        with pytest.raises(ValueError, match=r"plain\.dkm"):  # as people catch it
            load(text)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
    def test_a_pipe_does_not_hang(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.dkm")
        assert refused(tmp_path / "pipe.dkm")

    def test_a_large_file_of_nothing_is_not_read(self, tmp_path):
        path = tmp_path / "sparse.dkm"
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", 2) + b"{}")
            file.truncate(1 << 36)
        tracemalloc.start()
        try:
            assert refused(path)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


class TestTables:
    def test_json_has_all_that_is_needed_to_classify(self, tmp_path):
        X = pd.DataFrame(ROWS.astype(np.float32), columns=["a", "b", "c", "d, [\u00b5m]"])
        model = make_pipeline(StandardScaler(), grown(12)).fit(X, LABELS["<U7"])
        write(model, tmp_path / "model.json")
        about = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
        assert about["features"] == X.columns.tolist()
        assert about["classes"] == model.classes_.tolist()
        scaled = (ROWS - about["scaling"]["mean"]) / about["scaling"]["scale"]
        centers = np.array([p["center"] for p in about["prototypes"]])
        assert same_bits(centers.astype(np.float32), model[-1].cluster_centers_)
        nearest = ((scaled[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        found = [about["prototypes"][i]["class"] for i in nearest]
        assert found == model.predict(X).tolist()
        assert [p["id"] for p in about["prototypes"]] == model[-1].cluster_ids_.tolist()
        assert sum(p["size"] for p in about["prototypes"]) == len(X)

    def test_csv_has_a_line_per_prototype(self, tmp_path):
        model = grown(12).fit(ROWS, LABELS["<U7"])
        write(model, tmp_path / "model.CSV")
        lines = list(csv.DictReader(io.StringIO((tmp_path / "model.CSV").read_text("utf-8"))))
        assert list(lines[0]) == ["id", "class", "size", "x0", "x1", "x2", "x3"]
        assert [line["class"] for line in lines] == model.cluster_classes_.tolist()
        found = [[float(line[f"x{j}"]) for j in range(4)] for line in lines]
        assert same_bits(np.array(found), model.cluster_centers_)

    def test_csv_speaks_of_features_as_they_were(self):
        scaled = make_pipeline(StandardScaler(), grown(3)).fit(ROWS, CODES)
        lines = list(csv.reader(io.StringIO(to_csv(scaled))))
        found = np.array([line[3:] for line in lines[1:]], dtype=float)
        expected = scaled[0].inverse_transform(scaled[-1].cluster_centers_)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_without_scaling_it_says_so(self):
        about = json.loads(to_json(grown(3).fit(ROWS, CODES)))
        assert about["scaling"] is None
        assert about["metric"] == "euclidean"

    def test_an_unknown_ending_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match=r"\.onnx, \.json, \.csv"):
            write(grown(3).fit(ROWS, CODES), tmp_path / "model.txt")
        assert os.listdir(tmp_path) == []
