"""Files of whole pipelines, small files, and files with the models on the way."""

import io
import json
import zipfile

import numpy as np
import pytest
from models import grown
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from test_files import CODES, ROWS, assert_same, forge, there_and_back
from test_table_pipeline import mixed

from dkmeans import ModelFileError, load, save, table_pipeline
from dkmeans.files import preprocessing
from dkmeans.files.packing import pack_arrays, unpack_arrays
from dkmeans.files.refusal import RefusedError
from dkmeans.tables import to_numbers

sio = pytest.importorskip("skops.io")

TRANSFORMERS = {
    "max abs": MaxAbsScaler(),
    "min max": MinMaxScaler((1, 2), clip=True),
    "normalizer": Normalizer(),
    "pca": PCA(2),
    "power": PowerTransformer(),
    "quantiles": QuantileTransformer(n_quantiles=20, random_state=3),
    "robust": RobustScaler(),
    "imputer": SimpleImputer(strategy="median"),
    "svd": TruncatedSVD(2),
    "variance": VarianceThreshold(),
    "integers": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "one-hot": OneHotEncoder(min_frequency=0.1, handle_unknown="ignore", sparse_output=False),
    "conversion": FunctionTransformer(to_numbers),
    "identity": FunctionTransformer(),
    "columns": ColumnTransformer(
        [("a", StandardScaler(), [0, 1]), ("b", "passthrough", slice(2, 3))], remainder="drop"
    ),
    "several": make_pipeline(SimpleImputer(), RobustScaler()),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_pipelines_come_back(tmp_path, name):
    model = make_pipeline(TRANSFORMERS[name], grown(6)).fit(ROWS, CODES)
    again = there_and_back(model, tmp_path)
    assert_same(model[-1], again[-1])
    assert [n for n, _ in again.steps] == [n for n, _ in model.steps]
    np.testing.assert_array_equal(again.transform(ROWS), model.transform(ROWS))
    np.testing.assert_array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))


def test_arrays_come_back_in_the_order_of_c(tmp_path):
    pca = PCA(2, random_state=0, svd_solver="randomized")
    model = make_pipeline(pca, grown(6)).fit(ROWS, CODES)
    again = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(again[0].components_, pca.components_)
    # The order of values in memory, and with it that of sums, may be another.
    np.testing.assert_allclose(again.transform(ROWS), model.transform(ROWS), rtol=1e-12)


def test_table_pipelines_come_back(tmp_path):
    frame, y = mixed()
    model = table_pipeline(frame, grown(6)).fit(frame, y)
    again = there_and_back(model, tmp_path)
    assert_same(model[-1], again[-1])
    assert again.feature_names_in_.tolist() == frame.columns.tolist()
    new = frame.assign(colour=["mauve", None, "pink", "red"] * 50)
    np.testing.assert_array_equal(again.transform(new), model.transform(new))
    assert (
        again[:-1].get_feature_names_out().tolist() == model[:-1].get_feature_names_out().tolist()
    )


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            PolynomialFeatures(2),
            "hold PolynomialFeatures: use joblib",
        ),
        (
            FunctionTransformer(np.abs),
            "FunctionTransformer with a function of your own: use joblib",
        ),
        (make_pipeline(KNeighborsTransformer()), "hold KNeighborsTransformer: use joblib"),
        (ColumnTransformer([("a", KNeighborsTransformer(), [0])]), "hold KNeighborsTransformer"),
        (
            ColumnTransformer([("a", StandardScaler(), make_column_selector("x"))]),
            "make_column_selector.*joblib",
        ),
    ],
)
def test_other_transformers_are_refused(tmp_path, step, message):
    import pandas as pd

    rows = pd.DataFrame(ROWS, columns=list("wxyz"))
    model = make_pipeline(step, grown(4)).fit(rows, CODES)
    with pytest.raises(TypeError, match=message):
        save(model, tmp_path / "model.dkm")
    assert not list(tmp_path.iterdir())


def test_pipelines_that_do_not_end_in_a_model_are_refused(tmp_path):
    with pytest.raises(
        TypeError, match="not a Pipeline of StandardScaler, MinMaxScaler: use joblib"
    ):
        save(make_pipeline(StandardScaler(), MinMaxScaler()), tmp_path / "model.dkm")


def with_pipeline(tmp_path, data):
    """A file with another pipeline in it than the one that was saved, and a right checksum."""
    model = make_pipeline(MinMaxScaler(), grown(4)).fit(ROWS, CODES)
    save(model, tmp_path / "model.dkm")

    def change(document, arrays):
        arrays["pipeline"] = np.frombuffer(data, dtype=np.uint8)

    path = tmp_path / "forged.dkm"
    path.write_bytes(forge((tmp_path / "model.dkm").read_bytes(), change))
    return path


def dumped(*steps):
    return sio.dumps(Pipeline([(str(n), step) for n, step in enumerate(steps)]))


