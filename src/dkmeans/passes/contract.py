"""Interfaces of passes and of runners."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Indices
from dkmeans.kernels.rowhash import Hashes
from dkmeans.passes.batch import Batch
from dkmeans.passes.part import Part, Setting
from dkmeans.passes.row_state import RowState

R = TypeVar("R")
HALF_BITS = np.uint64(32)


class Effect(Enum):
    """Effect of a pass on the row state; determines which passes a replay repeats."""

    NONE = auto()  # nothing that a replay has to repeat
    AMENDS_CELLS = auto()  # until the next pass that assigns all rows
    RELABELS = auto()  # the same, with new labels that do not depend on those before
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

    def draws(self) -> Batch | None:
        """Return the batch whose rows the part may have in place of all rows, if any."""
        return None

    def supersedes(self, earlier: "AnyPass") -> bool:
        """Return whether an earlier pass need not be replayed once this one has run."""
        return False

    def archived(self, store: Callable[[Indices], Indices]) -> Self:
        """Return the pass as a replay log keeps it, with arrays of rows in a store."""
        return self


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


@dataclass(frozen=True)
class HashedRows:
    """Hashes and classes of some rows."""

    hashes: Hashes
    classes: npt.NDArray[np.integer]  # in as few bytes as possible

    @classmethod
    def of(cls, part: Part, hashes: Hashes, classes: Indices) -> Self:
        """Take the rows of a part that have a positive weight."""
        short = classes.astype(np.min_scalar_type(part.n_classes))
        if part.active is not None:
            hashes, short = hashes[part.active], short[part.active]
        return cls(hashes, short)

    @classmethod
    def joined(cls, several: Sequence[Self]) -> Self:
        """Put rows together."""
        if len(several) == 1:
            return several[0]
        return cls(
            np.concatenate([one.hashes for one in several]),
            np.concatenate([one.classes for one in several]),
        )

    def by_range(self, n_ranges: int) -> list[Self]:
        """Split rows by ranges of their hashes, all of the same width."""
        if n_ranges == 1:
            return [self]
        ranges = ((self.hashes >> HALF_BITS) * np.uint64(n_ranges)) >> HALF_BITS
        ranges = ranges.astype(np.min_scalar_type(n_ranges))  # short numbers are sorted quickly
        order = np.argsort(ranges, kind="stable")
        ends = np.cumsum(np.bincount(ranges, minlength=n_ranges))[:-1]
        pairs = zip(
            np.split(self.hashes[order], ends), np.split(self.classes[order], ends), strict=True
        )
        return [type(self)(hashes, classes) for hashes, classes in pairs]


class Exchange(AnyPass, Generic[R]):
    """A comparison of all rows by a hash: each range of hashes is settled in one place.

    So no place needs the hashes of all rows. A frozen dataclass whose fields are the arguments.
    """

    @abstractmethod
    def split(self, part: Part, state: RowState) -> HashedRows:
        """Hash the rows of one part."""

    @abstractmethod
    def settle(self, rows: HashedRows) -> R:
        """Return the result of all rows whose hashes are in a range."""

    @abstractmethod
    def merge(self, results: Sequence[R]) -> R:
        """Combine the results of different ranges."""

    def replay(self, part: Part, state: RowState) -> RowState:
        """Return the state: there is no effect."""
        return state


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

    def exchange(self, task: Exchange[R]) -> R:
        """Compare the rows of all parts, and merge the results of all ranges of hashes."""

    def configure(self, setting: Setting) -> None:
        """Set the setting of all parts."""

    def replay(self, tasks: Sequence[AnyPass]) -> None:
        """Repeat the effects of passes, without their results."""

    def derive(self, derivation: Derivation) -> "Runner":
        """Make a runner of other parts of the same rows."""

    def close(self) -> None:
        """Drop the parts; the runner can no longer be used."""
