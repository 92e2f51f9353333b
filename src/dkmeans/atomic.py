"""Atomic writing: a file is complete or does not exist. All files of dkmeans are written here."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file; at the end flush it to disk and move it to the path.

    A reader finds either the old file or the new one. After an error, Ctrl-C included, the old file
    is unchanged and nothing is left behind. The temporary file has a random name and is never
    opened if it exists, so that a link cannot redirect what is written.

    Parameters
    ----------
    path : str or path
        The file to write. A symbolic link is kept: the file it points to is replaced.
    durable : bool
        Whether to wait until the file is on disk. Without it, a crash of the machine may leave a
        damaged file, which the reader must be able to tell.

    Yields
    ------
    file : binary file
        The temporary file, open for writing.
    """
    target = check_place(path)
    folder = os.path.dirname(target)
    # A short name, which is valid wherever the name of the target is.
    temporary = os.path.join(folder, f".dkmeans-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            if os.path.exists(target):  # keep its permissions
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and (
            error.filename == temporary or error.errno in _DISK_FULL
        ):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    if durable:
        _sync_folder(folder)


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file completely or not at all; see `replacing`."""
    with replacing(path) as file:
        file.write(data)


def check_place(path: str | os.PathLike[str]) -> str:
    """Check that a file can be written to a path, and return the path with links resolved."""
    target = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"There is no folder {folder!r} to write {name!r} to: make it first."
        )
    if os.path.isdir(target):
        raise IsADirectoryError(f"{target!r} is a folder: name a file in it.")
    if os.path.lexists(target) and not os.path.isfile(target):
        raise OSError(f"{target!r} is a device or a pipe, which cannot be replaced: name a file.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {folder!r} cannot be written to: name another.")
    return target


def _sync_folder(folder: str) -> None:
    """Flush the folder, so that the new name survives a crash, where the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
