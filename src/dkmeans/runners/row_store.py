"""Storage for rows that are decoded once: in memory up to a limit, then in temporary files.

The files have the layout that passes read, so that blocks of any size can be memory-mapped.
"""

import logging
import mmap
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Matrix
from dkmeans.runners.disk_budget import DiskBudget, close_file

MIN_BLOCK_ROWS = 16
_Array: TypeAlias = npt.NDArray[Any]
_logger = logging.getLogger("dkmeans")


class RowStore:
    """Rows that are added in blocks, and read in blocks of another size.

    Files have no name and disappear with the process, even after a crash; `TMPDIR` sets their
    folder.

    Parameters
    ----------
    memory_bytes : int
        Rows up to this size are kept in memory.
    budget : DiskBudget
        Of the files.
    spared : callable, optional
        Returns how many bytes of the budget must stay free, given the number of rows.
    """

    def __init__(
        self,
        memory_bytes: int,
        budget: DiskBudget,
        spared: Callable[[int], int] = lambda n_rows: 0,
    ) -> None:
        self._memory_bytes, self._budget, self._spared = memory_bytes, budget, spared
        self._on_disk = 0  # bytes
        self._in_memory: list[Matrix] = []
        self._files: list[_ArrayFile] = []  # one per array of a block
        self._shape = (0, 0)
        self._bytes = 0

    def add(self, X: Matrix) -> bool:
        """Add a block, which must not change afterwards.

        Returns
        -------
        stored : bool
            False if there is no room; then all rows are dropped.
        """
        self._bytes += sum(array.nbytes for array in _arrays(X))
        self._shape = self._shape[0] + X.shape[0], X.shape[1]
        self._in_memory.append(X)
        if self._bytes <= self._memory_bytes:
            return True
        try:
            self._spill()
        except OSError as problem:  # the limit is reached, the disk is full, or its quota is used
            _logger.info("Rows are read again in every pass: %s.", problem)
            self.close()
            return False
        return True

    def fits(self, X: Matrix) -> bool:
        """Return whether the files would have room for a block."""
        n_bytes = sum(array.nbytes for array in _arrays(X))
        return self._budget.has(n_bytes + self._spared(self._shape[0]))

    def rows_per_block(self, n_bytes: int, more: int) -> int:
        """Return how many rows there are in blocks of a size, with `more` bytes per row."""
        n_rows = max(1, self._shape[0])
        if not self._files:
            return n_rows
        return max(MIN_BLOCK_ROWS, int(n_bytes / (self._bytes / n_rows + more)))

    def read(self, sizes: list[int]) -> Iterator[Matrix]:
        """Return all rows, in blocks with given numbers of rows."""
        if not self._files:
            assert len(sizes) == 1, "rows in memory are one block"
            if len(self._in_memory) > 1:
                self._in_memory = [_stacked(self._in_memory)]
            yield self._in_memory[0]
            return
        start, first = 0, 0  # row, and its first value in the file of values
        for size in sizes:
            if len(self._files) == 1:
                yield self._files[0].read(start, start + size)
                self._files[0].give_back(start, start + size)
            else:
                values, indices, lengths = self._files
                counts = lengths.read(start, start + size)
                last = first + int(counts.sum(dtype=np.int64))
                few = last - first <= np.iinfo(indices.dtype).max
                starts = np.zeros(size + 1, dtype=indices.dtype if few else np.int64)
                np.cumsum(counts, out=starts[1:])
                arrays = values.read(first, last), indices.read(first, last), starts
                yield sp.csr_array(arrays, shape=(size, self._shape[1]))
                values.give_back(first, last)
                indices.give_back(first, last)
                first = last
            start += size

    def close(self) -> None:
        """Drop all rows, and remove the files."""
        self._in_memory.clear()
        for file in self._files:
            file.close()
        self._files.clear()
        self._budget.give_back(self._on_disk)
        self._on_disk = 0

    def _spill(self) -> None:
        """Move the blocks that are in memory to the files."""
        left = self._bytes - self._on_disk
        if not self._budget.has(left + self._spared(self._shape[0])):
            raise OSError(f"{self._budget} are too few")
        while self._in_memory:
            arrays = _arrays(self._in_memory[0])
            n_bytes = sum(array.nbytes for array in arrays)
            self._budget.take(n_bytes)
            self._on_disk += n_bytes
            if not self._files:
                self._files = [_ArrayFile(array) for array in arrays]
            for file, array in zip(self._files, arrays, strict=True):
                file.append(array)
            del self._in_memory[0]


class _ArrayFile:
    """A temporary file to which arrays are appended.

    Parameters
    ----------
    like : array
        Its dtype, and its shape after the first axis, are those of all arrays.
    """

    def __init__(self, like: _Array) -> None:
        self.dtype, self._shape = like.dtype, like.shape[1:]
        self._item = like.dtype.itemsize * int(np.prod(self._shape))
        self._file: BinaryIO = tempfile.TemporaryFile(prefix="dkmeans-rows-")  # noqa: SIM115
        self._map: mmap.mmap | None = None  # of the whole file, once it is read

    def append(self, array: _Array) -> None:
        """Write an array after those before it."""
        self._file.write(np.ascontiguousarray(array, dtype=self.dtype).data)
        self._file.flush()  # so that an error comes here

    def read(self, start: int, stop: int) -> _Array:
        """Return a range of the first axis, which is read as it is accessed."""
        if start == stop or not self._item:
            return np.empty((stop - start, *self._shape), self.dtype)
        if self._map is None:
            # Copy-on-write, although nothing is written: loops may be compiled for arrays that can
            # be written to.
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._advise("MADV_WILLNEED", start, stop)
        count = (stop - start) * self._item // self.dtype.itemsize
        found = np.frombuffer(self._map, self.dtype, count, start * self._item)
        return found.reshape(stop - start, *self._shape)

    def give_back(self, start: int, stop: int) -> None:
        """Let the system take the pages of a range from this process."""
        self._advise("MADV_DONTNEED", start, stop)

    def _advise(self, advice: str, start: int, stop: int) -> None:
        if self._map is not None and hasattr(mmap, advice) and stop > start:
            first = start * self._item // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(getattr(mmap, advice), first, stop * self._item - first)

    def close(self) -> None:
        """Remove the file; a map of it lasts as long as arrays that were read."""
        self._map = None
        close_file(self._file)


def _arrays(X: Matrix) -> tuple[_Array, ...]:
    """Return the arrays of a block; those of a CSR matrix have the lengths of rows at the end."""
    return (X.data, X.indices, np.diff(X.indptr)) if sp.issparse(X) else (X,)


def _stacked(blocks: list[Matrix]) -> Matrix:
    """Lay blocks together, and empty the list."""
    if sp.issparse(blocks[0]):
        whole = sp.vstack(blocks, format="csr")
        blocks.clear()
        return whole
    # Each block is freed once it is copied, so that its memory can be used for the next one.
    whole = np.empty((sum(map(len, blocks)), *blocks[0].shape[1:]), blocks[0].dtype)
    blocks.reverse()
    start = 0
    while blocks:
        block = blocks.pop()
        whole[start : start + len(block)] = block
        start += len(block)
        del block
    return whole
