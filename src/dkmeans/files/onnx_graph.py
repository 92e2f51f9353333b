"""Models as ONNX graphs of standard operators.

The graph does step by step what `predict` does, so that its labels are the same, ties and all: the
scaling is rounded as `StandardScaler` rounds it, and squared differences are added up in float64,
feature by feature (`kernels/reference.py`). `ReduceSum` leaves the order to the runtime; a `Scan`
over the features does not.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import StandardScaler

import dkmeans
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.files.enclosing import warn_if_enclosed
from dkmeans.files.scaler import is_scaled, split
from dkmeans.geometry import Cosine, Learned
from dkmeans.kernels.projection import GRID, SATURATION, grid_factors
from dkmeans.kernels.sphere import LENGTH_TOLERANCE_ULPS
from dkmeans.questions.prediction import distance_power
from dkmeans.tables.pipeline import kinds_of_pipeline

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ModuleNotFoundError as error:
    needs = "ONNX graphs need the package onnx: pip install 'dkmeans[onnx]'."
    raise ModuleNotFoundError(needs, name=error.name) from error

_OPSET = 18
ML_DOMAIN = "ai.onnx.ml"
_ML_OPSET = 3
_IR = 8  # of the same time as the operators, so that older runtimes can read it
_HUGE = 2.0**300  # beyond it, or below one over it, squares could overflow or vanish
_BACK = 2.0**700  # brings the range of the others to where they do not; a power of two is exact


class GraphBuilder:
    """Builder that collects nodes and constants, and names them."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: npt.ArrayLike) -> str:
        """Add a constant."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output."""
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
        """Convert to another type."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", what, output=output, to=kind)


def to_onnx(model: Any, X: Any = None) -> onnx.ModelProto:
    """Convert a fitted model to an ONNX graph.

    Its input "features" takes any number of rows, in the type of the centres (float32 or float64).
    Its outputs are "label", the same as `predict` gives, and "probabilities", which differ from
    those of `predict_proba` by rounding only: by at most 8 + n_classes times the machine epsilon of
    the type. Classes are in the order of `classes_`. Rows are not checked: what is given for NaN,
    infinity and values whose squares overflow, all of which `predict` refuses, is not defined.

    The graph of a `table_pipeline` has one input of shape (rows, 1) for each column: text for
    categories, where an empty text is missing, and float64 for all others, where NaN is missing;
    dates are days since 1970. Its labels are those of `predict`, too.

    Parameters
    ----------
    model : DiscriminativeKMeans, or Pipeline that ends in one
        The model; it must be fitted. The steps before it become part of the graph. Those that
        neither are a StandardScaler nor come from `table_pipeline` are converted by skl2onnx, which
        may round otherwise than scikit-learn.
    X : array or DataFrame, optional
        Some rows, which tell skl2onnx the types of inputs. By default, one input of float64.

    Returns
    -------
    graph : onnx.ModelProto
        `onnx.save(graph, path)` writes it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dkmeans import DiscriminativeKMeans, to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), DiscriminativeKMeans(6)).fit(X, y)
    >>> [output.name for output in to_onnx(pipeline).graph.output]
    ['label', 'probabilities']
    """
    before, prototypes = split(model)
    if not before:
        warn_if_enclosed(model, "to_onnx", stacklevel=3)
    graph = GraphBuilder()
    dtype = prototypes._fitted.prototypes.centers.dtype
    if not before or is_scaled(model):
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        shape = ["rows", prototypes.n_features_in_]
        inputs = [helper.make_tensor_value_info("features", kind, shape)]
        rows = _scaled(graph, "features", before[0], dtype) if before else "features"
    elif kinds_of_pipeline(model) is not None and len(before) == 1:
        from dkmeans.files.onnx_table import table_features

        inputs, rows = table_features(graph, model[0], dtype)
    else:
        from dkmeans.files.onnx_converter import convert_pipeline

        return convert_pipeline(model, X)
    labels = classify(graph, rows, prototypes)
    return _finished(graph, inputs, prototypes, getattr(model, "feature_names_in_", None), labels)


def classify(
    graph: "GraphBuilder", rows: str, prototypes: DiscriminativeKMeans
) -> npt.NDArray[Any]:
    """Add what makes "label" and "probabilities" of rows; return the possible labels."""
    centers, classes = prototypes._fitted.prototypes.centers, prototypes.classes_
    codes = np.searchsorted(classes, prototypes.cluster_classes_)
    wide = graph.cast(rows, np.float64)
    geometry = prototypes._fitted.geometry
    if isinstance(geometry, Cosine):
        wide = _directions(graph, wide, centers.shape[1], centers.dtype)
    elif isinstance(geometry, Learned):
        wide = _projected(graph, wide, geometry, centers.dtype)
    squares = _squares(graph, wide, centers)
    present, counts = np.unique(codes, return_counts=True)
    near = _nearest_of_each(graph, squares, counts.tolist())
    # The distances that decide are rounded to the type of the centres.
    rounded = graph.cast(graph.add("Sqrt", near), centers.dtype)
    best = graph.add("ArgMin", rounded, axis=1, keepdims=0)
    values = _label_values(classes[present])
    graph.add("Gather", graph.constant(values), best, output="label", axis=0)
    calibration = prototypes._fitted.calibration
    if calibration is None:
        weights = _powers(graph, rounded, distance_power(centers.shape[1]))
    else:
        weights = _softmax_of_margins(graph, rounded, len(present), calibration.temperature)
    spread = np.eye(len(classes), dtype=centers.dtype)[present]
    _probabilities(graph, rounded, weights, spread)
    return values


def _scaled(graph: GraphBuilder, rows: str, scaler: Any, dtype: np.dtype[Any]) -> str:
    """Scale rows, and round after each step, as the installed scikit-learn does."""
    inner = np.dtype(np.float64) if _scales_in_float64() else dtype
    if scaler.with_mean:
        mean = graph.constant(scaler.mean_.astype(inner))
        rows = graph.cast(graph.add("Sub", graph.cast(rows, inner), mean), dtype)
    if scaler.with_std:
        scale = graph.constant(scaler.scale_.astype(inner))
        rows = graph.cast(graph.add("Div", graph.cast(rows, inner), scale), dtype)
    return rows


def _scales_in_float64() -> bool:
    """Tell whether `StandardScaler` subtracts and divides float32 rows in float64.

    Older versions do; newer ones round the mean and the scale to float32 first.
    """
    rows = np.array([[0], [1], [1]], dtype=np.float32)
    scaler = StandardScaler(with_std=False).fit(rows)
    return bool(scaler.transform(rows)[1, 0] == np.float32(1 - scaler.mean_[0]))


def _directions(graph: GraphBuilder, rows: str, n_features: int, dtype: np.dtype[Any]) -> str:
    """Scale rows to length one; those of zeros, and those that are of length one, stay."""
    one, axes = graph.constant(1.0), graph.constant([1])
    largest = graph.add("ReduceMax", graph.add("Abs", rows), axes, keepdims=1)
    low = graph.add("Less", largest, graph.constant(1 / _HUGE))
    high = graph.add("Greater", largest, graph.constant(_HUGE))
    up = graph.add("Where", low, graph.constant(_BACK), one)
    unit = graph.add("Where", high, graph.constant(1 / _BACK), up)
    scaled = graph.add("Mul", rows, unit)
    length = graph.add("Sqrt", _squares(graph, scaled, np.zeros((1, n_features))))
    off = graph.add("Abs", graph.add("Sub", graph.add("Div", length, unit), one))
    fits = graph.add(
        "LessOrEqual", off, graph.constant(LENGTH_TOLERANCE_ULPS * float(np.finfo(dtype).eps))
    )
    keep = graph.add("Or", fits, graph.add("Equal", length, graph.constant(0.0)))
    divided = graph.add("Div", scaled, graph.add("Where", keep, one, length))
    result = graph.add("Where", keep, rows, divided)
    return graph.cast(graph.cast(result, dtype), np.float64)


def _projected(graph: GraphBuilder, rows: str, geometry: Learned, dtype: np.dtype[Any]) -> str:
    """Standardise rows on their grid, and project them."""
    centred = graph.add("Sub", rows, graph.constant(geometry.shift))
    units = graph.add("Mul", centred, graph.constant(grid_factors(geometry.scale)))
    most = SATURATION / GRID
    rounded = graph.add("Round", units)
    clipped = graph.add("Clip", rounded, graph.constant(-most), graph.constant(most))
    standardised = graph.add("Mul", clipped, graph.constant(GRID))
    projected = _over_features(graph, standardised, geometry.components.T, _product)
    return graph.cast(graph.cast(projected, dtype), np.float64)


def _squares(graph: GraphBuilder, rows: str, centers: npt.NDArray[np.floating]) -> str:
    """Squared distances of rows to centres, added up over features in order."""
    return _over_features(graph, rows, centers, _square_of_difference)


def _over_features(
    graph: GraphBuilder,
    rows: str,
    vectors: npt.NDArray[np.floating],
    share_of: Callable[[GraphBuilder], str],
) -> str:
    """Add up a share of rows and k vectors over the features, in order."""
    k = len(vectors)
    shape = graph.add("Concat", graph.add("Shape", rows, end=1), graph.constant([k]), axis=0)
    zeros = graph.add("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1)))
    columns = graph.add("Unsqueeze", rows, graph.constant([1]))
    wide = graph.cast(graph.constant(vectors), np.float64)
    return graph.add(
        "Scan",
        *(zeros, columns, wide),
        body=_one_feature(k, share_of),
        num_scan_inputs=2,
        scan_input_axes=[2, 1],
    )


def _one_feature(k: int, share_of: Callable[[GraphBuilder], str]) -> Any:
    """Add the share of one feature, of rows and k vectors."""
    kinds = {"before": ["rows", k], "values": ["rows", 1], "vectors": [k], "after": ["rows", k]}
    infos = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, of) for n, of in kinds.items()]
    body = GraphBuilder()
    body.add("Add", "before", share_of(body), output="after")
    return helper.make_graph(body.nodes, "one_feature", infos[:3], infos[3:])


def _square_of_difference(body: GraphBuilder) -> str:
    away = body.add("Sub", "values", "vectors", output="away")
    return body.add("Mul", away, away, output="share")


def _product(body: GraphBuilder) -> str:
    return body.add("Mul", "values", "vectors", output="share")


def _nearest_of_each(graph: GraphBuilder, squares: str, counts: list[int]) -> str:
    """Smallest of each class's columns, which lie side by side."""
    axes = graph.constant([1])
    classes = graph.split(squares, counts)
    return graph.joined([graph.add("ReduceMin", part, axes, keepdims=1) for part in classes])


