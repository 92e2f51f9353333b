"""Lower bounds of distances from a few coordinates, which spare most of the others.

Rows with many features mostly vary along few directions. Let Q hold m directions, with a spectral
norm of at most 1, and a = x - s for a shift s. Then |v|^2 - |Qv|^2 is the square of a seminorm of
v, so by its triangle inequality

    |x - c|^2  >=  |Qa - Qb|^2 + (t(a) - t(b))^2,    t(a)^2 = |a|^2 - |Qa|^2,    b = c - s.

The right side is a squared distance between points with m + 1 coordinates, the *sketches* of x and
c. Only centres whose sketch is nearer than the nearest centre so far are compared with the row
itself. The result is exact whatever the directions are; good ones leave few centres to compare.
Refined prototypes lie outside the cloud of the rows, and few directions leave many of them: *fine*
sketches along more directions are then compared before the rows are.

Rounding. Let u be the unit roundoff and d the number of features. The product with Q has an error
of at most e|a|, e = 1.1 (d + 8) sqrt(m) u; with that of |a|^2, t^2 has one of at most 3 e |a|^2, so
t has one of at most 3 e |a|^2 / t, and of at most sqrt(3 e) |a|. `candidates.sketch_error` adds
these up, with what underflow may add. A squared distance computed from differences has a relative
error of at most 1.1 (d + 3) u, and the reference rounds distances to the dtype of X: squared
distances whose ratio is closer to 1 than these terms together may be ties, which the reference
resolves.
"""

import math
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices

N_DIRECTIONS = 30  # with the remaining norm and a constant, sketches fill two cache lines
N_FINE_DIRECTIONS = 126  # of fine sketches, which fill eight cache lines
MIN_FEATURES = 192  # below it, sketches save little
MIN_FINE_FEATURES = 512  # below it, fine sketches would take too much memory beside the rows
N_SAMPLE_ROWS = 512  # rows by which directions are chosen
N_SPARE_DIRECTIONS = 8
N_ITERATIONS = 2  # of the subspace iteration
CHUNK_ROWS = 256
PROBE_ROWS = 32  # rows that show whether the search pays
CHUNK_SCORES = 1 << 18
MIN_CANDIDATES = 4  # per row, below which the search always pays
MAX_CANDIDATE_SHARE = 0.25  # of the centres; above it, comparing with all centres is faster

# Positions in the bounds that the compiled search needs.
SCALE = 0  # of sketches
SKETCH = 1  # relative error of the product with the directions
UNDERFLOW = 2  # added to squared norms for what underflow may add to errors
CENTER = 3  # largest error of the sketch of a centre
SCORE = 4  # error of scores, relative to the squares of both sketches
SCORE_UNDERFLOW = 5  # added to it
SQUARE = 6  # largest square of the sketch of a centre
TIE = 7  # relative difference of squared distances that may be ties
TIE_UNDERFLOW = 8  # added to it
OVERFLOW = 9  # squares of sketches below which products do not overflow
DIFFERENCE = 10  # relative error of squared distances between sketches
DIFFERENCE_UNDERFLOW = 11  # added to it
N_BOUNDS = 12


