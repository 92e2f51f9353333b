"""The space that all temporary files of a fit may take together."""

import shutil
import tempfile
from contextlib import suppress
from typing import BinaryIO

FREE_SHARE = 1 / 2  # of the free space of the disk, which files may use if no limit is given


class DiskSpaceError(OSError):
    """Temporary files that a fit cannot do without have no room."""


class DiskBudget:
    """Counts the bytes of temporary files.

    Parameters
    ----------
    limit : int
        Bytes of all files together.
    """

    def __init__(self, limit: int) -> None:
        self.limit = self._left = limit

    @classmethod
    def of(cls, disk_mb: float | None) -> "DiskBudget":
        """Make the budget that a parameter allows: as given, or a share of the free space."""
        try:
            free = shutil.disk_usage(tempfile.gettempdir()).free
        except OSError:  # no folder can be written to; small inputs need none
            free = 0
        return cls(int(free * FREE_SHARE) if disk_mb is None else min(int(disk_mb * 2**20), free))

    def has(self, n_bytes: int) -> bool:
        """Return whether so many bytes are left."""
        return n_bytes <= self._left

    def take(self, n_bytes: int) -> None:
        """Count bytes that are about to be written."""
        if not self.has(n_bytes):
            raise OSError(f"{self} are used up")
        self._left -= n_bytes

    def give_back(self, n_bytes: int) -> None:
        """Count bytes that are free again."""
        self._left += n_bytes

    def no_room(self, why: object) -> DiskSpaceError:
        """Return the error for state of rows that has no room."""
        try:
            folder = f"in {tempfile.gettempdir()!r}"
        except OSError:
            folder = "for which there is no folder"
        return DiskSpaceError(
            "Found no room for what is kept of each row between passes, in memory_mb and in "
            f"temporary files {folder} ({why}): set a larger memory_mb or "
            "disk_mb, free some of the disk, or let TMPDIR name a folder on a larger one."
        )

    def __str__(self) -> str:
        size = self.limit / 2**20
        rounded = f"{size:,.0f}" if size >= 100 else f"{size:.2g}"
        return f"the {rounded} MiB that disk_mb, or the free space, allows"


def close_file(file: BinaryIO) -> None:
    """Close a temporary file; bytes that could not be written to a full disk are dropped."""
    with suppress(OSError):
        file.close()
