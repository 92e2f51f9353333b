"""Parts whose rows are read again in every pass, block by block."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import TypeVar

from dkmeans.kernels.block import Matrix
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.passes.contract import AnyPass, Derivation, Pass
from dkmeans.passes.part import Part, Setting
from dkmeans.passes.row_state import RowState
from dkmeans.runners.merging import merge_all
from dkmeans.runners.prefetch import prefetched
from dkmeans.runners.shelf import Shelf
from dkmeans.runners.spill import Action, SpilledPart

R = TypeVar("R")


class SweepRunner:
    """Reads the rows of one part after the other; the row state is spilled.

    Parameters
    ----------
    parts : iterable of (Part, RowState)
        Parts without rows.
    read : callable or None
        Returns an iterator over the rows of each part; the same for every call. None if parts hold
        their rows, which are then spilled, too.
    shelf : Shelf
        Where arrays are spilled to.
    """

    def __init__(
        self,
        parts: Iterable[tuple[Part, RowState]],
        read: Callable[[], Iterable[Matrix]] | None,
        shelf: Shelf,
    ) -> None:
        self._read, self._shelf = read, shelf
        self._setting = Setting()
        self._owns_shelf = True
        self._parts = [SpilledPart(part, state, shelf) for part, state in parts]

    def run(self, task: Pass[R]) -> R:
        """Run a pass over all parts, and merge the results."""
        with single_threaded_blas:
            return merge_all(task, self._visit(task.visit, task.needs_rows))

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

    def derive(self, derivation: Derivation) -> "SweepRunner":
        """Make a runner of other parts of the same rows; it shares the shelf."""
        keeps_rows = derivation.keeps_rows

        def derive(part: Part, state: RowState) -> tuple[RowState, tuple[Part, RowState]]:
            other, start = derivation.derive(part, state)
            return state, (other if keeps_rows else other.with_rows(None), start)

        derived = SweepRunner(
            self._visit(derive, derivation.needs_rows),
            None if keeps_rows else self._read,
            self._shelf,
        )
        derived._owns_shelf = False
        return derived

    def close(self) -> None:
        """Drop the parts, and the shelf unless it is that of another runner."""
        for spilled in self._parts:
            spilled.close()
        self._parts = []
        if self._owns_shelf:
            self._shelf.close()

    def _visit(self, action: Action[R], needs_rows: bool) -> Iterator[R]:
        with self._blocks(needs_rows) as blocks:
            # Keep no reference to a block, so that it is freed before the next one arrives.
            for spilled in self._parts:
                yield spilled.visit(action, self._setting, next(blocks))
            for _ in blocks:
                raise RuntimeError("There are more blocks than parts.")

    @contextmanager
    def _blocks(self, needs_rows: bool) -> Iterator[Iterator[Matrix]]:
        if needs_rows and self._read is not None:
            with prefetched(self._read()) as blocks:
                yield blocks
        else:
            yield repeat(None, len(self._parts))
