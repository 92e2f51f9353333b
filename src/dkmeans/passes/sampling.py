"""Passes that draw samples of the rows by a hash of their values (`kernels.rowhash`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes, salted
from dkmeans.passes.assignment import assign_to_nearest
from dkmeans.passes.contract import Derivation, Pass
from dkmeans.passes.part import Part, Setting
from dkmeans.passes.results import Pieces, PiecesPass
from dkmeans.passes.row_state import RowState
from dkmeans.prototypes import Prototypes


@dataclass(frozen=True)
class DistinctHashes(Record):
    """Hashes of distinct rows, sorted by class and hash."""

    classes: Indices
    hashes: Hashes

    @classmethod
    def of(cls, classes: Indices, hashes: Hashes) -> Self:
        """Sort, and drop repeated rows."""
        order = np.lexsort((hashes, classes))
        classes, hashes = classes[order], hashes[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (classes[1:] != classes[:-1]) | (hashes[1:] != hashes[:-1])
        return cls(classes[new], hashes[new])


@dataclass(frozen=True)
class GatherHashes(Pass[DistinctHashes]):
    """Find the hashes up to a limit by class, of distinct rows with a positive weight.

    Parameters
    ----------
    largest : array of shape (d,)
        Magnitude of each column.
    limits : array of shape (n_classes,)
        Largest hash of each class.
    salt : int
        Of the hashes.
    """

    largest: Floats
    limits: Hashes
    salt: int = 0

    def visit(self, part: Part, state: RowState) -> tuple[RowState, DistinctHashes]:
        """Visit one part."""
        hashes, drawn = _drawn(part, state, self.largest, self.limits, self.salt)
        return state, DistinctHashes.of(state.classes[drawn], hashes[drawn])

    def merge(self, results: Sequence[DistinctHashes]) -> DistinctHashes:
        """Merge."""
        return DistinctHashes.of(
            np.concatenate([result.classes for result in results]),
            np.concatenate([result.hashes for result in results]),
        )


@dataclass(frozen=True)
class Draw(Derivation):
    """Lay the rows with hashes within limits together; only these are kept.

    Parameters
    ----------
    largest : array of shape (d,)
        Magnitude of each column.
    lowest, limits : arrays of shape (n_classes,)
        Smallest and largest hash of each class.
    factors : array of shape (n_classes,)
        Factors on the weights, powers of two or numbers with few digits: the rows of a class that
        is drawn more often than others count less.
    salt : int
        Of the hashes.
    """

    needs_rows = True
    keeps_rows = True

    largest: Floats
    lowest: Hashes
    limits: Hashes
    factors: Floats
    salt: int = 0

    def derive(self, part: Part, state: RowState) -> tuple[Part, RowState]:
        """Return a part with the drawn rows, numbered from the start of each run."""
        hashes, drawn = _drawn(part, state, self.largest, self.limits, self.salt)
        rows = np.flatnonzero(drawn & (hashes >= self.lowest[state.classes]))
        classes = state.classes[rows]
        weights = None if part.weights is None else part.weights[rows]
        if (self.factors != 1).any():
            # By given classes, as class factors of weights are: these are divided out of weights.
            factors = self.factors[part.given[rows]]
            weights = factors * (1.0 if weights is None else weights)
        few = replace(
            part,
            raw=part.raw[rows],
            given=part.given[rows],
            numbering=part.numbering.taken(rows),
            weights=weights,
            active=None,
            held=None,
            full_weights=weights,
            setting=Setting(geometry=part.setting.geometry),
            is_resident=True,
        )
        return few, RowState.start(classes)


@dataclass(frozen=True)
class HoldOut(Derivation):
    """Hold out the rows whose hash is in the range of their class.

    Parameters
    ----------
    largest : array of shape (d,)
        Magnitude of each column.
    lowest, highest : arrays of shape (n_classes,)
        Range of the hashes of each class.
    """

    needs_rows = True

    largest: Floats
    lowest: Hashes
    highest: Hashes

    def derive(self, part: Part, state: RowState) -> tuple[Part, RowState]:
        """Return a part whose held-out rows have weight 0."""
        hashes, drawn = _drawn(part, state, self.largest, self.highest)
        held = drawn & (hashes >= self.lowest[state.classes])
        return part.without(held), RowState.start(state.classes)


@dataclass(frozen=True)
class RowHashes(PiecesPass[np.uint64]):
    """Hash all rows."""

    largest: Floats  # magnitude of each column

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Pieces[np.uint64]]:
        """Visit one part."""
        hashes, _ = _drawn(part, state, self.largest, np.zeros(part.n_classes, np.uint64))
        return state, Pieces.of(part, hashes)


@dataclass(frozen=True)
class WrongRows(Record):
    """Rows that are misclassified."""

    rows: Indices  # numbers, ascending
    weights: Floats


@dataclass(frozen=True)
class FindWrong(Pass[WrongRows]):
    """Find the rows whose nearest prototype is of another class than they were given."""

    prototypes: Prototypes

    def visit(self, part: Part, state: RowState) -> tuple[RowState, WrongRows]:
        """Visit one part."""
        labels = np.empty(len(part), dtype=np.intp)
        assign_to_nearest(part, self.prototypes.centers, labels, np.empty(len(part)))
        wrong = np.flatnonzero(self.prototypes.classes[labels] != part.given)
        weights = np.ones(len(part)) if part.weights is None else part.weights
        return state, WrongRows(part.numbering.of(wrong), weights[wrong])

    def merge(self, results: Sequence[WrongRows]) -> WrongRows:
        """Put the rows in order."""
        rows = np.concatenate([result.rows for result in results])
        weights = np.concatenate([result.weights for result in results])
        order = np.argsort(rows, kind="stable")
        return WrongRows(rows[order], weights[order])


def row_hashes(part: Part, largest: Floats, salt: int = 0) -> Hashes:
    """Return the sampling hashes of all rows of a part."""
    return salted(part.sampling_hashes(largest), salt)


def _drawn(
    part: Part, state: RowState, largest: Floats, limits: Hashes, salt: int = 0
) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """Return the hashes of rows, and which rows have a positive weight and a hash in the limit."""
    hashes = row_hashes(part, largest, salt)
    drawn = hashes <= limits[state.classes]
    return hashes, drawn if part.active is None else drawn & part.active
