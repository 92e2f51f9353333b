"""Nearest centre of every row of a block.

A matrix product gives all distances of a tile at once, but not to the last bit. Every entry that
lies within the error bound of its row's smallest is therefore computed again by the reference, and
the reference decides; a tie goes to the lowest index. So the labels are those of the reference.

Write a = x - s and b = c - s for a shift s, which keeps data far from the origin accurate. Then
|x - c|^2 / 2 is, but for a term that all centres share, h = |b|^2 / 2 - a.b. With unit roundoff u
and d features, rounding a, b, the product and the sum costs at most

    (d + 4) u |a||b| + 4 u |b|^2 + (d/2) 2^-53 |b|^2,

the last for |b|^2 in float64; with |a||b| <= (|a|^2 + |b|^2) / 2 this is at most
(u (d/2 + 6) + 2^-53 d/2) (|a|^2 + |b|^2). The reference's own rounding (to float64 along the sum,
to the type of X at its end) lets two distances compare the wrong way round only if they differ by
less than a further (3 u + (d + 6) 2^-53) (|a|^2 + |b|^2) each, and a few units of the smallest
subnormal number. `_relative_error` adds these up with a margin.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.kernels.block import Floats, Indices, Matrix, dense_rows
from dkmeans.kernels.reference import squared_distances, to_distance

_PAIR_BYTES = 1 << 22  # float64 bytes of candidate pairs that are settled at a time


@dataclass(frozen=True)
class PackedCenters:
    """Centres made ready for the matrix product."""

    centers: npt.NDArray[np.floating]  # as stored, shape (k, d)
    shift: npt.NDArray[np.floating] | None  # s, or None for sparse rows, which must stay sparse
    scale: float  # a power of two that brings b to about 1, against overflow and underflow
    directions: npt.NDArray[np.floating]  # scaled b, transposed to (d, k)
    offsets: npt.NDArray[np.floating]  # |b|^2 / 2 less the bound's share
    slack: Floats  # twice the bound's share
    reach: float  # largest |b|
    relative_error: float

    def take(self, which: Indices) -> Self:
        """Select centres, for scores that are there already."""
        centers, slack = self.centers[which], self.slack[which]
        return replace(self, centers=centers, slack=slack)


def pack(centers: npt.NDArray[np.floating], *, sparse: bool) -> PackedCenters:
    """Prepare centres for `assign`; `sparse` tells of what kind the rows will be."""
    dtype = centers.dtype
    shift = None if sparse else centers.mean(axis=0, dtype=np.float64).astype(dtype)
    b = centers if shift is None else centers - shift
    largest = float(np.abs(b).max())
    exponent = int(np.frexp(largest)[1]) if largest > 0 else 0
    scale = float(np.ldexp(1.0, min(-exponent, np.finfo(dtype).maxexp - 1)))
    b = b * dtype.type(scale)
    squares = np.einsum("ij,ij->i", b, b, dtype=np.float64)
    kappa = _relative_error(centers.shape[1], dtype)
    return PackedCenters(
        centers=centers,
        shift=shift,
        scale=scale,
        directions=np.ascontiguousarray(b.T),
        offsets=((0.5 - kappa) * squares).astype(dtype),
        slack=2 * kappa * squares,
        reach=float(np.sqrt(squares.max())),
        relative_error=kappa,
    )


def _relative_error(n_features: int, dtype: np.dtype[np.floating]) -> float:
    u = float(np.finfo(dtype).eps) / 2
    if n_features * u > 0.05:  # the bound below needs d * u well under 1
        return np.inf
    return 1.2 * (u * (n_features / 2 + 12) + (1.5 * n_features + 6) * 2.0**-53)


def assign(X: Matrix, packed: PackedCenters, labels: Indices) -> None:
    """Write the index of the nearest centre of each row.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        IN. One tile of rows.
    packed : PackedCenters
        IN.
    labels : array of shape (n,)
        OUT.
    """
    if len(packed.centers) == 1:
        labels[:] = 0
        return
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scores, squares = _scores(X, packed)
        labels[:] = _lowest(X, packed, scores, squares)


def assign_own_and_rival(
    X: Matrix,
    packed: PackedCenters,
    runs: list[tuple[slice, Indices]],
    own: Indices,
    rival: Indices,
) -> None:
    """Write the nearest among some centres of each row, and the nearest among the others.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        IN. One tile of rows.
    packed : PackedCenters
        IN.
    runs : list of (slice, array)
        IN. Runs of rows, and which centres count as theirs: at least one, and not all.
    own, rival : arrays of shape (n,)
        OUT.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scores, squares = _scores(X, packed)
        for run, mine in runs:
            part = X[run], packed, scores[run], squares[run]
            own[run] = mine[_lowest(part[0], packed.take(mine), part[2][:, mine], part[3])]
            rival[run] = _lowest(*part, barred=mine)


