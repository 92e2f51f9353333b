"""What passes return as plain JSON and arrays, and back."""

from typing import Any

import numpy as np

from dkmeans.engine.grids import Facts
from dkmeans.engine.margin_part import WeightFacts
from dkmeans.engine.part import Assigned
from dkmeans.engine.sums import Sums

_RECORDS = {kind.__name__: kind for kind in (Assigned, Facts, Sums, WeightFacts)}
Arrays = dict[str, np.ndarray[Any, Any]]


def encode(value: Any, arrays: Arrays) -> Any:
    """Turn a value into JSON; arrays are put aside, under names of their own."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex()}  # to the last bit, infinity included
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = np.array(value, order="C")  # a copy: results may be changed later
        return {"array": name, "shape": list(value.shape)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k, arrays), encode(v, arrays)] for k, v in value.items()]}
    fields = {name: encode(item, arrays) for name, item in vars(value).items()}
    return {"record": type(value).__name__, "fields": fields}


def decode(found: Any, arrays: Arrays) -> Any:
    """Turn JSON back into the value it was made of."""
    if not isinstance(found, dict):
        return found
    if "float" in found:
        return float.fromhex(found["float"])
    if "array" in found:
        return arrays[found["array"]].reshape(found["shape"]).copy()
    if "list" in found:
        return [decode(item, arrays) for item in found["list"]]
    if "tuple" in found:
        return tuple(decode(item, arrays) for item in found["tuple"])
    if "dict" in found:
        return {decode(k, arrays): decode(v, arrays) for k, v in found["dict"]}
    fields = {name: decode(item, arrays) for name, item in found["fields"].items()}
    return _RECORDS[found["record"]](**fields)