@dataclass(frozen=True)
class Directions:
    """Shift, scale and directions of sketches."""

    shift: npt.NDArray[np.floating]
    scale: float  # power of two that scales rows to about 1
    values: npt.NDArray[np.floating]  # shape (d, m), of spectral norm at most 1

    @classmethod
    def of(cls, X: npt.NDArray[np.floating], n_directions: int = N_DIRECTIONS) -> Self | None:
        """Choose directions along which some of the rows vary; None if their values are too large.

        Parameters
        ----------
        X : array of shape (n, d)
        n_directions : int
        """
        dtype = X.dtype
        with np.errstate(over="ignore", invalid="ignore"):
            some = X[:: max(1, len(X) // N_SAMPLE_ROWS)][:N_SAMPLE_ROWS]
            shift = (np.add.reduce(some, axis=0, dtype=np.float64) / len(some)).astype(dtype)
            a = some - shift
            largest = float(max(a.max(), -a.min()))
            if not 0 < largest < np.inf:
                return None
            exponent = math.frexp(largest)[1]
            scale = math.ldexp(1.0, min(-exponent, int(np.finfo(dtype).maxexp) - 1))
            return cls(shift, scale, _main_directions(a * dtype.type(scale), n_directions))

    @property
    def width(self) -> int:
        """Number of columns of sketches: coordinates, the norm of the rest, and 1."""
        return self.values.shape[1] + 2

    def sketch(self, X: npt.NDArray[np.floating], out: npt.NDArray[np.floating]) -> None:
        """Write the sketches of rows.

        Parameters
        ----------
        X : array of shape (n, d)
            IN.
        out : array of shape (n, m + 2)
            OUT. Coordinates; the last column is 1.
        """
        m = self.values.shape[1]
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            a = X - self.shift
            a *= a.dtype.type(self.scale)
            np.matmul(a, self.values, out=out[:, :m])
            main = out[:, :m]
            whole = np.einsum("ij,ij->i", a, a).astype(np.float64)
            rest = whole - np.einsum("ij,ij->i", main, main)
            out[:, m] = np.sqrt(np.maximum(rest, 0.0))
            out[:, m + 1] = 1


def _main_directions(a: npt.NDArray[np.floating], n_directions: int) -> npt.NDArray[np.floating]:
    """Approximate the leading singular vectors of rows by subspace iteration."""
    n, d = a.shape
    m = min(n_directions, d)
    found = a[:: max(1, n // (m + N_SPARE_DIRECTIONS))][: m + N_SPARE_DIRECTIONS].T
    for _ in range(N_ITERATIONS):
        found = a.T @ (a @ np.linalg.qr(found)[0])
    within = np.linalg.qr(found)[0]
    chosen = within @ np.linalg.svd(a @ within, full_matrices=False)[2].T
    directions = np.zeros((d, m), dtype=a.dtype)
    directions[:, : min(m, chosen.shape[1])] = chosen[:, :m]
    # The norm is bounded by that of the product of the directions, whatever was found.
    exact = directions.astype(np.float64)
    excess = np.linalg.norm(exact.T @ exact - np.eye(m))
    bound = math.sqrt(1 + excess) + 4 * math.sqrt(m) * float(np.finfo(a.dtype).eps)
    return (exact / bound).astype(a.dtype)


@dataclass(frozen=True)
class Sketches:
    """Sketches of the rows of a block."""

    directions: Directions
    values: npt.NDArray[np.floating]  # shape (n, m + 2)
    fine: "Sketches | None" = None


@dataclass(frozen=True)
class SketchedCenters:
    """Centres prepared for `nearest_by_sketches`."""

    loops: ModuleType
    centers: npt.NDArray[np.floating]  # shape (k, d)
    values: npt.NDArray[np.floating]  # shape (m + 2, k): negated sketches, and half their squares
    points: npt.NDArray[np.floating]  # shape (k, m + 2): sketches
    bounds: Floats  # see the constants above
    fine: "SketchedCenters | None" = None

    @classmethod
    def along(
        cls, centers: npt.NDArray[np.floating], sketches: Sketches, loops: ModuleType
    ) -> Self:
        """Sketch centres in the same way as rows."""
        coarse = cls.of(centers, sketches.directions, loops)
        if sketches.fine is None:
            return coarse
        return replace(coarse, fine=cls.of(centers, sketches.fine.directions, loops))

    @classmethod
    def of(
        cls, centers: npt.NDArray[np.floating], directions: Directions, loops: ModuleType
    ) -> Self:
        """Sketch centres."""
        dtype, (k, d) = centers.dtype, centers.shape
        m = directions.values.shape[1]
        values = np.empty((k, m + 2), dtype=dtype)
        directions.sketch(centers, values)
        squares = np.einsum("ij,ij->i", values[:, :-1], values[:, :-1], dtype=np.float64)
        u = float(np.finfo(dtype).eps) / 2
        tiny = float(np.finfo(dtype).tiny)
        e = 1.1 * (d + 8) * math.sqrt(m) * u if d * u <= 0.05 else np.inf
        underflow = 4 * (d * math.sqrt(m) * tiny + math.sqrt(d * tiny))
        bounds = np.zeros(N_BOUNDS)
        bounds[SCALE] = directions.scale
        bounds[SKETCH] = e
        bounds[UNDERFLOW] = (underflow / e) ** 2
        bounds[SCORE] = 2.5 * (m + 4) * u
        bounds[SCORE_UNDERFLOW] = (m + 4) * tiny
        bounds[SQUARE] = squares.max()
        bounds[TIE] = 2.8 * (d + 3) * u + 10 * u + (2 * d + 16) * 2.0**-53
        bounds[TIE_UNDERFLOW] = d * tiny
        bounds[OVERFLOW] = math.sqrt(float(np.finfo(dtype).max))
        bounds[DIFFERENCE] = 2.8 * (m + 5) * u
        bounds[DIFFERENCE_UNDERFLOW] = (m + 2) * tiny
        rests = values[:, m].astype(np.float64)
        errors = np.empty(k)
        loops.sketch_errors(squares, rests, bounds, errors)
        bounds[CENTER] = errors.max()
        points = values.copy()
        np.negative(values, out=values)
        with np.errstate(over="ignore"):  # rows are then compared with all centres
            values[:, -1] = squares / 2
        centers, values = np.ascontiguousarray(centers), np.ascontiguousarray(values.T)
        return cls(loops, centers, values, points, bounds)


def nearest_by_sketches(
    X: npt.NDArray[np.floating],
    sketches: Sketches,
    packed: SketchedCenters,
    rows: Indices,
    mine: slice,
    own: Indices,
    rival: Indices | None = None,
) -> Indices:
    """Write the nearest of some centres of each row, and the nearest of all others.

    Parameters
    ----------
    X : array of shape (n, d)
        IN.
    sketches : Sketches
        IN. Those of the rows of `X`.
    packed : SketchedCenters
        IN.
    rows : array of shape (m,)
        IN. Which rows to look at.
    mine : slice
        IN. The centres among which `own` is searched: at least one, and not all if rivals are
        searched.
    own : array of shape (m,)
        OUT.
    rival : array of shape (m,), optional
        OUT.

    Returns
    -------
    left : array
        Positions in `rows` that have to be compared with all centres, because numbers are too
        large, or because sketches would save no time.
    """
    values, centers, first = packed.values, packed.centers, 0
    fine, finer, fine_bounds = packed.fine, packed.points[:0], packed.bounds
    if fine is not None:
        finer, fine_bounds = fine.points, fine.bounds
    if rival is None:
        values, centers, first = values[:, mine], centers[mine], mine.start
        finer = finer[mine]
    k = len(centers)
    chunk = max(1, min(CHUNK_ROWS, CHUNK_SCORES // k))
    left, start, n = [np.empty(0, dtype=np.intp)], 0, len(rows)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        while start < n:
            part = slice(start, min(start + (chunk if start else PROBE_ROWS), n))
            few = rows[part]
            taken = sketches.values[few]
            scores = taken @ values
            done = np.empty(len(few), dtype=bool)
            count = packed.loops.search_candidates(
                *(X, few, centers, taken, scores, packed.bounds),
                *(taken[:0] if sketches.fine is None else sketches.fine.values[few], finer),
                *(fine_bounds, mine.start - first, mine.stop - first),
                *(own[part], own[:0] if rival is None else rival[part], done),
            )
            if not done.all():
                left.append(start + np.flatnonzero(~done))
            start = part.stop
            if count > len(few) * (MIN_CANDIDATES + MAX_CANDIDATE_SHARE * k):
                break
    if first:
        own += first
    return np.concatenate([*left, np.arange(start, n)])