def _lowest(
    X: Matrix,
    packed: PackedCenters,
    scores: npt.NDArray[np.floating],
    squares: Floats,
    barred: Indices | None = None,
) -> Indices:
    """Find the nearest centre that is not barred, from scores that are not quite exact.

    Scores of barred centres are overwritten.
    """
    if barred is not None:
        scores[:, barred] = np.inf
    labels = scores.argmin(axis=1)
    best = scores[np.arange(len(labels)), labels]
    kappa = packed.relative_error
    limits = np.finfo(packed.centers.dtype)
    grain = packed.scale * float(limits.smallest_subnormal)  # of the reference, scaled
    floor = X.shape[1] * float(limits.tiny) + 4 * grain * (packed.reach + grain)
    limit = best + packed.slack[labels] + 2 * kappa * squares + floor
    limit += 4 * grain * np.sqrt(squares)
    # Written so that NaN, from rows very far away, counts as near: the reference decides.
    near = ~(scores > limit[:, None])
    if barred is not None:
        near[:, barred] = False
    undecided = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
    if len(undecided):
        labels[undecided] = _settle(X, packed.centers, undecided, near[undecided])
    if barred is not None:
        # One candidate only, but all scores were infinite.
        astray = np.flatnonzero(~near[np.arange(len(labels)), labels])
        labels[astray] = near[astray].argmax(axis=1)
    return labels


def _scores(X: Matrix, packed: PackedCenters) -> tuple[npt.NDArray[np.floating], Floats]:
    """Compute |b|^2 / 2 - a.b for all pairs, and |a|^2."""
    scale = packed.centers.dtype.type(packed.scale)
    if sp.issparse(X):
        a = X * scale
        squares = np.zeros(a.shape[0])
        filled = np.flatnonzero(np.diff(a.indptr))
        if len(filled):
            squares[filled] = np.add.reduceat(a.data.astype(np.float64) ** 2, a.indptr[filled])
    else:
        a = (X - packed.shift) * scale
        squares = np.einsum("ij,ij->i", a, a, dtype=np.float64)
    scores = a @ packed.directions
    np.subtract(packed.offsets, scores, out=scores)
    return scores, squares


def _settle(
    X: Matrix,
    centers: npt.NDArray[np.floating],
    rows: Indices,
    candidates: npt.NDArray[np.bool_],
) -> Indices:
    """Choose among each row's candidates by the reference distance."""
    which, columns = np.nonzero(candidates)
    distances = np.empty(len(which), dtype=centers.dtype)
    step = max(1, _PAIR_BYTES // (8 * centers.shape[1]))
    for start in range(0, len(which), step):
        part = slice(start, start + step)
        pairs = squared_distances(dense_rows(X, rows[which[part]]), centers[columns[part]])
        distances[part] = to_distance(pairs, centers.dtype)
    # Pairs are sorted by row, then by column, so the first smallest has the lowest index.
    starts = np.searchsorted(which, np.arange(len(rows)))
    smallest = np.flatnonzero(distances == np.minimum.reduceat(distances, starts)[which])
    _, first = np.unique(which[smallest], return_index=True)
    return columns[smallest[first]]
