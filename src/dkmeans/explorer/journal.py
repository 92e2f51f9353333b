"""Journal of a session: one JSON object per line, appended and flushed to disk.

The first line tells which model and rows the edits belong to. The file is locked while it is open,
so that two processes never write to it at once. A last line that is not complete, as a crash can
leave it, is cut off.
"""

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 1
MAX_BYTES = 1 << 28  # of a journal that is read
_HEAD = "dkmeans_journal"


class Journal:
    """A journal that is open, and locked.

    Parameters
    ----------
    path : Path
        It is made if it does not exist.
    digests : mapping from str to str
        Of the model and the rows.

    Attributes
    ----------
    entries : list of dict
        What the file had when it was opened.
    """

    def __init__(self, path: Path, digests: Mapping[str, str]) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.fdopen(os.open(path, flags, 0o600), "r+b")
        try:
            self._lock()
            self.entries = self._read(digests)
        except BaseException:
            self._file.close()
            raise

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write an entry; it is on the disk when this returns."""
        line = json.dumps(entry, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        start = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            with contextlib.suppress(OSError):  # leave no part of a line
                self._file.truncate(start)
            raise

    def close(self) -> None:
        """Close the file, which unlocks it."""
        self._file.close()

    def _lock(self) -> None:
        try:
            if sys.platform == "win32":
                self._file.seek(1 << 40)  # behind the end: locked bytes cannot be read
                msvcrt.locking(self._file.fileno(), msvcrt.LK_NBLCK, 1)
                self._file.seek(0)
            else:
                fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{self.path} is in use by another explorer: end that one, or name another journal."
            ) from None

    def _read(self, digests: Mapping[str, str]) -> list[dict[str, Any]]:
        """Read all lines, or begin the file."""
        if os.fstat(self._file.fileno()).st_size > MAX_BYTES:
            raise ValueError(f"{self.path} is larger than {MAX_BYTES} bytes: name another journal.")
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data) and (whole or data.startswith(b'{"' + _HEAD.encode())):
            self._file.truncate(len(whole))
        elif len(whole) < len(data):
            raise self._foreign()
        if not whole:
            self.append({_HEAD: FORMAT, **digests})
            return []
        head, *entries = (self._parse(line) for line in whole.splitlines())
        if head.get(_HEAD) != FORMAT:
            raise self._foreign()
        for name, digest in digests.items():
            if head.get(name) != digest:
                raise ValueError(
                    f"{self.path} is the journal of other {name}: name another journal, or remove "
                    "it."
                )
        return entries

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except ValueError:
            raise self._foreign() from None
        if not isinstance(entry, dict):
            raise self._foreign()
        return entry

    def _foreign(self) -> ValueError:
        return ValueError(f"{self.path} is no journal of the explorer: name another file.")
