"""Models as ONNX graphs of standard operators.

Distances are sums of squared differences in float64, not inner products: those lose digits where
prototypes are close together. Prototypes go in blocks, so that a row takes a few KiB of memory.
"""

import json
from typing import Any

import numpy as np
import numpy.typing as npt

import dkmeans
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.export.scaling import parts

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ModuleNotFoundError as error:
    needs = "ONNX graphs need the package onnx: pip install 'dkmeans[onnx]'."
    raise ModuleNotFoundError(needs, name=error.name) from error

_OPSET = 18
_IR = 8  # of the same time as the operators, so that older runtimes can read it
_BLOCK = 2048  # values of prototypes that are compared with a row together
_NEAR = 4  # units of rounding by which a length may be off from one
_HUGE = 1e100  # beyond it, or below one over it, squares could overflow or vanish


class _Graph:
    """Collects nodes and constants, and names them."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: npt.ArrayLike) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def split(self, what: str, sizes: list[int]) -> list[str]:
        """Cut along axis 1."""
        if len(sizes) == 1:
            return [what]
        names = [f"split_{len(self.nodes)}_{i}" for i in range(len(sizes))]
        inputs = [what, self.constant(np.array(sizes, dtype=np.int64))]
        self.nodes.append(helper.make_node("Split", inputs, names, axis=1))
        return names

    def joined(self, columns: list[str]) -> str:
        """Put columns side by side."""
        return columns[0] if len(columns) == 1 else self.add("Concat", *columns, axis=1)

    def cast(self, what: str, dtype: npt.DTypeLike, output: str | None = None) -> str:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", what, output=output, to=kind)


def to_onnx(model: Any) -> onnx.ModelProto:
    """Turn a fitted model into an ONNX graph.

    Its input "features" takes any number of rows, in the type of the centres (float32 or float64).
    Its outputs are "label" and "probabilities", as `predict` and `predict_proba` give them; classes
    are in the order of `classes_`. Rows are not checked: NaN gives NaN.

    Parameters
    ----------
    model : DiscriminativeKMeans, or Pipeline of StandardScaler and DiscriminativeKMeans
        What to turn; it must be fitted. The scaling becomes a part of the graph.

    Returns
    -------
    graph : onnx.ModelProto
        `onnx.save(graph, path)` writes it.
    """
    scaler, prototypes = parts(model)
    centers, classes = prototypes.cluster_centers_, prototypes.classes_
    codes = np.searchsorted(classes, prototypes.cluster_classes_)
    graph = _Graph()
    rows = "features" if scaler is None else _scaled(graph, "features", scaler, centers.dtype)
    wide = graph.cast(rows, np.float64)
    if prototypes.metric == "cosine":
        wide = _directions(graph, wide, centers.dtype)
    squares = _squares(graph, wide, centers)
    present, counts = np.unique(codes, return_counts=True)
    near = _nearest_of_each(graph, squares, counts.tolist())
    # To the type of the centres and back: the distances that decide are rounded.
    rounded = graph.cast(graph.add("Sqrt", near), centers.dtype)
    best = graph.add("ArgMin", rounded, axis=1, keepdims=0)
    values = _label_values(classes[present])
    graph.add("Gather", graph.constant(values), best, output="label", axis=0)
    power = min(2 * np.sqrt(centers.shape[1]), 16.0)
    _probabilities(graph, graph.cast(rounded, np.float64), power, present, len(classes), centers)
    return _finished(graph, prototypes, getattr(model, "feature_names_in_", None), values)


def _scaled(graph: _Graph, rows: str, scaler: Any, dtype: np.dtype[Any]) -> str:
    if scaler.with_mean:
        rows = graph.add("Sub", rows, graph.constant(scaler.mean_.astype(dtype)))
    if scaler.with_std:
        rows = graph.add("Div", rows, graph.constant(scaler.scale_.astype(dtype)))
    return rows


def _directions(graph: _Graph, rows: str, dtype: np.dtype[Any]) -> str:
    """Scale rows to length one; those of zeros, and those that are of length one, stay."""
    one, axes = graph.constant(1.0), graph.constant([1])
    largest = graph.add("ReduceMax", graph.add("Abs", rows), axes, keepdims=1)
    low = graph.add("Less", largest, graph.constant(1 / _HUGE))
    high = graph.add("Greater", largest, graph.constant(_HUGE))
    some = graph.add("Greater", largest, graph.constant(0.0))
    odd = graph.add("And", graph.add("Or", low, high), some)
    unit = graph.add("Where", odd, largest, one)
    scaled = graph.add("Div", rows, unit)
    length = graph.add("Sqrt", graph.add("ReduceSum", graph.add("Mul", scaled, scaled), axes))
    off = graph.add("Abs", graph.add("Sub", graph.add("Mul", length, unit), one))
    fits = graph.add("LessOrEqual", off, graph.constant(_NEAR * float(np.finfo(dtype).eps)))
    keep = graph.add("Or", fits, graph.add("Not", some))
    divided = graph.add("Div", scaled, graph.add("Where", keep, one, length))
    result = graph.add("Where", keep, rows, divided)
    return graph.cast(graph.cast(result, dtype), np.float64)


def _squares(graph: _Graph, rows: str, centers: npt.NDArray[np.floating]) -> str:
    """Squared distances of rows to all prototypes, block by block."""
    axes = graph.constant([2])
    lifted = graph.add("Unsqueeze", rows, graph.constant([1]))
    many = max(1, _BLOCK // centers.shape[1])
    columns = []
    for start in range(0, len(centers), many):
        block = graph.constant(centers[None, start : start + many])
        away = graph.add("Sub", lifted, graph.cast(block, np.float64))
        columns.append(graph.add("ReduceSum", graph.add("Mul", away, away), axes, keepdims=0))
    return graph.joined(columns)


def _nearest_of_each(graph: _Graph, squares: str, counts: list[int]) -> str:
    """Smallest of each class's columns, which lie side by side."""
    axes = graph.constant([1])
    classes = graph.split(squares, counts)
    return graph.joined([graph.add("ReduceMin", part, axes, keepdims=1) for part in classes])


