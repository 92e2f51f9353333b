"""Prepare centres for scans: shift, scale, arrange in blocks, and bound rounding errors.

The bound is derived in `kernels.assign`. If the shift s is small beside the centres, `Factors` has
rows multiplied as they are: with b = c - s,

    |x - c|^2 / 2 = |b|^2 / 2 + b.s - x.b + a term common to all centres.

The bound holds with (|x| + |s|)^2 in place of |a|^2: there is one rounding of b.s more, and none of
a = x - s. For any t > 0, (|x| + |s|)^2 <= (1 + t) |x|^2 + (1 + 1/t) |s|^2.
"""

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import ModuleType
from typing import Self

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices

CACHE_LINE_BYTES = 64
CHUNK_VALUES = 1 << 21  # of centres that are arranged at a time
MAX_SHIFT = 2.0  # length of the shift over that of the longest centre, to leave rows unshifted
MAX_EXPONENT = 16  # of the scale, to leave rows unscaled
NORM_VALUES = 512  # rows with fewer values share a norm, as a sum takes as long as so many values
NORM_ROWS = 32  # that share a norm, at most: it is a bound for each of them
MANY_ROWS, MANY_FEATURES = 1 << 12, 16  # the former save less than a doubtful row costs
SUM_SLACK = 1.07  # covers the rounding of a sum of squares, and of the margin made of it


@dataclass(frozen=True)
class Panels:
    """Centres in blocks as wide as the registers, for `loops.scan`."""

    loops: ModuleType
    values: npt.NDArray[np.floating]  # shape (n_blocks, d, width), negated
    offsets: npt.NDArray[np.floating]  # shape (n_blocks, width), infinite in unused columns
    columns: Indices  # shape (n_blocks * width,): index of the centre, -1 in unused columns
    owner: Indices  # shape (n_blocks,): the class of the block's centres

    @property
    def all_blocks(self) -> Indices:
        """All blocks."""
        return np.arange(len(self.values))

    def block_of(self, center: int) -> int:
        """Return the block that holds a centre."""
        return int(np.flatnonzero(self.columns == center)[0]) // self.values.shape[2]


@dataclass(frozen=True)
class PackedCenters:
    """Centres prepared for the matrix product."""

    centers: npt.NDArray[np.floating]  # as stored, shape (k, d)
    shift: npt.NDArray[np.floating] | None  # s, or None for sparse rows, which must stay sparse
    scale: float  # power of two that scales b to about 1, against overflow and underflow
    points: npt.NDArray[np.floating]  # scaled b, shape (k, d)
    offsets: npt.NDArray[np.floating]  # |b|^2 / 2 less the bound's share
    slack: Floats  # twice the bound's share
    reach: float  # largest |b|
    relative_error: float
    panels: Panels | None = None

    @cached_property
    def directions(self) -> npt.NDArray[np.floating]:
        """The scaled b, transposed to (d, k)."""
        is_sparse = self.shift is None
        return np.ascontiguousarray(self.points.T) if is_sparse else self.points.T  # for BLAS

    @cached_property
    def factors(self) -> "Factors":
        """What `assign_by_product` needs."""
        return Factors.of(self)

    @property
    def errors(self) -> tuple[float, float, float]:
        """Error bound of a score: constant term, factor of the row's squared norm, of its norm."""
        _, _, tiny, smallest = _limits(self.centers.dtype)
        grain = self.scale * smallest  # smallest step of the reference
        d = self.centers.shape[1]
        floor = d * tiny + 4 * grain * (self.reach + grain)
        floor += self.scale * d * 2.0**-1073 * self.scale  # squares that underflow in the reference
        return floor, 2 * self.relative_error, 4 * grain

    def take(self, which: Indices) -> Self:
        """Select centres whose scores are already computed."""
        some: Indices | slice = which
        if len(which) == which[-1] - which[0] + 1:  # the usual case; a slice copies nothing
            some = slice(int(which[0]), int(which[-1]) + 1)
        return replace(self, centers=self.centers[some], slack=self.slack[some])


@dataclass(frozen=True)
class Factors:
    """What `assign_by_product` multiplies rows by, and compares the products with."""

    shift: npt.NDArray[np.floating] | None  # None if rows are left as they are
    scale: float
    directions: npt.NDArray[np.floating]  # shape (d, k)
    offsets: npt.NDArray[np.floating]  # shape (k,): the products are subtracted from them
    fixed: float  # the best score is certain if all others exceed it by this
    by_square: float  # and by this times a bound of the row's squared norm
    max_square: float  # up to here, products do not overflow

    @classmethod
    def of(cls, packed: PackedCenters) -> Self:
        """Choose whether dense rows are shifted and scaled, and bound the errors."""
        dtype, d = packed.centers.dtype, packed.centers.shape[1]
        largest, eps, tiny, _ = _limits(dtype)
        shift, scale = packed.shift, packed.scale
        directions, offsets = packed.points.T, packed.offsets
        middle = np.zeros(d) if shift is None else shift.astype(np.float64) * scale
        far = math.sqrt(middle @ middle)
        fixed, by_square, by_length = packed.errors
        by_square += by_length / 2  # as 2 |a| <= 1 + |a|^2
        by_square += 2 * eps  # the sum of score and margin is rounded
        fixed += by_length / 2 + (2 * packed.relative_error + 4 * eps) * packed.reach**2
        reach = max(packed.reach, 1.0)
        if far <= MAX_SHIFT * packed.reach and abs(math.log2(scale)) <= MAX_EXPONENT:
            directions = directions * dtype.type(scale)
            offsets = (offsets + packed.points @ middle).astype(dtype)
            if far > 0:
                fixed += by_square * far * (far + packed.reach)
                by_square *= 1 + far / packed.reach
            by_square *= scale * scale
            reach *= scale
            shift, scale = None, 1.0
        by_square *= SUM_SLACK
        fixed += by_square * NORM_ROWS * d * tiny  # squares that underflow
        return cls(
            shift=shift,
            scale=scale,
            directions=np.ascontiguousarray(directions),
            offsets=offsets,
            fixed=fixed * SUM_SLACK,
            by_square=by_square,
            max_square=min(math.sqrt(largest) / 4, largest / 16 / reach) ** 2,
        )


