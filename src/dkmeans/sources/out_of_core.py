"""Labelled rows read block by block: open the blocks, scan them once, iterate over them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dkmeans.data import validation
from dkmeans.data.batches import UserBatches, are_batches
from dkmeans.data.blocks import DEFAULT_MB, BlockSource, SourceError, are_paths
from dkmeans.data.first_pass import FirstPass
from dkmeans.data.memory_maps import (
    MappedBlocks,
    is_array_file,
    is_mapped,
    mapped_parts,
    open_map,
)
from dkmeans.data.row_weights import Weighting
from dkmeans.geometry import Euclidean, reading_geometry
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Matrix
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import RowState
from dkmeans.runners.prefetch import prefetched
from dkmeans.runners.row_store import MIN_BLOCK_ROWS, RowStore, disk_limit
from dkmeans.runners.shelf import Shelf
from dkmeans.runners.sweep import SweepRunner

ROWS_BUDGET_SHARE = 1 / 2  # of memory_mb: larger data are on disk, mapped in parts of this size
STATE_BYTES = 128  # approximate size of what a visit needs of each row beside its values
STATE_BUDGET_SHARE = 1 / 4  # of memory_mb: per-row state beyond this is spilled to disk
SAMPLE_BUDGET_SHARE = 1 / 4  # of memory_mb: larger samples are several parts, and are spilled
MIN_SPILL_BYTES = 1 << 20  # less state is never spilled


@dataclass(frozen=True)
class Stream:
    """Blocks after the first pass."""

    training: validation.Training
    sizes: list[int]  # rows of each block
    read: Callable[[], AbstractContextManager[Iterator[Matrix]]]  # iterates over the blocks again

    def runner(
        self,
        weighting: Weighting | None,
        *,
        n_classes: int,
        n_threads: int,
        memory_mb: float | None,
    ) -> SweepRunner:
        """Build parts, which hold rows only while their block is being read."""
        weights = None
        if weighting is not None:
            weights = weighting.of(self.training.sample_weight, self.training.y)

        def parts() -> Iterator[tuple[Part, RowState]]:
            for cut in cuts(self.sizes):
                y = self.training.y[cut].astype(np.intp)  # stored as 32-bit integers
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

        limit = max(_budget(memory_mb) * STATE_BUDGET_SHARE, MIN_SPILL_BYTES)
        sample = int(_budget(memory_mb) * SAMPLE_BUDGET_SHARE)
        return SweepRunner(parts(), self.read, Shelf(int(limit)), sample)


def open_blocks(X: Any, y: Any, sample_weight: Any, memory_mb: float | None) -> BlockSource | None:
    """Return a reader of X by blocks; None if X is an array or table in memory."""
    if isinstance(X, BlockSource):
        _refuse_columns(y, sample_weight)
        return X
    if are_paths(X):
        if is_array_file(X):
            return MappedBlocks(open_map(Path(X)), y, sample_weight, memory_mb)
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
    estimator: Any,
    blocks: BlockSource,
    ending: ExitStack,
    *,
    reach: float,
    how: Continuation,
    classes: Any = None,
) -> Stream:
    """Read all blocks once, check them, and keep labels, weights and, where there is room, rows.

    Rows are kept in the space of the metric, until `ending` is closed. If there is no room, they
    are read again in every pass. A memory map that passes can read stays where it is. Further
    parameters are those of `validation.check_training`.
    """
    geometry = reading_geometry(estimator.metric)
    rows_bytes = int(_budget(estimator.memory_mb) * ROWS_BUDGET_SHARE)
    mapped = blocks.in_place()
    if mapped is not None and geometry == Euclidean():
        look = FirstPass(estimator, blocks.names, how)
        if all(look.at(batch) is batch.X for batch in blocks):  # of the dtype of an earlier fit
            training = look.training(reach, classes)
            per_row = mapped.shape[1] * mapped.itemsize + STATE_BYTES
            sizes = _even_sizes(len(mapped), max(MIN_BLOCK_ROWS, rows_bytes // per_row))
            return Stream(training, sizes, lambda: nullcontext(mapped_parts(mapped, cuts(sizes))))
    store = RowStore(rows_bytes, disk_limit(estimator.disk_mb))
    ending.callback(store.close)
    look = FirstPass(estimator, blocks.names, how)
    with prefetched(blocks) as batches:
        kept = all(
            X is None or store.add(geometry.rows(X)) for X in (look.at(batch) for batch in batches)
        )
    if kept:
        training = look.training(reach, classes)
        sizes = _even_sizes(len(training.y), store.rows_per_block(rows_bytes, STATE_BYTES))
        return Stream(training, sizes, lambda: nullcontext(store.read(sizes)))
    look = FirstPass(estimator, blocks.names, how)
    with prefetched(blocks) as batches:
        for batch in batches:
            X = look.at(batch)
            if X is not None:
                look.remember(batch, X)
    training = look.training(reach, classes)

    def read_again() -> AbstractContextManager[Iterator[Matrix]]:
        return prefetched(map(geometry.rows, look.again(blocks)))

    return Stream(training, look.sizes, read_again)


def _even_sizes(n_rows: int, limit: int) -> list[int]:
    """Split rows into parts of about the same size, up to a limit."""
    n_parts = -(-n_rows // limit)
    sizes: list[int] = np.diff(n_rows * np.arange(n_parts + 1) // n_parts).tolist()
    return sizes


def _budget(memory_mb: float | None) -> float:
    """Return the memory budget of blocks and of per-row state, in bytes."""
    return (DEFAULT_MB if memory_mb is None else memory_mb) * 2**20


def cuts(sizes: list[int]) -> list[slice]:
    """Return the row ranges of consecutive blocks of given sizes."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _refuse_columns(y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise SourceError("X brings its own labels and weights: leave y and sample_weight out.")
