"""Named arrays and one JSON document in a safetensors file, checked before use.

The document is the only entry of the file's metadata, under the key "dkmeans". Its "sha256" is the
checksum of the whole file, taken with 64 zeros in its own place.
"""

import hashlib
import json
import math
import os
import stat
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dkmeans.files.refusal import RefusedError, require

KEY = "dkmeans"
VERSION = 2  # 1 has neither packed arrays, nor pipelines, nor models on the way

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Document: TypeAlias = dict[str, Any]

_BLANK = "0" * 64
_MAX_HEADER_BYTES = 1 << 25
_MAX_BRACKETS = 1000  # that open lists and objects in JSON: a model has about 200
_TYPE_BYTES = {"I64": 8, "F32": 4, "F64": 8, "U8": 1}  # of the types in use
_FOREIGN = ("is not a dkmeans model file", "check the path")


def pack(arrays: Arrays, document: Document, library: str) -> bytes:
    """Encode arrays and a document as the bytes of a file."""
    whole = {"sha256": _BLANK, "format_version": VERSION, "library_version": library, **document}
    text = json.dumps(whole, allow_nan=False, separators=(",", ":"))
    tensors = {name: np.asarray(array, order="C") for name, array in sorted(arrays.items())}
    data = save(tensors, {KEY: text})
    size = int.from_bytes(data[:8], "little")
    if size > _MAX_HEADER_BYTES:
        raise ValueError(
            f"Names of classes and features take {size} bytes, more than the {_MAX_HEADER_BYTES} "
            "that a model file has room for: use shorter ones."
        )
    at = data.index(_BLANK.encode(), 8)
    digest = hashlib.sha256(data).hexdigest().encode()
    return data[:at] + digest + data[at + 64 :]


def unpack(path: str | os.PathLike[str]) -> tuple[Arrays, Document]:
    """Read a file; nothing larger than the file itself is allocated before it is known to be whole.

    Raises
    ------
    RefusedError
        If it is not what `pack` made.
    """
    # Opening anything else, such as a pipe, could block for ever.
    require(stat.S_ISREG(os.stat(path).st_mode), *_FOREIGN)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start, document = _read_header(file, size)
        data = start + file.read(size - len(start))
    require(len(data) == size, "changed while it was read")
    digest = document["sha256"]
    require(isinstance(digest, str) and len(digest) == 64, "has no checksum")
    require(start.count(digest.encode()) == 1, "has no checksum")
    at = start.index(digest.encode())
    check = hashlib.sha256(data[:at])
    check.update(_BLANK.encode())
    check.update(memoryview(data)[at + 64 :])
    require(check.hexdigest() == digest, "is damaged, as its checksum tells")
    try:
        return load(data), document
    except SafetensorError as error:
        raise RefusedError(f"is no valid safetensors file ({error})") from error


def _read_header(file: BinaryIO, size: int) -> tuple[bytes, Document]:
    """Read up to the first array: all bytes so far, and the document."""
    length = file.read(8)
    n = int.from_bytes(length, "little")
    require(len(length) == 8 and 2 <= n <= _MAX_HEADER_BYTES, *_FOREIGN)
    require(8 + n <= size, "is cut short, or not a dkmeans model file")
    text = file.read(n)
    require(len(text) == n and text[:1] == b"{", *_FOREIGN)
    header = _parse(text)
    require(isinstance(header, dict), *_FOREIGN)
    about = header.pop("__metadata__", None)
    require(
        isinstance(about, dict) and set(about) == {KEY} and isinstance(about[KEY], str),
        "is a safetensors file, but not a dkmeans model",
        "check the path",
    )
    document = _parse(about[KEY].encode(errors="surrogatepass"))
    require(isinstance(document, dict), *_FOREIGN)
    _check_version(document)
    require("sha256" in document, "has no checksum")
    _check_extents(header, size - 8 - n)
    return length + text, document


def _check_version(document: Document) -> None:
    found = document.get("format_version")
    require(type(found) is int, "has no format version")
    require(
        found in range(1, VERSION + 1),
        f"has format version {str(found)[:20]}, and this version of dkmeans reads up to {VERSION}",
        "update dkmeans, or save the model again with this version",
    )


def _parse(text: bytes) -> Any:
    """Parse JSON; refuse text that is nested so much that parsing is expensive."""
    require(len(text) > 0, *_FOREIGN)
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    codes = np.frombuffer(bare, dtype=np.uint8)
    in_text = np.logical_xor.accumulate(codes == ord('"'))
    opening = ((codes == ord("[")) | (codes == ord("{"))) & ~in_text
    require(int(np.count_nonzero(opening)) <= _MAX_BRACKETS, *_FOREIGN)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except RefusedError:
        raise
    except (ValueError, RecursionError) as error:
        raise RefusedError(*_FOREIGN) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    require(len(found) == len(pairs), "has a header that names something twice")
    return found


def _constant(name: str) -> float:
    raise RefusedError(f"has {name} in its header")


def _check_extents(tensors: Document, size: int) -> None:
    """Check that the arrays, as the header describes them, fill the file without gaps."""
    spans = []
    for name, about in tensors.items():
        wrong = f"has a header that does not make sense at {name[:40]!r}"
        require(isinstance(about, dict) and set(about) == {"dtype", "shape", "data_offsets"}, wrong)
        kind, shape, span = about["dtype"], about["shape"], about["data_offsets"]
        require(isinstance(kind, str) and kind in _TYPE_BYTES, wrong)
        for numbers in (shape, span):
            require(isinstance(numbers, list) and len(numbers) <= 3, wrong)
            require(all(type(x) is int and 0 <= x < 1 << 62 for x in numbers), wrong)
        require(len(span) == 2 and math.prod(shape) * _TYPE_BYTES[kind] == span[1] - span[0], wrong)
        spans.append(tuple(span))
    at = 0
    for start, end in sorted(spans):
        require(start == at, "has a gap between its arrays")
        at = end
    require(at <= size, f"is cut short by {at - size} bytes")
    require(at >= size, f"has {size - at} bytes too many")
