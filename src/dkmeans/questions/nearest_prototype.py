"""Nearest-prototype search: the nearest prototype, all distances, distances per class."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.assign import assign
from dkmeans.kernels.block import Indices, Matrix, max_row_values
from dkmeans.kernels.class_distances import ClassDistances
from dkmeans.kernels.compiled import loops_for, loops_for_nearest
from dkmeans.kernels.distances import all_distances
from dkmeans.kernels.pack import pack
from dkmeans.kernels.rowhash import Hashes, hash_rows
from dkmeans.kernels.threads import for_each, tiles
from dkmeans.prototypes import Prototypes

_TILE_BYTES = 1 << 22  # of work arrays per tile
_MAX_TILE_ROWS = 1 << 15  # in scans of dense rows and compiled ones, which have few work arrays
_TILE_WORK = 1 << 22  # values times centres of a tile, at least: less is not worth a thread
_READING = 16  # centres whose work takes as long as reading and checking a row
_HASH_ROWS = 4096  # rows hashed at a time


def nearest(X: Matrix, centers: npt.NDArray[np.floating], n_threads: int) -> tuple[Indices, bool]:
    """Index of the nearest centre of each row, and whether the squares of all rows were finite."""
    loops = loops_for_nearest(X, len(centers))
    packed = pack(centers, sparse=sp.issparse(X), loops=loops, n_terms=max_row_values(X))
    labels = np.empty(X.shape[0], dtype=np.intp)
    finite: list[bool] = []

    def task(tile: slice) -> None:
        if loops is not None and sp.issparse(X):  # to cut a CSR matrix is to copy it
            which = np.arange(tile.start, tile.stop)
            finite.append(assign(X, packed, labels[tile], which))
        else:
            finite.append(assign(X[tile], packed, labels[tile]))

    if loops is None and sp.issparse(X):
        for_tiles(task, X, len(centers), n_threads)
    else:  # hardly any work arrays
        least = _TILE_WORK // (X.shape[1] * (len(centers) + _READING))
        share = -(-X.shape[0] // (4 * n_threads if n_threads > 1 else 1))
        rows = min(_MAX_TILE_ROWS, max(1, least, share))
        for_each(task, tiles(X.shape[0], rows), n_threads)
    return labels, all(finite)


def distances(
    X: Matrix, centers: npt.NDArray[np.floating], n_threads: int
) -> npt.NDArray[np.floating]:
    """Distance of each row to each centre, shape (n, k)."""
    out = np.empty((X.shape[0], len(centers)), dtype=centers.dtype)
    for_tiles(lambda t: all_distances(X[t], centers, out[t]), X, 4 * len(centers), n_threads)
    return out


def hashes(X: Matrix) -> Hashes:
    """Hash all rows; identical rows have equal hashes."""
    return np.concatenate([hash_rows(X[tile]) for tile in tiles(X.shape[0], _HASH_ROWS)])


def class_distances(
    X: Matrix, prototypes: Prototypes, n_classes: int, n_threads: int
) -> npt.NDArray[np.floating]:
    """Distance of each row to the nearest prototype of each class; infinite for classes without."""
    centers = prototypes.centers
    out = np.full((X.shape[0], n_classes), np.inf, dtype=centers.dtype)
    measure = ClassDistances(
        centers,
        prototypes.classes,
        sparse=sp.issparse(X),
        loops=loops_for(X, len(centers)),
        n_terms=max_row_values(X),
    )
    for_tiles(lambda t: measure(X[t], out[t]), X, len(centers), n_threads)
    return out


def for_tiles(task: Callable[[slice], None], X: Matrix, n_centers: int, n_threads: int) -> None:
    """Call a task on tiles of rows, for work arrays of the size rows times centres."""
    per_row = 8 * (n_centers + 2 * X.shape[1])
    rows = min(max(_TILE_BYTES // per_row, 16), 4096)
    for_each(task, tiles(X.shape[0], rows), n_threads)
