"""Where arrays wait that are needed once per pass: in memory while they are few, else on disk."""

import tempfile
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from weakref import finalize

import numpy as np
import numpy.typing as npt

_STEP = 1 << 16  # bytes: places in the file are whole multiples, so that they can be used again


@dataclass(eq=False)
class Ticket:
    """What an array on the shelf is got back with; once nobody has it, the place is free again."""

    wide: bool  # whether numbers were made short
    dtype: np.dtype[Any]  # on the shelf
    length: int
    array: npt.NDArray[Any] | None  # itself, if it is in memory
    offset: int = field(default=-1)  # in the file


class Shelf:
    """A place for one-dimensional arrays.

    Whole numbers are kept in 32 bits; they are numbers of rows in a part, of cells or of classes.

    Parameters
    ----------
    limit : int
        Bytes that may stay in memory. What goes beyond is written to a temporary file, which has no
        name and is gone when the process ends, however it does; `TMPDIR` tells where.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._file: BinaryIO | None = None
        self._end = 0
        self._free: dict[int, list[int]] = {}  # offsets of places that are free, by size

    def put(self, array: npt.NDArray[Any]) -> Ticket:
        """Take an array, which must not change any more."""
        wide = array.dtype == np.intp
        array = np.ascontiguousarray(array, dtype=np.int32 if wide else None)
        about = wide, array.dtype, len(array)
        if self._held + array.nbytes <= self._limit or not array.nbytes:
            self._held += array.nbytes
            ticket = Ticket(*about, array)
            finalize(ticket, self._leave, array.nbytes)
            return ticket
        size = -(-array.nbytes // _STEP) * _STEP
        ticket = Ticket(*about, None, self._place(size))
        finalize(ticket, self._free.setdefault(size, []).append, ticket.offset)
        file = self._opened()
        file.seek(ticket.offset)
        file.write(array.data)
        file.flush()
        return ticket

    def get(self, ticket: Ticket) -> npt.NDArray[Any]:
        """Give an array back; what is on disk is read where it is looked at."""
        array = ticket.array
        if array is None:
            # Changes would stay private, and there are none: readers of arrays may be compiled
            # for those that can be written to.
            array = np.asarray(
                np.memmap(self._opened(), ticket.dtype, "c", ticket.offset, (ticket.length,))
            )
        return array.astype(np.intp) if ticket.wide else array

    def _leave(self, n_bytes: int) -> None:
        self._held -= n_bytes

    def _place(self, size: int) -> int:
        free = self._free.get(size)
        if free:
            return free.pop()
        self._end += size
        self._opened().truncate(self._end)
        return self._end - size

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dkmeans-")  # noqa: SIM115
            finalize(self, self._file.close)
        return self._file
