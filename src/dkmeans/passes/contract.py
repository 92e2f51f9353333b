"""Interfaces of passes and of runners."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, auto
from typing import ClassVar, Generic, Protocol, TypeVar

from dkmeans.passes.part import Part, Setting
from dkmeans.passes.row_state import RowState

R = TypeVar("R")


class Effect(Enum):
    """Effect of a pass on the row state; determines which passes a replay repeats."""

    NONE = auto()  # nothing that a replay has to repeat
    AMENDS_CELLS = auto()  # until the next pass that assigns all rows
    ASSIGNS_ALL = auto()  # new cells, which depend on the cells before only by `previous`
    KEEPS_CELLS = auto()  # keeps the cells as they are
    RESTORES_CELLS = auto()  # returns to the cells that were kept
    LASTING = auto()  # independent of cells: survives all of the above


class AnyPass(ABC):
    """A pass over the rows, whatever its result.

    Attributes
    ----------
    needs_rows : bool
        Whether `Part.X` must be there, or only what is kept of each row.
    effect : Effect
    """

    needs_rows: ClassVar[bool] = True
    effect: ClassVar[Effect] = Effect.NONE

    @abstractmethod
    def replay(self, part: Part, state: RowState) -> RowState:
        """Repeat the effect of the pass on one part."""

    def supersedes(self, earlier: "AnyPass") -> bool:
        """Return whether an earlier pass need not be replayed once this one has run."""
        return False


class Pass(AnyPass, Generic[R]):
    """A pass over the rows: a frozen dataclass whose fields are the arguments."""

    @abstractmethod
    def visit(self, part: Part, state: RowState) -> tuple[RowState, R]:
        """Visit one part, and return its new state and the result.

        Arrays of the old state must not be written to.
        """

    @abstractmethod
    def merge(self, results: Sequence[R]) -> R:
        """Combine the results of several parts, which may come in any order and grouping."""

    def replay(self, part: Part, state: RowState) -> RowState:
        """Repeat the effect of the pass on one part."""
        return self.visit(part, state)[0]


class Derivation(ABC):
    """Makes another part of the same rows.

    Attributes
    ----------
    needs_rows : bool
        Whether the rows of the part must be there.
    keeps_rows : bool
        Whether the new part holds rows of its own, and starts with nothing but their classes.
        Such parts may be joined. Otherwise it has the same rows.
    """

    needs_rows: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = False

    @abstractmethod
    def derive(self, part: Part, state: RowState) -> tuple[Part, RowState]:
        """Return the part and the state that it starts with."""


class Runner(Protocol):
    """Holds parts of the rows, and runs passes over all of them."""

    def run(self, task: Pass[R]) -> R:
        """Run a pass over all parts, and merge the results."""

    def configure(self, setting: Setting) -> None:
        """Set the setting of all parts."""

    def replay(self, tasks: Sequence[AnyPass]) -> None:
        """Repeat the effects of passes, without their results."""

    def derive(self, derivation: Derivation) -> "Runner":
        """Make a runner of other parts of the same rows."""

    def close(self) -> None:
        """Drop the parts; the runner can no longer be used."""
