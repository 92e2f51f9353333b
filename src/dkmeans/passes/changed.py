"""Assign rows by comparing them only with the centres that have changed since the last pass."""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.assign import assign_changed
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.distances import OwnDistances
from dkmeans.kernels.pack import pack
from dkmeans.kernels.reference import to_distance
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import NO_CELL

MAX_CHANGED_SHARE = 0.5  # of the centres; above it, rows are compared with all centres


def assign_by_change(
    part: Part,
    last_centers: npt.NDArray[np.floating],
    last_squares: Floats,
    centers: npt.NDArray[np.floating],
    came_from: Indices,
    own: Indices,
    labels: Indices,
    squares: Floats,
) -> Indices | None:
    """Assign rows by comparing them with the centres that have changed since the last pass.

    If a row's own centre has not moved away from it, no centre that has stayed in place can be
    its nearest now: it was not nearer before, nor first on a tie, as prototypes keep their order.

    Parameters
    ----------
    part : Part
    last_centers : array of shape (k_before, d)
        Centres of the last pass.
    last_squares : array of shape (n,)
        Squared distances that the last pass found.
    centers : array of shape (k, d)
        Centres now.
    came_from : array of shape (k_before,)
        For each centre of the last pass its index now, or -1 if it is gone.
    own : array of shape (n,)
        Centre of each row in the last pass, by its index now, or -1.
    labels, squares : arrays of shape (n,)
        OUT. Not written for rows in `rest`.

    Returns
    -------
    rest : array or None
        Rows that must be compared with all centres; None for all rows.
    """
    there = np.flatnonzero(came_from >= 0)
    now = came_from[there]
    if (np.diff(now) <= 0).any():
        return None
    in_place = np.zeros(len(centers), dtype=bool)
    in_place[now] = (centers[now] == last_centers[there]).all(axis=1)
    changed = np.flatnonzero(~in_place)
    if len(changed) > len(centers) * MAX_CHANGED_SHARE:
        return None
    if not len(changed):
        changed = np.zeros(1, dtype=np.intp)  # nothing is nearer than a row's own centre
    number = np.full(len(centers), NO_CELL)
    number[changed] = np.arange(len(changed))
    packed = pack(centers[changed], sparse=False, loops=part.loops)
    own_distances = OwnDistances(centers, sparse=False, loops=part.loops)
    look_again = np.ones(len(own), dtype=bool)

    def task(tile: slice) -> None:
        mine, near = own[tile], last_squares[tile].copy()
        stale = np.flatnonzero((mine >= 0) & ~in_place[mine])
        moved = np.empty(len(stale))
        own_distances(part.X[tile], mine[stale], moved, stale)
        away = to_distance(moved, centers.dtype) > to_distance(near[stale], centers.dtype)
        near[stale] = moved
        content = mine >= 0
        content[stale[away]] = False
        those = np.flatnonzero(content)
        if not len(those):
            return
        nearest = np.empty(len(those), dtype=np.intp)
        doubt = assign_changed(
            part.X[tile], packed, those, number[mine[those]], near[those], nearest
        )
        goes = np.flatnonzero(nearest >= 0)
        mine, target = mine.copy(), changed[nearest[goes]]
        mine[those[goes]] = target
        far = np.empty(len(goes))
        own_distances(part.X[tile], target, far, those[goes])
        near[those[goes]] = far
        labels[tile], squares[tile] = mine, near
        content[those[doubt]] = False
        look_again[tile] = ~content

    part.for_tiles(task, len(changed))
    return np.flatnonzero(look_again)
