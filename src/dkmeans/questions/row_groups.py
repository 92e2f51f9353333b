"""Groups of rows of one cell and one class, as their weight and mean."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dkmeans.exact.sparse_sums import dense
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.exact import cut, grid_units, ratio, slice_count, total
from dkmeans.kernels.threads import tiles

_TILE_ROWS = 4096  # rows summed at a time
_SUM_BITS = 80  # bits that sums keep below the largest value of a column


@dataclass(frozen=True)
class Groups:
    """Groups of rows, in the order of their classes; all have a positive weight."""

    means: Floats  # shape (g, d)
    classes: Indices  # shape (g,)
    weights: Floats  # shape (g,)

    def __len__(self) -> int:
        return len(self.classes)


def group_rows(
    X: Matrix, cells: Indices, y: Indices, weights: Floats | None, n_classes: int
) -> tuple[Groups, Indices]:
    """Group rows by cell and class; the result does not depend on the order of rows.

    Returns
    -------
    groups : Groups
    of_row : array of shape (n,)
        Group of each row; -1 for those of weight 0.
    """
    codes = y * (int(cells.max(initial=0)) + 1) + cells  # in the order of classes
    there = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    found, index = np.unique(codes[there], return_inverse=True)
    of_row = np.full(len(y), -1)
    of_row[there] = index
    sums = _sums(X, of_row, weights, len(found))
    heavy, _ = total(sums[:, :, -1:])
    means = ratio(sums[:, :, :-1], sums[:, :, -1:])
    return Groups(means, found // (int(cells.max(initial=0)) + 1), heavy[:, 0]), of_row


def _sums(X: Matrix, of_row: Indices, weights: Floats | None, n_groups: int) -> Floats:
    """Sum each group's rows times their weights, and in a last column their weights."""
    n, d = X.shape
    largest = np.zeros(d + 1)
    for tile in tiles(n, _TILE_ROWS):
        largest = np.maximum(largest, np.abs(_weighed(X, weights, tile)).max(axis=0))
    units = grid_units(largest, n, slice_count(n, _SUM_BITS))
    sums = np.zeros((len(units), n_groups, d + 1))
    for tile in tiles(n, _TILE_ROWS):
        slices = cut(_weighed(X, weights, tile), units)
        group = of_row[tile]
        there = np.flatnonzero(group >= 0)
        index, which = np.unique(group[there], return_inverse=True)
        ones = np.ones(len(there))
        shape = (len(index), len(group))
        collect = sp.csr_array((ones, (which, there)), shape=shape)
        for level, values in enumerate(slices):
            sums[level, index] += collect @ values
    return sums


def _weighed(X: Matrix, weights: Floats | None, tile: slice) -> Floats:
    values = dense_rows(X, tile).astype(np.float64)
    heavy = np.ones(len(values)) if weights is None else weights[tile]
    return np.column_stack([values * heavy[:, None], heavy])


def remembered_groups(
    earlier: EarlierRows, cells: Indices, factors: Floats, n_cells: int
) -> tuple[Groups, Indices]:
    """Return the groups that a fit remembers, and the code of each: class times cells, plus cell.

    `factors` are the class weights that the weights in `earlier` include.
    """
    codes = earlier.classes * n_cells + cells
    order = np.argsort(codes, kind="stable")
    weights, classes = earlier.weights[0][order], earlier.classes[order]
    means = dense(earlier.sums)[0][order] / weights[:, None]
    return Groups(means, classes, weights / factors[classes]), codes[order]
