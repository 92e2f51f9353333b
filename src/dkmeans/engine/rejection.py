"""How strange rows are, and from where on they are too strange to be of a known class.

Thresholds are those of split conformal prediction. A new row and the held-out rows of its group
are equally likely to be the strangest, the second strangest and so on, if all come from the same
source; so the new one is above the j-th largest of n with a probability of at most j / (n + 1).

That holds within each group as long as the groups are a function of all rows together, the new one
included, without regard to which of them is new. So the group of a prototype is found with one
more row counted there: the row that will ask.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats, Indices

Per: TypeAlias = Literal["prototype", "class", "all"]
LEVELS: tuple[Per, ...] = ("prototype", "class", "all")

_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Thresholds:
    """One entry per prototype."""

    values: Floats  # what is larger is rejected
    rows: npt.NDArray[np.int64]  # held-out rows that each comes from
    rates: Floats  # of rejected rows that each stands for, at most what was asked for
    levels: Indices  # whose rows they were, an index into LEVELS


def strangeness(near: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Score rows from their distances to the nearest prototype of each class.

    It is D^2 / R, the distance to the nearest prototype times its ratio to that of the nearest
    rival class: a row is strange if it is far from all, and stranger if it is between classes. With
    one class, it is D.
    """
    best = near.min(axis=1)
    if near.shape[1] < 2:
        return best
    second = np.partition(near, 1, axis=1)[:, 1].astype(np.float64)
    # A second of zero means a first of zero, and an infinite one that there is no rival.
    between = np.divide(
        best, second, out=np.ones(len(best)), where=(second > 0) & (second < np.inf)
    )
    return (best * between).astype(near.dtype)


def least_rows(rate: float) -> int:
    """Count the rows that a group needs so that the strangest of them may be a threshold."""
    return math.ceil(1 / _exact(rate)) - 1


def choose(
    scores: npt.NDArray[np.floating],
    cells: Indices,
    classes: Indices,
    rate: float,
    per: Per,
) -> Thresholds:
    """Choose a threshold for each prototype, from at least `least_rows(rate)` held-out rows.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Strangeness of rows of known classes that the fit has not seen.
    cells : ndarray of shape (n,)
        Their nearest prototypes.
    classes : ndarray of shape (k,)
        Class of each prototype.
    rate : float
        Largest share of rows of known classes to be rejected, between 0 and 1.
    per : str
        For whose rows the rate is to hold: of each prototype, of each class, of all together.
    """
    k, share = len(classes), _exact(rate)
    codes = np.unique(classes, return_inverse=True)[1]  # classes without prototypes do not count
    counts = np.bincount(cells, minlength=k)
    values, rows = np.empty(k), np.empty(k, dtype=np.int64)
    rates, levels = np.empty(k), np.empty(k, dtype=np.intp)
    found: dict[bytes, tuple[float, int, float]] = {}  # groups are shared by many prototypes
    for i in range(k):
        seen = counts + (np.arange(k) == i)
        group = _group(i, seen, codes, least_rows(rate) + 1, per)
        key = np.packbits(group).tobytes()
        if key not in found:
            mine = np.sort(scores[group[cells]])
            beyond = math.floor(share * (len(mine) + 1))
            found[key] = float(mine[-beyond]), len(mine), beyond / (len(mine) + 1)
        values[i], rows[i], rates[i] = found[key]
        levels[i] = _level(codes[group & (seen > 0)])
    return Thresholds(values, rows, rates, levels)


def _group(i: int, counts: Indices, codes: Indices, least: int, per: Per) -> _Mask:
    """Find the prototypes that share a threshold with one; each group has enough rows."""
    if per == "all":
        return np.ones(len(codes), dtype=bool)
    joined = _joined(np.bincount(codes, counts), least)[codes]
    if joined[i]:
        return joined
    mine = codes == codes[i]
    if per == "class":
        return mine
    of_class = np.flatnonzero(mine)
    joined = np.zeros(len(codes), dtype=bool)
    joined[of_class] = _joined(counts[of_class], least)
    return joined if joined[i] else np.arange(len(codes)) == i


def _joined(counts: npt.NDArray[np.number], least: int) -> _Mask:
    """Put together groups that are too small and, if that is too little, the next smallest."""
    order = np.argsort(counts, kind="stable")
    small = int((counts < least).sum())
    enough = int(np.searchsorted(np.cumsum(counts[order]), least)) + 1
    result = np.zeros(len(counts), dtype=bool)
    result[order[: max(small, enough) if small else 0]] = True
    return result


def _level(classes: Indices) -> int:
    if len(classes) == 1:
        return 0
    return 1 if (classes == classes[0]).all() else 2


def _exact(rate: float) -> Fraction:
    """Take a rate as it was written: 0.07 is seven of a hundred, no less."""
    return Fraction(str(float(rate)))
