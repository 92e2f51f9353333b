"""Parts whose rows are read again in every pass, block by block."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, repeat
from typing import TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from dkmeans.kernels.block import Indices, Matrix
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.passes.batch import Batch
from dkmeans.passes.contract import AnyPass, Derivation, Exchange, HashedRows, Pass
from dkmeans.passes.part import Part, Setting
from dkmeans.passes.row_state import RowState
from dkmeans.runners.batch_rows import BatchRows
from dkmeans.runners.local import LocalRunner
from dkmeans.runners.merging import merge_all, settle_all
from dkmeans.runners.row_store import RowStore
from dkmeans.runners.shelf import Shelf
from dkmeans.runners.spill import Action, SpilledPart

R = TypeVar("R")
Reader: TypeAlias = Callable[[], AbstractContextManager[Iterator[Matrix]]]
STATE_BYTES = 256  # approximate size of the state of a row of a sample


class SweepRunner:
    """Reads the rows of one part after the other; the row state is spilled.

    Parameters
    ----------
    parts : iterable of (Part, RowState)
        Parts without rows.
    read : callable or None
        Returns a context manager of an iterator over the rows of each part; the same for every
        call. None if parts hold their rows, which are then spilled, too.
    shelf : Shelf
        Where arrays are spilled to.
    joined_bytes : int
        Approximate size up to which samples of the rows are joined to one part.
    new_store : callable, optional
        Returns a store for the rows of a batch, where it takes long to read all rows for each.
    """

    def __init__(
        self,
        parts: Iterable[tuple[Part, RowState]],
        read: Reader | None,
        shelf: Shelf,
        joined_bytes: int = 0,
        new_store: Callable[[], RowStore] | None = None,
    ) -> None:
        self._read, self._shelf = read, shelf
        self._joined_bytes = joined_bytes
        self._new_store = new_store if read is not None else None
        self._batches = BatchRows(new_store) if read is not None and new_store else None
        self._setting = Setting()
        self._owns_shelf = True
        self._parts = [SpilledPart(part, state, shelf) for part, state in parts]

    def run(self, task: Pass[R]) -> R:
        """Run a pass over all parts, and merge the results."""
        batch = task.draws()
        with single_threaded_blas:
            if batch is not None and self._batches is not None:
                return merge_all(task, self._visit_batch(task, batch, self._batches))
            return merge_all(task, self._visit(task.visit, task.needs_rows))

    def exchange(self, task: Exchange[R]) -> R:
        """Compare the rows of all parts."""

        def split(part: Part, state: RowState) -> tuple[RowState, HashedRows]:
            return state, task.split(part, state)

        with single_threaded_blas:
            return settle_all(task, self._visit(split, task.needs_rows))

    def configure(self, setting: Setting) -> None:
        """Set the setting of all parts."""
        self._setting = setting

    def replay(self, tasks: Sequence[AnyPass]) -> None:
        """Repeat the effects of passes: all of them in one sweep over the rows."""

        def replay(part: Part, state: RowState) -> tuple[RowState, None]:
            for task in tasks:
                state = task.replay(part, state)
            return state, None

        if tasks:
            with single_threaded_blas:
                for _ in self._visit(replay, any(task.needs_rows for task in tasks)):
                    pass

    def derive(self, derivation: Derivation) -> "SweepRunner | LocalRunner":
        """Make a runner of other parts of the same rows; it shares the shelf.

        Samples lie together: in memory if they are small.
        """
        keeps_rows = derivation.keeps_rows

        def derive(part: Part, state: RowState) -> tuple[RowState, tuple[Part, RowState]]:
            other, start = derivation.derive(part, state)
            return state, (other if keeps_rows else other.with_rows(None), start)

        found = self._visit(derive, derivation.needs_rows)
        if not keeps_rows:
            return self._sharing(found, self._read)
        groups = _joined(found, self._joined_bytes)
        first = next(groups)
        second = next(groups, None)
        if second is None:
            return LocalRunner([first[0]], [first[1]])
        return self._sharing(chain([first, second], groups), None)

    def _sharing(
        self,
        parts: Iterable[tuple[Part, RowState]],
        read: Reader | None,
    ) -> "SweepRunner":
        """Make a runner of other parts with the same shelf."""
        other = SweepRunner(parts, read, self._shelf, self._joined_bytes, self._new_store)
        other._owns_shelf = False
        return other

    def close(self) -> None:
        """Drop the parts, and the shelf unless it is that of another runner."""
        for spilled in self._parts:
            spilled.close()
        self._parts = []
        if self._batches is not None:
            self._batches.close()
        if self._owns_shelf:
            self._shelf.close()

    def _visit(self, action: Action[R], needs_rows: bool) -> Iterator[R]:
        with self._blocks(needs_rows) as blocks:
            # Keep no reference to a block, so that it is freed before the next one arrives.
            for spilled in self._parts:
                yield spilled.visit(action, self._setting, next(blocks))
            for _ in blocks:
                raise RuntimeError("There are more blocks than parts.")

    def _visit_batch(self, task: Pass[R], batch: Batch, batches: BatchRows) -> Iterator[R]:
        """Visit the rows of a batch; while all rows are read, store those of later batches."""
        if batch in batches:
            blocks = batches.take(batch)
            for spilled in self._parts:
                yield spilled.visit(task.visit, self._setting, next(blocks))
            next(blocks, None)  # drops the batch
            return

        def store(part: Part, state: RowState) -> tuple[RowState, R]:
            batches.add(part, state)
            return task.visit(part, state)

        batches.begin(batch)
        try:
            yield from self._visit(store, needs_rows=True)
        except BaseException:
            batches.close()
            raise

    @contextmanager
    def _blocks(self, needs_rows: bool) -> Iterator[Iterator[Matrix]]:
        if needs_rows and self._read is not None:
            with self._read() as blocks:
                yield blocks
        else:
            yield repeat(None, len(self._parts))


def _joined(
    parts: Iterable[tuple[Part, RowState]], n_bytes: int
) -> Iterator[tuple[Part, RowState]]:
    """Join parts with rows of their own to parts of about a size."""
    group: list[Part] = []
    classes: list[Indices] = []
    size = 0
    for part, state in parts:
        mine = _row_bytes(part.raw) + STATE_BYTES * len(part)
        if group and size + mine > n_bytes:
            yield Part.joined(group), RowState.start(np.concatenate(classes))
            group, classes, size = [], [], 0
        group.append(part)
        classes.append(state.classes)
        size += mine
    yield Part.joined(group), RowState.start(np.concatenate(classes))


def _row_bytes(X: Matrix) -> int:
    arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    return sum(array.nbytes for array in arrays)
