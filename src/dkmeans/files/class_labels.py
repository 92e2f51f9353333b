"""Class labels as JSON: integers, floats, booleans and text, with their NumPy type."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.files.refusal import require

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64")


def encode(labels: npt.NDArray[Any]) -> dict[str, Any]:
    """Convert labels to JSON values and the name of their type."""
    values = labels.tolist()
    if labels.dtype.name in (*_INTEGERS, *_FLOATS, "bool"):
        return {"dtype": labels.dtype.name, "values": values}
    if all(isinstance(value, str) for value in values):
        kind = "text" if labels.dtype.kind == "U" else "object"
        return {"dtype": kind, "values": [str(value) for value in values]}
    raise ValueError(
        f"Classes of type {labels.dtype} such as {values[0]!r} cannot be written to a file: "
        "use text, integers, floats or bool as labels."
    )


def decode(found: Any) -> npt.NDArray[Any]:
    """Convert JSON values to labels, which must be sorted and unique."""
    require(isinstance(found, dict) and set(found) == {"dtype", "values"}, "has no classes")
    kind, values = found["dtype"], found["values"]
    require(isinstance(values, list) and len(values) > 0, "has no classes")
    require(isinstance(kind, str), "has classes of an unknown type")
    labels = _array(kind, values)
    require(bool((labels[1:] > labels[:-1]).all()), "has classes that are not in order")
    return labels


def _array(kind: str, values: list[Any]) -> npt.NDArray[Any]:
    wrong = f"has classes that are not of the type {kind!r} that it says"
    if kind in _INTEGERS:
        limits = np.iinfo(kind)
        require(all(type(v) is int and limits.min <= v <= limits.max for v in values), wrong)
        return np.array(values, dtype=kind)
    if kind in _FLOATS:
        require(all(type(v) in (int, float) for v in values), wrong)
        labels = np.array(values, dtype=np.float64)
        require(bool((np.abs(labels) <= np.finfo(kind).max).all()), wrong)
        return labels.astype(kind)
    if kind == "bool":
        require(all(type(v) is bool for v in values), wrong)
        return np.array(values, dtype=bool)
    require(kind in ("text", "object"), f"has classes of the unknown type {kind[:20]!r}")
    require(all(type(v) is str for v in values), wrong)
    if kind == "object":
        return np.array(values, dtype=object)
    # In an array of text every entry takes as much memory as the longest.
    room = 4 * len(values) * max(map(len, values))
    require(room <= (1 << 24) + 64 * sum(map(len, values)), "has classes of odd lengths")
    return np.array(values, dtype=str)
