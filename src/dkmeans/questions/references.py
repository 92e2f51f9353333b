"""References: held-out rows that tell how far rows of known classes are from each other.

Prototypes are far apart, so the distance to the nearest one says little about rows between them. So
some of the held-out rows are kept, and a row is compared with the nearest of these that differs
from it.

The promised rate of false alarms still holds. Which rows are references depends on a hash of their
values and on the number of held-out rows alone, and no row is compared with itself. So the scores
of all rows would be a symmetric function of them if a new row could be a reference, too. Where it
could be, that would only lower the scores of others, and with them the thresholds: leaving it out
rejects fewer rows, never more.
"""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Matrix, dense_rows
from dkmeans.kernels.distances import all_distances
from dkmeans.kernels.rowhash import salted
from dkmeans.questions.nearest_prototype import for_tiles, hashes

PER_PROTOTYPE = 16  # expected number of references for each prototype, at most
_SALT = 1  # so that references have nothing to do with other choices by hash


def keep_references(
    X: Matrix, centers: npt.NDArray[np.floating]
) -> npt.NDArray[np.floating] | None:
    """Choose references among held-out rows; None if there are fewer than two."""
    n = X.shape[0]
    share = min(1.0, PER_PROTOTYPE * len(centers) / (n + 1))
    chosen = np.arange(n)
    if share < 1:
        chosen = np.flatnonzero(salted(hashes(X), _SALT) < np.uint64(int(share * 2**64)))
    return dense_rows(X, chosen).astype(centers.dtype) if len(chosen) > 1 else None


def nearest_reference(
    X: Matrix, references: npt.NDArray[np.floating], n_threads: int
) -> npt.NDArray[np.floating]:
    """Return the distance of each row to the nearest reference that differs from it.

    It is infinite if there is none.
    """
    found = np.empty(X.shape[0], dtype=references.dtype)

    def task(tile: slice) -> None:
        block = X[tile]
        distances = np.empty((block.shape[0], len(references)), dtype=references.dtype)
        all_distances(block, references, distances)
        found[tile] = distances.min(axis=1, where=distances > 0, initial=np.inf)

    for_tiles(task, X, 4 * len(references), n_threads)
    return found
