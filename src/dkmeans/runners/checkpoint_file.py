"""Checkpoint file: a checksum, and the results of all passes so far."""

import hashlib
import json
import os
import stat
import tempfile
from typing import TypeAlias

from safetensors.numpy import load, save

from dkmeans.atomic import write_atomically
from dkmeans.runners.encoding import Arrays, Json

MAGIC = b"dkmeans checkpoint 2\n"
DIGEST_BYTES = 32
Entry: TypeAlias = tuple[str, Json]  # name of a pass, and its result


class CheckpointError(ValueError):
    """A fit cannot be resumed from a checkpoint."""


class CheckpointPlaceError(CheckpointError, OSError):
    """A checkpoint cannot be written to its path."""


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise an error if no checkpoint can be written to a path."""
    problem = _problem(os.path.realpath(path))  # resolve symbolic links
    if problem:
        raise CheckpointPlaceError(f"checkpoint={os.fspath(path)!r} is not accepted: {problem}.")


def _problem(target: str) -> str:
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        return f"there is no folder {folder!r}; make it first"
    try:
        with tempfile.TemporaryFile(dir=folder):  # the only way to know is to try
            mode = os.stat(target).st_mode
    except FileNotFoundError:
        return ""  # a new file
    except OSError as error:
        return f"{error.strerror}; name a file that can be written"
    if stat.S_ISDIR(mode):
        return "it is a folder; name a file in it"
    return "" if stat.S_ISREG(mode) else "it is a pipe, socket or device; name a file"


def write(
    path: str | os.PathLike[str],
    about: dict[str, str],
    entries: list[Entry],
    seconds: list[float],
    arrays: Arrays,
) -> None:
    """Write a checkpoint atomically; `seconds` is when each entry was made."""
    text = json.dumps({"about": about, "passes": entries, "seconds": seconds})
    body = save(arrays, {"json": text})
    try:
        write_atomically(path, MAGIC + hashlib.sha256(body).digest() + body)
    except OSError as error:
        raise CheckpointPlaceError(
            f"The checkpoint {os.fspath(path)!r} cannot be written ({error.strerror or error}): "
            "make room or name another place; the last one that was written is still there."
        ) from error


def read(
    path: str | os.PathLike[str],
) -> tuple[dict[str, str], list[Entry], list[float], Arrays]:
    """Read a checkpoint; a damaged file is refused."""
    with open(path, "rb") as file:
        data = file.read()
    where = f"The checkpoint {os.fspath(path)!r}"
    advice = "delete it to start afresh, or name another"
    if not data.startswith(MAGIC):
        raise CheckpointError(f"{where} is not a checkpoint of this version: {advice}.")
    start = len(MAGIC)
    digest, body = data[start : start + DIGEST_BYTES], data[start + DIGEST_BYTES :]
    if hashlib.sha256(body).digest() != digest:
        raise CheckpointError(f"{where} is damaged, its checksum does not match: {advice}.")
    size = int.from_bytes(body[:8], "little")
    document = json.loads(json.loads(body[8 : 8 + size])["__metadata__"]["json"])
    entries = [(name, result) for name, result in document["passes"]]
    seconds = document.get("seconds", [0.0] * len(entries))  # not in those of earlier versions
    return document["about"], entries, seconds, load(body)
