"""Exact sums of sparse rows, without their zeros, for many groups of many features."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.tally import Scattered, add_sums

MIN_SPARSE_VALUES = 1 << 22  # smaller sums are dense: these are faster
CHUNK_VALUES = 1 << 21  # of dense copies of some groups
MIN_FLUSHED = 1 << 20  # terms that are collected before they are added up


@dataclass(frozen=True)
class SparseSums(Record):
    """An array of shape (n_slices, n_groups, n_columns), one CSR matrix for each slice.

    It has those operations of arrays that sums need, and they return the same values.
    """

    n_columns: int
    starts: list[npt.NDArray[np.integer]]  # of the groups, for each slice
    columns: list[npt.NDArray[np.integer]]
    values: list[Floats]

    @classmethod
    def of(cls, matrices: Sequence[Any]) -> Self:
        """Take the matrices of all slices."""
        return cls(
            matrices[0].shape[1],
            [one.indptr for one in matrices],
            [one.indices for one in matrices],
            [one.data for one in matrices],
        )

    @classmethod
    def of_dense(cls, array: Floats) -> Self:
        """Convert an array."""
        return cls.of([sp.csr_array(level) for level in array])

    @property
    def matrices(self) -> list[Any]:
        """The matrices of all slices, which share the memory."""
        levels = zip(self.values, self.columns, self.starts, strict=True)
        return [sp.csr_array(level, shape=self.shape[1:]) for level in levels]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the array."""
        return len(self.starts), len(self.starts[0]) - 1, self.n_columns

    @property
    def size(self) -> int:
        """Number of values of the array, with zeros."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes that this takes."""
        return sum(one.nbytes for some in (self.starts, self.columns, self.values) for one in some)

    def dense(self) -> Floats:
        """Return the array."""
        return np.stack([matrix.toarray() for matrix in self.matrices])

    def __getitem__(self, key: tuple[slice, Any]) -> Self:
        """Select groups: the first index is `:`."""
        every, which = key
        assert every == slice(None), "slices cannot be selected"
        return self.of([matrix[which] for matrix in self.matrices])

    def __neg__(self) -> Self:
        return self.of([-matrix for matrix in self.matrices])

    def __sub__(self, other: Self) -> Self:
        pairs = zip(self.matrices, other.matrices, strict=True)
        return self.of([one - two for one, two in pairs])

    def __truediv__(self, number: float) -> Self:
        return type(self)(
            self.n_columns, self.starts, self.columns, [level / number for level in self.values]
        )

    def placed(self, at: Indices, n_groups: int) -> Self:
        """Put groups at ascending places among others, which are empty."""
        starts = []
        for level in self.starts:
            counts = np.zeros(n_groups + 1, dtype=level.dtype)
            counts[at + 1] = np.diff(level)
            starts.append(np.cumsum(counts, dtype=level.dtype))
        return type(self)(self.n_columns, starts, self.columns, self.values)


Sums: TypeAlias = Floats | SparseSums


class SumBuilder:
    """Adds up terms of sums of groups.

    Parameters
    ----------
    shape : tuple
        Slices, groups and columns.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self._shape = shape
        empty = sp.csr_array(shape[1:])
        self._levels: list[Any] = [empty] * shape[0]
        self._pending: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Floats]] = []
        self._n_pending = 0

    def add(self, at: Indices, part: Scattered) -> None:
        """Add terms of some groups, given their indices among all."""
        columns = part.columns.astype(np.int32)
        self._pending.append((at[part.groups].astype(np.int32), columns, part.slices))
        self._n_pending += len(columns)
        # Each term is then added to a larger number of others a few times only.
        if self._n_pending > max(MIN_FLUSHED, self._levels[0].nnz // 2):
            self._flush()

    def sums(self) -> SparseSums:
        """Return the sums of all terms."""
        self._flush()
        return SparseSums.of(self._levels)

    def _flush(self) -> None:
        if not self._pending:
            return
        groups = np.concatenate([one[0] for one in self._pending])
        columns = np.concatenate([one[1] for one in self._pending])
        for number, level in enumerate(self._levels):
            values = np.concatenate([one[2][number] for one in self._pending])
            there = values != 0
            places = groups[there], columns[there]
            terms = sp.coo_array((values[there], places), shape=self._shape[1:])
            self._levels[number] = level + terms.tocsr()
        self._pending, self._n_pending = [], 0


def dense(sums: Sums) -> Floats:
    """Return sums as an array."""
    return sums.dense() if isinstance(sums, SparseSums) else sums


def joined(several: Sequence[Sums]) -> Sums:
    """Put groups together."""
    if any(isinstance(one, SparseSums) for one in several):
        levels = [_sparse(one).matrices for one in several]
        stacks = [sp.vstack(some, format="csr") for some in zip(*levels, strict=True)]
        return SparseSums.of(stacks)
    return np.concatenate([dense(one) for one in several], axis=1)


def add_runs(sums: Sums, starts: Indices) -> Sums:
    """Add up runs of groups, given where they start."""
    if not isinstance(sums, SparseSums):
        return np.add.reduceat(sums, starts, axis=1)
    n_groups = sums.shape[1]
    ends = np.append(starts, n_groups)
    runs = sp.csr_array((np.ones(n_groups), np.arange(n_groups), ends), (len(starts), n_groups))
    return SparseSums.of([runs @ matrix for matrix in sums.matrices])


def merged(several: Sequence[tuple[Sums, Indices | slice]], shape: tuple[int, int, int]) -> Sums:
    """Add up sums of some groups, each given with ascending places among all groups."""
    if any(isinstance(one, SparseSums) for one, _ in several):
        levels: list[Any] = []
        for one, at in several:
            placed = _sparse(one)
            if not isinstance(at, slice):
                placed = placed.placed(at, shape[1])
            pairs = zip(levels, placed.matrices, strict=True)
            levels = [a + b for a, b in pairs] if levels else placed.matrices
        return SparseSums.of(levels)
    whole = np.zeros(shape)  # sums that start at zero are never -0.0
    for one, at in several:
        if isinstance(at, slice):
            whole += dense(one)
        elif len(at):
            add_sums(whole, at, dense(one))
    return whole


def mapped(function: Callable[[Floats], Floats], sums: Sums) -> Sums:
    """Apply a function of single values, which may return another number of slices."""
    if not isinstance(sums, SparseSums):
        return function(sums)
    parts = [SparseSums.of_dense(function(one)) for _, one in dense_chunks(sums)]
    return joined(parts) if parts else SparseSums.of_dense(function(sums.dense()))


def dense_chunks(sums: Sums) -> Iterator[tuple[slice, Floats]]:
    """Iterate over some groups at a time, with dense sums."""
    if not isinstance(sums, SparseSums):
        yield slice(None), sums
        return
    n_groups = sums.shape[1]
    step = max(1, CHUNK_VALUES // max(1, sums.n_columns))
    for start in range(0, n_groups, step):
        some = slice(start, min(start + step, n_groups))
        yield some, sums[:, some].dense()


def _sparse(sums: Sums) -> SparseSums:
    return sums if isinstance(sums, SparseSums) else SparseSums.of_dense(sums)