def pack(
    centers: npt.NDArray[np.floating],
    *,
    sparse: bool,
    loops: ModuleType | None = None,
    classes: Indices | None = None,
    n_terms: int | None = None,
) -> PackedCenters:
    """Prepare centres for `assign`.

    Parameters
    ----------
    centers : array of shape (k, d)
    sparse : bool
        Whether rows are sparse.
    loops : module, optional
        `kernels.loops`; NumPy is used if not given.
    classes : array of shape (k,), optional
        Sorted classes of the centres; needed by `assign_own_and_rival`.
    n_terms : int, optional
        Largest number of values stored in a row, if smaller than the number of features.
    """
    dtype = centers.dtype
    shift = None if sparse else _mean(centers)
    b = centers if shift is None else centers - shift
    largest = float(max(b.max(), -b.min()))
    exponent = math.frexp(largest)[1] if largest > 0 else 0
    scale = math.ldexp(1.0, min(-exponent, int(np.finfo(dtype).maxexp) - 1))
    b = b if scale == 1 else b * dtype.type(scale)
    squares = np.einsum("ij,ij->i", b, b, dtype=np.float64)
    kappa = relative_error(centers.shape[1], dtype, n_terms)
    offsets = ((0.5 - kappa) * squares).astype(dtype)
    return PackedCenters(
        centers=centers,
        shift=shift,
        scale=scale,
        points=b,
        offsets=offsets,
        slack=2 * kappa * squares,
        reach=float(np.sqrt(squares.max())),
        relative_error=kappa,
        panels=None if loops is None else _panels(loops, b, offsets, classes),
    )


@cache
def _limits(dtype: np.dtype[np.floating]) -> tuple[float, float, float, float]:
    """Return the largest number, the step at 1, the smallest normal and the smallest number."""
    found = np.finfo(dtype)
    return float(found.max), float(found.eps), float(found.tiny), float(found.smallest_subnormal)


def rows_together(n_rows: int, n_features: int) -> int:
    """Return how many rows share a norm in `assign_by_product`."""
    if n_rows < MANY_ROWS and n_features >= MANY_FEATURES:
        return 1
    return max(1, min(NORM_ROWS, NORM_VALUES // n_features))


def _mean(centers: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Compute the mean centre; `mean` takes twice as long for few centres."""
    total = np.add.reduce(centers, axis=0, dtype=np.float64)
    return (total / len(centers)).astype(centers.dtype)


def _panels(
    loops: ModuleType,
    b: npt.NDArray[np.floating],
    offsets: npt.NDArray[np.floating],
    classes: Indices | None,
) -> Panels:
    """Arrange centres in blocks of a single class each."""
    k, d = b.shape
    width = loops.width(b.dtype.itemsize)
    runs = np.zeros(k, dtype=np.intp) if classes is None else classes
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    sizes = np.diff(np.append(starts, k))
    n_blocks = -(-sizes // width)
    first = np.repeat((np.cumsum(n_blocks) - n_blocks) * width - starts, sizes)
    at = first + np.arange(k)  # place of each centre
    places = int(n_blocks.sum()) * width
    spread, columns = np.full(places, np.inf, dtype=b.dtype), np.full(places, -1)
    spread[at], columns[at] = offsets, np.arange(k)
    blocks = _empty_aligned((places // width, d, width), b.dtype)
    step = max(1, CHUNK_VALUES // (width * d))
    for start in range(0, len(blocks), step):
        some = columns.reshape(-1, width)[start : start + step]
        values = -b[some]
        values[some < 0] = 0
        blocks[start : start + step] = values.transpose(0, 2, 1)
    return Panels(
        loops,
        blocks,
        spread.reshape(-1, width),
        columns,
        np.repeat(runs[starts], n_blocks),
    )


def _empty_aligned(
    shape: tuple[int, ...], dtype: np.dtype[np.floating]
) -> npt.NDArray[np.floating]:
    """Allocate an array aligned to cache lines, so that no vector crosses two."""
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.empty(size + CACHE_LINE_BYTES, dtype=np.uint8)
    start = -room.ctypes.data % CACHE_LINE_BYTES
    return room[start : start + size].view(dtype).reshape(shape)


def relative_error(
    n_features: int, dtype: np.dtype[np.floating], n_terms: int | None = None
) -> float:
    """Bound the rounding error of a score, relative to the squared norms of row and centre."""
    u = float(np.finfo(dtype).eps) / 2
    terms = n_features if n_terms is None else n_terms  # adding zeros is exact
    if terms * u > 0.05:  # the bound below needs d * u well under 1
        return np.inf
    return 1.2 * (u * (terms / 2 + 12) + (1.5 * n_features + 6) * 2.0**-53)
