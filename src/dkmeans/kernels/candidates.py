"""Compiled search for the nearest centre among those that sketches leave (`kernels.sketch`)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.jit import compiled
from dkmeans.kernels.prefetch import prefetch
from dkmeans.kernels.sketch import (
    CENTER,
    DIFFERENCE,
    DIFFERENCE_UNDERFLOW,
    OVERFLOW,
    SCALE,
    SCORE,
    SCORE_UNDERFLOW,
    SKETCH,
    SQUARE,
    TIE,
    TIE_UNDERFLOW,
    UNDERFLOW,
)

WIDTH = 16  # scores whose minimum is taken at once


def _square(x: npt.NDArray[np.floating], c: npt.NDArray[np.floating]) -> Any:
    """Compute a squared distance, summed in any order."""
    total = x[0] - x[0]
    for j in range(len(x)):
        difference = x[j] - c[j]
        total += difference * difference
    return total


_square = compiled(_square, fastmath={"reassoc", "contract"})


def _least(scores: npt.NDArray[np.floating]) -> Any:
    """Return the smallest of some finite scores."""
    least = scores[0]
    for j in range(1, WIDTH):
        least = min(least, scores[j])
    return least


_least = compiled(_least, fastmath={"nnan", "nsz"})


@compiled
def _smallest(scores: npt.NDArray[np.floating], start: int, stop: int, best: int) -> int:
    """Return the position of the smallest score in a range, or `best` if that one is smaller."""
    at, whole = -1, stop - (stop - start) % WIDTH
    low = scores[best] if best >= 0 else np.inf
    for j in range(start, whole, WIDTH):
        least = _least(scores[j : j + WIDTH])
        if least < low:
            low, at = least, j
    if at >= 0:
        for j in range(at, at + WIDTH):
            if scores[j] == low:
                best = j
                break
    for j in range(whole, stop):
        if scores[j] < low:
            low, best = scores[j], j
    return best


@compiled
def _candidates(
    scores: npt.NDArray[np.floating], start: int, stop: int, limit: float, picked: Indices, n: int
) -> int:
    """Append the positions in a range of scores up to a limit to `n` picked ones; return how many.

    Most groups of scores have none.
    """
    whole = stop - (stop - start) % WIDTH
    for j in range(start, whole, WIDTH):
        if not _least(scores[j : j + WIDTH]) > limit:
            for at in range(j, j + WIDTH):  # without branches, which could not be predicted
                picked[n] = at
                n += not scores[at] > limit
    for at in range(whole, stop):
        picked[n] = at
        n += not scores[at] > limit
    return n


@compiled
def sketch_error(square: float, rest: float, bounds: Floats) -> float:
    """Bound the distance of a sketch from the one without rounding.

    Parameters
    ----------
    square : float
        Squared norm of the sketch.
    rest : float
        Its last coordinate.
    bounds : array
    """
    e, whole = bounds[SKETCH], square + bounds[UNDERFLOW]
    of_rest = np.sqrt(4.5 * e * whole)
    if rest * of_rest > 4.5 * e * whole:
        of_rest = 4.5 * e * whole / rest
    return 1.02 * e * np.sqrt(whole) + of_rest


@compiled
def sketch_errors(squares: Floats, rests: Floats, bounds: Floats, out: Floats) -> None:
    """Write the bounds of several sketches."""
    for i in range(len(squares)):
        out[i] = sketch_error(squares[i], rests[i], bounds)


@compiled
def _limit(square: float, norm: float, error: float, bounds: Floats, slack: float) -> float:
    """Return the score above which a centre is certainly farther than a squared distance."""
    farther = square * (1 + bounds[TIE]) + bounds[TIE_UNDERFLOW]
    reach = np.sqrt(farther) * bounds[SCALE] + error
    return (reach * reach * (1 + 2.0**-40) - norm) / 2 + slack


@compiled
def _fine_limit(square: float, error: float, bounds: Floats) -> float:
    """Return the same for squared distances between fine sketches."""
    farther = square * (1 + bounds[TIE]) + bounds[TIE_UNDERFLOW]
    reach = np.sqrt(farther) * bounds[SCALE] + error
    return reach * reach * (1 + bounds[DIFFERENCE]) + bounds[DIFFERENCE_UNDERFLOW]


def _square_norm(sketch: npt.NDArray[np.floating]) -> float:
    """Return the squared norm of a sketch, whose last column is ignored."""
    norm = 0.0
    for j in range(len(sketch) - 1):
        norm += np.float64(sketch[j]) * np.float64(sketch[j])
    return norm


_square_norm = compiled(_square_norm, fastmath={"reassoc", "contract"})


@compiled
def _error(sketch: npt.NDArray[np.floating], norm: float, bounds: Floats) -> float:
    """Bound the errors of a sketch, given its squared norm, and of a centre's together."""
    return bounds[CENTER] + sketch_error(norm, np.float64(sketch[len(sketch) - 2]), bounds)


@compiled
def _reference(
    x: npt.NDArray[np.floating], c: npt.NDArray[np.floating], work: npt.NDArray[np.floating]
) -> Any:
    """Return the reference distance, rounded to the type of the rows."""
    total = 0.0
    for j in range(len(x)):
        difference = np.float64(x[j]) - np.float64(c[j])
        total += difference * difference
    work[0] = np.sqrt(total)
    return work[0]


