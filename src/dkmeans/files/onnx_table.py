"""The columns of a table pipeline as nodes of an ONNX graph, rounded as scikit-learn rounds."""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper
from sklearn.compose import ColumnTransformer

from dkmeans.files.onnx_graph import ML_DOMAIN, GraphBuilder

_MISSING = ""  # stands for a missing category


def table_features(
    graph: GraphBuilder, columns: ColumnTransformer, dtype: np.dtype[Any]
) -> tuple[list[Any], str]:
    """Add what makes features of columns.

    Parameters
    ----------
    graph : GraphBuilder
    columns : ColumnTransformer
        The first step of a table pipeline.
    dtype : dtype
        Type of the features.

    Returns
    -------
    inputs : list of onnx.ValueInfoProto
        One for each column.
    features : str
        Name of the result.
    """
    inputs, parts = [], []
    for step, transformer, names in columns.transformers_:
        if step == "remainder":  # other columns are left out
            continue
        is_text = step == "categories"
        kind = TensorProto.STRING if is_text else TensorProto.DOUBLE
        inputs += [helper.make_tensor_value_info(name, kind, ["rows", 1]) for name in names]
        if is_text:
            encoder = transformer.named_steps["encoder"]
            parts += [_one_hot(graph, name, encoder, j) for j, name in enumerate(names)]
        else:
            parts.append(_numbers(graph, graph.joined(list(names)), transformer))
    return inputs, graph.cast(graph.joined(parts), dtype)


def _numbers(graph: GraphBuilder, values: str, steps: Any) -> str:
    """Replace missing numbers, and scale them."""
    imputer, scaler = steps.named_steps["imputer"], steps.named_steps.get("scaler")
    values = graph.add(
        "Where", graph.add("IsNaN", values), _row(graph, imputer.statistics_), values
    )
    if scaler is None:
        return values
    centred = graph.add("Sub", values, _row(graph, scaler.mean_))
    return graph.add("Div", centred, _row(graph, scaler.scale_))


def _one_hot(graph: GraphBuilder, name: str, encoder: Any, column: int) -> str:
    """Encode a column of text; rare levels share the last feature."""
    levels = encoder.categories_[column].tolist()
    known = set(levels)
    rare = encoder.infrequent_categories_[column]
    pooled = {_text(level) for level in ([] if rare is None else rare.tolist())}
    frequent = [level for level in levels if _text(level) not in pooled]
    if _MISSING in known and any(level != level for level in known):
        raise ValueError(
            f"Column {name!r} has empty texts and missing ones, which are the same in ONNX graphs: "
            "replace one of them."
        )
    place = {_text(level): at for at, level in enumerate(frequent)}
    place |= dict.fromkeys(pooled, len(frequent))
    codes = graph.add(
        "LabelEncoder",
        name,
        domain=ML_DOMAIN,
        keys_strings=list(place),
        values_int64s=list(place.values()),
        default_int64=-1,
    )
    features = np.arange(len(frequent) + bool(pooled), dtype=np.int64)
    return graph.cast(graph.add("Equal", codes, graph.constant(features[None])), np.float64)


def _text(level: Any) -> str:
    return _MISSING if level != level else str(level)


def _row(graph: GraphBuilder, values: npt.ArrayLike) -> str:
    return graph.constant(np.asarray(values, dtype=np.float64)[None])
