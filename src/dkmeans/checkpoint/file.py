"""The file of a checkpoint: a checksum, and what the passes of a fit returned so far."""

import hashlib
import json
import os
import stat
import tempfile
from typing import Any

from safetensors.numpy import load, save

from dkmeans.atomic import write_atomically
from dkmeans.checkpoint.encode import Arrays

_MAGIC = b"dkmeans checkpoint 1\n"
Call = tuple[str, Any]  # a method, and what it returned, as JSON


class CheckpointError(ValueError):
    """A checkpoint cannot be taken up."""


class CheckpointPlaceError(CheckpointError, OSError):
    """A checkpoint cannot be written where it is to be."""


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no checkpoint can be written, before there is anything to write."""
    problem = _problem(os.path.realpath(path))  # a link stays a link
    if problem:
        raise CheckpointPlaceError(f"checkpoint={os.fspath(path)!r} is not accepted: {problem}.")


def _problem(target: str) -> str:
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        return f"there is no folder {folder!r}; make it first"
    try:
        with tempfile.TemporaryFile(dir=folder):  # what may be written is only known by trying
            mode = os.stat(target).st_mode
    except FileNotFoundError:
        return ""  # the file is yet to be made
    except OSError as error:
        return f"{error.strerror}; name a file that can be written"
    if stat.S_ISDIR(mode):
        return "it is a folder; name a file in it"
    return "" if stat.S_ISREG(mode) else "it is a pipe, socket or device; name a file"


def write(
    path: str | os.PathLike[str], about: dict[str, str], calls: list[Call], arrays: Arrays
) -> None:
    """Write a checkpoint, whole or not at all."""
    text = json.dumps({"about": about, "calls": calls})
    body = save(arrays, {"json": text})
    try:
        write_atomically(path, _MAGIC + hashlib.sha256(body).digest() + body)
    except OSError as error:
        raise CheckpointPlaceError(
            f"The checkpoint {os.fspath(path)!r} cannot be written ({error.strerror or error}): "
            "make room or name another place; the last one that was written is still there."
        ) from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, str], list[Call], Arrays]:
    """Read a checkpoint; a file that is not whole is refused."""
    with open(path, "rb") as file:
        data = file.read()
    where = f"The checkpoint {os.fspath(path)!r}"
    advice = "delete it to start afresh, or name another"
    if not data.startswith(_MAGIC):
        raise CheckpointError(f"{where} is not a checkpoint of this version: {advice}.")
    start = len(_MAGIC)
    digest, body = data[start : start + 32], data[start + 32 :]
    if hashlib.sha256(body).digest() != digest:
        raise CheckpointError(f"{where} is damaged, its checksum does not match: {advice}.")
    size = int.from_bytes(body[:8], "little")
    document = json.loads(json.loads(body[8 : 8 + size])["__metadata__"]["json"])
    calls = [(method, result) for method, result in document["calls"]]
    return document["about"], calls, load(body)
