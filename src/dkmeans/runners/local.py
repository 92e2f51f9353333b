"""Parts in the memory of this process."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from dkmeans.passes.contract import AnyPass, Derivation, Exchange, Pass
from dkmeans.passes.part import Part, Setting
from dkmeans.passes.row_state import RowState
from dkmeans.runners.merging import merge_all, settle_all

R = TypeVar("R")


class LocalRunner:
    """Visits parts in memory one after the other; each visit uses threads.

    Parameters
    ----------
    parts : iterable of Part
    states : iterable of RowState, optional
        States of the parts; by default, the initial state.
    """

    def __init__(self, parts: Iterable[Part], states: Iterable[RowState] | None = None) -> None:
        self.parts = list(parts)
        if states is None:
            states = [RowState.start(part.given) for part in self.parts]
        self.states = list(states)

    def run(self, task: Pass[R]) -> R:
        """Run a pass over all parts, and merge the results."""
        return merge_all(task, self._visit(task))

    def exchange(self, task: Exchange[R]) -> R:
        """Compare the rows of all parts."""
        pairs = zip(self.parts, self.states, strict=True)
        return settle_all(task, (task.split(part, state) for part, state in pairs))

    def configure(self, setting: Setting) -> None:
        """Set the setting of all parts."""
        self.parts = [part.configured(setting) for part in self.parts]

    def replay(self, tasks: Sequence[AnyPass]) -> None:
        """Repeat the effects of passes."""
        for at, part in enumerate(self.parts):
            for task in tasks:
                self.states[at] = task.replay(part, self.states[at])

    def derive(self, derivation: Derivation) -> "LocalRunner":
        """Make a runner of other parts of the same rows."""
        pairs = zip(self.parts, self.states, strict=True)
        derived = [derivation.derive(part, state) for part, state in pairs]
        return LocalRunner([part for part, _ in derived], [state for _, state in derived])

    def close(self) -> None:
        """Drop the parts."""
        self.parts, self.states = [], []

    def _visit(self, task: Pass[R]) -> Iterator[R]:
        for at, part in enumerate(self.parts):
            self.states[at], result = task.visit(part, self.states[at])
            yield result
