"""Labelled rows read block by block: open the blocks, scan them once, iterate over them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dkmeans.data import validation
from dkmeans.data.batches import UserBatches, are_batches, check_source
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
from dkmeans.geometry import AUTO, LEARNED, Euclidean, reading_geometry
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Matrix
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import RowState
from dkmeans.runners.disk_budget import DiskBudget
from dkmeans.runners.prefetch import prefetched
from dkmeans.runners.row_store import MIN_BLOCK_ROWS, RowStore
from dkmeans.runners.shelf import Shelf
from dkmeans.runners.sweep import SweepRunner

ROWS_BUDGET_SHARE = 1 / 2  # of memory_mb: larger data are on disk, mapped in parts of this size
STATE_BYTES = 128  # approximate size of what a visit needs of each row beside its values
STATE_BUDGET_SHARE = 1 / 4  # of memory_mb: per-row state beyond this is spilled to disk
SAMPLE_BUDGET_SHARE = 1 / 4  # of memory_mb: larger samples are several parts, and are spilled
MIN_SPILL_BYTES = 1 << 20  # less state is never spilled
PAPER_STATE_BYTES = 32  # approximate size of the state of a row between passes: of growth="paper",
GROWTH_STATE_BYTES = 96  # of the default growth, with its samples,
FULL_STATE_BYTES = 160  # and with refinement


@dataclass(frozen=True)
class Stream:
    """Blocks after the first pass."""

    training: validation.Training
    sizes: list[int]  # rows of each block
    read: Callable[[], AbstractContextManager[Iterator[Matrix]]]  # iterates over the blocks again
    budget: DiskBudget  # of temporary files
    state_bytes: Callable[[int], int]  # of them that is for the state of so many rows, about
    is_slow: bool = False  # whether it takes long to iterate again

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

        shelf = Shelf(_state_in_memory(memory_mb), self.budget)
        sample = int(_budget(memory_mb) * SAMPLE_BUDGET_SHARE)

        def new_store() -> RowStore:
            nothing = -1  # in memory
            left = self.state_bytes(self.training.n_rows) - shelf.file_bytes
            return RowStore(nothing, self.budget, lambda _: max(0, left))

        return SweepRunner(parts(), self.read, shelf, sample, new_store if self.is_slow else None)


def open_blocks(X: Any, y: Any, sample_weight: Any, memory_mb: float | None) -> BlockSource | None:
    """Return a reader of X by blocks; None if X is an array or table in memory."""
    check_source(X, y)
    if isinstance(X, BlockSource):
        _refuse_columns(y, sample_weight)
        return X
    if are_paths(X):
        if is_array_file(X):
            return MappedBlocks(open_map(Path(X)), y, sample_weight, memory_mb)
        from dkmeans.data.tables import TableBlocks  # needs pyarrow

        if not isinstance(y, str):
            raise SourceError(
                "X is a path, so y must be the name of the label column, not "
                f"{_described(y)}. Labels in an array go with a single .npy file."
            )
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
    are read again in every pass. A memory map that passes can read stays where it is. What is kept
    of each row between passes comes first: rows get the room on disk that it leaves. Further
    parameters are those of `validation.check_training`.
    """
    geometry = reading_geometry(estimator.metric)
    rows_bytes = int(_budget(estimator.memory_mb) * ROWS_BUDGET_SHARE)
    disk = DiskBudget.of(estimator.disk_mb)
    state_bytes = partial(_state_on_disk, estimator)

    def training(look: FirstPass) -> validation.Training:
        found = look.training(reach, classes)
        needed = state_bytes(found.n_rows)
        if not disk.has(needed):
            raise disk.no_room(f"some {needed / 2**20:,.1f} MiB do not fit into {disk}")
        return found

    mapped = blocks.in_place()
    if mapped is not None and geometry == Euclidean():
        look = FirstPass(estimator, blocks.names, how)
        if all(look.at(batch) is batch.X for batch in blocks):  # of the dtype of an earlier fit
            checked = training(look)
            per_row = mapped.shape[1] * mapped.itemsize + STATE_BYTES
            sizes = _even_sizes(len(mapped), max(MIN_BLOCK_ROWS, rows_bytes // per_row))
            read_map = partial(mapped_parts, mapped, cuts(sizes))
            return Stream(checked, sizes, lambda: nullcontext(read_map()), disk, state_bytes)
    store = RowStore(rows_bytes, disk, state_bytes)
    ending.callback(store.close)
    look = FirstPass(estimator, blocks.names, how)
    with prefetched(blocks) as batches:
        kept = all(
            X is None or store.add(geometry.rows(X)) for X in (look.at(batch) for batch in batches)
        )
    if kept:
        checked = training(look)
        sizes = _even_sizes(checked.n_rows, store.rows_per_block(rows_bytes, STATE_BYTES))
        return Stream(checked, sizes, lambda: nullcontext(store.read(sizes)), disk, state_bytes)
    look = FirstPass(estimator, blocks.names, how)
    with prefetched(blocks) as batches:
        for batch in batches:
            X = look.at(batch)
            if X is not None:
                look.remember(batch, X)
    checked = training(look)

    def read_again() -> AbstractContextManager[Iterator[Matrix]]:
        return prefetched(map(geometry.rows, look.again(blocks)))

    return Stream(checked, look.sizes, read_again, disk, state_bytes, is_slow=True)


def _state_in_memory(memory_mb: float | None) -> int:
    """Return how many bytes of what is kept of each row may stay in memory."""
    return int(max(_budget(memory_mb) * STATE_BUDGET_SHARE, MIN_SPILL_BYTES))


def _state_on_disk(estimator: Any, n_rows: int) -> int:
    """Return about how many bytes of it will be on disk."""
    per_row = PAPER_STATE_BYTES if estimator.growth == "paper" else GROWTH_STATE_BYTES
    if estimator.refine is not None or estimator.metric in (AUTO, LEARNED):
        per_row = FULL_STATE_BYTES
    return max(0, per_row * n_rows - _state_in_memory(estimator.memory_mb))


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


def _described(y: Any) -> str:
    """Describe labels in a few words, as they may be too many to print."""
    if hasattr(y, "shape"):
        return f"an array of shape {y.shape}"
    return "a list" if isinstance(y, list) else repr(y)
