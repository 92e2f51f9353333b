"""The converter for skl2onnx, with which pipelines of all that it knows become ONNX graphs."""

import json
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.files.onnx_graph import GraphBuilder, classify

try:
    import skl2onnx
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )
except ModuleNotFoundError as error:
    needs = "ONNX graphs of such pipelines need skl2onnx: pip install 'dkmeans[onnx]'."
    raise ModuleNotFoundError(needs, name=error.name) from error

_OPSETS = {"": 18, "ai.onnx.ml": 3}


def register_converter() -> None:
    """Teach skl2onnx to convert `DiscriminativeKMeans`, alone or in anything that it converts.

    Examples
    --------
    >>> import skl2onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from dkmeans import DiscriminativeKMeans
    >>> from dkmeans.files import register_converter
    >>> register_converter()
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(MinMaxScaler(), DiscriminativeKMeans(6)).fit(X, y)
    >>> options = {"zipmap": False}
    >>> graph = skl2onnx.to_onnx(pipeline, X[:1], options=options, target_opset=18)
    >>> [output.name for output in graph.graph.output]
    ['label', 'probabilities']
    """
    skl2onnx.update_registered_converter(
        DiscriminativeKMeans,
        "DkmeansDiscriminativeKMeans",
        _set_shapes,
        _convert,
        options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
    )


def convert_pipeline(pipeline: Any, X: Any = None) -> ModelProto:
    """Convert a pipeline of steps that skl2onnx knows.

    Parameters
    ----------
    pipeline : Pipeline
    X : array or DataFrame, optional
        Some rows, for the types of inputs; one input of float64 by default.
    """
    register_converter()
    options = {DiscriminativeKMeans: {"zipmap": False}}
    if X is None:
        types = [("features", DoubleTensorType([None, pipeline.n_features_in_]))]
        graph = skl2onnx.convert_sklearn(
            pipeline, initial_types=types, options=options, target_opset=_OPSETS
        )
    else:
        graph = skl2onnx.to_onnx(pipeline, X[:1], options=options, target_opset=_OPSETS)
    classes = [str(label) for label in pipeline.classes_.tolist()]
    helper.set_model_props(graph, {"classes": json.dumps(classes)})
    return graph


def _set_shapes(operator: Any) -> None:
    model = operator.raw_operator
    rows = operator.inputs[0].get_first_dimension()
    is_text = model.classes_.dtype.kind in "UO"
    operator.outputs[0].type = (StringTensorType if is_text else Int64TensorType)([rows])
    kind = DoubleTensorType if _is_double(operator) else FloatTensorType
    operator.outputs[1].type = kind([rows, len(model.classes_)])


def _is_double(operator: Any) -> bool:
    return isinstance(operator.inputs[0].type, DoubleTensorType)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add our nodes under names that are not taken."""
    model, rows = operator.raw_operator, operator.inputs[0].full_name
    graph = GraphBuilder()
    start = graph.cast("features", model.cluster_centers_.dtype)
    classify(graph, start, model)
    graph.cast("probabilities", np.float64 if _is_double(operator) else np.float32, "shares")
    label = "label"
    if model.classes_.dtype.kind not in "UO":
        label = graph.cast("label", np.int64, "whole_label")
    names = {
        "features": rows,
        label: operator.outputs[0].full_name,
        "shares": operator.outputs[1].full_name,
    }

    def renamed(name: str) -> str:
        if name not in names:
            names[name] = scope.get_unique_variable_name(f"dkmeans_{name}")
        return names[name]

    for constant in graph.constants:
        values = numpy_helper.to_array(constant)
        flat = values.ravel().tolist()
        container.add_initializer(
            renamed(constant.name), constant.data_type, list(values.shape), flat
        )
    for node in graph.nodes:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        container.add_node(
            node.op_type,
            [renamed(name) for name in node.input],
            [renamed(name) for name in node.output],
            op_domain=node.domain,
            op_version=_OPSETS[node.domain],
            name=scope.get_unique_operator_name(f"Dkmeans{node.op_type}"),
            **attributes,
        )
