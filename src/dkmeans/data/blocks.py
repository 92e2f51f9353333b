"""Blocks of labelled rows: what all readers return, and how large blocks may be."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.data.value_checks import as_csr, as_labels
from dkmeans.kernels.block import Matrix

DEFAULT_MB = 256.0  # budget in MiB for blocks and what is made of them, unless memory_mb is given
Paths: TypeAlias = str | Path | Sequence[str | Path]
_BLOCKS_IN_BUDGET = 8  # blocks are copied to convert them, and the next one is read meanwhile


@dataclass(frozen=True)
class Batch:
    """Labelled rows."""

    X: Matrix
    y: npt.NDArray[Any]
    weight: npt.NDArray[Any] | None
    where: str  # where they come from, for messages
    label_dtype: np.dtype[Any] | None = None  # of the labels as they were given, if not that of y


class Digest(NamedTuple):
    """Checksums of a block, to detect data that changes between passes."""

    rows: int
    labels: int
    weights: int

    @classmethod
    def of(cls, batch: Batch, X: Matrix) -> "Digest":
        """Compute the checksums of a block whose converted rows are X."""
        weight = () if batch.weight is None else (batch.weight,)
        rows = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
        return cls(_checksum(*rows), _checksum(batch.y), _checksum(*weight))

    def differs_in(self, other: "Digest") -> list[str]:
        """Name the fields that differ."""
        pairs = zip(self._fields, self, other, strict=True)
        return [name for name, mine, theirs in pairs if mine != theirs]


def _checksum(*arrays: npt.NDArray[Any]) -> int:
    """Compute a CRC, which is fast and releases the interpreter's lock."""
    found = 0
    for array in arrays:
        values = array.astype(str) if array.dtype == object else array
        found = zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data, found)
    return found


class BlockSource(ABC):
    """Labelled rows in blocks, which can be read again and again."""

    names: list[str] | None = None  # names of the features, if they have any

    @abstractmethod
    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning."""

    def in_place(self) -> np.memmap | None:
        """Return all rows, if they are memory-mapped in the layout that passes read."""
        return None


class SourceError(ValueError):
    """Data cannot be read, or changes between passes."""


def csr_of_block(X: Any, where: str) -> Matrix:
    """Convert the sparse rows of a block to CSR; errors name the block."""
    try:
        return as_csr(X)
    except ValueError as error:
        raise SourceError(f"In {where}: {error}") from error


def labels_of_block(y: Any, where: str) -> npt.NDArray[Any]:
    """Convert the labels of a block to an array; errors name the block."""
    try:
        return np.asarray(as_labels(y))
    except ValueError as error:
        raise SourceError(f"In {where}: {error}") from error


def are_paths(X: Any) -> bool:
    """Tell whether X is a path, or a list of paths."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(one, str | Path) for one in X)
    return isinstance(X, str | Path)


def rows_per_block(memory_mb: float | None, n_features: int, itemsize: int) -> int:
    """Compute how many rows a block may have."""
    budget = (DEFAULT_MB if memory_mb is None else memory_mb) * 2**20
    return max(16, int(budget / _BLOCKS_IN_BUDGET / (n_features * itemsize + 64)))


def as_floats(dtypes: list[Any]) -> np.dtype[np.floating]:
    """Choose the float type of an array of columns: float32 if that holds them, else float64."""
    joint = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    return np.dtype(np.float32) if joint == np.float32 else np.dtype(np.float64)
