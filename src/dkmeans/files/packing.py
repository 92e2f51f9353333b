"""Large arrays of model files, compressed without loss.

The bytes of the numbers are put in order of their place (all first bytes, then all second bytes,
...), which compresses better, and then compressed with zlib. A packed array is stored as uint8; the
document lists its type and shape under "packed".
"""

import math
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.files.container import Arrays, Document
from dkmeans.files.refusal import RefusedError, require

_PLAIN = ("centers", "class_codes", "ids", "sizes", "pipeline")  # for readers in other languages
_MIN_BYTES = 4096  # smaller arrays are not packed
# Bound on the memory that packed arrays take: bytes per byte of the file.
_MAX_RATIO = 64
_TYPES = {"int64": np.int64, "float64": np.float64, "float32": np.float32}


def pack_arrays(arrays: Arrays) -> tuple[Arrays, Document]:
    """Compress large arrays; return all arrays, and the list of those that are packed."""
    result, listed = dict(arrays), {}
    for name, array in arrays.items():
        if name not in _PLAIN and array.nbytes >= _MIN_BYTES:
            packed = _compressed(array)
            if len(packed) < array.nbytes:
                result[name] = np.frombuffer(packed, dtype=np.uint8)
                listed[name] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    return result, listed


def unpack_arrays(arrays: Arrays, listed: Any) -> Arrays:
    """Decompress the arrays that are listed as packed."""
    require(isinstance(listed, dict), "has a list of packed arrays that does not make sense")
    result = dict(arrays)
    for name, about in listed.items():
        wrong = f"has a packed array that does not make sense, {name[:40]!r}"
        require(name in arrays and arrays[name].dtype == np.uint8, wrong)
        require(isinstance(about, dict) and set(about) == {"dtype", "shape"}, wrong)
        kind, shape = about["dtype"], about["shape"]
        require(isinstance(kind, str) and kind in _TYPES, wrong)
        require(isinstance(shape, list) and len(shape) <= 3, wrong)
        require(all(type(x) is int and 0 <= x < 1 << 62 for x in shape), wrong)
        result[name] = _decompressed(arrays[name], np.dtype(_TYPES[kind]), shape, wrong)
    return result


def _compressed(array: npt.NDArray[Any]) -> bytes:
    numbers = np.ascontiguousarray(array).view(np.uint8).reshape(-1, array.itemsize)
    packed = zlib.compress(np.ascontiguousarray(numbers.T).data)
    return packed + bytes(max(0, -(-array.nbytes // _MAX_RATIO) - len(packed)))


def _decompressed(
    packed: npt.NDArray[np.uint8], dtype: np.dtype[Any], shape: list[int], wrong: str
) -> npt.NDArray[Any]:
    size = math.prod(shape) * dtype.itemsize
    require(size <= _MAX_RATIO * packed.nbytes, wrong)
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(packed.tobytes(), size + 1)
    except zlib.error as error:
        raise RefusedError(wrong) from error
    require(len(data) == size and reader.eof, wrong)
    require(not any(reader.unused_data), wrong)
    numbers = np.frombuffer(data, dtype=np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(numbers.T).reshape(-1).view(dtype).reshape(shape)
