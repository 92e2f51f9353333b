"""Visit rows class by class."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dkmeans.exact.group_sums import run_starts
from dkmeans.kernels.block import Indices
from dkmeans.passes.part import SEARCH_TILES_PER_THREAD, Bools, Part
from dkmeans.passes.row_state import RowState

BAND_ROWS = 4096  # rows per class and band, about; rows are sorted within bands


def sorted_by_class(part: Part, state: RowState) -> RowState:
    """Return a state that holds the order of rows by class."""
    if state.by_class is not None:
        return state
    # Compiled loops fetch rows one by one, so successive rows should be close in memory.
    y = state.classes
    band = max(BAND_ROWS * part.n_classes, 1) if part.loops else max(len(y), 1)
    bands = [i + np.argsort(y[i : i + band], kind="stable") for i in range(0, len(y), band)]
    order = np.concatenate(bands) if bands else np.empty(0, dtype=np.intp)
    return replace(state, by_class=order)


def for_classes(
    part: Part,
    state: RowState,
    task: Callable[[Indices], None],
    n_centers: int,
    takes_part: Bools | None = None,
) -> None:
    """Call a task on chunks of row indices, in the order of `sorted_by_class`.

    Parameters
    ----------
    part : Part
    state : RowState
    task : callable
    n_centers : int
        Number of centres that rows are compared with.
    takes_part : array of shape (n,), optional
        Which rows to visit; all by default.
    """
    order = state.by_class
    assert order is not None
    if takes_part is not None and not takes_part.all():
        order = order[takes_part[order]]
    part.for_tiles(
        lambda tile: task(order[tile]),
        n_centers,
        len(order),
        tiles_per_thread=SEARCH_TILES_PER_THREAD,
    )


def runs_of_classes(classes: Indices) -> list[tuple[int, slice]]:
    """Return the class and the slice of each run of equal classes."""
    if not len(classes):
        return []
    starts = run_starts(classes)
    ends = np.append(starts[1:], len(classes))
    runs = zip(classes[starts], starts, ends, strict=True)
    return [(int(c), slice(a, b)) for c, a, b in runs]
