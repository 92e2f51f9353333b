"""A round that looks only at the centres that have changed since the last one."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.assign import assign_changed
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.distances import OwnDistances
from dkmeans.kernels.pack import pack
from dkmeans.kernels.reference import to_distance

_WORTH = 0.5  # share of the centres that may have changed for the others to be left out
_NOBODY = -1


class CellRows(Protocol):
    """Rows with cells, as `engine.rows` has them."""

    X: Any
    labels: Indices
    squares: Floats
    loops: ModuleType | None

    def for_tiles(self, task: Callable[[slice], None], n_centers: int) -> None:
        """Call a task on every tile of rows."""


def assign_by_change(
    rows: CellRows,
    last_centers: npt.NDArray[np.floating],
    centers: npt.NDArray[np.floating],
    came_from: Indices,
    own: Indices,
    squares: Floats,
) -> Indices | None:
    """Assign rows by looking at the centres that have changed since the last pass.

    To a row whose own centre has not moved away, no centre that has stayed in its place can be
    the nearest now: it was not nearer before, nor first among equals, as prototypes keep their
    order.

    Parameters
    ----------
    rows : CellRows
        INOUT. Labels and squared distances are written for rows that need not look at all centres.
    last_centers : array of shape (k_before, d)
        The centres of the last pass.
    centers : array of shape (k, d)
        The centres now.
    came_from : array of shape (k_before,)
        For each centre of the last pass its index now, or -1 if it is gone.
    own : array of shape (n,)
        The centre of each row in the last pass, by its index now, or -1.
    squares : array of shape (n,)
        Squared distances that the last pass found.

    Returns
    -------
    rest : array or None
        The rows that have to look at all centres; None if that is all of them.
    """
    there = np.flatnonzero(came_from >= 0)
    now = came_from[there]
    if (np.diff(now) <= 0).any():
        return None
    in_place = np.zeros(len(centers), dtype=bool)
    in_place[now] = (centers[now] == last_centers[there]).all(axis=1)
    changed = np.flatnonzero(~in_place)
    if len(changed) > len(centers) * _WORTH:
        return None
    if not len(changed):
        changed = np.zeros(1, dtype=np.intp)  # nothing is nearer than one's own centre
    number = np.full(len(centers), _NOBODY)
    number[changed] = np.arange(len(changed))
    packed = pack(centers[changed], sparse=False, loops=rows.loops)
    own_distances = OwnDistances(centers, sparse=False, loops=rows.loops)
    look_again = np.ones(len(own), dtype=bool)

    def task(tile: slice) -> None:
        mine, near = own[tile], squares[tile].copy()
        stale = np.flatnonzero((mine >= 0) & ~in_place[mine])
        moved = np.empty(len(stale))
        own_distances(rows.X[tile], mine[stale], moved, stale)
        away = to_distance(moved, centers.dtype) > to_distance(near[stale], centers.dtype)
        near[stale] = moved
        content = mine >= 0
        content[stale[away]] = False
        those = np.flatnonzero(content)
        if not len(those):
            return
        nearest = np.empty(len(those), dtype=np.intp)
        doubt = assign_changed(
            rows.X[tile], packed, those, number[mine[those]], near[those], nearest
        )
        goes = np.flatnonzero(nearest >= 0)
        mine, target = mine.copy(), changed[nearest[goes]]
        mine[those[goes]] = target
        far = np.empty(len(goes))
        own_distances(rows.X[tile], target, far, those[goes])
        near[those[goes]] = far
        rows.labels[tile], rows.squares[tile] = mine, near
        content[those[doubt]] = False
        look_again[tile] = ~content

    rows.for_tiles(task, len(changed))
    return np.flatnonzero(look_again)
