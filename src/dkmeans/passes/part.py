"""Parts of the rows, which never change during a fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.exact.grids import Grids, Scale
from dkmeans.geometry import Euclidean, Geometry
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.compiled import loops_if
from dkmeans.kernels.rowhash import Hashes, sampling_hashes
from dkmeans.kernels.sketch import (
    MIN_FEATURES,
    MIN_FINE_FEATURES,
    N_DIRECTIONS,
    N_FINE_DIRECTIONS,
    Directions,
    Sketches,
)
from dkmeans.kernels.threads import cap_threads, for_each, tiles
from dkmeans.passes.numbering import Numbering

TILE_BYTES = 1 << 23  # a tile and its work arrays should stay near the cache
MAX_TILE_ROWS = 1 << 15
MIN_TILE_ROWS = 16
SKETCH_TILE_BYTES = 1 << 20
PLAIN_TILE_ROWS = 4096  # maximum without compiled loops
MIN_TILE_WORK = 1 << 16  # values times centres of a compiled tile, so that threads are worth it
TILES_PER_THREAD = 2  # of arrays; each tile has sums of its own
SEARCH_TILES_PER_THREAD = 6  # where rows take unequal time
DEFAULT_SLICES = 3  # slices of exact sums, until the grids are known
Bools = npt.NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class Setting:
    """Properties that all parts share, as far as they are known.

    Attributes
    ----------
    compiled : bool
        Whether to use compiled loops, where they are available.
    n_features, itemsize : int
        Properties of the rows, for passes that do not need the rows.
    row_values : int
        Approximate number of stored values per row.
    n_terms : int or None
        Largest number of stored values in a CSR row; None for arrays.
    grids : Grids or None
        Grids of the sums of rows.
    scale : Scale or None
        Weighting and rounding of values per row.
    geometry : Geometry
        Maps the rows that were read to those that passes see.
    """

    compiled: bool = False
    n_features: int = 1
    itemsize: int = 8
    row_values: int = 1
    n_terms: int | None = None
    grids: Grids | None = None
    scale: Scale | None = None
    geometry: Geometry = field(default_factory=Euclidean)


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the rows, with their classes and weights.

    Attributes
    ----------
    raw : array or CSR matrix of shape (n, d), or None
        Rows as they were read. Never written to. None while the rows are not in memory.
    given : array of shape (n,)
        Class indices, as given by the user.
    weights : array of shape (n,) or None
        None means ones. A row of weight 0 gets a label, but has no influence.
    active : array of shape (n,) or None
        Rows with a positive weight; None means all.
    held : array of shape (n,) or None
        Rows that are held out, whose weight is 0 here.
    full_weights : array of shape (n,) or None
        Weights, including those of held-out rows.
    n_classes : int
    numbering : Numbering
        Numbers of the rows among all rows.
    n_threads : int
    memory_mb : float or None
        Bound on the work arrays of all threads together.
    setting : Setting
    is_resident : bool
        Whether the rows stay in memory between passes.
    """

    raw: Matrix
    given: Indices
    weights: Floats | None
    active: Bools | None
    held: Bools | None
    full_weights: Floats | None
    n_classes: int
    numbering: Numbering
    n_threads: int
    memory_mb: float | None
    setting: Setting = field(default_factory=Setting)
    is_resident: bool = True

    @classmethod
    def of(
        cls,
        X: Matrix,
        y: Indices,
        weights: Floats | None,
        *,
        n_classes: int,
        start: int = 0,
        n_threads: int = 1,
        memory_mb: float | None = None,
    ) -> Self:
        """Create a part whose rows are all training rows."""
        return cls(
            raw=X,
            given=y,
            weights=weights,
            active=_positive(weights),
            held=None,
            full_weights=weights,
            n_classes=n_classes,
            numbering=Numbering.starting_at(start),
            n_threads=cap_threads(n_threads),
            memory_mb=memory_mb,
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Lay the rows of several parts of one setting together."""
        if len(parts) == 1:
            return parts[0]
        rows = [part.raw for part in parts]
        weights = _joined([part.weights for part in parts])
        return replace(
            parts[0],
            raw=sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.concatenate(rows),
            given=np.concatenate([part.given for part in parts]),
            numbering=Numbering.joined(
                [part.numbering for part in parts], [len(part) for part in parts]
            ),
            weights=weights,
            active=_positive(weights),
            held=_joined([part.held for part in parts]),
            full_weights=_joined([part.full_weights for part in parts]),
        )

    def without(self, held: Bools) -> Self:
        """Create a part of the same rows with some held out."""
        ones_or_weights = np.ones(len(self)) if self.weights is None else self.weights
        weights = np.where(held, 0.0, ones_or_weights)
        other = replace(
            self,
            weights=weights,
            active=_positive(weights),
            held=held if self.active is None else held & self.active,
            full_weights=self.weights,
            setting=Setting(geometry=self.setting.geometry),
        )
        return self._share_mapped(other)

    def configured(self, setting: Setting) -> Self:
        """Return the part with another setting."""
        other = replace(self, setting=setting)
        return self._share_mapped(other) if setting.geometry == self.setting.geometry else other

    def with_rows(self, X: Matrix) -> Self:
        """Return the part with its rows as they were read, for one pass, or without them."""
        return replace(self, raw=X, is_resident=False)

    @cached_property
    def X(self) -> Matrix:  # noqa: N802, as rows are called everywhere
        """Rows in the space in which they are compared, or None. Never written to."""
        if self.raw is None:
            return None
        return self.setting.geometry.rows(self.raw, self.n_threads)

    @cached_property
    def sketches(self) -> Sketches | None:
        """Sketches of the rows; None if they would not save time."""
        return self._sketched(N_DIRECTIONS, MIN_FEATURES)

    @cached_property
    def fine_sketches(self) -> Sketches | None:
        """Sketches of the rows, with fine ones unless the rows have few features."""
        if self.sketches is None:
            return None
        return replace(self.sketches, fine=self._sketched(N_FINE_DIRECTIONS, MIN_FINE_FEATURES))

    def _sketched(self, n_directions: int, min_features: int) -> Sketches | None:
        X = self.X
        if self.loops is None or X is None or sp.issparse(X) or not X.flags.c_contiguous:
            return None
        if not len(X) or X.shape[1] < min_features:
            return None
        directions = Directions.of(X, n_directions)
        if directions is None:
            return None
        values = np.empty((len(X), directions.width), dtype=X.dtype)

        def task(tile: slice) -> None:
            directions.sketch(X[tile], values[tile])

        rows = max(MIN_TILE_ROWS, SKETCH_TILE_BYTES // (X.shape[1] * X.itemsize))
        for_each(task, tiles(len(X), rows), self.n_threads)
        return Sketches(directions, values)

    def sampling_hashes(self, largest: Floats) -> Hashes:
        """Return the hashes of the rows, given the magnitude of each column."""
        if self._hashes and np.array_equal(self._hashes[0], largest):
            return self._hashes[1]
        hashes = np.empty(len(self), dtype=np.uint64)

        def task(tile: slice) -> None:
            hashes[tile] = sampling_hashes(self.X[tile], largest, self.loops)

        self.for_tiles(task, 1)
        if self.is_resident:  # samples are drawn several times
            self._hashes[:] = largest, hashes
        return hashes

    @cached_property
    def _hashes(self) -> list[npt.NDArray[Any]]:
        """Magnitudes and the hashes for them, once they are known."""
        return []

    def _share_mapped(self, other: Self) -> Self:
        """Give what was made of the rows to a part of the same rows."""
        for name in ("X", "sketches", "fine_sketches", "_hashes"):
            if vars(self).get(name) is not None:
                vars(other)[name] = vars(self)[name]
        return other

    def __len__(self) -> int:
        return len(self.given)

    @property
    def loops(self) -> ModuleType | None:
        """Compiled loops, or None where NumPy does the work."""
        return loops_if(compiled=self.setting.compiled)

    @property
    def grids(self) -> Grids:
        """Grids on which rows are summed."""
        assert self.setting.grids is not None, "the grids must be configured first"
        return self.setting.grids

    @property
    def scale(self) -> Scale:
        """Weighting and rounding of values per row."""
        assert self.setting.scale is not None, "the scale must be configured first"
        return self.setting.scale

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.setting.n_features if self.X is None else int(self.X.shape[1])

    def local(self, rows: Indices) -> Indices:
        """Select the rows of this part from global row indices; return local indices."""
        here, there = self.numbering.find(rows, len(self))
        return here[there]

    def for_tiles(
        self,
        task: Callable[[slice], None],
        n_centers: int,
        n_rows: int | None = None,
        *,
        weighted: bool = False,
        tiles_per_thread: int = TILES_PER_THREAD,
    ) -> None:
        """Call a task on every tile of rows, in threads.

        Parameters
        ----------
        task : callable
        n_centers : int
            Number of centres for which the task has work arrays.
        n_rows : int, optional
            Number of rows to split into tiles; all rows by default.
        weighted : bool
            Whether the task multiplies rows by weights exactly, which takes more work arrays.
        tiles_per_thread : int
            Number of tiles of an array for each thread, at least, unless they were too small.
        """
        itemsize = self.setting.itemsize if self.X is None else self.X.dtype.itemsize
        n, loops = len(self) if n_rows is None else n_rows, self.loops
        if loops and self.setting.n_terms is None:  # arrays: small work arrays
            per_row, most = 256, min(MAX_TILE_ROWS, -(-n // (tiles_per_thread * self.n_threads)))
            most = max(most, MIN_TILE_WORK // max(1, self.setting.row_values * n_centers))
        else:
            grids = self.setting.grids
            n_slices = DEFAULT_SLICES if grids is None else grids.n_slices
            per_value = itemsize + 8 * (n_slices + 3 + 6 * weighted)
            per_row = n_centers * (2 * itemsize + 1) + self.setting.row_values * per_value
            most = PLAIN_TILE_ROWS
            if loops:
                most = min(MAX_TILE_ROWS, -(-n // (4 * self.n_threads)))
        rows = self._tile_bytes // per_row
        rows = int(max(MIN_TILE_ROWS, min(rows, most)))
        for_each(task, tiles(n, rows), self.n_threads)

    @property
    def _tile_bytes(self) -> int:
        if self.memory_mb is None:
            return TILE_BYTES
        return min(TILE_BYTES, int(self.memory_mb * 2**20 / self.n_threads))


def _joined(arrays: Sequence[npt.NDArray[Scalar] | None]) -> npt.NDArray[Scalar] | None:
    """Concatenate arrays that all parts have, or none."""
    there = [array for array in arrays if array is not None]
    return np.concatenate(there) if there else None


def _positive(weights: Floats | None) -> Bools | None:
    return None if weights is None or weights.all() else weights > 0
