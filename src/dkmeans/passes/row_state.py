"""State of each row between passes, as frozen values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.reference import stable_squares
from dkmeans.kernels.rowhash import Hashes
from dkmeans.passes.part import Part

NO_CELL = -1
T = TypeVar("T")


class Lazy(Generic[T]):
    """A frozen value that is loaded when it is first read.

    Parameters
    ----------
    load : callable
        Returns the value.
    """

    def __init__(self, load: Callable[[], T]) -> None:
        self._load, self._loaded = load, list[T]()

    @classmethod
    def of(cls, value: T) -> "Lazy[T]":
        """Wrap a value that is in memory."""
        return cls(lambda: value)

    def get(self) -> T:
        """Return the value."""
        if not self._loaded:
            self._loaded.append(self._load())
        return self._loaded[0]


@dataclass(frozen=True, eq=False)
class CellState:
    """The cell of each row.

    Attributes
    ----------
    labels : array of shape (n,)
        Prototype by index; -1 for none.
    previous : array of shape (n,)
        Labels before the last pass that assigned all rows, as present indices.
    squares : array of shape (n,)
        Squared distances to the prototype.
    centers : array of shape (k, d) or None
        Of the prototypes that labels refer to; None before the first assignment, and for sparse
        rows.
    """

    labels: Indices
    previous: Indices
    squares: Floats
    centers: npt.NDArray[np.floating] | None = None

    @classmethod
    def start(cls, n_rows: int) -> Self:
        """Put all rows into cell 0."""
        labels = np.zeros(n_rows, dtype=np.intp)
        return cls(labels, labels, np.zeros(n_rows))


@dataclass(frozen=True, eq=False)
class RowMargins:
    """The prototypes on either side of each row's class border.

    Several of these are kept for all rows, so indices are short.
    """

    n_prototypes: int
    n_features: int
    some: Indices | None  # indices of the rows with margins; None for all
    own: npt.NDArray[np.int32]  # nearest prototype of the row's class
    rival: npt.NDArray[np.int32]  # nearest prototype of another class
    near: Floats  # squared distance to the own prototype
    far: Floats  # squared distance to the rival
    wins: npt.NDArray[np.bool_]  # whether the own prototype is the nearest of all

    @property
    def rows(self) -> Indices:
        """Indices of the rows with margins."""
        return np.arange(len(self.own)) if self.some is None else self.some

    @property
    def winner(self) -> npt.NDArray[np.int32]:
        """Nearest prototype of all."""
        return np.where(self.wins, self.own, self.rival)

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """Squared distances to own and rival, the same for arrays and CSR matrices."""
        return stable_squares(self.near, self.n_features), stable_squares(self.far, self.n_features)

    def least(self) -> Floats:
        """Return squared distances to the nearest prototype."""
        return np.minimum(*self.sides)

    def relative(self) -> Floats:
        """Return the margins; 0 for rows that lie on both prototypes."""
        near, far = self.sides
        sums = near + far
        return np.divide(near - far, sums, out=np.zeros_like(sums), where=sums > 0)

    @classmethod
    def joined(cls, several: Sequence["RowMargins"]) -> "RowMargins":
        """Put the margins of different rows together, by ascending row."""
        if len(several) == 1:
            return several[0]
        rows = np.concatenate([one.rows for one in several])
        order = np.argsort(rows, kind="stable")
        own, rival, near, far, wins = (
            np.concatenate([getattr(one, name) for one in several])[order]
            for name in ("own", "rival", "near", "far", "wins")
        )
        first = several[0]
        return cls(first.n_prototypes, first.n_features, rows[order], own, rival, near, far, wins)


@dataclass(frozen=True, eq=False)
class PruneState:
    """Owner of each row without the prototypes pruned so far."""

    owners: Indices  # shape (n,)
    rows: Indices  # rows of the prototype tested last
    heirs: Indices  # their owners without that prototype


@dataclass(frozen=True, eq=False)
class RowState:
    """State of all rows of one part.

    Attributes
    ----------
    classes : array of shape (n,)
        Class indices; identical rows have one class.
    cells : CellState
    kept : CellState or None
        Cells to return to.
    lazy_margins : mapping
        Margins by number. A pass needs few of them.
    by_class : array of shape (n,) or None
        Row indices sorted by class; None until they are needed.
    spread : array of shape (n,) or None
        Squared distances to a point, between two passes that need them.
    pruning : PruneState or None
    hashes : array of shape (n,) or None
        Sampling hashes of the rows; None until they are needed.
    """

    classes: Indices
    cells: CellState
    kept: CellState | None
    lazy_margins: Mapping[int, Lazy[RowMargins]]
    by_class: Indices | None = None
    spread: Floats | None = None
    pruning: PruneState | None = None
    hashes: Hashes | None = None

    @classmethod
    def start(cls, classes: Indices) -> Self:
        """Return the state before the first pass."""
        return cls(classes, CellState.start(len(classes)), None, {})

    def margins(self, *numbers: int) -> RowMargins:
        """Return the margins with a number, or those of different rows with several numbers."""
        return RowMargins.joined([self.lazy_margins[number].get() for number in numbers])

    def with_cells(self, cells: CellState) -> Self:
        """Return the state with other cells."""
        return replace(self, cells=cells)

    def with_labels(self, labels: Indices) -> Self:
        """Return the state with other labels."""
        return self.with_cells(replace(self.cells, labels=labels))


def group_codes(part: Part, state: RowState, labels: Indices | None = None) -> Indices:
    """Encode cell and class of each row as one number; -1 for rows of weight 0 or of no cell.

    `labels` are those of the state by default.
    """
    labels = state.cells.labels if labels is None else labels
    codes = np.where(labels < 0, NO_CELL, labels * part.n_classes + state.classes)
    if part.active is not None:
        codes[~part.active] = NO_CELL
    return codes
