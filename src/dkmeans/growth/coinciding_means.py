"""Mixed cells whose class means coincide, such as an XOR: repulsion has no direction to push in.

Their children would lie on one another and nothing would ever change. Such a cell is seen at once,
and each of its classes is cut in two: across the direction from the class's mean to its farthest
row. The halves' means take the place of the class's mean, and the round goes on as usual.
"""

from dataclasses import replace

import numpy as np

from dkmeans.exact.group_sums import run_starts
from dkmeans.geometry import Geometry
from dkmeans.growth.cells import Cells, Rules, see_cells
from dkmeans.growth.rows import Rows
from dkmeans.kernels.block import Indices

_NEAR = 1e-6  # means this close, relative to the cell's extent, count as one


def halve_coinciding(rows: Rows, cells: Cells, rules: Rules) -> Cells:
    """Replace the groups of cells whose class means coincide by their halves."""
    which = _coinciding(cells, float(np.finfo(rows.dtype).eps), rules.geometry)
    which = which[~cells.remembered[which]]  # rows of earlier fits cannot be told apart
    if not len(which):
        return cells
    groups = cells.groups
    part = groups.take(which)
    codes = part.cells * rows.n_classes + part.classes
    middles = part.means
    farthest, _ = rows.pick(codes, middles, farthest=True)
    halves = rows.tally_sides(codes, middles, farthest.astype(np.float64) - middles)
    others = groups.take(np.setdiff1d(np.arange(len(groups)), which, assume_unique=True))
    return replace(see_cells(others.and_also(halves), rules), still=cells.still)


def _coinciding(cells: Cells, eps: float, geometry: Geometry) -> Indices:
    """Find the groups of mixed cells in which all classes share one mean."""
    in_mixed = np.flatnonzero(cells.in_mixed & cells.large)
    if not len(in_mixed):
        return in_mixed
    groups = cells.groups.take(in_mixed)
    starts = run_starts(groups.cells)
    whole = groups.merged(starts)
    n_groups = np.diff(np.append(starts, len(groups)))
    middle, means = (geometry.centers(g.means, np.float64) for g in (whole, groups))
    apart = np.abs(means - np.repeat(middle, n_groups, axis=0)).max(axis=1)
    extent = np.sqrt(whole.square / whole.weight)
    limit = np.maximum(_NEAR * extent, 4 * eps * np.abs(middle).max(axis=1))
    together = np.maximum.reduceat(apart, starts) <= limit
    return in_mixed[np.repeat(together, n_groups)]
