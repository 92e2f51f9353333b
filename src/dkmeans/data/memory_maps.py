"""Memory maps, read in blocks so that their pages do not stay in memory."""

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Batch, BlockSource, SourceError, labels_of_block, rows_per_block


class MappedBlocks(BlockSource):
    """Rows of a memory map, with labels in memory.

    Parameters
    ----------
    X : memmap of shape (n, d)
    y, weight : arrays of shape (n,)
    memory_mb : float or None
    """

    def __init__(self, X: np.memmap, y: Any, weight: Any, memory_mb: float | None) -> None:
        self._X, self._y = X, labels_of_block(y, "all rows")
        self._weight = None if weight is None else np.asarray(weight)
        if X.ndim != 2:
            raise SourceError(f"X must have two dimensions, but the memory map has {X.ndim}.")
        for name, column in (("y", self._y), ("sample_weight", self._weight)):
            if column is not None and column.shape != (len(X),):
                raise SourceError(
                    f"X has {len(X)} rows, but {name} has the shape {column.shape}: one value per "
                    "row is needed."
                )
        self._step = rows_per_block(memory_mb, X.shape[1], X.dtype.itemsize)

    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning."""
        for start in range(0, len(self._X), self._step):
            part = slice(start, start + self._step)
            weight = None if self._weight is None else self._weight[part]
            yield Batch(self._read(part), self._y[part], weight, f"rows from {start}")

    def _read(self, part: slice) -> npt.NDArray[Any]:
        rows = np.array(self._X[part])
        give_back(self._X)
        return rows


def give_back(X: np.memmap) -> None:
    """Let the system take pages of a map from this process, where they would stay otherwise.

    Pages of a copy-on-write map may have changes that are nowhere else, and would be lost.
    """
    base: Any = X
    while isinstance(base, np.ndarray):
        base = base.base
    if X.mode != "c" and isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def is_mapped(X: Any, memory_mb: float | None) -> bool:
    """Tell whether X is a memory map that is larger than the budget, if there is one."""
    return isinstance(X, np.memmap) and memory_mb is not None and X.nbytes > memory_mb * 2**20