@compiled
def _first_of_ties(
    x: npt.NDArray[np.floating],
    centers: npt.NDArray[np.floating],
    scores: npt.NDArray[np.floating],
    limit: float,
    largest: float,
    ranges: tuple[int, int, int, int],
    work: npt.NDArray[np.floating],
) -> int:
    """Find the nearest centre by the reference, among those up to a squared distance."""
    best, nearest = -1, np.inf
    for side in range(2):
        for at in range(ranges[2 * side], ranges[2 * side + 1]):
            if scores[at] > limit or _square(x, centers[at]) > largest:
                continue
            distance = _reference(x, centers[at], work)
            if best < 0 or distance < nearest:
                best, nearest = at, distance
    return best


@compiled
def _sift(
    sketch: npt.NDArray[np.floating],
    centers: npt.NDArray[np.floating],
    limit: float,
    picked: Indices,
    n: int,
    squares: npt.NDArray[np.floating],
) -> int:
    """Keep the picked centres up to a squared distance between fine sketches; return how many."""
    kept = 0
    for i in range(n):
        at = picked[i]
        picked[kept], squares[kept] = at, _square(sketch, centers[at])
        kept += not squares[kept] > limit
    return kept


@compiled
def search_candidates(
    X: npt.NDArray[np.floating],
    rows: Indices,
    centers: npt.NDArray[np.floating],
    sketches: npt.NDArray[np.floating],
    scores: npt.NDArray[np.floating],
    bounds: Floats,
    fine: npt.NDArray[np.floating],
    fine_centers: npt.NDArray[np.floating],
    fine_bounds: Floats,
    start: int,
    stop: int,
    own: Indices,
    rival: Indices,
    done: npt.NDArray[np.bool_],
) -> int:
    """Find the nearest centre in a range and the nearest of all others, and return the work done.

    Parameters
    ----------
    X : array of shape (n, d)
        IN.
    rows : array of shape (m,)
        IN. Which rows to look at.
    centers : array of shape (k, d)
        IN.
    sketches : array of shape (m, s)
        IN. Those of the rows; the last column is ignored.
    scores : array of shape (m, k)
        IN. Half the squared distances between sketches, less half the squares of those of the rows.
    bounds : array
        IN. See the constants of `kernels.sketch`.
    fine, fine_centers : arrays of shape (m, s') and (k, s')
        IN. Fine sketches of the rows and of the centres; none if there are no rows in `fine`.
    fine_bounds : array
        IN. Those of fine sketches.
    start, stop : int
        IN. Range of the centres among which `own` is searched.
    own, rival : arrays of shape (m,)
        OUT. Rivals are not searched if their array is empty.
    done : array of shape (m,)
        OUT. False for rows whose numbers are too large.

    Returns
    -------
    count : int
        Number of distances computed.
    """
    # In one function, without tuples: numba counts references to arrays that are passed on, and
    # that would take longer than the search.
    count, k, has_fine = 0, scores.shape[1], len(fine) > 0
    work = np.empty(1, dtype=X.dtype)
    fine_error, fine_limit = 0.0, np.inf
    squares, picked = np.zeros(k, dtype=X.dtype), np.empty(k, dtype=np.int64)
    for i in range(len(rows)):
        if i + 1 < len(rows):
            prefetch(X[rows[i + 1]].ctypes.data, X.shape[1] * X.itemsize)
        norm = _square_norm(sketches[i])
        done[i] = norm + bounds[SQUARE] < bounds[OVERFLOW]  # false if it is not a number
        if not done[i]:
            continue
        x, here, error = X[rows[i]], scores[i], _error(sketches[i], norm, bounds)
        slack = bounds[SCORE] * (norm + bounds[SQUARE]) + bounds[SCORE_UNDERFLOW]
        if has_fine:
            fine_error = _error(fine[i], _square_norm(fine[i]), fine_bounds)
        for side in range(2 if len(rival) else 1):
            ranges = (0, start, stop, k) if side else (start, stop, 0, 0)
            first = _smallest(here, ranges[0], ranges[1], -1)
            first = _smallest(here, ranges[2], ranges[3], first)
            best, near, following = first, np.float64(_square(x, centers[first])), np.inf
            limit = _limit(near, norm, error, bounds, slack)
            n = _candidates(here, ranges[0], ranges[1], limit, picked, 0)
            n = _candidates(here, ranges[2], ranges[3], limit, picked, n)
            if has_fine:
                fine_limit = _fine_limit(near, fine_error, fine_bounds)
                n = _sift(fine[i], fine_centers, fine_limit, picked, n, squares)
            count += 1
            for j in range(n):
                at = picked[j]
                if at == first or here[at] > limit or squares[j] > fine_limit:
                    continue
                square = np.float64(_square(x, centers[at]))
                count += 1
                if square < near:
                    best, near, following = at, square, near
                    limit = _limit(near, norm, error, bounds, slack)
                    if has_fine:
                        fine_limit = _fine_limit(near, fine_error, fine_bounds)
                else:
                    following = min(following, square)
            largest = near * (1 + bounds[TIE]) + bounds[TIE_UNDERFLOW]
            if not near < np.inf:
                done[i] = False
            elif not following > largest:
                best = _first_of_ties(x, centers, here, limit, largest, ranges, work)
            if side:
                rival[i] = best
            else:
                own[i] = best
    return count
