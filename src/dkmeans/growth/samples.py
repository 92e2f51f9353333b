"""Samples of the rows for the early stages of growth: few prototypes need few rows.

Rows are drawn by a hash of their values, so a sample depends neither on the order of rows nor on
blocks, workers or threads, and identical rows stay together. All counts are of distinct rows with a
positive weight.

The same share of all classes is drawn. Of a class with too few rows in the sample, twice that share
is drawn, or four times and so on, up to all of its rows, and their weights are divided
accordingly. Shares have few binary digits, so weights times shares are exact.
"""

from dataclasses import dataclass

import numpy as np

from dkmeans.growth.rows import Rows
from dkmeans.passes.sampling import DistinctHashes, Draw, GatherHashes

MAX_SHARE = 0.25  # a larger sample would save little time, and take memory
SHARE_BITS = 4  # significant bits of shares
FIRST_GUESS = 1.25  # ratio of the first share looked at to the one that is probably needed
MOST_ROWS = 0.75  # share of all rows; with many small classes, a sample might have more
CHECK_RATIO = 0.5  # of the number of rows that check the growth on a sample to those in it
N_HASHES = 2**64
SALT = 1  # of the hashes: rows held out, which no sample has, are chosen by hashes of another salt


@dataclass(frozen=True)
class Plan:
    """How a sample is drawn, and the share of the rows that it holds."""

    share: float
    draw: Draw

    def others(self) -> Draw:
        """Draw half as many other rows, by the highest hashes.

        Of classes that are drawn more often than others, they may be the same rows.
        """
        n_classes = len(self.draw.limits)
        first, last = highest_hashes(self.share * CHECK_RATIO)
        lowest, limits = np.full(n_classes, first), np.full(n_classes, last)
        return Draw(self.draw.largest, lowest, limits, np.ones(n_classes), SALT)


def plan_sample(
    rows: Rows,
    n_rows: int,
    min_class_rows: int,
    max_share: float = MAX_SHARE,
    *,
    min_rows: int | None = None,
) -> Plan | None:
    """Plan a sample; None if it would be most of the rows.

    Parameters
    ----------
    rows : Rows
    n_rows : int
        Number of distinct rows that are wanted.
    min_class_rows : int
        Least number of distinct rows of each class; all of them if there are fewer.
    max_share : float
        Largest share of the rows.
    min_rows : int, optional
        Number of distinct rows that is enough where the largest share has no more; `n_rows` by
        default.
    """
    found = _smallest_share(rows, n_rows, n_rows if min_rows is None else min_rows, max_share)
    if found is None:
        return None
    share, hashes = found
    counts = np.bincount(hashes.classes, minlength=rows.n_classes)
    small, n_rows_about = counts < min_class_rows, counts / share
    if small.any():
        everything = np.where(small, _limit(1.0), np.uint64(0))
        hashes = rows.run(GatherHashes(rows.facts.largest, everything, SALT))
    limits, factors = np.full(rows.n_classes, _limit(share)), np.ones(rows.n_classes)
    for c in np.flatnonzero(small).tolist():
        mine = hashes.hashes[hashes.classes == c]
        taken = share
        while taken < 1 and np.count_nonzero(mine <= _limit(taken)) < min_class_rows:
            taken = min(1.0, 2 * taken)
        limits[c], factors[c] = _limit(taken), share / taken
        counts[c], n_rows_about[c] = np.count_nonzero(mine <= _limit(taken)), len(mine)
    if counts.sum() > MOST_ROWS * n_rows_about.sum():
        return None
    lowest = np.zeros(rows.n_classes, dtype=np.uint64)
    return Plan(share, Draw(rows.facts.largest, lowest, limits, factors, SALT))


def _smallest_share(
    rows: Rows, n_rows: int, min_rows: int, max_share: float
) -> tuple[float, DistinctHashes] | None:
    """Find the smallest share that holds so many distinct rows, and the hashes up to it.

    It is the largest share if that holds fewer rows, but at least `min_rows`.
    """
    if min_rows > rows.facts.n_active:
        return None
    upper = min(max_share, FIRST_GUESS * n_rows / rows.facts.n_active)
    while True:
        limits = np.full(rows.n_classes, _limit(upper))
        found = rows.run(GatherHashes(rows.facts.largest, limits, SALT))
        if len(found.hashes) >= n_rows:
            needed = int(np.partition(found.hashes, n_rows - 1)[n_rows - 1])
            share = _share_with(needed)
            within = found.hashes <= _limit(share)
            return share, DistinctHashes(found.classes[within], found.hashes[within])
        if upper == max_share:
            return (max_share, found) if len(found.hashes) >= min_rows else None
        upper = min(max_share, 2 * upper)


def _share_with(largest: int) -> float:
    """Return the smallest share with few binary digits that holds a hash."""
    shift = max(0, (largest + 1).bit_length() - SHARE_BITS)
    steps = -(-(largest + 1) >> shift)
    return steps * 2.0**shift / N_HASHES


def highest_hashes(share: float) -> tuple[np.uint64, np.uint64]:
    """Return the smallest and the largest of a share of all hashes, the highest ones."""
    return np.uint64(N_HASHES - int(share * N_HASHES)), _limit(1.0)


def _limit(share: float) -> np.uint64:
    """Return the largest hash in a share of all hashes."""
    return np.uint64(int(share * N_HASHES) - 1)
