"""Files that are there as a whole or not at all."""

import contextlib
import os
import secrets


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file beside its place, make sure it is on the disk, and move it there.

    Whoever reads meanwhile finds the old file or the new one. If anything goes wrong, the old one
    stays and nothing is left behind.
    """
    target = os.path.realpath(os.fspath(path))  # a link stays a link
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"There is no folder {folder!r} to write {name!r} to: make it first."
        )
    if os.path.isdir(target):
        raise IsADirectoryError(f"{target!r} is a folder: name a file in it.")
    beside = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(beside, flags, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Make the new name last, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
