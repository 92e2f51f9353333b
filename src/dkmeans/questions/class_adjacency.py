"""Which classes meet, and how many prototypes it cost to separate them.

Two prototypes *face* each other if no third one is nearer to both than they are to each other: they
are neighbours in the relative neighbourhood graph. Then no prototype is nearer to the point midway
than these two, so the border of their cells runs there. The graph is connected, so every class
faces another one. In many dimensions a cell borders on almost all others, mostly far from any row;
facing keeps the borders that lie between prototypes.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dkmeans.fitted import Fitted
from dkmeans.kernels.block import Indices
from dkmeans.kernels.threads import tiles
from dkmeans.questions.nearest_prototype import distances as all_distances
from dkmeans.questions.purity import class_shares
from dkmeans.results.answers import ClassBorders

_TILE_PROTOTYPES = 2048  # per tile of the distance matrix: 32 MiB in float64
_FIRST_WITNESSES = 8  # nearest prototypes tried first as the third one; then twice as many, ...

Floating = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Facing:
    """Relations between prototypes of different classes; matrices are symmetric."""

    pairs: npt.NDArray[np.int64]  # shape (c, c): number of facing pairs of prototypes
    gaps: Floating  # shape (c, c): smallest distance between prototypes
    rivals: Indices  # shape (k,): class of the nearest prototype of another class, -1 if none


def class_borders(model: Fitted, n_threads: int) -> ClassBorders:
    """List the pairs of classes that meet, the one that cost the most prototypes first."""
    now, n_classes = model.prototypes, len(model.classes)
    facing = find_facing(now.centers, now.classes, n_classes, n_threads)
    cost = _prototypes_by_pair(model, facing.rivals)
    stray = class_shares(model)
    a, b = np.nonzero(np.triu(facing.pairs + cost + (stray + stray.T > 0), 1))
    table = ClassBorders(
        a=model.classes[a],
        b=model.classes[b],
        prototypes=cost[a, b],
        facing=facing.pairs[a, b],
        gap=facing.gaps[a, b],
        a_in_b=stray[a, b],
        b_in_a=stray[b, a],
    )
    return table.take(np.lexsort((b, a, table.gap, -table.facing, -table.prototypes)))


def _prototypes_by_pair(model: Fitted, rivals: Indices) -> npt.NDArray[np.int64]:
    """Count prototypes by the pair of classes that they were added for."""
    classes, ids = model.prototypes.classes, model.prototypes.ids
    of_all = np.searchsorted(model.classes, model.tree.label)
    parents = model.tree.parent[ids]
    of_parents = np.where(parents < 0, classes, of_all[parents])
    against = np.where(of_parents == classes, rivals, of_parents)
    oldest = np.unique(classes, return_index=True)[1]  # ids increase within a class
    more = np.setdiff1d(np.arange(len(ids)), oldest)
    more = more[against[more] >= 0]  # a single class has no rival
    counts = np.zeros((len(model.classes),) * 2, dtype=np.int64)
    np.add.at(counts, (classes[more], against[more]), 1)
    return counts + counts.T


def find_facing(
    centers: Floating,
    classes: Indices,
    n_classes: int,
    n_threads: int,
    tile: int = _TILE_PROTOTYPES,
) -> Facing:
    """Compare all prototypes of different classes; the tile size bounds the memory."""
    parts = list(tiles(len(centers), tile))

    @lru_cache(maxsize=3)
    def computed(s: int, t: int) -> Floating:
        return all_distances(centers[parts[s]], centers[parts[t]], n_threads)

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
            _update_rivals(apart, theirs, nearest[parts[s]], rivals[parts[s]])
            if t > s:  # tiles come in order, so the lowest index wins a tie here, too
                _update_rivals(apart.T, ours, nearest[parts[t]], rivals[parts[t]])
            free = np.triu(foreign) if t == s else foreign
            for u in range(len(parts)):
                _strike_out(distances, between(s, u), between(t, u), free)
            i, j = np.nonzero(free)
            np.add.at(pairs, (ours[i], theirs[j]), 1)
    return Facing(pairs + pairs.T, np.minimum(gaps, gaps.T), rivals)


def _update_rivals(apart: Floating, classes: Indices, nearest: Floating, rivals: Indices) -> None:
    """Update the nearest rival of each prototype; the last two arguments are OUT."""
    which = apart.argmin(axis=1)
    least = apart[np.arange(len(apart)), which]
    nearer = least < nearest
    nearest[nearer] = least[nearer]
    rivals[nearer] = classes[which[nearer]]


def _strike_out(
    distances: Floating, from_ours: Floating, from_theirs: Floating, free: npt.NDArray[np.bool_]
) -> None:
    """Strike out pairs with one of these prototypes between them; `free` is IN and OUT."""
    for i in np.flatnonzero(free.any(axis=1)):
        theirs = np.flatnonzero(free[i])
        apart, near = distances[i, theirs], from_ours[i]
        witnesses = np.flatnonzero(near < apart.max())
        witnesses = witnesses[np.argsort(near[witnesses], kind="stable")]
        start, stop = 0, _FIRST_WITNESSES
        while len(theirs) and start < len(witnesses):
            some = witnesses[start:stop]
            # One of the pair itself is never strictly nearer to the other than they are apart.
            both = np.maximum(near[some], from_theirs[np.ix_(theirs, some)])
            struck = (both < apart[:, None]).any(axis=1)
            free[i, theirs[struck]] = False
            theirs, apart = theirs[~struck], apart[~struck]
            start, stop = stop, 2 * stop
