"""Passes about classes and labels of rows: values, errors, conflicts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp

from dkmeans.exact.group_sums import KeyedSums
from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.class_distances import ClassDistances
from dkmeans.kernels.rowhash import Hashes, hash_rows, salted
from dkmeans.kernels.tally import group_totals
from dkmeans.passes.contract import AnyPass, Effect, Pass
from dkmeans.passes.part import Part
from dkmeans.passes.results import EffectPass, KeyedSumsPass, Pieces, PiecesPass, SlicesPass
from dkmeans.passes.row_state import NO_CELL, RowState, group_codes
from dkmeans.passes.summing import present
from dkmeans.prototypes import Prototypes


@dataclass(frozen=True)
class FoundRows(Record):
    """Rows with some hashes, by ascending number."""

    rows: Indices  # numbers among all rows
    hashes: Hashes
    classes: Indices  # as the user gave them
    weights: Floats


@dataclass(frozen=True)
class FindRows(Pass[FoundRows]):
    """Find the rows of a positive weight that have one of some hashes."""

    hashes: Hashes  # ascending

    def visit(self, part: Part, state: RowState) -> tuple[RowState, FoundRows]:
        """Visit one part."""
        hashes = hash_part(part)
        there = np.isin(hashes, self.hashes)
        if part.active is not None:
            there &= part.active
        rows = np.flatnonzero(there)
        weights = np.ones(len(rows)) if part.weights is None else part.weights[rows]
        numbers = part.numbering.of(rows)
        return state, FoundRows(numbers, hashes[rows], part.given[rows], weights)

    def merge(self, results: Sequence[FoundRows]) -> FoundRows:
        """Put the rows in order."""
        names = ("rows", "hashes", "classes", "weights")
        found = [np.concatenate([getattr(one, name) for one in results]) for name in names]
        order = np.argsort(found[0], kind="stable")
        return FoundRows(*(array[order] for array in found))


@dataclass(frozen=True)
class DigestRows(Pass[int]):
    """Compute a checksum of all rows in their order, with classes and weights."""

    def visit(self, part: Part, state: RowState) -> tuple[RowState, int]:
        """Visit one part."""
        weights = np.ones(len(part)) if part.weights is None else part.weights
        found = np.zeros(len(part), dtype=np.uint64)
        numbers = part.numbering.of(np.arange(len(part)))
        for values in (numbers, hash_part(part), state.classes, weights.astype(np.float64)):
            found = salted(found ^ values.view(np.uint64), 1)
        return state, int(found.sum())  # modulo 2^64, in any order

    def merge(self, results: Sequence[int]) -> int:
        """Add up."""
        return sum(results) % 2**64


@dataclass(frozen=True)
class RowValues(PiecesPass[np.floating]):
    """Return the values of some rows, by ascending number among all rows."""

    rows: Indices

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Pieces[np.floating]]:
        """Visit one part."""
        rows, numbering = part.local(self.rows), part.numbering
        values = dense_rows(part.X, rows)
        return state, Pieces(list(numbering.numbers), numbering.taken(rows).split(values))


@dataclass(frozen=True)
class RowCells(PiecesPass[np.int32]):
    """Return the cells of all rows, as short numbers."""

    needs_rows = False

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Pieces[np.int32]]:
        """Visit one part."""
        return state, Pieces.of(part, state.cells.labels.astype(np.int32))


@dataclass(frozen=True)
class RowClassDistances(PiecesPass[np.floating]):
    """Return the distance of all rows to the nearest prototype of each class.

    It is infinite for classes without a prototype.
    """

    prototypes: Prototypes

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Pieces[np.floating]]:
        """Visit one part."""
        centers = self.prototypes.centers
        found = np.full((len(part), part.n_classes), np.inf, dtype=centers.dtype)
        measure = ClassDistances(
            centers,
            self.prototypes.classes,
            sparse=sp.issparse(part.X),
            loops=part.loops,
            n_terms=part.setting.n_terms,
        )
        part.for_tiles(lambda tile: measure(part.X[tile], found[tile]), len(centers))
        return state, Pieces.of(part, found)


@dataclass(frozen=True)
class GivenClasses(PiecesPass[np.intp]):
    """Return the classes of all rows as the user gave them."""

    needs_rows = False

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Pieces[np.intp]]:
        """Visit one part."""
        return state, Pieces.of(part, part.given)


@dataclass(frozen=True)
class RowWeights(PiecesPass[np.float64]):
    """Return the weights of all rows."""

    needs_rows = False

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Pieces[np.float64]]:
        """Visit one part."""
        weights = np.ones(len(part)) if part.weights is None else part.weights
        return state, Pieces.of(part, weights)


@dataclass(frozen=True)
class Relabel(EffectPass):
    """Change the classes of some rows, given by global index."""

    needs_rows = False
    effect = Effect.LASTING

    rows: Indices
    classes: Indices

    def visit(self, part: Part, state: RowState) -> tuple[RowState, None]:
        """Visit one part."""
        rows, here = part.numbering.find(self.rows, len(part))
        if not here.any():
            return state, None
        classes = state.classes.copy()
        classes[rows[here]] = self.classes[here]
        return replace(state, classes=classes, by_class=None), None

    def archived(self, store: Callable[[Indices], Indices]) -> Self:
        """Put the rows and classes into the store."""
        rows, classes = store(self.rows), store(self.classes)
        if rows is self.rows and classes is self.classes:
            return self
        return replace(self, rows=rows, classes=classes)


@dataclass(frozen=True)
class RestoreClasses(EffectPass):
    """Give all rows the classes that the user gave them."""

    needs_rows = False
    effect = Effect.LASTING

    def visit(self, part: Part, state: RowState) -> tuple[RowState, None]:
        """Visit one part."""
        if np.array_equal(state.classes, part.given):
            return state, None
        return replace(state, classes=part.given, by_class=None), None

    def supersedes(self, earlier: AnyPass) -> bool:
        """Return whether the earlier pass changed classes."""
        return isinstance(earlier, (Relabel, RestoreClasses))


@dataclass(frozen=True)
class Strays(Record):
    """Cells that hold rows of another class."""

    cells: Indices
    previous: Indices  # cells that these rows were in before


@dataclass(frozen=True)
class FindStrays(Pass[Strays]):
    """Find the present and previous cells of rows that are in a cell of another class."""

    needs_rows = False

    classes: Indices  # of the prototypes

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Strays]:
        """Visit one part."""
        cells = state.cells
        stray = self.classes[cells.labels] != state.classes
        if part.active is not None:
            stray &= part.active
        return state, Strays(np.unique(cells.labels[stray]), np.unique(cells.previous[stray]))

    def merge(self, results: Sequence[Strays]) -> Strays:
        """Return the union."""
        return Strays(
            np.unique(np.concatenate([result.cells for result in results])),
            np.unique(np.concatenate([result.previous for result in results])),
        )


@dataclass(frozen=True)
class WeighErrors(SlicesPass):
    """Sum the weights of misclassified training rows, of all training rows, and of held-out rows.

    The result has one line each for: wrong training rows, training rows, wrong held-out rows,
    held-out rows. Shape (4, n_slices).
    """

    needs_rows = False

    classes: Indices  # of the prototypes
    units: Floats

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Floats]:
        """Visit one part."""
        wrong = self.classes[state.cells.labels] != part.given
        found = np.zeros((4, len(self.units)))
        full = part.full_weights
        held = np.zeros(len(part), dtype=bool) if part.held is None else part.held
        if full is None:
            found[:, 0] = (wrong & ~held).sum(), (~held).sum(), (wrong & held).sum(), held.sum()
            return state, found
        active = full > 0
        for at, some in enumerate((active & ~held, held)):
            for with_all in (False, True):
                rows = np.flatnonzero(some if with_all else some & wrong)
                if len(rows):
                    zero = np.zeros(1, dtype=np.intp)
                    totals = group_totals(full, self.units, rows, zero)
                    found[2 * at + with_all] = totals[:, 0]
        return state, found


@dataclass(frozen=True)
class WeighOverlaps(KeyedSumsPass):
    """Sum, by cell and class, the weights of rows that equal a prototype of another class."""

    needs_rows = False

    prototypes: Prototypes

    def visit(self, part: Part, state: RowState) -> tuple[RowState, KeyedSums]:
        """Visit one part."""
        codes = _overlapping(part, state, self.prototypes)
        keys, grids = present(codes), part.grids
        if not len(keys):
            return state, KeyedSums(keys, np.empty((grids.n_slices, 0)))
        order = np.flatnonzero(codes >= 0)
        order = order[np.argsort(codes[order], kind="stable")]
        starts = np.searchsorted(codes[order], keys)
        weights = np.ones(len(part)) if part.weights is None else part.weights
        return state, KeyedSums(keys, group_totals(weights, grids.weights(), order, starts))


@dataclass(frozen=True)
class FindOverlaps(Pass[list[Indices]]):
    """List the rows of some groups that equal a prototype of another class, by group."""

    needs_rows = False

    prototypes: Prototypes
    codes: Indices

    def visit(self, part: Part, state: RowState) -> tuple[RowState, list[Indices]]:
        """Visit one part."""
        own = _overlapping(part, state, self.prototypes)
        return state, [
            part.numbering.of(np.flatnonzero(own == code)) for code in self.codes.tolist()
        ]

    def merge(self, results: Sequence[list[Indices]]) -> list[Indices]:
        """Put the rows of each group in order."""
        return [np.sort(np.concatenate(rows)) for rows in zip(*results, strict=True)]


def hash_part(part: Part) -> Hashes:
    """Hash all rows of a part; identical rows get the same hash."""
    found = np.empty(len(part), dtype=np.uint64)

    def task(tile: slice) -> None:
        found[tile] = hash_rows(part.X[tile], part.loops)

    part.for_tiles(task, 1)
    return found


def _overlapping(part: Part, state: RowState, prototypes: Prototypes) -> Indices:
    """Return the codes of rows that equal a prototype of another class; -1 for all others."""
    cells = state.cells
    equal = (cells.squares == 0) & (state.classes != prototypes.classes[cells.labels])
    return np.where(equal, group_codes(part, state), NO_CELL)
