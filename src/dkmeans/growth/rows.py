"""All rows of a fit, as growth sees them.

Each method runs passes over all rows. Arguments and results are small: centres, means, sums.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.exact.grids import EarlierSums, Grids, Scale
from dkmeans.exact.group_sums import GroupSums, Tally
from dkmeans.exact.sparse_sums import dense_chunks, mapped
from dkmeans.geometry import Euclidean, Geometry
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.identical_rows import agree_and_count, agree_on_labels
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.compiled import is_worth_it, is_worth_it_now, loops_if
from dkmeans.kernels.exact import cut, total
from dkmeans.kernels.rowhash import Hashes
from dkmeans.passes import assignment, facts, grouping, margin_sums, pruning, row_labels, search
from dkmeans.passes.batch import Batch
from dkmeans.passes.contract import Pass, Runner
from dkmeans.passes.exchange import CountDistinct, CountItems
from dkmeans.passes.margin_search import FindMargins
from dkmeans.passes.part import Setting
from dkmeans.passes.sampling import (
    DistinctHashes,
    Draw,
    FindWrong,
    GatherHashes,
    HoldOut,
    RowHashes,
    WrongRows,
)
from dkmeans.prototypes import Prototypes

R = TypeVar("R")
MAX_CELL_RATIO = 4  # with more cells than so many times the last ones, most rows change theirs
MIN_GROUP_ROWS = 32  # with fewer rows per group, summing all is faster than amending sums


@dataclass(frozen=True)
class _KnownSums:
    """Sums by cell and class, and the number of the assignment that they belong to."""

    assignment: int
    sums: GroupSums


class Rows:
    """All rows.

    Parameters
    ----------
    runner : Runner
        Runs passes over the rows.
    dtype : dtype
        Of the rows.
    n_values : int
        Number of stored values.
    n_classes : int
    earlier : EarlierRows or None
        Earlier rows, if they are added to tallies of these rows.
    n_centers : int
        Approximate number of prototypes at the end.
    by_class : array of shape (n_classes,), optional
        Class factors that the weights of the rows contain.
    geometry : Geometry, optional
        Maps the rows that were read; by default they are as they are compared.
    """

    def __init__(
        self,
        runner: Runner,
        dtype: np.dtype[np.floating],
        n_values: int,
        n_classes: int,
        *,
        earlier: EarlierRows | None = None,
        n_centers: int = 1,
        by_class: Floats | None = None,
        geometry: Geometry | None = None,
    ) -> None:
        self._runner, self.dtype, self.n_classes = runner, dtype, n_classes
        self._n_values, self.by_class = n_values, by_class
        self._choose_kernels(n_centers)
        self._earlier = earlier
        self._scale: Scale | None = None
        self._setting = Setting(self._compiled)
        self._map(Euclidean() if geometry is None else geometry)
        self._known: _KnownSums | None = None
        self._assignment, self._last_assignment = 0, 0  # numbers of assignments of the rows
        self._square_grid = self.grids.squares(0.0)
        self._last_margins = 0
        self._unused_margins: list[int] = []

    def run(self, task: Pass[R]) -> R:
        """Run a pass over all rows."""
        return self._runner.run(task)

    def close(self) -> None:
        """Drop the rows."""
        self._runner.close()

    def expect(self, n_centers: int) -> None:
        """Choose the kernels for another number of prototypes at the end."""
        self._choose_kernels(n_centers)
        self._setting = replace(self._setting, compiled=self._compiled)
        self._runner.configure(self._setting)

    def _choose_kernels(self, n_centers: int) -> None:
        """Decide by the number of values of all rows, so that all parts use the same kernels."""
        self._n_centers = n_centers
        self._compiled = is_worth_it_now(self._n_values, n_centers)
        # What loops were loaded before must not decide which passes there are: a fit may be resumed
        # by another process.
        large = is_worth_it(self._n_values, n_centers)
        self._changes_only = large and loops_if(compiled=True) is not None

    def set_scale(self, scale: Scale) -> None:
        """Set how values per row are weighted and rounded."""
        self._scale = scale
        self._setting = replace(self._setting, scale=scale)
        self._runner.configure(self._setting)

    @contextmanager
    def weighed_by(self, scale: Scale) -> Iterator[None]:
        """Set it for a block of code."""
        before = self._setting
        self._runner.configure(replace(before, scale=scale))
        try:
            yield
        finally:
            self._runner.configure(before)

    def map_rows(self, geometry: Geometry) -> None:
        """Map the rows that were read by another geometry; all of them leave their cells."""
        self._map(geometry)
        self.run(assignment.LeaveCells())
        self._new_assignment()
        self._known = None

    def agree_on_labels(self) -> list[Indices]:
        """Give rows with the same image the same label, and return those that had different ones.

        No prototypes could separate them, even if the rows that were read differ. All other rows
        get the label that the user gave.
        """
        return agree_on_labels(self._runner)

    def agree_and_count(self) -> int:
        """Do the same, and return only the number of groups that had different labels."""
        return agree_and_count(self._runner)

    @contextmanager
    def as_read(self) -> Iterator[None]:
        """Compare the rows as they were read within the block."""
        self._runner.configure(replace(self._setting, geometry=Euclidean()))
        yield
        self._runner.configure(self._setting)

    def _map(self, geometry: Geometry) -> None:
        self.geometry = geometry
        # Keep the other settings: a resumed fit may replay earlier passes now.
        self._runner.configure(replace(self._setting, geometry=geometry))
        self.facts = self.run(facts.FindFacts())
        self.grids = Grids.of(self.facts, self.dtype, _earlier_sums(self._earlier))
        self._setting = Setting(
            self._compiled,
            n_features=len(self.facts.largest),
            itemsize=self.dtype.itemsize,
            row_values=-(-self.facts.n_values // max(1, self.facts.n_rows)),
            n_terms=self.facts.n_terms,
            grids=self.grids,
            scale=self._scale,
            geometry=geometry,
        )
        self._runner.configure(self._setting)

    def begin(
        self, place: Callable[[Floats], npt.NDArray[np.floating]]
    ) -> tuple[npt.NDArray[np.floating], Tally]:
        """Put all rows into one cell.

        Parameters
        ----------
        place : callable
            Turns a mean into a centre of shape (1, d).
        """
        sums = self.run(grouping.SumClasses())
        center = place(sums.rekeyed(np.zeros_like(sums.keys)).tally(1).means)
        largest = self.run(assignment.Gather(center))
        return center, self._settled(sums, largest)

    def assign(
        self,
        prototypes: Prototypes,
        came_from: Indices,
        earlier: EarlierRows | None = None,
        margins: int | None = None,
    ) -> tuple[Tally, int]:
        """Assign every row to its nearest prototype, and tally per cell and class.

        Parameters
        ----------
        prototypes : Prototypes
        came_from : array of shape (k_before,)
            For each prototype of the last pass its index now, or -1 if it is gone.
        earlier : EarlierRows or None
            Earlier rows that will be added to the tally.
        margins : int or None
            Number of the margins of these prototypes, if they are known.

        Returns
        -------
        tally : Tally
        moved : int
            Number of rows that changed their prototype.
        """
        known = self._current_sums() if self._changes_only else None
        if known is not None:
            n_cells = len(np.unique(known.keys // self.n_classes))
            known = known if len(prototypes) <= MAX_CELL_RATIO * n_cells else None
        if known is not None and margins is not None:  # nothing is searched
            pays = self.facts.n_rows >= MIN_GROUP_ROWS * len(known.keys)
            known = known if pays else None
        found = self.run(assignment.Assign(prototypes, came_from, known is not None, margins))
        sums, earlier_square = found.sums, 0.0
        if known is not None:
            sums = self._amended(known, came_from, sums)
        if earlier is not None and len(earlier):
            earlier_square = float(earlier.squares(prototypes).max())
        return self._settled(sums, found.largest, earlier_square), found.moved

    def _settled(self, sums: GroupSums, largest: float, earlier_square: float = 0.0) -> Tally:
        """Add distances to the sums of a pass that assigned all rows."""
        self._square_grid = self.grids.squares(largest, earlier_square)
        sums = self._with_squares(sums)
        self._new_assignment()
        self._known = _KnownSums(self._assignment, sums)
        return sums.tally(self.n_classes)

    def _with_squares(self, sums: GroupSums) -> GroupSums:
        return sums.with_squares(self.run(grouping.SumSquares(self._square_grid)))

    def _current_sums(self) -> GroupSums | None:
        """Return the sums by cell and class, if they are known."""
        known = self._known
        return known.sums if known is not None and known.assignment == self._assignment else None

    def _amended(self, last: GroupSums, came_from: Indices, moves: GroupSums) -> GroupSums:
        """Renumber the cells of sums, and add the rows that moved, negative where they left."""
        cells, classes = divmod(last.keys, self.n_classes)
        cells = came_from[cells]
        now = last.rekeyed(np.where(cells < 0, -1, cells * self.n_classes + classes))
        return GroupSums.merge([now, moves]).nonempty()

    def assign_own(
        self,
        prototypes: Prototypes,
        last: GroupSums | None = None,
        margins: int | None = None,
    ) -> GroupSums:
        """Assign every row to the nearest prototype of its own class, and sum by cell and class.

        Rows of classes without prototype are assigned to none. Squared distances are left out.

        Parameters
        ----------
        prototypes : Prototypes
        last : GroupSums, optional
            What this method returned just before, for as many prototypes of the same classes: then
            only rows that have changed their prototype since are summed.
        margins : int, optional
            Number of the margins of these prototypes, if they are known.
        """
        sums = self.run(assignment.AssignOwn(prototypes, last is not None, margins))
        self._new_assignment()
        return sums if last is None else GroupSums.merge([last, sums]).nonempty()

    def sum_won(self, margins: int, classes: Indices, which: npt.NDArray[np.bool_]) -> GroupSums:
        """Remove rows that another class wins from some cells, and sum the other rows."""
        sums = self.run(margin_sums.SumWon(margins, classes, which))
        self._new_assignment()
        return sums

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restore the present assignment at the end of the block, unless there is an error."""
        number, grid = self._assignment, self._square_grid
        self.run(assignment.KeepCells())
        yield
        self.run(assignment.RestoreCells())
        self._assignment, self._square_grid = number, grid

    def tally_all(self) -> Tally:
        """Tally all rows as one group."""
        return self.run(grouping.SumAll()).tally(self.n_classes)

    def tally_sides(self, codes: Indices, middles: Floats, directions: Floats) -> Tally:
        """Tally each of some groups in two halves, cut at `middles` across `directions`."""
        sums = self.run(grouping.SumSides(codes, middles, directions))
        return sums.tally(self.n_classes, np.repeat(codes, 2))

    def pick(
        self,
        codes: Indices,
        points: Floats,
        *,
        farthest: bool = False,
        away_from: npt.NDArray[np.floating] | None = None,
    ) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.bool_]]:
        """Find the row of each group that is nearest to a point, or farthest from it.

        Ties are decided by the rows' values, the smallest first feature first.

        Parameters
        ----------
        codes : array of shape (g,)
            Sorted codes of the groups: cell times number of classes, plus class.
        points : array of shape (g, d)
        farthest : bool
        away_from : array of shape (g, d), optional
            Rows that equal this point are skipped.

        Returns
        -------
        chosen : array of shape (g, d)
        found : array of shape (g,)
            False where a group had no row to choose.
        """
        picked = self.run(search.PickRows(codes, points, farthest, away_from))
        return picked.rows, picked.cost < np.inf

    def exemplars(self, prototypes: Prototypes) -> Indices:
        """Find, for each prototype, the nearest row of its cell and class; -1 if there is none.

        `prototypes` are those of the last pass that assigned all rows.
        """
        found = self.run(search.FindExemplars(prototypes))
        return np.asarray(found.rows, dtype=np.intp)

    def strays(self, classes: Indices) -> tuple[Indices, Indices]:
        """Return the present and previous cells of rows that are in a cell of another class."""
        found = self.run(row_labels.FindStrays(classes))
        return found.cells, found.previous

    def rename(self, new_index: Indices) -> None:
        """Follow a change of indices: prototype i is now `new_index[i]`, or gone if that is -1."""
        self.run(assignment.Rename(new_index))
        known = self._current_sums()
        if known is not None:
            cells, classes = divmod(known.keys, self.n_classes)
            keys = new_index[cells] * self.n_classes + classes
            self._new_assignment()
            self._known = _KnownSums(self._assignment, replace(known, keys=keys))

    def label_all(self, prototypes: Prototypes) -> None:
        """Assign rows of weight 0 whose prototype was dropped."""
        if self.facts.zeros:
            self.run(assignment.LabelLost(prototypes))

    def errors(self, classes: Indices) -> tuple[float, float]:
        """Return the weighted error of training and of held-out rows (nan if there are none)."""
        slices = self.run(row_labels.WeighErrors(classes, self.grids.weights()))
        wrong, whole, held_wrong, held = total(slices.T)[0].tolist()
        return _share(wrong, whole), _share(held_wrong, held)

    def wrong(self, prototypes: Prototypes) -> WrongRows:
        """Find the rows whose nearest prototype is of another class."""
        return self.run(FindWrong(prototypes))

    def sampling_hashes(self, largest: Floats) -> tuple[Indices, Hashes]:
        """Return the numbers of all rows, ascending, and their hashes.

        `largest` are the magnitudes of the columns by which rows are hashed.
        """
        found = self.run(RowHashes(largest))
        pairs = zip(found.starts, found.arrays, strict=True)
        return np.concatenate([start + np.arange(len(a)) for start, a in pairs]), found.joined()

    def count_items(self) -> Indices:
        """Count the distinct rows with a positive weight of each class."""
        return self._runner.exchange(CountItems(self.facts.largest, self.n_classes))

    def count_distinct(self) -> int:
        """Count the distinct rows with a positive weight."""
        return self._runner.exchange(CountDistinct())

    def items(self, limits: Hashes) -> DistinctHashes:
        """Return the sampling hashes of distinct rows with a positive weight, up to limits."""
        return self.run(GatherHashes(self.facts.largest, limits))

    def can_do_without(self, prototypes: Prototypes, prototype: int, others: Indices) -> bool:
        """Tell whether its rows of its class would be nearest to others of the class without it.

        Call `give_away` to assign the rows to the others.
        """
        return self.run(pruning.TryWithout(prototypes, prototype, others))

    def give_away(self) -> None:
        """Assign the rows of the prototype that was tried last to the nearest of the others."""
        self.run(pruning.Inherit())

    def find_margins(self, prototypes: Prototypes) -> tuple[int, Indices]:
        """Find each row's own and rival prototype.

        Returns
        -------
        number : int
            The rows keep the margins under this number, until `release_margins`.
        counts : array of shape (k,)
            Number of rows that each prototype wins.
        """
        search = self.margin_search(prototypes)
        return search.number, self.run(search)

    def margin_search(self, prototypes: Prototypes, batch: Batch | None = None) -> FindMargins:
        """Return a pass that finds each row's own and rival prototype, to be run next."""
        self._last_margins += 1
        unused, self._unused_margins = tuple(self._unused_margins), []
        return FindMargins(prototypes, self._last_margins, unused, batch)

    def release_margins(self, number: int) -> None:
        """Mark margins as unused; the next pass that finds margins drops them."""
        self._unused_margins.append(number)

    def relabel_outweighed(
        self, earlier: EarlierRows, prototypes: Prototypes, tally: Tally
    ) -> tuple[Tally, list[Indices]]:
        """Relabel rows that equal a heavier prototype of another class.

        They are at distance zero from it, so no prototype could separate them.

        Returns
        -------
        tally : Tally
        conflicts : list of arrays
            Numbers of the rows that were relabelled, by group.
        """
        overlaps = self.run(row_labels.WeighOverlaps(prototypes))
        weights = total(overlaps.slices)[0]
        own = earlier.take(earlier.classes == prototypes.classes[earlier.cells(prototypes)])
        old = np.zeros(len(prototypes))
        old[own.cells(prototypes)] = own.weights[0]
        yields = []
        for code, new in zip(overlaps.keys.tolist(), weights.tolist(), strict=True):
            cell, c = divmod(code, self.n_classes)
            if (-old[cell], prototypes.classes[cell]) < (-new, c):
                yields.append(code)
        if not yields:
            return tally, []
        conflicts = self.run(row_labels.FindOverlaps(prototypes, np.array(yields)))
        classes = prototypes.classes[np.array(yields) // self.n_classes]
        sizes = [len(rows) for rows in conflicts]
        self.run(row_labels.Relabel(np.concatenate(conflicts), np.repeat(classes, sizes)))
        self._new_assignment()
        self._known = None
        sums = self._with_squares(self.run(grouping.SumCells()))
        return sums.tally(self.n_classes), conflicts

    def as_tally(self, earlier: EarlierRows, prototypes: Prototypes) -> Tally:
        """Convert earlier rows to a tally that can be added to tallies of the rows."""
        squares, units = earlier.squares(prototypes), self.grids.weights()
        weights = cut(earlier.weights[0][:, None], units, earlier.weights[1][:, None])
        return Tally(
            earlier.cells(prototypes),
            earlier.classes,
            weights[:, :, 0],
            mapped(lambda sums: cut(sums[0], self.grids.features(), sums[1]), earlier.sums),
            cut(squares[:, None], self._square_grid.units)[:, :, 0],
        )

    def class_distances(self, prototypes: Prototypes) -> npt.NDArray[np.floating]:
        """Return the distances of all rows to the nearest prototype of each class."""
        return self.run(row_labels.RowClassDistances(prototypes)).joined()

    def given_classes(self) -> Indices:
        """Return the classes of all rows as the user gave them."""
        return self.run(row_labels.GivenClasses()).joined()

    def digest(self) -> int:
        """Compute a checksum of all rows in their order, with classes and weights."""
        return self.run(row_labels.DigestRows())

    def cells(self) -> Indices:
        """Return the cells of all rows."""
        return self.run(row_labels.RowCells()).joined().astype(np.intp)

    def weights(self) -> Floats | None:
        """Return the weights of all rows; None stands for ones."""
        if not self.facts.weight_bits:
            return None
        return self.run(row_labels.RowWeights()).joined()

    @contextmanager
    def holding_out(self, lowest: Hashes, highest: Hashes) -> Iterator["Rows"]:
        """Return the same rows, but hold out those with hashes in the range of their class."""
        others = Rows(
            self._runner.derive(HoldOut(self.facts.largest, lowest, highest)),
            self.dtype,
            self._n_values,
            self.n_classes,
            n_centers=self._n_centers,
            by_class=self.by_class,
            geometry=self.geometry,
        )
        try:
            yield others
        finally:
            others.close()

    @contextmanager
    def drawn(self, draw: Draw) -> Iterator["Rows"]:
        """Return a sample of the rows, which are laid together."""
        by_class = self.by_class
        if (draw.factors != 1).any():
            by_class = draw.factors if by_class is None else draw.factors * by_class
        some = Rows(
            self._runner.derive(draw),
            self.dtype,
            self._n_values,
            self.n_classes,
            n_centers=self._n_centers,
            by_class=by_class,
            geometry=self.geometry,
        )
        try:
            yield some
        finally:
            some.close()

    def _new_assignment(self) -> None:
        self._last_assignment += 1
        self._assignment = self._last_assignment


def _share(wrong: float, whole: float) -> float:
    return wrong / whole if whole > 0 else np.nan


def _earlier_sums(earlier: EarlierRows | None) -> EarlierSums | None:
    if earlier is None or not len(earlier):
        return None
    bounds = np.max([np.abs(some[0]).max(axis=0) for _, some in dense_chunks(earlier.sums)], axis=0)
    return EarlierSums(len(earlier), bounds, float(earlier.weights[0].max()))
