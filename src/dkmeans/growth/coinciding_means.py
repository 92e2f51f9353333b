"""Mixed cells whose class means coincide, such as an XOR.

Repulsion has no direction there: the children would coincide too, in every round. So each class of
such a cell is split in two halves, across the direction from its mean to its farthest row. In the
round, the halves count as groups of their own.
"""

from dataclasses import replace

import numpy as np

from dkmeans.exact.group_sums import run_starts
from dkmeans.geometry import Geometry
from dkmeans.growth.cells import Cells, see_cells
from dkmeans.growth.rows import Rows
from dkmeans.growth.rules import Rules
from dkmeans.kernels.block import Indices

COINCIDENCE_TOLERANCE = 1e-6  # distance of means, relative to the root-mean-square radius


def halve_coinciding(rows: Rows, cells: Cells, rules: Rules) -> Cells:
    """Replace the groups of cells whose class means coincide by their halves."""
    which = _coinciding(cells, float(np.finfo(rows.dtype).eps), rules.geometry)
    which = which[~cells.remembered[which]]  # only the sums of earlier rows are known
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
    """Find the groups of mixed cells in which the means of all classes coincide."""
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
    limit = np.maximum(COINCIDENCE_TOLERANCE * extent, 4 * eps * np.abs(middle).max(axis=1))
    together = np.maximum.reduceat(apart, starts) <= limit
    return in_mixed[np.repeat(together, n_groups)]
