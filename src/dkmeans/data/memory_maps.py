"""Memory maps, read in blocks so that their pages do not stay in memory."""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import (
    Batch,
    BlockSource,
    SourceError,
    as_floats,
    labels_of_block,
    rows_per_block,
)


class MappedBlocks(BlockSource):
    """Rows of a memory map, with labels in memory.

    Parameters
    ----------
    X : memmap of shape (n, d)
    y, weight : arrays of shape (n,)
    memory_mb : float or None
    """

    def __init__(self, X: np.memmap, y: Any, weight: Any, memory_mb: float | None) -> None:
        if y is None:
            raise SourceError("y is missing: the rows of a memory map need an array of labels.")
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
        """Start to read from the beginning; rows are copies, unless they are `in_place`."""
        in_place = self.in_place() is not None
        for start in range(0, len(self._X), self._step):
            part = slice(start, start + self._step)
            weight = None if self._weight is None else self._weight[part]
            rows = np.asarray(self._X[part]) if in_place else np.array(self._X[part])
            if not in_place:
                give_back(self._X)
            yield Batch(rows, self._y[part], weight, f"rows from {start}")
            if in_place:
                view: Any = self._X[part]
                give_back(view)

    def in_place(self) -> np.memmap | None:
        """Return the map, if its rows are contiguous and of a type that passes read."""
        X = self._X
        is_ready = X.flags.c_contiguous and X.flags.aligned and X.dtype == as_floats([X.dtype])
        return X if is_ready else None


def mapped_parts(X: np.memmap, cuts: list[slice]) -> Iterator[npt.NDArray[Any]]:
    """Return ranges of the rows of a map; each is given back when the next one is asked for."""
    for cut in cuts:
        rows: Any = X[cut]
        _advise(rows, "MADV_WILLNEED")
        yield np.asarray(rows)
        give_back(rows)


def give_back(X: np.memmap) -> None:
    """Let the system take pages of a map from this process, where they would stay otherwise.

    Pages of a copy-on-write map may have changes that are nowhere else, and would be lost.
    """
    if X.mode != "c":
        _advise(X, "MADV_DONTNEED")


def _advise(X: np.memmap, advice: str) -> None:
    """Tell the system how the pages of a map are used, where it can be told."""
    base: Any = X
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, mmap.mmap) or not hasattr(mmap, advice):
        return
    option = getattr(mmap, advice)
    if not X.flags.c_contiguous:
        base.madvise(option)
        return
    first = X.ctypes.data - np.frombuffer(base, np.uint8).ctypes.data
    start = first // mmap.PAGESIZE * mmap.PAGESIZE
    base.madvise(option, start, first - start + X.nbytes)


def is_array_file(X: Any) -> bool:
    """Tell whether X is the path of an array that NumPy saved."""
    return isinstance(X, str | Path) and Path(X).suffix.lower() == ".npy"


def open_map(path: Path) -> np.memmap:
    """Map a .npy file; errors name it."""
    try:
        found = np.load(path, mmap_mode="r")
    except FileNotFoundError as error:
        raise SourceError(f"There is no file {path}.") from error
    except (ValueError, OSError) as error:
        raise SourceError(f"{path} is not a .npy file of numbers: {error}") from error
    assert isinstance(found, np.memmap)
    return found


def is_mapped(X: Any, memory_mb: float | None) -> bool:
    """Tell whether X is a memory map that is larger than the budget, if there is one."""
    return isinstance(X, np.memmap) and memory_mb is not None and X.nbytes > memory_mb * 2**20
