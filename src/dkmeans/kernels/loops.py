"""Inner loops compiled by numba, each in one pass over the data.

Loops that compute results give the same bits as the NumPy code they replace: the same operations
in the same order, neither fused nor reordered. *Scans* only find the rows whose nearest centre is
certain, and may round differently within the error bound of `kernels.assign`. `kernels.compiled`
decides when the loops are used.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.candidates import search_candidates, sketch_errors
from dkmeans.kernels.division import divide
from dkmeans.kernels.jit import compiled
from dkmeans.kernels.medoid_loops import (
    addition_changes,
    describe_rows,
    find_neighbours,
    replace_medoid,
    sum_removals,
    swap_changes,
)
from dkmeans.kernels.prefetch import prefetch
from dkmeans.kernels.register_sums import FEATURES_AT_ONCE, ROWS_AT_ONCE, add_products
from dkmeans.kernels.rowhash import MIXER, ZERO_LIMIT
from dkmeans.kernels.scan import scan, scan_few, scan_sparse, squared_distances, width

__all__ = [
    "add_gaps",
    "add_groups",
    "add_totals",
    "addition_changes",
    "describe_rows",
    "divide",
    "find_neighbours",
    "group_sums",
    "hash_rows",
    "hash_shifted_rows",
    "magnitudes",
    "moments",
    "replace_medoid",
    "rounded_sums",
    "scan",
    "scan_few",
    "scan_sparse",
    "search_candidates",
    "sides",
    "sketch_errors",
    "squared_distances",
    "sum_removals",
    "swap_changes",
    "to_multiples",
    "to_units",
    "weighted_group_sums",
    "width",
]

_ANCHOR = 1.5 * 2.0**52  # adding and subtracting this multiple of a unit rounds to the unit
_SPLITTER = 2.0**27 + 1.0  # Dekker's constant, see `kernels.exact`


@compiled
def sides(
    X: npt.NDArray[np.floating],
    rows: Indices,
    middles: Floats,
    directions: Floats,
    groups: Indices,
    out: npt.NDArray[np.bool_],
) -> None:
    """Write whether each row lies beyond its group's midpoint, along the group's direction."""
    d, size = X.shape[1], X.itemsize
    double, side_by_side = middles.itemsize, X.strides[1] == size
    side_by_side &= middles.strides[1] == double and directions.strides[1] == double
    even = d - d % FEATURES_AT_ONCE if side_by_side else 0
    places, totals = np.empty((3, ROWS_AT_ONCE), dtype=np.int64), np.zeros(ROWS_AT_ONCE)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        m = min(ROWS_AT_ONCE, len(rows) - start)
        if even:
            for i in range(start + ROWS_AT_ONCE, min(start + 2 * ROWS_AT_ONCE, len(rows))):
                prefetch(X.ctypes.data + rows[i] * X.strides[0], d * size)
            for r in range(ROWS_AT_ONCE):
                i = start + min(r, m - 1)  # repeat the last row if there are too few
                places[0, r] = X.ctypes.data + rows[i] * X.strides[0]
                places[1, r] = middles.ctypes.data + groups[i] * middles.strides[0]
                places[2, r] = directions.ctypes.data + groups[i] * directions.strides[0]
            at = places[0].ctypes.data, places[1].ctypes.data, places[2].ctypes.data
            add_products(X[0, 0], at[0], at[1], at[2], even, totals.ctypes.data)
        for r in range(m):
            row, group, total = X[rows[start + r]], groups[start + r], totals[r]
            middle, direction = middles[group], directions[group]
            for j in range(even, d):
                total += (np.float64(row[j]) - middle[j]) * direction[j]
            out[start + r] = total > 0


@compiled
def group_sums(
    X: npt.NDArray[np.floating], order: Indices, ends: Indices, units: Floats, out: Floats
) -> None:
    """Add up slices of rows, group by group; see `kernels.tally.group_sums`."""
    n_slices, d = units.shape
    rest, anchors = np.empty(d), _ANCHOR * units
    start = 0
    for g in range(len(ends)):
        for at in range(start, ends[g]):
            if at + 1 < len(order):
                prefetch(X[order[at + 1]].ctypes.data, d * X.itemsize)
            row = X[order[at]]
            first, sums, anchor = rest[:d], out[0, g], anchors[0]
            if n_slices == 1:  # there is no remainder to keep
                for j in range(d):
                    sums[j] += (np.float64(row[j]) + anchor[j]) - anchor[j]
                continue
            for j in range(d):
                value = np.float64(row[j])
                piece = (value + anchor[j]) - anchor[j]
                sums[j] += piece
                first[j] = value - piece
            for s in range(1, n_slices):
                _add_slice(rest, units[s], out[s, g])
        start = ends[g]


@compiled
def weighted_group_sums(
    X: npt.NDArray[np.floating],
    weights: Floats,
    order: Indices,
    ends: Indices,
    units: Floats,
    out: Floats,
) -> None:
    """Do the same for weight times row; products are exact, in two parts (Dekker)."""
    n_slices, d = units.shape
    rest, low = np.empty(d), np.empty(d)
    start = 0
    for g in range(len(ends)):
        for at in range(start, ends[g]):
            row, w = X[order[at]], weights[order[at]]
            c = _SPLITTER * w
            w_high = c - (c - w)
            w_low = w - w_high
            for j in range(d):
                x = np.float64(row[j])
                c = _SPLITTER * x
                x_high = c - (c - x)
                x_low = x - x_high
                p = x * w
                low[j] = ((x_high * w_high - p) + x_high * w_low + x_low * w_high) + x_low * w_low
                rest[j] = p
            for s in range(n_slices):
                _add_slice(rest, units[s], out[s, g])
                for j in range(d):  # move as much of the low part into the rest as fits
                    both = rest[j] + low[j]
                    low[j] -= both - rest[j]
                    rest[j] = both
        start = ends[g]


@compiled
def _add_slice(rest: Floats, units: Floats, sums: Floats) -> None:
    """Round to the units, add the rounded part to the sums and keep the remainder."""
    for j in range(len(rest)):
        anchor = _ANCHOR * units[j]
        piece = (rest[j] + anchor) - anchor
        sums[j] += piece
        rest[j] -= piece


@compiled
def to_units(
    X: npt.NDArray[np.floating], shift: Floats, factors: Floats, most: float, out: Floats
) -> int:
    """Write (X - shift) * factors, rounded to integers; count those above `most` in magnitude."""
    count = 0
    for i in range(len(X)):
        for j in range(X.shape[1]):
            value = np.rint((np.float64(X[i, j]) - shift[j]) * factors[j])
            out[i, j] = value
            count += abs(value) > most
    return count


@compiled
def to_multiples(
    X: npt.NDArray[np.floating], shift: Floats, factors: Floats, ratio: float, top: float
) -> Floats:
    """Return (X - shift) * factors, rounded to integers, times a ratio, rounded up to `top`."""
    out = np.empty(X.shape)
    for i in range(len(X)):
        for j in range(X.shape[1]):
            value = np.rint((np.float64(X[i, j]) - shift[j]) * factors[j]) * ratio
            out[i, j] = np.rint(min(max(value, -top), top))
    return out


@compiled
def moments(
    X: npt.NDArray[np.floating],
    origin: Floats,
    factors: Floats,
    weights: Floats,
    copies: Floats,
    units: Floats,
    out: Floats,
) -> None:
    """Add slices of u = (X - origin) * factors and of u^2 to their sums; see `passes.features`."""
    d = X.shape[1]
    first, second = np.empty(d), np.empty(d)
    for i in range(len(X)):
        for j in range(d):
            u = (np.float64(X[i, j]) - origin[j]) * factors[j]
            first[j], second[j] = u * weights[i], (u * u) * weights[i]
        for s in range(len(units)):
            _add_copies(first, units[s], copies[i], out[s, 0])
            _add_copies(second, units[s], copies[i], out[s, 1])


@compiled
def _add_copies(rest: Floats, unit: float, copies: float, sums: Floats) -> None:
    """Round to a unit, add so many copies to the sums and keep the remainder."""
    anchor = _ANCHOR * unit
    for j in range(len(rest)):
        piece = (rest[j] + anchor) - anchor
        sums[j] += piece * copies
        rest[j] -= piece


@compiled
def magnitudes(
    bits: npt.NDArray[np.unsignedinteger],
    sign: Any,
    largest: npt.NDArray[np.unsignedinteger],
    smallest: npt.NDArray[np.unsignedinteger],
) -> None:
    """Find the largest and smallest magnitude of each column, as bits; see `kernels.block`.

    Magnitudes sort like their bits, and integers compare faster. `smallest` holds the bits less
    one: zero then wraps around to the largest integer and never is the minimum.
    """
    one = sign // sign
    for i in range(len(bits)):
        row = bits[i]
        for j in range(len(row)):
            size = row[j] & ~sign
            largest[j] = max(largest[j], size)
            smallest[j] = min(smallest[j], size - one)


@compiled
def add_totals(values: Floats, groups: Indices, units: Floats, out: Floats) -> None:
    """Add slices of values to the totals of their groups; skip rows with a negative group."""
    for i in range(len(values)):
        rest, g = values[i], groups[i]
        if g >= 0:
            for s in range(len(units)):
                anchor = _ANCHOR * units[s, 0]
                piece = (rest + anchor) - anchor
                out[s, g] += piece
                rest -= piece


@compiled
def add_groups(sums: Floats, at: Indices, part: Floats, sign: float) -> None:
    """Add the sums of some groups to those of all, without work arrays; see `kernels.tally`."""
    n_slices, n_groups, d = part.shape
    for s in range(n_slices):
        for g in range(n_groups):
            to, terms = sums[s, at[g]], part[s, g]
            for j in range(d):
                to[j] += sign * terms[j]


@compiled
def add_gaps(own: Indices, rival: Indices, values: Floats, centers: Floats, out: Floats) -> None:
    """Add multiples of the gaps of pairs of centres; see `kernels.tally.add_gaps`."""
    d = centers.shape[1]
    for at in range(len(own)):
        here, there, to = centers[own[at]], centers[rival[at]], out[own[at]]
        for j in range(d):
            to[j] += values[at] * (here[j] - there[j])
    for at in range(len(own)):
        here, there, to = centers[own[at]], centers[rival[at]], out[rival[at]]
        for j in range(d):
            to[j] += -(values[at] * (here[j] - there[j]))


@compiled
def rounded_sums(
    X: npt.NDArray[np.floating],
    shift: Floats,
    coefficients: Floats,
    weights: Floats,
    order: Indices,
    ends: Indices,
    units: Floats,
    out: Floats,
) -> None:
    """Add up coefficients times rows less a shift, rounded; see `kernels.tally.rounded_sums`."""
    n_slices, d = units.shape
    rest, anchors = np.empty(d), _ANCHOR * units
    start = 0
    for g in range(len(ends)):
        for at in range(start, ends[g]):
            if at + 1 < len(order):
                prefetch(X[order[at + 1]].ctypes.data, d * X.itemsize)
            row = X[order[at]]
            coefficient, weight = coefficients[order[at]], weights[order[at]]
            first, sums, anchor = rest[:d], out[0, g], anchors[0]
            for j in range(d):
                term = (np.float64(row[j]) - shift[j]) * coefficient
                piece = (term + anchor[j]) - anchor[j]
                sums[j] += piece * weight
                first[j] = term - piece
            for s in range(1, n_slices):
                sums, anchor = out[s, g], anchors[s]
                for j in range(d):
                    piece = (first[j] + anchor[j]) - anchor[j]
                    sums[j] += piece * weight
                    first[j] -= piece
        start = ends[g]


@compiled
def hash_rows(
    bits: npt.NDArray[np.unsignedinteger],
    limit: Any,
    keys: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint64],
) -> None:
    """Hash rows by the bits of their values; see `kernels.rowhash`.

    Magnitudes up to the limit, given as bits, count as zero. All arithmetic is unsigned, 64-bit.
    """
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    half, mixer, least = np.uint64(32), np.uint64(MIXER), np.uint64(limit)
    for i in range(bits.shape[0]):
        row, total = bits[i], np.uint64(0)
        for j in range(len(row)):
            value = np.uint64(row[j])
            if value & ~sign <= least:
                value = np.uint64(0)
            value ^= value >> half
            value *= keys[j]
            value ^= value >> half
            value *= mixer
            total += value ^ (value >> half)
        out[i] = total


@compiled
def hash_shifted_rows(
    X: npt.NDArray[np.floating],
    shifts: npt.NDArray[np.uint64],
    keys: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint64],
) -> None:
    """Hash rows by the bits of their values less a shift; see `kernels.rowhash`."""
    half, mixer, zero = np.uint64(32), np.uint64(MIXER), np.uint64(0)
    values = np.empty(X.shape[1])
    bits = values.view(np.uint64)
    for i in range(X.shape[0]):
        row, total = X[i], np.uint64(0)
        for j in range(len(row)):
            values[j] = row[j]
        for j in range(len(row)):
            is_zero = abs(values[j]) <= ZERO_LIMIT
            value = zero if is_zero else bits[j] - shifts[j]
            value ^= value >> half
            value *= keys[j]
            value ^= value >> half
            value *= mixer
            total += value ^ (value >> half)
        out[i] = total
