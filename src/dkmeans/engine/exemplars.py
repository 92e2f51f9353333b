"""The training row that stands for a prototype: the nearest one of its cell and class.

Nearness is decided by the reference distance, ties by the rows' values and then by the lowest row
number. So the order of rows matters only for which of identical rows is named.
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.engine.summable import NOBODY
from dkmeans.engine.tally import by_values, run_starts
from dkmeans.engine.threads import tiles
from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.distances import OwnDistances
from dkmeans.kernels.reference import squared_distances, stable_bits
from dkmeans.model.prototypes import Prototypes

if TYPE_CHECKING:
    from dkmeans.engine.part import CellPart

_VALUES = 1 << 20  # of rows that are compared value by value at a time
# Numbers among all rows (-1 if there is none), squared distances, and values.
Exemplars = tuple[Indices, Floats, npt.NDArray[np.floating]]


def find_exemplars(part: "CellPart", prototypes: Prototypes, left_out: Indices) -> Exemplars:
    """Find, for each prototype, the nearest row of its cell and class in one part.

    Parameters
    ----------
    part : CellPart
        Its labels speak of these prototypes.
    prototypes : Prototypes
    left_out : array
        Numbers, among all rows, of rows that may not stand for anyone.
    """
    k, d = prototypes.centers.shape
    found = np.full(k, NOBODY), np.full(k, np.inf), np.zeros((k, d), dtype=part.X.dtype)
    fit = (part.labels >= 0) & (prototypes.classes[part.labels] == part.y)
    if part.active is not None:
        fit &= part.active
    here = left_out - part.start
    fit[here[(here >= 0) & (here < len(fit))]] = False
    distances = OwnDistances(prototypes.centers, sparse=sp.issparse(part.X), loops=part.loops)
    # Those of sparse rows are rounded, so that the reference has to settle near-ties.
    tolerance = 1 + 2.0 ** (2 - stable_bits(d))

    rows = np.flatnonzero(fit)
    cells, squares = part.labels[rows], np.empty(len(rows))

    def task(tile: slice) -> None:
        distances(part.X, cells[tile], squares[tile], rows[tile])

    part.for_tiles(task, 1, len(rows))
    least = np.full(k, np.inf)
    np.minimum.at(least, cells, squares)
    near = np.flatnonzero(squares <= least[cells] * tolerance)
    for tile in tiles(len(near), max(1, _VALUES // d)):
        row, cell = rows[near[tile]], cells[near[tile]]
        values = dense_rows(part.X, row)
        square = squared_distances(values, prototypes.centers[cell])
        # Sorting is stable, and rows are in the order of their numbers.
        order = by_values(values, square, cell)
        first = order[run_starts(cell[order])]
        nearer(found, (part.start + row[first], square[first], values[first]), cell[first])
    return found


def nearer(best: Exemplars, other: Exemplars, cells: Indices | None = None) -> None:
    """Take over rows that are nearer, for some prototypes or all."""
    rows, squares, values = other
    cells = np.arange(len(rows)) if cells is None else cells
    better = squares < best[1][cells]
    for at in np.flatnonzero((squares == best[1][cells]) & (rows >= 0)):
        row, value = best[0][cells[at]], best[2][cells[at]]
        better[at] = (*values[at], rows[at]) < (*value, row)
    for mine, theirs in zip(best, other, strict=True):
        mine[cells[better]] = theirs[better]
