"""Pass that finds the prototypes on either side of each row's class border."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.geometry import Geometry
from dkmeans.kernels.assign import assign_own_and_rival
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.distances import OwnDistances, reference_squares
from dkmeans.kernels.pack import pack
from dkmeans.kernels.reference import stable_bits, to_distance
from dkmeans.passes.batch import ALL_ROWS, Batch
from dkmeans.passes.class_order import for_classes, runs_of_classes, sorted_by_class
from dkmeans.passes.contract import AnyPass, Effect, Pass
from dkmeans.passes.numbering import Numbering
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import Lazy, RowMargins, RowState
from dkmeans.passes.sketch_search import SketchSearch, class_columns
from dkmeans.prototypes import Prototypes

R = TypeVar("R")


class MarginPass(Pass[R]):
    """A pass that finds margins, and stores them under a number."""

    effect = Effect.LASTING

    @abstractmethod
    def searching(self) -> "FindMargins":
        """Return the search for margins that it includes."""

    def supersedes(self, earlier: AnyPass) -> bool:
        """Return whether this pass drops the margins of an earlier pass."""
        if not isinstance(earlier, MarginPass):
            return False
        return earlier.searching().number in self.searching().drop


@dataclass(frozen=True)
class FindMargins(MarginPass[Indices]):
    """Find each row's own and rival prototype, and return how many rows each prototype wins.

    Parameters
    ----------
    prototypes : Prototypes
        Prototypes of at least two classes. Rows of classes without prototype are skipped.
    number : int
        Number under which the state stores the margins.
    drop : tuple of int
        Numbers of margins that are no longer needed.
    batch : Batch or None
        Rows to look at; None for all.
    """

    prototypes: Prototypes
    number: int
    drop: tuple[int, ...] = ()
    batch: Batch | None = None

    def searching(self) -> "FindMargins":
        """Return this pass."""
        return self

    def visit(self, part: Part, state: RowState) -> tuple[RowState, Indices]:
        """Visit one part."""
        kept = {n: found for n, found in state.lazy_margins.items() if n not in self.drop}
        state = sorted_by_class(part, replace(state, lazy_margins=kept))
        found = self._margins(part, state)
        counts = np.bincount(found.winner, minlength=len(self.prototypes))
        return replace(state, lazy_margins=kept | {self.number: Lazy.of(found)}), counts

    def merge(self, results: Sequence[Indices]) -> Indices:
        """Add up counts."""
        return np.sum(results, axis=0)

    def _margins(self, part: Part, state: RowState) -> RowMargins:
        centers, classes = self.prototypes.centers, self.prototypes.classes
        n, sparse = len(part), sp.issparse(part.X)
        n_terms = part.setting.n_terms
        search = SketchSearch.of(part, self.prototypes, len(centers), fine=self.batch is not None)
        packed = cache(
            lambda: pack(centers, sparse=sparse, loops=part.loops, classes=classes, n_terms=n_terms)
        )
        distances = OwnDistances(centers, sparse=sparse, loops=part.loops)
        has_prototype = np.zeros(part.n_classes, dtype=bool)
        has_prototype[classes] = True
        takes_part = has_prototype[state.classes]
        if part.active is not None:
            takes_part &= part.active
        members = None if self.batch is None else self.batch.members(state)
        if members is not None:
            takes_part &= members
        columns = class_columns(self.prototypes)
        own, rival = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        near, far = np.zeros(n), np.zeros(n)

        def task(rows: Indices) -> None:
            found = np.empty((2, len(rows)), dtype=np.intp)
            squares = np.empty((2, len(rows)))
            left = np.arange(len(rows))
            if search is not None:
                left = search(rows, state.classes[rows], found[0], found[1])
            if len(left):
                rest = rows[left]
                runs = [(run, columns[c]) for c, run in runs_of_classes(state.classes[rest])]
                nearest = np.empty((2, len(rest)), dtype=np.intp)
                assign_own_and_rival(part.X, packed(), runs, nearest[0], nearest[1], rest)
                found[:, left] = nearest
            for side in (0, 1):
                distances(part.X, found[side], squares[side], rows)
            if sparse:
                _resolve_ties(part, centers, rows, found, squares)
            own[rows], rival[rows] = found
            near[rows], far[rows] = squares

        for_classes(part, state, task, 2 * len(centers), takes_part)
        some = None
        if not takes_part.all():
            some = np.flatnonzero(takes_part)
            own, rival, near, far = own[some], rival[some], near[some], far[some]
        # The nearest of all, as `predict_cluster` finds it.
        d_own, d_rival = (to_distance(d, centers.dtype) for d in (near, far))
        wins = (d_own < d_rival) | ((d_own == d_rival) & (own < rival))
        k, d = centers.shape
        return RowMargins(k, d, some, own, rival, near, far, wins)


def search_batch(
    part: Part, state: RowState, search: FindMargins, geometry: Geometry, *, fine: bool = False
) -> tuple[Part, RowState, RowMargins, Indices]:
    """Take the rows of a batch out of a part, and find and store their margins.

    Parameters
    ----------
    part : Part
        With its rows, or with those of the batch that have a weight only.
    state : RowState
    search : FindMargins
    geometry : Geometry
        Maps the rows, whatever the part does.
    fine : bool
        Whether fine sketches are worth it.

    Returns
    -------
    some : Part
        The rows of the batch that have a weight.
    state : RowState
    found : RowMargins
        Of the rows of `some`.
    counts : array of shape (k,)
    """
    rows = (search.batch or ALL_ROWS).rows(part, state)
    some = _taken(part, rows, geometry)
    start = RowState.start(state.classes[rows])
    after, counts = replace(search, batch=ALL_ROWS if fine else None, drop=()).visit(some, start)
    found = after.margins(search.number)
    everywhere = found if len(found.own) == len(part) else replace(found, some=rows[found.rows])
    kept = {n: one for n, one in state.lazy_margins.items() if n not in search.drop}
    kept[search.number] = Lazy.of(everywhere)
    return some, replace(state, lazy_margins=kept), found, counts


def _taken(part: Part, rows: Indices, geometry: Geometry) -> Part:
    """Return a part of some of the rows, mapped by a geometry; it may have these rows only."""
    there = len(rows) == part.raw.shape[0]  # and nothing else
    weights = part.weights if part.weights is None else part.weights[rows]
    return replace(
        part,
        raw=part.raw if there else part.raw[rows],
        given=part.given[rows],
        weights=weights,
        active=None,
        held=None,
        full_weights=weights,
        numbering=Numbering.starting_at(0),
        setting=replace(part.setting, geometry=geometry),
        is_resident=False,
    )


def _resolve_ties(
    part: Part,
    centers: npt.NDArray[np.floating],
    rows: Indices,
    found: Indices,
    squares: Floats,
) -> None:
    """Resolve ties between own prototype and rival by the reference distance.

    Parameters
    ----------
    part : Part
    centers : array of shape (k, d)
    rows : array of shape (n,)
    found : array of shape (2, n)
        Own centre and rival of each row.
    squares : array of shape (2, n)
        INOUT. Rounded squared distances to them.
    """
    grain = 2.0 ** (1 - stable_bits(centers.shape[1])) + 4 * float(np.finfo(centers.dtype).eps)
    near, far = squares
    tied = np.flatnonzero(np.abs(near - far) <= grain * (near + far))
    for side in (0, 1):
        there = reference_squares(part.X, rows[tied], centers, found[side, tied])
        squares[side, tied] = there
