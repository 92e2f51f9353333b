"""Labelled rows that are read block by block: how to open them, and passes over them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dkmeans.data import validation
from dkmeans.data.batches import UserBatches, are_batches
from dkmeans.data.blocks import DEFAULT_MB, BlockSource, SourceError
from dkmeans.data.first_pass import FirstPass
from dkmeans.data.memory_maps import MappedBlocks, is_mapped
from dkmeans.geometry import geometry_of
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import RowState
from dkmeans.runners.prefetch import prefetched
from dkmeans.runners.shelf import Shelf
from dkmeans.runners.sweep import SweepRunner

# Shares of the budget:
_KEPT = 2  # rows that are kept in memory, if these are all
_WAITING = 4  # what is kept of each row, before it goes to disk
_LITTLE = 1 << 20  # bytes that are not worth a file


@dataclass(frozen=True)
class Stream:
    """Blocks that have been looked through once."""

    training: validation.Training
    sizes: list[int]  # rows of each block
    read: Callable[[], Iterator[Matrix]]  # starts to read them again

    def runner(
        self, weights: Floats | None, *, n_classes: int, n_threads: int, memory_mb: float | None
    ) -> SweepRunner:
        """Make parts, which have rows only while these are read."""

        def parts() -> Iterator[tuple[Part, RowState]]:
            for cut in cuts(self.sizes):
                y = self.training.y[cut].astype(np.intp)  # from 32 bits
                part = Part.of(
                    None,
                    y,
                    None if weights is None else weights[cut],
                    n_classes=n_classes,
                    start=cut.start,
                    n_threads=n_threads,
                    memory_mb=memory_mb,
                )
                yield part, RowState.start(y)

        limit = max(_budget(memory_mb) / _WAITING, _LITTLE)
        return SweepRunner(parts(), self.read, Shelf(int(limit)))


def open_blocks(X: Any, y: Any, sample_weight: Any, memory_mb: float | None) -> BlockSource | None:
    """Find out how to read X block by block; None if it is an array or table in memory."""
    if isinstance(X, BlockSource):
        _refuse_columns(y, sample_weight)
        return X
    if isinstance(X, str | Path):
        from dkmeans.data.tables import TableBlocks  # needs pyarrow

        if not isinstance(y, str):
            raise SourceError(f"X is a path, so y must be the name of the label column, not {y!r}.")
        return TableBlocks(X, y, sample_weight, memory_mb=memory_mb)
    if is_mapped(X, memory_mb):
        return MappedBlocks(X, y, sample_weight, memory_mb)
    if are_batches(X):
        _refuse_columns(y, sample_weight)
        return UserBatches(X)
    return None


def scan_blocks(
    estimator: Any, blocks: BlockSource, *, reach: float, how: Continuation, classes: Any = None
) -> Stream:
    """Read all blocks once, check them, and keep what is small: labels and weights.

    Parameters are those of `validation.check_training`.
    """
    look = FirstPass(estimator, blocks.names, how)
    with prefetched(blocks) as batches:
        for batch in batches:
            look.at(batch)
    training = look.training(reach, classes)
    geometry = geometry_of(estimator.metric)
    n_bytes = training.n_values * (training.dtype.itemsize + (4 if look.sparse else 0))
    few = n_bytes <= _budget(estimator.memory_mb) / _KEPT
    kept: list[Matrix] = []  # all blocks, once they have been read and if they are few

    def read() -> Iterator[Matrix]:
        if few and len(kept) == len(look.sizes):
            yield from kept
            return
        kept.clear()
        for X in look.again(blocks):
            block = geometry.rows(X)
            if few:
                kept.append(block)
            yield block

    return Stream(training, look.sizes, read)


def _budget(memory_mb: float | None) -> float:
    """Bytes that blocks and what is made of them may take."""
    return (DEFAULT_MB if memory_mb is None else memory_mb) * 2**20


def cuts(sizes: list[int]) -> list[slice]:
    """Where blocks of such sizes begin and end."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _refuse_columns(y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise SourceError("X brings its own labels and weights: leave y and sample_weight out.")
