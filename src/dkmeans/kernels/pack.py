"""Centres made ready for scans: shifted, scaled, in blocks, with a bound on what rounding does.

The bound is derived in `kernels.assign`.
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices

_LINE = 64  # bytes of a line of the cache


@dataclass(frozen=True)
class Panels:
    """Centres in blocks as wide as the registers, for `loops.scan`."""

    loops: ModuleType
    values: npt.NDArray[np.floating]  # shape (n_blocks, d, width), with the sign turned
    offsets: npt.NDArray[np.floating]  # shape (n_blocks, width), infinite where nothing is
    columns: Indices  # shape (n_blocks * width,): which centre is where, or -1
    owner: Indices  # shape (n_blocks,): the class of the block's centres

    @property
    def everywhere(self) -> Indices:
        """All blocks."""
        return np.arange(len(self.values))

    def block_of(self, center: int) -> int:
        """Tell in which block a centre is."""
        return int(np.flatnonzero(self.columns == center)[0]) // self.values.shape[2]


@dataclass(frozen=True)
class PackedCenters:
    """Centres made ready for the matrix product."""

    centers: npt.NDArray[np.floating]  # as stored, shape (k, d)
    shift: npt.NDArray[np.floating] | None  # s, or None for sparse rows, which must stay sparse
    scale: float  # a power of two that brings b to about 1, against overflow and underflow
    points: npt.NDArray[np.floating]  # scaled b, shape (k, d)
    directions: npt.NDArray[np.floating]  # the same transposed to (d, k)
    offsets: npt.NDArray[np.floating]  # |b|^2 / 2 less the bound's share
    slack: Floats  # twice the bound's share
    reach: float  # largest |b|
    relative_error: float
    panels: Panels | None = None

    @property
    def errors(self) -> tuple[float, float, float]:
        """What rounding may do to a score: a constant, by the row's squared length, its length."""
        limits = np.finfo(self.centers.dtype)
        grain = self.scale * float(limits.smallest_subnormal)  # of the reference, scaled
        d = self.centers.shape[1]
        floor = d * float(limits.tiny) + 4 * grain * (self.reach + grain)
        with np.errstate(over="ignore"):  # squares that the reference loses to underflow
            floor += float(np.float64(self.scale) * d * 2.0**-1073 * self.scale)
        return floor, 2 * self.relative_error, 4 * grain

    def take(self, which: Indices) -> Self:
        """Select centres, for scores that are there already."""
        centers, slack = self.centers[which], self.slack[which]
        return replace(self, centers=centers, slack=slack)


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
        Of what kind the rows will be.
    loops : module, optional
        `kernels.loops`, where it is to be used.
    classes : array of shape (k,), optional
        Ascending classes of the centres, which `assign_own_and_rival` needs.
    n_terms : int, optional
        How many values a row holds at most, if that is fewer than there are features.
    """
    dtype = centers.dtype
    shift = None if sparse else centers.mean(axis=0, dtype=np.float64).astype(dtype)
    b = centers if shift is None else centers - shift
    largest = float(np.abs(b).max())
    exponent = int(np.frexp(largest)[1]) if largest > 0 else 0
    scale = float(np.ldexp(1.0, min(-exponent, np.finfo(dtype).maxexp - 1)))
    b = b * dtype.type(scale)
    squares = np.einsum("ij,ij->i", b, b, dtype=np.float64)
    kappa = relative_error(centers.shape[1], dtype, n_terms)
    offsets = ((0.5 - kappa) * squares).astype(dtype)
    return PackedCenters(
        centers=centers,
        shift=shift,
        scale=scale,
        points=b,
        directions=np.ascontiguousarray(b.T),
        offsets=offsets,
        slack=2 * kappa * squares,
        reach=float(np.sqrt(squares.max())),
        relative_error=kappa,
        panels=None if loops is None else _panels(loops, b, offsets, classes),
    )


def _panels(
    loops: ModuleType,
    b: npt.NDArray[np.floating],
    offsets: npt.NDArray[np.floating],
    classes: Indices | None,
) -> Panels:
    """Lay centres out in blocks, none of which holds two classes."""
    k, d = b.shape
    width = loops.width(b.dtype.itemsize)
    runs = np.zeros(k, dtype=np.intp) if classes is None else classes
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    sizes = np.diff(np.append(starts, k))
    n_blocks = -(-sizes // width)
    first = np.repeat((np.cumsum(n_blocks) - n_blocks) * width - starts, sizes)
    at = first + np.arange(k)  # place of each centre
    places = int(n_blocks.sum()) * width
    values, spread = np.zeros((places, d), dtype=b.dtype), np.full(places, np.inf, dtype=b.dtype)
    columns = np.full(places, -1)
    values[at], spread[at], columns[at] = -b, offsets, np.arange(k)
    blocks = _empty_in_lines((len(values) // width, d, width), b.dtype)
    blocks[:] = values.reshape(-1, width, d).transpose(0, 2, 1)
    return Panels(
        loops,
        blocks,
        spread.reshape(-1, width),
        columns,
        np.repeat(runs[starts], n_blocks),
    )


def _empty_in_lines(
    shape: tuple[int, ...], dtype: np.dtype[np.floating]
) -> npt.NDArray[np.floating]:
    """Make room that begins with a line of the cache, so that no vector lies across two."""
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.empty(size + _LINE, dtype=np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + size].view(dtype).reshape(shape)


def relative_error(
    n_features: int, dtype: np.dtype[np.floating], n_terms: int | None = None
) -> float:
    """Bound what rounding adds to a score, as a share of the squared lengths of row and centre."""
    u = float(np.finfo(dtype).eps) / 2
    terms = n_features if n_terms is None else n_terms  # zeros add nothing, so no error either
    if terms * u > 0.05:  # the bound below needs d * u well under 1
        return np.inf
    return 1.2 * (u * (terms / 2 + 12) + (1.5 * n_features + 6) * 2.0**-53)
