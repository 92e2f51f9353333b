"""What a reader gives: labelled rows, block by block, the same every time."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.data.value_checks import as_csr, as_labels
from dkmeans.kernels.block import Matrix

DEFAULT_MB = 256.0  # for blocks and what is made of them, where no budget is given
_SHARE = 8  # of the budget: a block is read, converted and waits, with another one under way


@dataclass(frozen=True)
class Batch:
    """Some labelled rows."""

    X: Matrix
    y: npt.NDArray[Any]
    weight: npt.NDArray[Any] | None
    where: str  # they are from, for messages


class Digest(NamedTuple):
    """Checksums of a block, which tell whether another pass gives the same one."""

    rows: int
    labels: int
    weights: int

    @classmethod
    def of(cls, batch: Batch, X: Matrix) -> "Digest":
        """Make the checksums of a block whose rows, in the type of all, are X."""
        weight = () if batch.weight is None else (batch.weight,)
        rows = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
        return cls(_checksum(*rows), _checksum(batch.y), _checksum(*weight))

    def differs_in(self, other: "Digest") -> list[str]:
        """Name what is not the same."""
        pairs = zip(self._fields, self, other, strict=True)
        return [name for name, mine, theirs in pairs if mine != theirs]


def _checksum(*arrays: npt.NDArray[Any]) -> int:
    """Fast, and without the interpreter's lock."""
    found = 0
    for array in arrays:
        values = array.astype(str) if array.dtype == object else array
        found = zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data, found)
    return found


class BlockSource(ABC):
    """Labelled rows in blocks, which can be read again and again."""

    names: list[str] | None = None  # those of the features, where they have any

    @abstractmethod
    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning."""


class SourceError(ValueError):
    """Data cannot be read block by block, or not again in the same way."""


def csr_of_block(X: Any, where: str) -> Matrix:
    """Make CSR of the sparse rows of a block, and say which block if they are not sound."""
    try:
        return as_csr(X)
    except ValueError as error:
        raise SourceError(f"In {where}: {error}") from error


def labels_of_block(y: Any, where: str) -> npt.NDArray[Any]:
    """Make an array of the labels of a block, and say which block if they are no labels."""
    try:
        return np.asarray(as_labels(y))
    except ValueError as error:
        raise SourceError(f"In {where}: {error}") from error


def rows_per_block(memory_mb: float | None, n_features: int, itemsize: int) -> int:
    """Tell how many rows a block may have."""
    budget = (DEFAULT_MB if memory_mb is None else memory_mb) * 2**20
    return max(16, int(budget / _SHARE / (n_features * itemsize + 64)))


def as_floats(dtypes: list[Any]) -> np.dtype[np.floating]:
    """Choose the type that holds all columns: float32 if they are, or else float64."""
    joint = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    return np.dtype(np.float32) if joint == np.float32 else np.dtype(np.float64)
