"""Certified radii: how far a row can move, in any direction, without a change of class.

Let x be a row, i a prototype of the predicted class, j one of any other class, S_i and S_j the
squared distances of x to them and L their distance from each other. All points at which i is nearer
than j are on one side of a plane, and x is h_ij = (S_j - S_i) / (2 L) away from it. As long as one
i is nearer than all j the class stays, so

    max over i of min over j of h_ij

is a radius within which it does. It is the largest one if the class has one prototype; with several
it may be too small, never too large.

*Rounding.* What `predict` compares are distances rounded to the type of X, so the radius is lowered
until it holds for these. With d features, u = 2^-53 and t the unit roundoff of the type of X, a
distance D is off by at most r D + a, with r = t + (d/2 + 3) u and a from underflow. So i beats j at
z for sure if S_j - S_i > r M^2 + 2 a M there, M being the sum of both distances. A move by m < h_ij
lowers S_j - S_i by 2 L m, and h_ij is at most half of D_i + D_j, so M^2 is at most
Q = 8 (S_i + S_j), with the squares at x. With e = t + (d + 8) u and 2 a M <= e M^2 + a^2 / e,

    (S_j - S_i - 2 e Q - a^2 / e) / (2 L)

is safe, also with the squares as computed, which are off by (d + 3) u S. Then, x and z are rounded
to the type of X before they are compared: 2 t |x| goes off.

*Cosine.* Here v = x / |x| is compared. S_j - S_i is 2 v.(c_i - c_j) - 2 b with
b = (|c_i|^2 - |c_j|^2) / 2, next to nothing, and i beats j at z for sure if
z.(c_i - c_j) - (b + f) |z| > 0, with f for rounding: 8.1 r for distances of at most 2, as M <= 4,
10 e L twice for v, which is of length one only to 8 t, and 4.1 (d + 3) u for the squares at x: less
than 50 e, as L <= 2. A move by m lowers the left side by (L + |b| + f) m at most, so

    |x| ((S_j - S_i) / 2 - f) / (L + |b| + f)

is safe. But for b and f it is |x| times the sine of the angle between x and the plane.

*Learned.* Here z = s A is compared, with s = (x - shift) / scale. S_j - S_i is affine in z, and
its gradient with respect to x is 2 B (w_i - w_j), with B = A / scale by features. So L is the
length of B (w_i - w_j), and the border is a plane in the input space, too. A move by m moves z by
|B| m at most (Frobenius norm). The computed z is off by at most

    E = |A|_2 sqrt(d) g / 2 + (2 t + (d + 8) u) (sum_j |B_j| (|x_j| + |shift_j|) + |B| m)

with g the grid of standardised values, the rounding of x and of z to the type of X, and the float64
arithmetic. That changes S_j - S_i by at most 2 |w_i - w_j| E for x and for the moved row each, and
|w_i - w_j| <= D_i + D_j; M^2 at the moved row is at most 4 (S_i + S_j) + 8 (|B| m + E)^2. All are
computed for m = (S_j - S_i) / (2 L), which is not less than the radius.

*Cost.* Of the prototypes i, only those whose h_ij to the rival nearest to x is above the best
radius so far can raise it; the most promising goes first. So after n k d steps for all distances, a
row takes k steps for each i that is tried: one or two for most rows, and the whole class at worst.
Memory is that of a block of rows times k, and k times k where that is small.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.geometry import Geometry
from dkmeans.geometry.base import Rounding
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.distances import all_squares
from dkmeans.kernels.reference import inner_products, to_distance
from dkmeans.prototypes import Prototypes
from dkmeans.questions.nearest_prototype import for_tiles

_U = 2.0**-53  # unit roundoff of float64
_SAFETY = 1.01  # factor for second-order rounding errors
_MAX_CACHED_PAIRS = 1 << 22  # pairs of prototypes whose distances are kept
_WORK_ARRAYS = 10  # of shape (rows, prototypes), at a time
NO_PROTOTYPE = -1


@dataclass(frozen=True)
class Certificates:
    """Nearest prototype, nearest rival and certified radius of each row."""

    nearest: Indices  # prototype
    rival: Indices  # nearest prototype of another class; -1 if there is none
    distances: npt.NDArray[np.floating]  # to both, shape (n, 2); infinite if there is none
    radii: npt.NDArray[np.floating]

    @classmethod
    def empty(cls, n: int, dtype: npt.DTypeLike) -> Self:
        """Allocate arrays for n rows."""
        where = np.full((2, n), NO_PROTOTYPE)
        distances, radii = np.full((n, 2), np.inf, dtype=dtype), np.full(n, np.inf, dtype=dtype)
        return cls(where[0], where[1], distances, radii)


def certify(X: Matrix, prototypes: Prototypes, geometry: Geometry, n_threads: int) -> Certificates:
    """Find each row's nearest prototype, nearest rival and certified radius.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Rows before they are mapped, in the type of the centres.
    prototypes : Prototypes
    geometry : Geometry
    n_threads : int
    """
    centers, classes = prototypes.centers, prototypes.classes
    found = Certificates.empty(X.shape[0], centers.dtype)
    bounds = _Bounds(centers, geometry, X.shape)

    def task(tile: slice) -> None:
        rows = X[tile].toarray() if sp.issparse(X) else X[tile]
        sizes = geometry.row_sizes(rows)
        squares = all_squares(geometry.rows(rows), centers)
        distances = to_distance(squares, centers.dtype)
        everyone, nearest = np.arange(len(rows)), distances.argmin(axis=1)
        found.nearest[tile], found.distances[tile, 0] = nearest, distances[everyone, nearest]
        own = classes == classes[nearest][:, None]
        if own.all():
            return  # with a single class nothing can change
        distances[own] = np.inf
        rival = distances.argmin(axis=1)
        found.rival[tile], found.distances[tile, 1] = rival, distances[everyone, rival]
        found.radii[tile] = bounds.for_rounded_rows(
            _largest(squares, own, rival, sizes[:, None], bounds), sizes
        )

    for_tiles(task, X, _WORK_ARRAYS * len(prototypes), n_threads)
    return found


def _largest(
    squares: Floats, own: npt.NDArray[np.bool_], rival: Indices, sizes: Floats, bounds: "_Bounds"
) -> Floats:
    """Find the largest radius that some prototype of the class gives against all rivals."""
    rows = np.arange(len(squares))
    best = np.zeros(len(squares))
    # Upper bound of each prototype's radius: it has to hold against this rival, too.
    upper = bounds.radii(squares, squares[rows, rival][:, None], rival, sizes)
    upper[~own] = -np.inf
    while len(rows):
        tried = upper[rows].argmax(axis=1)
        promising = upper[rows, tried] > best[rows]
        rows, tried = rows[promising], tried[promising]
        mine = squares[rows, tried][:, None]
        radii = bounds.radii(mine, squares[rows], tried, sizes[rows])
        radii[own[rows]] = np.inf
        best[rows] = np.maximum(best[rows], radii.min(axis=1))
        upper[rows, tried] = -np.inf
    return best


class _Bounds:
    """Radii of pairs of prototypes, lowered by a bound on all rounding errors."""

    def __init__(
        self, centers: npt.NDArray[np.floating], geometry: Geometry, shape: tuple[int, int]
    ) -> None:
        self._dtype, self._geometry = centers.dtype, geometry
        self._normals = geometry.normals(centers)
        k, d = centers.shape
        n_rows, n_features = shape
        kind = np.finfo(centers.dtype)
        self._t, self._d = float(kind.eps) / 2, max(d, n_features)
        self._rounding = Rounding(
            unit=self._t,
            relative=self._t + (d + 8) * _U,
            # Underflow of squares, and of distances in the type of X.
            absolute=np.sqrt(d) * 2.0**-536 + float(kind.smallest_subnormal),
            of_sums=(d + 8) * _U,
            safety=_SAFETY,
        )
        self._lost = (
            4 * np.sqrt(n_features) * float(kind.smallest_subnormal)
        )  # underflow in rounded rows
        squares = inner_products(centers, centers)
        self._halves = squares / 2
        self._all: Floats | None = None
        if k * k <= _MAX_CACHED_PAIRS and k <= n_rows:
            self._all = self._slopes(np.arange(k))

    def radii(self, mine: Floats, theirs: Floats, which: Indices, sizes: Floats) -> Floats:
        """Compute how far rows can move while a prototype stays nearer than a rival.

        Parameters
        ----------
        mine, theirs : arrays that broadcast to the shape (n, k)
            Squared distances to the prototype and to the rival.
        which : array of shape (n,)
            Index of the operand that has one entry per row.
        sizes : array of shape (n, 1)
        """
        slopes = self._slopes(which) if self._all is None else self._all[which]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = self._geometry.margin_radii(mine, theirs, slopes, sizes, self._rounding)
        return np.where(slopes > 0, found, -np.inf)

    def for_rounded_rows(self, radii: Floats, sizes: Floats) -> npt.NDArray[np.floating]:
        """Lower radii so that they hold for rows rounded to the type of X."""
        lowered = radii * (1 - _SAFETY * (2 * self._t + (self._d + 16) * _U))
        with np.errstate(invalid="ignore"):
            lowered -= _SAFETY * self._geometry.rounding_of_rows(sizes, self._t) + self._lost
        lowered = np.where(np.isfinite(sizes), np.maximum(lowered, 0.0), 0.0)
        rounded = lowered.astype(self._dtype)
        return np.where(rounded > lowered, np.nextafter(rounded, 0, dtype=rounded.dtype), rounded)

    def _slopes(self, which: Indices) -> Floats:
        """Bound the distances of some prototypes to all from above, shape (len(which), k)."""
        few, where = np.unique(which, return_inverse=True)
        with np.errstate(over="ignore"):
            gaps = np.sqrt(all_squares(self._normals[few], self._normals))
        gaps *= 1 + (self._d + 8) * _U
        halves = self._halves
        return self._geometry.slopes(gaps, halves[few][:, None], halves, self._rounding)[where]