def changed(data, change):
    """A skops file with another schema."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.namelist():
            text = old.read(entry)
            new.writestr(entry, change(text) if entry == "schema.json" else text)
    return out.getvalue()


HOSTILE = {
    "function": lambda: dumped(FunctionTransformer(np.sqrt).fit(ROWS), "passthrough"),
    "command": lambda: changed(
        dumped(FunctionTransformer(to_numbers), "passthrough"),
        lambda text: text.replace(b"dkmeans.tables.values", b"os").replace(
            b"to_numbers", b"system"
        ),
    ),
    "other estimator": lambda: dumped(KNeighborsTransformer().fit(ROWS), "passthrough"),
    "no steps": lambda: dumped("passthrough"),
    "no place": lambda: dumped(MinMaxScaler().fit(ROWS), MinMaxScaler().fit(ROWS)),
    "no pipeline": lambda: sio.dumps(MinMaxScaler()),
    "no zip": lambda: b"PK nothing",
    "no schema": lambda: changed(dumped("passthrough"), lambda text: b"[[[["),
    "deep schema": lambda: changed(dumped("passthrough"), lambda text: b"[" * 100_000),
    "wrong loader": lambda: changed(
        dumped(MinMaxScaler().fit(ROWS), "passthrough"),
        lambda text: text.replace(b'"ObjectNode"', b'"MethodNode"'),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_forged_pipelines_are_refused(tmp_path, name):
    path = with_pipeline(tmp_path, HOSTILE[name]())
    with pytest.raises(ModelFileError, match=r"pipeline|type"):
        load(path)


def test_a_pipeline_that_takes_too_much_memory_is_refused(monkeypatch):
    monkeypatch.setattr(preprocessing, "_MIN_ROOM", 0)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", json.dumps([]))
        file.writestr("zeros.npy", bytes(1 << 22))
    with pytest.raises(RefusedError, match="cannot be read"):
        preprocessing._check(out.getvalue())


def test_large_arrays_are_packed_without_loss():
    rng = np.random.default_rng(0)
    arrays = {
        "zeros": np.zeros((2, 300, 7)),
        "numbers": rng.normal(size=(50, 20)),
        "whole": np.arange(6000).reshape(3, -1),
        "small": np.arange(3.0),
        "centers": np.zeros((100, 100), dtype=np.float32),
    }
    packed, listed = pack_arrays(arrays)
    assert set(listed) == {"zeros", "numbers", "whole"}
    assert packed["zeros"].nbytes == -(-arrays["zeros"].nbytes // 64)
    again = unpack_arrays(packed, listed)
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        np.testing.assert_array_equal(again[name], array)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "object"},
        {"shape": [10**6, 10**6]},
        {"shape": [-1, 5]},
        {"shape": [2, 300, 6]},
        {"shape": [2, 300, 8]},
        {"shape": "big"},
        {"more": 1},
    ],
)
def test_wrong_packed_arrays_are_refused(change):
    packed, listed = pack_arrays({"sums": np.zeros((2, 300, 7))})
    with pytest.raises(RefusedError, match="packed array"):
        unpack_arrays(packed, {"sums": listed["sums"] | change})
    packed["sums"] = packed["sums"][::-1].copy()
    with pytest.raises(RefusedError, match="packed array"):
        unpack_arrays(packed, listed)


def test_files_of_models_with_large_sums_are_small(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 2000)
    X = rng.integers(0, 255, (2000, 300)) * (rng.random((2000, 300)) < 0.3) + 9.0 * y[:, None]
    model = grown(20).fit(X, y)
    again = there_and_back(model, tmp_path)
    assert_same(model, again)
    sums = model._fitted.earlier_rows.sums.nbytes
    assert (tmp_path / "model.dkm").stat().st_size < 0.4 * sums


@pytest.mark.parametrize("parameters", [{}, {"growth": "paper"}, {"max_clusters": "auto"}])
def test_models_on_the_way_are_kept_on_request(tmp_path, parameters):
    model = grown(**{"max_clusters": 12} | parameters).fit(ROWS, CODES)
    again = there_and_back(model, tmp_path, with_path=True)
    assert_same(model, again)
    for k in model.path_.clusters:
        assert_same(model.at(int(k)), again.at(int(k)))
    new = ROWS[:50] + 0.5, CODES[:50]
    k = int(model.path_.clusters[len(model.path_) // 2])
    assert_same(model.at(k).partial_fit(*new), again.at(k).partial_fit(*new))
    without = there_and_back(model, tmp_path)
    with pytest.raises(ValueError, match="without the models on the way"):
        without.at(k)
    with pytest.raises(ValueError, match="with_path=True: the model has no models on the way"):
        without.save(tmp_path / "other.dkm", with_path=True)


FORGED_WAYPOINTS = {
    "counts": lambda a: a["waypoints.counts"].__setitem__(0, 99),
    "ids": lambda a: a["waypoints.ids"].__setitem__(0, 10**6),
    "classes": lambda a: a["waypoints.class_codes"].__setitem__(0, 7),
    "inertia": lambda a: a["waypoints.numbers"].__setitem__((0, 3), -1.0),
    "missing": lambda a: a.pop("waypoints.sizes"),
    "memory": lambda a: a["waypoints.memory_ids"].__setitem__(0, 10**6),
}


@pytest.mark.parametrize("name", FORGED_WAYPOINTS)
def test_forged_models_on_the_way_are_refused(tmp_path, name):
    grown(4).fit(ROWS, CODES).save(tmp_path / "model.dkm", with_path=True)

    def change(document, arrays):
        for key in [key for key in arrays if key.startswith("waypoints.")]:
            arrays[key] = arrays[key].copy()
        FORGED_WAYPOINTS[name](arrays)

    path = tmp_path / "forged.dkm"
    path.write_bytes(forge((tmp_path / "model.dkm").read_bytes(), change))
    with pytest.raises(ModelFileError):
        load(path)
