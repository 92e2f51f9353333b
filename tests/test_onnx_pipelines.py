"""ONNX graphs of whole pipelines: of tables, and of all that skl2onnx converts."""

import numpy as np
import pytest
from models import grown
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from test_table_pipeline import mixed

from dkmeans import table_pipeline, to_onnx
from dkmeans.tables import to_numbers

onnxruntime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

ROWS, CODES = load_iris(return_X_y=True)
NAMES = load_iris().target_names[CODES]


def run(graph, inputs):
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    return session.run(None, inputs)


def inputs_of(frame):
    """The columns of a table as a graph takes them."""
    found = {}
    for name in frame.columns:
        if name == "colour":
            text = [c if isinstance(c, str) else "" for c in frame[name]]
            found[name] = np.array(text, dtype=object)[:, None]
        else:
            found[name] = to_numbers(frame[[name]])
    return found


@pytest.mark.parametrize("columns", [None, ["height", "visits"], ["colour"], ["member", "since"]])
def test_table_pipelines(columns):
    frame, y = mixed()
    model = table_pipeline(frame, grown(6), columns=columns).fit(frame, y)
    new = frame.assign(colour=["pink", None, "red", "mauve"] * 50)[[*(columns or frame.columns)]]
    label, probabilities = run(to_onnx(model), inputs_of(new))
    assert label.tolist() == model.predict(new).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(new), rtol=1e-12, atol=1e-14)


def test_texts_that_are_empty_or_missing_cannot_be_told_apart():
    frame, y = mixed()
    frame["colour"] = ["", None, "red", "blue"] * 50
    model = table_pipeline(frame, grown(3)).fit(frame, y)
    with pytest.raises(ValueError, match="Column 'colour' has empty texts and missing ones"):
        to_onnx(model)


STEPS = {
    "min max": MinMaxScaler(),
    "max abs": MaxAbsScaler(),
    "robust": RobustScaler(),
    "pca": PCA(3),
    "lengths": Normalizer(),
    "several": make_pipeline(StandardScaler(), PCA(2)),
    "columns": ColumnTransformer(
        [("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [2, 3])], remainder="drop"
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", STEPS)
def test_pipelines_that_skl2onnx_knows(name, dtype):
    X = ROWS.astype(dtype)
    model = make_pipeline(STEPS[name], grown(6)).fit(X, NAMES)
    graph = to_onnx(model, X)
    assert [output.name for output in graph.graph.output] == ["label", "probabilities"]
    label, probabilities = run(graph, {graph.graph.input[0].name: X})
    assert probabilities.dtype == dtype
    assert (label == model.predict(X)).mean() > 0.99  # a row on a border may be rounded across it
    tolerance = 1e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=tolerance)


@pytest.mark.parametrize("labels", [CODES, CODES.astype(float), CODES == 1, NAMES])
def test_labels_of_all_kinds(labels):
    model = make_pipeline(MinMaxScaler(), grown(6)).fit(ROWS, labels)
    label, _ = run(to_onnx(model), {"features": ROWS})
    assert label.tolist() == model.predict(ROWS).tolist()


def test_missing_values_in_float32():
    X = ROWS.astype(np.float32)
    X[::7, 1] = np.nan
    steps = SimpleImputer(strategy="median"), RobustScaler(), grown(6)
    model = make_pipeline(*steps).fit(X, CODES)
    label, _ = run(to_onnx(model, X), {"X": X})
    assert label.tolist() == model.predict(X).tolist()


def test_the_last_step_alone_warns():
    pipeline = make_pipeline(RobustScaler(), grown(4)).fit(ROWS, CODES)
    with pytest.warns(UserWarning, match="needs what RobustScaler make of rows: pass the whole"):
        to_onnx(pipeline[-1])
    with pytest.warns(UserWarning, match="last step of a pipeline"):
        pipeline[-1].to_onnx()
    model = grown(4).fit(ROWS, CODES)
    to_onnx(model)
    to_onnx(make_pipeline(model))
