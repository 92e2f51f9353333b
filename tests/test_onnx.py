"""ONNX graphs, run by onnxruntime, beside `predict` and `predict_proba`."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans.files import to_onnx, write

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
DTYPES = (np.float32, np.float64)
METRICS = ("euclidean", "cosine", "learned")


def run(graph, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(["label", "probabilities"], {"features": X})


def compare(model, X):
    """The same labels, the same probabilities but for rounding, and both agree."""
    label, probabilities = run(to_onnx(model), X)
    assert label.tolist() == model.predict(X).tolist()
    assert probabilities.dtype == X.dtype
    bound = (8 + len(model.classes_)) * np.finfo(X.dtype).eps
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=bound)
    assert model.classes_[probabilities.argmax(axis=1)].tolist() == label.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scaled", [False, True])
def test_labels_equal_predict_on_digits(dtype, metric, scaled):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    model = grown(80, metric=metric)
    if scaled:
        model = make_pipeline(StandardScaler(), model)
    model.fit(X.astype(dtype), y)
    noisy = (X + rng.normal(scale=8, size=X.shape)).astype(dtype)
    for rows in (X.astype(dtype), noisy, 100 * noisy):
        compare(model, rows)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["a", "b\u00e9", ""], "O"),
        ([3, -5, 2**40], "i8"),
        (np.array([3, 5, 250], dtype=np.uint8), "i8"),
        (np.array([3, 5, 2**63], dtype=np.uint64), "u8"),
        ([0.0, 1.0, 2.0], "f8"),
        ([True, False, True], "b1"),
        (np.array(["x", "y", "z"], dtype=object), "O"),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_labels_of_all_kinds(labels, kind, dtype):
    X, y = load_iris(return_X_y=True)
    model = grown(9).fit(X.astype(dtype), np.asarray(labels)[y])
    label, _ = run(model.to_onnx(), X.astype(dtype))
    assert label.dtype == np.dtype(kind)
    assert label.tolist() == model.predict(X.astype(dtype)).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", METRICS)
def test_edge_rows(dtype, metric):
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)).astype(dtype)
    model = grown(12, metric=metric).fit(X, y)
    centers = model.cluster_centers_
    large = 1e15 if dtype == np.float32 else 1e140
    rows = np.concatenate(
        [
            centers,  # on a prototype: certain
            np.nextafter(centers, dtype(np.inf)),
            (centers[:-1] + centers[1:]) / 2,
            np.zeros((1, 4), dtype),
            -np.zeros((1, 4), dtype),
            np.eye(4, dtype=dtype) * dtype(large),
            np.eye(4, dtype=dtype) * dtype(1 / large),
            np.full((1, 4), np.finfo(dtype).smallest_subnormal),
        ]
    )
    compare(model, rows)
    label, probabilities = run(to_onnx(model), centers)
    assert label.tolist() == model.cluster_classes_.tolist()
    assert (probabilities.max(axis=1) == 1).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)


def test_cosine_of_very_long_and_very_short_rows():
    X, y = load_iris(return_X_y=True)
    model = grown(12, metric="cosine").fit(X, y)
    for scale in (1e300, 1e160, 1e-160, 1e-300):
        compare(model, X * scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_ties_go_to_the_lowest_class(dtype):
    grid = np.stack(np.meshgrid(np.arange(9), np.arange(9)), axis=-1).reshape(-1, 2).astype(dtype)
    X = np.array([[0, 0], [8, 0], [0, 8], [8, 8]], dtype=dtype)
    model = grown().fit(X, ["d", "c", "b", "a"])
    tied = np.sort(model.transform(grid), axis=1)
    assert (tied[:, 0] == tied[:, 1]).sum() > 10
    compare(model, grid)


@pytest.mark.parametrize("metric", METRICS)
def test_ties_within_rounding_are_decided_by_the_order_of_the_sum(metric):
    rng = np.random.default_rng(0)
    one = rng.normal(size=24)
    X = np.stack([rng.permutation(one) for _ in range(40)])  # equally far from equal values
    model = grown(metric=metric).fit(np.tile(X, (2, 1)), np.tile(np.arange(40), 2))
    compare(model, np.linspace(-2, 2, 30)[:, None] * np.ones(24))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", METRICS)
def test_scaled_features_of_very_different_sizes(dtype, metric):
    """Versions of scikit-learn round float32 differently while they scale; the graph as they do."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(200, 3)) * [1e-6, 2, 1e4] + [3e-6, 2, -1e5]).astype(dtype)
    model = make_pipeline(StandardScaler(), grown(metric=metric))
    model.fit(X, rng.integers(0, 3, 200))
    compare(model, X)
    compare(model, (X[:-1] + X[1:]) / 2)
    compare(model, rng.normal(size=(50, 3)).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0, 1e4])