def _powers(graph: GraphBuilder, rounded: str, power: float) -> str:
    """Compute 1 / D^power, times that of the nearest class."""
    distances = graph.cast(rounded, np.float64)
    best = graph.add("ReduceMin", distances, graph.constant([1]), keepdims=1)
    return graph.add("Pow", _ratio(graph, best, distances), graph.constant(power))


def _softmax_of_margins(
    graph: GraphBuilder, rounded: str, n_classes: int, temperature: float
) -> str:
    """Compute exp(margin / temperature), divided by the largest of each row."""
    axes, one = graph.constant([1]), graph.constant(1.0)
    distances = graph.cast(rounded, np.float64)
    if n_classes == 1:
        return graph.add("Exp", graph.add("Sub", distances, distances))
    best = graph.add("ReduceMin", distances, axes, keepdims=1)
    two = f"topk_{len(graph.nodes)}"
    inputs = [distances, graph.constant(np.array([2]))]
    graph.nodes.append(helper.make_node("TopK", inputs, [two, f"{two}_at"], axis=1, largest=0))
    second = graph.add("ReduceMax", two, axes, keepdims=1)
    # On a tie the second distance is the first.
    nearest = graph.add("LessOrEqual", distances, best)
    rival = graph.add("Where", nearest, second, best)
    smaller, larger = graph.add("Min", distances, rival), graph.add("Max", distances, rival)
    ratio = _ratio(graph, smaller, larger)
    square = graph.add("Mul", ratio, ratio)
    size = graph.add("Div", graph.add("Sub", one, square), graph.add("Add", one, square))
    margin = graph.add("Where", nearest, size, graph.add("Neg", size))
    top = graph.add("ReduceMax", margin, axes, keepdims=1)
    below = graph.add("Sub", margin, top)
    return graph.add("Exp", graph.add("Div", below, graph.constant(temperature)))


