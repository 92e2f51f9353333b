"""Which prototypes of different classes face each other across a border.

Two prototypes face each other if no third one is nearer to both than they are to each other (they
are neighbours in the relative neighbourhood graph). Then no prototype is nearer to the point midway
than these two, so the border of their cells runs there. The graph is connected, so every class
faces another one. Cells of many features have borders with almost all others, most of them far out
where no row is; facing leaves those that lie between prototypes.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dkmeans.engine import query
from dkmeans.kernels.block import Indices
from dkmeans.kernels.threads import tiles

_TILE = 2048  # prototypes whose distances are held together: 32 MiB in float64
_WITNESSES = 8  # that are asked first, the nearest ones; then twice as many, and so on

Floating = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Facing:
    """What prototypes of different classes are to each other; symmetric in the classes."""

    pairs: npt.NDArray[np.int64]  # shape (c, c): facing prototypes of two classes
    gaps: Floating  # shape (c, c): least distance between prototypes of two classes
    rivals: Indices  # shape (k,): class of the nearest prototype of another class, -1 if none


def find_facing(
    centers: Floating, classes: Indices, n_classes: int, n_threads: int, tile: int = _TILE
) -> Facing:
    """Compare all prototypes of different classes; the size of a tile bounds the memory."""
    parts = list(tiles(len(centers), tile))

    @lru_cache(maxsize=3)
    def computed(s: int, t: int) -> Floating:
        return query.distances(centers[parts[s]], centers[parts[t]], n_threads)

    def between(s: int, t: int) -> Floating:
        return computed(s, t) if s <= t else computed(t, s).T

    pairs = np.zeros((n_classes, n_classes), dtype=np.int64)
    gaps = np.full((n_classes, n_classes), np.inf, dtype=centers.dtype)
    nearest = np.full(len(centers), np.inf, dtype=centers.dtype)
    rivals = np.full(len(centers), -1, dtype=np.intp)
    for s in range(len(parts)):
        for t in range(s, len(parts)):
            distances = between(s, t)
            ours, theirs = classes[parts[s]], classes[parts[t]]
            foreign = ours[:, None] != theirs
            apart = np.where(foreign, distances, np.inf)
            np.minimum.at(gaps, (ours[:, None], theirs), apart)
            _note_rivals(apart, theirs, nearest[parts[s]], rivals[parts[s]])
            if t > s:  # tiles come in order, so the lowest index wins a tie here, too
                _note_rivals(apart.T, ours, nearest[parts[t]], rivals[parts[t]])
            free = np.triu(foreign) if t == s else foreign
            for u in range(len(parts)):
                _ask(distances, between(s, u), between(t, u), free)
            i, j = np.nonzero(free)
            np.add.at(pairs, (ours[i], theirs[j]), 1)
    return Facing(pairs + pairs.T, np.minimum(gaps, gaps.T), rivals)


def _note_rivals(apart: Floating, classes: Indices, nearest: Floating, rivals: Indices) -> None:
    """Take over classes of prototypes that are nearer than those known; the last two are OUT."""
    which = apart.argmin(axis=1)
    least = apart[np.arange(len(apart)), which]
    nearer = least < nearest
    nearest[nearer] = least[nearer]
    rivals[nearer] = classes[which[nearer]]


def _ask(
    distances: Floating, from_ours: Floating, from_theirs: Floating, free: npt.NDArray[np.bool_]
) -> None:
    """Strike out pairs that have one of these prototypes between them; `free` is IN and OUT."""
    for i in np.flatnonzero(free.any(axis=1)):
        theirs = np.flatnonzero(free[i])
        apart, near = distances[i, theirs], from_ours[i]
        witnesses = np.flatnonzero(near < apart.max())
        witnesses = witnesses[np.argsort(near[witnesses], kind="stable")]
        start, stop = 0, _WITNESSES
        while len(theirs) and start < len(witnesses):
            some = witnesses[start:stop]
            # Either of the pair as a witness is as far from the other as they are apart.
            both = np.maximum(near[some], from_theirs[np.ix_(theirs, some)])
            struck = (both < apart[:, None]).any(axis=1)
            free[i, theirs[struck]] = False
            theirs, apart = theirs[~struck], apart[~struck]
            start, stop = stop, 2 * stop
