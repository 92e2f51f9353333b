"""Storage for arrays needed once per pass: in memory up to a limit, then on disk."""

import mmap
import tempfile
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Indices
from dkmeans.runners.disk_budget import DiskBudget, close_file

Array: TypeAlias = npt.NDArray[np.generic]
MIN_FILE_BYTES = 1 << 16  # smaller arrays stay in memory
MIN_PLACE_BYTES = 64  # in the file; larger places are multiples of it
PLACE_BITS = 5  # significant bits of the size of a place: with few sizes, places are used again


@dataclass(frozen=True, eq=False)
class Ticket:
    """Handle to an array on the shelf.

    Attributes
    ----------
    array : array or None
        The array itself, if it is in memory.
    nbytes : int
        Bytes in memory that count towards the limit, or size of the place in the file.
    narrowed : bool
        Whether 64-bit indices are stored in 32 bits.
    dtype, length : of the array as it is stored
    offset : int
        In the file.
    """

    array: Array | None
    nbytes: int
    narrowed: bool
    dtype: np.dtype[np.generic]
    length: int
    offset: int = -1


class Shelf:
    """Storage for arrays, in memory up to a limit and then in a temporary file.

    One-dimensional arrays of indices are stored in 32 bits: they are numbers of rows in a part, of
    cells or of classes. The file has no name and disappears with the process, even after a crash;
    `TMPDIR` sets its folder.

    Parameters
    ----------
    limit : int
        Bytes of one-dimensional arrays that may stay in memory.
    budget : DiskBudget
        Of the file.
    """

    def __init__(self, limit: int, budget: DiskBudget) -> None:
        self._limit, self._in_memory = limit, 0
        self._budget = budget
        self._file: BinaryIO | None = None
        self._file_bytes = 0
        self._free: dict[int, list[int]] = {}  # offsets of free places, by size

    @property
    def file_bytes(self) -> int:
        """Size of the file."""
        return self._file_bytes

    def put(self, array: Array) -> Ticket:
        """Store an array, which must not change afterwards."""
        if array.ndim != 1 or _is_slice(array):
            # Keep arrays that are not per row, or that are views of arrays in memory anyway.
            return Ticket(array, 0, False, array.dtype, len(array))
        narrowed = array.dtype == np.intp
        stored = np.ascontiguousarray(array, dtype=np.int32 if narrowed else None)
        about = narrowed, stored.dtype, len(stored)
        if self._in_memory + stored.nbytes <= self._limit or not stored.nbytes:
            self._in_memory += stored.nbytes
            return Ticket(stored, stored.nbytes, *about)
        size = _place_size(stored.nbytes)
        try:
            ticket = Ticket(None, size, *about, self._place(size))
            file = self._opened()
            file.seek(ticket.offset)
            file.write(stored.data)
            file.flush()
        except OSError as problem:  # the budget is used up, the disk is full, or its quota is used
            raise self._budget.no_room(problem) from problem
        return ticket

    def get(self, ticket: Ticket) -> Array:
        """Return an array; what is on disk is read as it is accessed."""
        array = ticket.array
        if array is None:
            # Copy-on-write, although nothing is written: loops may be compiled for arrays that
            # can be written to. `np.memmap` would take several times as long.
            n_bytes = ticket.length * ticket.dtype.itemsize
            skipped = ticket.offset % mmap.ALLOCATIONGRANULARITY
            handle, start = self._opened().fileno(), ticket.offset - skipped
            content = mmap.mmap(handle, skipped + n_bytes, access=mmap.ACCESS_COPY, offset=start)
            array = np.frombuffer(content, ticket.dtype, ticket.length, skipped)
        return array.astype(np.intp) if ticket.narrowed else array

    def free(self, ticket: Ticket) -> None:
        """Free an array; its place is reused."""
        if ticket.array is None:
            self._free.setdefault(ticket.nbytes, []).append(ticket.offset)
        else:
            self._in_memory -= ticket.nbytes

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            close_file(self._file)
        self._budget.give_back(self._file_bytes)
        self._file_bytes = 0

    def _place(self, size: int) -> int:
        free = self._free.get(size)
        if free:
            return free.pop()
        self._budget.take(size)
        self._file_bytes += size
        self._opened().truncate(self._file_bytes)
        return self._file_bytes - size

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dkmeans-")  # noqa: SIM115
        return self._file


def on_disk(array: Indices) -> Indices:
    """Move a large array to a temporary file without a name, which is read as it is accessed.

    It stays in memory if there is no room for the file.
    """
    if array.nbytes < MIN_FILE_BYTES:
        return array
    try:
        with tempfile.TemporaryFile(prefix="dkmeans-") as file:
            file.write(np.ascontiguousarray(array).data)
            file.flush()
            content = mmap.mmap(file.fileno(), array.nbytes, access=mmap.ACCESS_READ)
    except OSError:
        return array
    return np.frombuffer(content, array.dtype)


def _place_size(n_bytes: int) -> int:
    """Round up to a size of which there are few."""
    step = max(MIN_PLACE_BYTES, 1 << max(0, n_bytes.bit_length() - PLACE_BITS))
    return -(-n_bytes // step) * step


def _is_slice(array: Array) -> bool:
    """Return whether an array is a view of a larger one in memory; memory maps do not count."""
    return type(array.base) is np.ndarray and array.base.size > array.size
