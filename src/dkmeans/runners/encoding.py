"""Encode results of passes as JSON and arrays, and decode them."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.exact.record import Record

Arrays: TypeAlias = dict[str, npt.NDArray[np.generic]]
Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


def encode(value: object, arrays: Arrays) -> Json:
    """Convert a result to JSON; arrays are added to `arrays` under new names."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return encode(value.item(), arrays)
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
        return {
            "keys": [encode(key, arrays) for key in value],
            "values": [encode(item, arrays) for item in value.values()],
        }
    if isinstance(value, Record):
        entries = {name: encode(item, arrays) for name, item in vars(value).items()}
        return {"record": type(value).__name__, "fields": entries}
    raise TypeError(f"A pass returned {type(value).__name__}, which a checkpoint cannot store.")


def decode(found: Json, arrays: Arrays) -> object:
    """Convert JSON back to a result."""
    match found:
        case {"float": str(digits)}:
            return float.fromhex(digits)
        case {"array": str(name), "shape": list(shape)}:
            return arrays[name].reshape([n for n in shape if isinstance(n, int)]).copy()
        case {"list": list(items)}:
            return [decode(item, arrays) for item in items]
        case {"tuple": list(items)}:
            return tuple(decode(item, arrays) for item in items)
        case {"keys": list(keys), "values": list(values)}:
            pairs = zip(keys, values, strict=True)
            return {decode(key, arrays): decode(value, arrays) for key, value in pairs}
        case {"record": str(name), "fields": dict(entries)}:
            return Record.named(name)(**{k: decode(v, arrays) for k, v in entries.items()})
    return found
