"""Distances of rows to the nearest centre of each class."""

from types import ModuleType

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.assign import assign
from dkmeans.kernels.block import Indices, Matrix
from dkmeans.kernels.distances import paired_distances
from dkmeans.kernels.pack import pack
from dkmeans.kernels.reference import to_distance


class ClassDistances:
    """Function of a tile of rows, prepared for some centres.

    Parameters
    ----------
    centers : array of shape (k, d)
    classes : array of shape (k,)
        Class of each centre, by number.
    sparse : bool
        Whether tiles are CSR matrices.
    loops : module or None
        Compiled loops.
    n_terms : int or None
        Largest number of stored values in a CSR row; None for arrays.
    """

    def __init__(
        self,
        centers: npt.NDArray[np.floating],
        classes: Indices,
        *,
        sparse: bool,
        loops: ModuleType | None,
        n_terms: int | None,
    ) -> None:
        self._loops = loops
        self._packs = {
            c: pack(centers[classes == c], sparse=sparse, loops=loops, n_terms=n_terms)
            for c in np.unique(classes).tolist()
        }

    def __call__(self, tile: Matrix, out: npt.NDArray[np.floating]) -> None:
        """Write the columns of `out` that belong to classes with a centre."""
        everyone = np.arange(tile.shape[0])
        labels = np.empty(len(everyone), dtype=np.intp)
        for c, packed in self._packs.items():
            assign(tile, packed, labels)
            squares = paired_distances(tile, everyone, packed.centers, labels, self._loops)
            out[:, c] = to_distance(squares, out.dtype)