def _probabilities(
    graph: _Graph,
    distances: str,
    power: float,
    present: npt.NDArray[np.intp],
    n_classes: int,
    centers: npt.NDArray[np.floating],
) -> None:
    """Probabilities in proportion to 1 / D^power; 0 for classes without a prototype."""
    axes, one = graph.constant([1]), graph.constant(1.0)
    best = graph.add("ReduceMin", distances, axes, keepdims=1)
    away = graph.add("Greater", distances, graph.constant(0.0))
    # No division by zero, not even one whose result is thrown away.
    ratio = graph.add("Div", best, graph.add("Where", away, distances, one))
    weights = graph.add("Pow", graph.add("Where", away, ratio, one), graph.constant(power))
    shares = graph.add("Div", weights, graph.add("ReduceSum", weights, axes, keepdims=1))
    if len(present) < n_classes:
        spread = np.zeros((len(present), n_classes))
        spread[np.arange(len(present)), present] = 1
        shares = graph.add("MatMul", shares, graph.constant(spread))
    graph.cast(shares, centers.dtype, output="probabilities")


def _label_values(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels in a type that ONNX runtimes have."""
    if labels.dtype.kind in "iu":
        fits = int(labels.max()) <= np.iinfo(np.int64).max
        return labels.astype(np.int64 if fits else np.uint64)
    if labels.dtype.kind == "f":
        return labels.astype(np.float64)
    return labels if labels.dtype.kind == "b" else labels.astype(object)


def _finished(
    graph: _Graph, model: DiscriminativeKMeans, names: Any, labels: npt.NDArray[Any]
) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(model.cluster_centers_.dtype)
    text = labels.dtype.kind == "O"
    of_labels = TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(labels.dtype)
    made = helper.make_graph(
        graph.nodes,
        "dkmeans",
        [helper.make_tensor_value_info("features", kind, ["rows", model.n_features_in_])],
        [
            helper.make_tensor_value_info("label", of_labels, ["rows"]),
            helper.make_tensor_value_info("probabilities", kind, ["rows", len(model.classes_)]),
        ],
        graph.constants,
    )
    result = helper.make_model(
        made,
        producer_name="dkmeans",
        producer_version=dkmeans.__version__,
        ir_version=_IR,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )
    about = {"classes": [str(label) for label in model.classes_.tolist()]}
    if names is not None:
        about["feature_names"] = [str(name) for name in names]
    helper.set_model_props(result, {key: json.dumps(value) for key, value in about.items()})
    onnx.checker.check_model(result)
    return result
