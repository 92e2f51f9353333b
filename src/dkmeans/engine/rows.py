"""All rows of a fit, seen through the passes over their parts.

The rounds see the data only through these methods: each takes something small (centres, means),
lets every part do its pass, and puts together what the parts return.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.engine.exemplars import nearer
from dkmeans.engine.grids import Facts, Grids
from dkmeans.engine.memory import Memory
from dkmeans.engine.part import Assigned, better
from dkmeans.engine.sums import Sums, add_up
from dkmeans.engine.tally import Tally
from dkmeans.engine.team import Team
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.compiled import is_worth_it, loops_if
from dkmeans.kernels.exact import cut, total
from dkmeans.kernels.rowhash import Hashes
from dkmeans.model.prototypes import Prototypes


@dataclass(frozen=True)
class _Known:
    """The sums that belong to a state of the rows."""

    state: int
    sums: Sums


class Rows:
    """All rows, in parts.

    Parameters
    ----------
    team : Team
        Who holds the parts.
    dtype : dtype
        Of the rows.
    n_values : int
        How many values are stored in all of them.
    n_classes : int
    remembered : Memory or None
        What earlier rows left, if it is to be added to tallies of these.
    n_centers : int
        How many centres the rows are going to be compared with, about.
    by_class : array of shape (n_classes,), optional
        Class weights that the weights of the rows have in them as a factor.
    """

    def __init__(
        self,
        team: Team,
        dtype: np.dtype[np.floating],
        n_values: int,
        n_classes: int,
        *,
        remembered: Memory | None = None,
        n_centers: int = 1,
        by_class: Floats | None = None,
    ) -> None:
        self._team, self.dtype, self.n_classes = team, dtype, n_classes
        self._n_values, self._n_centers = n_values, n_centers
        self.by_class = by_class
        # By the size of the whole, so that all parts are treated alike.
        compiled = is_worth_it(n_values, n_centers)
        self._by_change = compiled and loops_if(compiled=True) is not None
        self.facts = Facts.of_all(self.each("facts", compiled))
        self.grids = Grids.of(self.facts, dtype, remembered)
        self.each("set_grids", self.grids, self.facts.n_terms)
        self._known: _Known | None = None
        self._state, self._last_state = 0, 0  # numbers of states that rows have been in
        self._square_grid = self.grids.squares(0.0)
        self.forgotten: list[int] = []  # margins that parts need not keep any longer
        self._n_margins = 0

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every part."""
        return self._team.each(method, *arguments)

    def begin(self, place: Any) -> tuple[npt.NDArray[np.floating], Tally]:
        """Put all rows into one cell.

        Parameters
        ----------
        place : callable
            Makes a centre, of shape (1, d), of a mean.
        """
        sums = add_up(self.each("tally_classes"))
        center = place(sums.keyed(np.zeros_like(sums.keys)).tally(1).means)
        largest = max(self.each("gather", center))
        return center, self._settled(sums, largest)

    def assign(
        self,
        prototypes: Prototypes,
        came_from: Indices,
        memory: Memory | None = None,
        seen: int | None = None,
    ) -> tuple[Tally, int]:
        """Assign every row to its nearest prototype, and tally per cell and class.

        Parameters
        ----------
        prototypes : Prototypes
        came_from : array of shape (k_before,)
            For each prototype of the last pass its index now, or -1 if it is gone.
        memory : Memory or None
            What will be added to the tally.
        seen : int or None
            Number of the margins that tell where rows go, if they are known.

        Returns
        -------
        tally : Tally
        moved : int
            Number of rows that changed their prototype.
        """
        known = self._known
        changes = known is not None and known.state == self._state and self._by_change
        found: list[Assigned]
        if seen is None:
            found = self.each("assign", prototypes, came_from, changes, None)
        else:
            found = self.each("assign_as_seen", prototypes, came_from, changes, seen)
        sums = add_up([part.sums for part in found])
        if changes and known is not None:
            sums = self._amended(known.sums, came_from, sums)
        largest, remembered = max(part.largest for part in found), 0.0
        if memory is not None and len(memory):
            remembered = float(memory.squares(prototypes).max())
        return self._settled(sums, largest, remembered), sum(part.moved for part in found)

    def _settled(self, sums: Sums, largest: float, remembered: float = 0.0) -> Tally:
        """Add distances to the sums of a pass that assigned all rows."""
        self._square_grid = self.grids.squares(largest, remembered)
        sums = self._with_squares(sums)
        self._new_state()
        self._known = _Known(self._state, sums)
        return sums.tally(self.n_classes)

    def _with_squares(self, sums: Sums) -> Sums:
        squares = np.zeros((self.grids.n_square_slices, len(sums.keys)))
        for keys, part in self.each("square_sums", self._square_grid):
            squares[:, np.searchsorted(sums.keys, keys)] += part
        return replace(sums, squares=squares)

    def _amended(self, last: Sums, came_from: Indices, moves: Sums) -> Sums:
        """Follow a change of indices, and add what has come less what has gone."""
        cells, classes = divmod(last.keys, self.n_classes)
        cells = came_from[cells]
        now = last.keyed(np.where(cells < 0, -1, cells * self.n_classes + classes))
        return add_up([now, moves]).there()

    def assign_own(self, prototypes: Prototypes, last: Sums | None = None) -> Sums:
        """Assign every row to the nearest prototype of its own class, and sum, by code.

        Rows of classes that have no prototype are assigned to no one. Distances are left out.

        Parameters
        ----------
        prototypes : Prototypes
        last : Sums, optional
            What this method returned just before, for as many prototypes of the same classes: then
            only rows that have changed their prototype since are summed.
        """
        sums = add_up(self.each("assign_own", prototypes, last is not None))
        self._new_state()
        if last is None:
            return sums
        return add_up([last, sums]).there()

    def tally_won(self, margins: int, classes: Indices, wins: npt.NDArray[np.bool_]) -> Sums:
        """Take rows that another class wins out of cells that win some, and sum the others."""
        sums = add_up(self.each("tally_won", margins, classes, wins))
        self._new_state()
        return sums

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Come back, at the end, to the cells that rows are in now; not if something goes wrong."""
        state, grid = self._state, self._square_grid
        self.each("keep")
        yield
        self.each("come_back")
        self._state, self._square_grid = state, grid

    def tally_all(self) -> Tally:
        """Tally all rows as one group."""
        return add_up(self.each("tally_all")).tally(self.n_classes)

    def tally_sides(self, codes: Indices, middles: Floats, directions: Floats) -> Tally:
        """Tally each of some groups in two halves, cut across `directions` at `middles`."""
        sums = add_up(self.each("tally_sides", codes, middles, directions))
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
            Rows that equal this point are passed over.

        Returns
        -------
        chosen : array of shape (g, d)
        found : array of shape (g,)
            False where a group had no row to choose.
        """
        first, *others = self.each("pick", codes, points, farthest, away_from)
        for other in others:
            better(first, other)
        chosen, cost = first
        return chosen, cost < np.inf

    def exemplars(self, prototypes: Prototypes, left_out: Indices) -> Indices:
        """Find, for each prototype, the nearest row of its cell and class; -1 if there is none.

        Parameters
        ----------
        prototypes : Prototypes
            Those of the last pass that assigned all rows.
        left_out : array
            Numbers of rows that may not stand for anyone.
        """
        first, *others = self.each("exemplars", prototypes, left_out)
        for other in others:
            nearer(first, other)
        return np.asarray(first[0], dtype=np.intp)

    def strays(self, classes: Indices) -> tuple[Indices, Indices]:
        """Present and previous cells of rows that are in a cell of another class."""
        found = self.each("strays", classes)
        return np.unique(np.concatenate([f[0] for f in found])), np.unique(
            np.concatenate([f[1] for f in found])
        )

    def rename(self, new_index: Indices) -> None:
        """Follow a change of indices: prototype i is now `new_index[i]`, or gone if that is -1."""
        self.each("rename", new_index)
        known = self._known
        if known is not None and known.state == self._state:
            cells, classes = divmod(known.sums.keys, self.n_classes)
            keys = new_index[cells] * self.n_classes + classes
            self._new_state()
            self._known = _Known(self._state, replace(known.sums, keys=keys))

    def label_all(self, prototypes: Prototypes) -> None:
        """Give rows of weight 0 whose prototype was dropped a label again."""
        if self.facts.zeros:
            self.each("label_all", prototypes)

    def errors(self, classes: Indices) -> tuple[float, float]:
        """Weighted shares of training and of held-out rows (nan if none) in a wrong cell."""
        slices = np.sum(self.each("error_weights", classes, self.grids.weights()), axis=0)
        wrong, whole, held_wrong, held = total(slices.T)[0].tolist()
        return _share(wrong, whole), _share(held_wrong, held)

    def respect(self, memory: Memory, prototypes: Prototypes, tally: Tally) -> Any:
        """Let rows that equal a prototype of another class yield to it if it is heavier.

        They are at distance zero from it, so they could never be told apart.

        Returns
        -------
        tally : Tally
        conflicts : list of arrays
            Numbers of the rows that had to yield, by group.
        """
        weights: dict[int, Floats] = {}
        for keys, slices in self.each("on_others", prototypes):
            for at, code in enumerate(keys.tolist()):
                weights[code] = weights.get(code, 0.0) + slices[:, at]
        own = memory.take(memory.classes == prototypes.classes[memory.cells(prototypes)])
        old = np.zeros(len(prototypes))
        old[own.cells(prototypes)] = own.weights[0]
        yields = []
        for code in sorted(weights):
            cell, c = divmod(code, self.n_classes)
            new = float(total(weights[code][:, None])[0][0])
            if (-old[cell], prototypes.classes[cell]) < (-new, c):
                yields.append(code)
        if not yields:
            return tally, []
        found = self.each("rows_on_others", prototypes, np.array(yields))
        conflicts = [np.sort(np.concatenate(rows)) for rows in zip(*found, strict=True)]
        classes = prototypes.classes[np.array(yields) // self.n_classes]
        sizes = [len(rows) for rows in conflicts]
        self.each("relabel", np.concatenate(conflicts), np.repeat(classes, sizes))
        self._new_state()
        self._known = None
        sums = self._with_squares(add_up(self.each("tally")))
        return sums.tally(self.n_classes), conflicts

    def as_tally(self, memory: Memory, prototypes: Prototypes) -> Tally:
        """Turn what is remembered into a tally that can be added to those of the rows."""
        squares, units = memory.squares(prototypes), self.grids.weights()
        weights = cut(memory.weights[0][:, None], units, memory.weights[1][:, None])
        return Tally(
            memory.cells(prototypes),
            memory.classes,
            weights[:, :, 0],
            cut(memory.sums[0], self.grids.features(), memory.sums[1]),
            cut(squares[:, None], self._square_grid.units)[:, :, 0],
        )

    def hashes(self) -> Hashes:
        """Hash all rows; identical ones alike."""
        return np.concatenate(self.each("hashes"))

    def cells(self) -> Indices:
        """Cells of all rows."""
        return np.concatenate(self.each("cells"), dtype=np.intp)

    def labelled(self) -> tuple[Indices, Indices, Floats | None]:
        """Cells, classes and weights of all rows."""
        labels, y, weights = zip(*self.each("labelled"), strict=True)
        whole = None if weights[0] is None else np.concatenate(weights)
        return np.concatenate(labels), np.concatenate(y), whole

    def without(self, hashes: Hashes, lowest: Hashes, highest: Hashes) -> "Rows":
        """Take the same rows, but hold out those with hashes in a range of their class."""
        return Rows(
            self._team.derive("without", hashes, lowest, highest),
            self.dtype,
            self._n_values,
            self.n_classes,
            n_centers=self._n_centers,
            by_class=self.by_class,
        )

    def next_margins(self) -> int:
        """Give margins a number: several fields may look at the same rows."""
        self._n_margins += 1
        return self._n_margins

    def _new_state(self) -> None:
        self._last_state += 1
        self._state = self._last_state


def _share(wrong: float, whole: float) -> float:
    return wrong / whole if whole > 0 else np.nan