def _ratio(graph: GraphBuilder, smaller: str, larger: str) -> str:
    """Divide; 1 for 0 / 0. No division by zero, not even one whose result is thrown away."""
    one = graph.constant(1.0)
    away = graph.add("Greater", larger, graph.constant(0.0))
    ratio = graph.add("Div", smaller, graph.add("Where", away, larger, one))
    return graph.add("Where", away, ratio, one)


def _probabilities(
    graph: GraphBuilder, rounded: str, weights: str, spread: npt.NDArray[np.floating]
) -> None:
    """Normalise weights to probabilities; `spread` puts them in the columns of all classes.

    It has the type of the centres, a row for each class with a prototype and a single one in each.
    """
    dtype, axes = spread.dtype, graph.constant([1])
    distances = graph.cast(rounded, np.float64)
    best = graph.add("ReduceMin", distances, axes, keepdims=1)
    shares = graph.add("Div", weights, graph.add("ReduceSum", weights, axes, keepdims=1))
    shares = graph.cast(shares, dtype)
    # Rounding must not make another class catch up: at most the next number below the largest.
    top = graph.add("ReduceMax", shares, axes, keepdims=1)
    below = graph.add("Mul", top, graph.constant(dtype.type(1 - np.finfo(dtype).epsneg)))
    beaten = graph.add("Greater", distances, best)
    shares = graph.add("Where", beaten, graph.add("Min", shares, below), shares)
    graph.add("MatMul", shares, graph.constant(spread), output="probabilities")