def test_prototypes_close_together_and_far_away(dtype, offset):
    """Where inner products would have lost all digits."""
    step = 1e-9 if offset == 0 else 1e-2
    X = np.array([[0, 0], [step, 0], [2 * step, step], [3 * step, 0], [1e3, 1e3]]) + offset
    y = [0, 1, 0, 1, 2]
    model = grown().fit(X.astype(dtype), y)
    rows = np.random.default_rng(0).normal(scale=3 * step, size=(500, 2)) + offset
    compare(model, np.concatenate([X, rows]).astype(dtype))
    assert run(to_onnx(model), X.astype(dtype))[0].tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_rows_by_one_graph(dtype):
    X, y = load_digits(return_X_y=True)
    model = grown(20).fit(X.astype(dtype), y)
    graph = to_onnx(model)
    whole = run(graph, X.astype(dtype))
    for n in (0, 1, 2, 777):
        label, probabilities = run(graph, X[:n].astype(dtype))
        assert label.tolist() == whole[0][:n].tolist()
        assert probabilities.shape == (n, 10)
        assert probabilities.tobytes() == whole[1][:n].tobytes()


@pytest.mark.parametrize("d", [1, 3, 2049])
def test_few_and_many_features(d):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, d)), rng.integers(0, 4, 60)
    model = grown().fit(X, y)
    compare(model, np.concatenate([X, rng.normal(size=(40, d))]))


def test_one_class_and_classes_without_a_prototype():
    X, y = load_iris(return_X_y=True)
    alone = grown().fit(X, np.zeros(len(X), int))
    compare(alone, X)
    waiting = grown(6).partial_fit(X, y, classes=[-1, 0, 1, 2, 9])
    compare(waiting, X)
    assert (run(to_onnx(waiting), X)[1][:, [0, 4]] == 0).all()


@given(
    data=strategies.weighted(),
    metric=st.sampled_from(METRICS),
    dtype=st.sampled_from(DTYPES),
    scaled=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=strategies.examples(60))
def test_random_models_and_rows(data, metric, dtype, scaled, seed):
    X, y, _ = data
    X = X.astype(dtype)
    model = grown(metric=metric)
    model = (make_pipeline(StandardScaler(), model) if scaled else model).fit(X, y)
    rng = np.random.default_rng(seed)
    spread = np.abs(X).max() + 1
    noise = rng.normal(scale=spread, size=(20, X.shape[1]))
    compare(model, np.concatenate([X, noise]).astype(dtype))


@pytest.mark.parametrize("options", [{"with_mean": False}, {"with_std": False}])
def test_parts_of_a_scaling(options):
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(**options), grown(9)).fit(X, y)
    compare(model, X)


def test_what_the_graph_says_of_itself(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = grown(9).fit(X, y)
    write(model, tmp_path / "model.onnx")
    graph = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(graph, full_check=True)
    about = {entry.key: json.loads(entry.value) for entry in graph.metadata_props}
    assert about == {"classes": ["0", "1", "2"], "feature_names": X.columns.tolist()}
    assert {node.domain for node in graph.graph.node} == {""}  # standard operators only
    assert [o.name for o in graph.graph.output] == ["label", "probabilities"]


def test_what_cannot_be_turned_is_refused():
    with pytest.raises(NotFittedError):
        grown().to_onnx()
    with pytest.raises(TypeError, match="not StandardScaler"):
        to_onnx(StandardScaler())


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    X, y = load_iris(return_X_y=True)
    model = grown(3).fit(X, y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "dkmeans.files.onnx_graph")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'dkmeans\[onnx\]'"):
        model.to_onnx()
