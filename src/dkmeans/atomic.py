"""Files that are there as a whole or not at all. Every file that dkmeans writes is written here."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file beside a path; at the end make sure that it is on the disk and move it there.

    Whoever reads meanwhile finds the old file or the new one. If anything goes wrong, Ctrl-C
    included, the old one stays and nothing is left behind. The name of the new file cannot be
    guessed, and it is never opened if it exists, so nobody can direct what is written elsewhere.

    Parameters
    ----------
    path : str or path
        Where the file is to be. A link stays a link: what it points to is replaced.

    Yields
    ------
    file : binary file
        To write to.
    """
    target = check_place(path)
    folder = os.path.dirname(target)
    # Short, as a name of the longest that the system allows must still fit.
    beside = os.path.join(folder, f".dkmeans-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(beside, flags, 0o666), "wb") as file:
            if os.path.exists(target):  # what only its owner may read stays so
                os.chmod(beside, stat.S_IMODE(os.stat(target).st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError) and (error.filename == beside or error.errno in _FULL):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    _sync_folder(folder)


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all; see `replacing`."""
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
    """Make the new name last, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