def _label_values(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels in a type that ONNX runtimes have."""
    if labels.dtype.kind in "iu":
        fits = int(labels.max()) <= np.iinfo(np.int64).max
        return labels.astype(np.int64 if fits else np.uint64)
    if labels.dtype.kind == "f":
        return labels.astype(np.float64)
    return labels if labels.dtype.kind == "b" else labels.astype(object)


def _finished(
    graph: GraphBuilder,
    inputs: list[Any],
    model: DiscriminativeKMeans,
    names: Any,
    labels: npt.NDArray[Any],
) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(model._fitted.prototypes.centers.dtype)
    text = labels.dtype.kind == "O"
    of_labels = TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(labels.dtype)
    domains = sorted({node.domain for node in graph.nodes})
    versions = {"": _OPSET, ML_DOMAIN: _ML_OPSET}
    made = helper.make_graph(
        graph.nodes,
        "dkmeans",
        inputs,
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
        opset_imports=[helper.make_opsetid(domain, versions[domain]) for domain in domains],
    )
    about = {"classes": [str(label) for label in model.classes_.tolist()]}
    if names is not None:
        about["feature_names"] = [str(name) for name in names]
    helper.set_model_props(result, {key: json.dumps(value) for key, value in about.items()})
    onnx.checker.check_model(result)
    return result
