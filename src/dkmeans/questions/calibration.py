"""Calibrate probabilities on held-out rows.

Calibrated probabilities are the softmax of the margins of `decision_function`, divided by a
temperature T. As a function of b = 1 / T, the log-loss of a row of class y with margins m is
-b m_y + log sum exp(b m), which is convex: its derivative, the mean of m under the probabilities
minus m_y, grows with b. So the minimum is where the sum of derivatives over all rows changes
its sign. Derivatives are rounded to a grid and their sum is exact: neither the order of the rows
nor copies in place of whole-numbered weights change the temperature.

With few errors among the held-out rows, or none, the minimum would be near b = infinity. As in
Platt's calibration, n rows are taken for n + 2, one of which is wrong: every row counts 1 / (n + 2)
for the nearest class other than its own.

Very few distinct rows say nothing about the margins of all others: one that lies near a border
would make any other row certain. A fit that holds out fewer than `MIN_ITEMS` has no temperature.
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.tally import exact_totals
from dkmeans.kernels.threads import tiles
from dkmeans.questions.prediction import margins, tempered
from dkmeans.results.calibration import Calibration, HeldOutScores

MIN_ITEMS = 6  # distinct rows that a fit has held out: about half of 12
MAX_LOG_TEMPERATURE = 10.0  # base 2, up and down
_LOG_TOLERANCE = 1e-9
_GRID = 2.0**-30  # of derivatives
_TILE_VALUES = 1 << 18


def calibrate(near: npt.NDArray[np.floating], classes: Indices) -> Calibration:
    """Calibrate a model on rows that it was not fitted on.

    Parameters
    ----------
    near : array of shape (n, n_classes)
        Distances to the nearest prototype of each class.
    classes : array of shape (n,)
        True classes, by number.
    """
    own = margins(near)[np.arange(len(classes)), classes].astype(np.float64)
    order = np.lexsort((-own, classes))
    scores = HeldOutScores(-own[order], classes[order])
    return Calibration(fit_temperature(near, classes), scores)


def fit_temperature(
    near: npt.NDArray[np.floating],
    classes: Indices,
    weights: Floats | None = None,
    n_items: float | None = None,
) -> float:
    """Find the temperature with the least log-loss.

    Rows of classes without a prototype are left out, as no temperature makes them probable.

    Parameters
    ----------
    near, classes : as in `calibrate`
    weights : array of shape (n,), optional
    n_items : float, optional
        Number of independent rows; by default all rows.
    """
    there = np.isfinite(near).any(axis=0)
    rows = np.flatnonzero(there[classes])
    if there.sum() < 2 or not len(rows):
        return 1.0
    found = margins(near[np.ix_(rows, there)].astype(np.float64)).astype(np.float64)
    own = (np.cumsum(there) - 1)[classes[rows]]
    smoothing = 1 / ((len(rows) if n_items is None else n_items) + 2)
    wanted = _smoothed(found, own, smoothing)
    each = None if weights is None else weights[rows]

    def slope(log_temperature: float) -> float:
        """Return the derivative of the total log-loss by 1 / T."""
        return math.fsum(_slopes(found, wanted, each, 2.0**log_temperature))

    low, high = -MAX_LOG_TEMPERATURE, MAX_LOG_TEMPERATURE
    if slope(low) <= 0:
        return float(2.0**low)
    if slope(high) >= 0:
        return float(2.0**high)
    return float(2.0 ** brentq(slope, low, high, xtol=_LOG_TOLERANCE))


def count_items(hashes: npt.NDArray[np.uint64], weights: Floats | None) -> float:
    """Return the number of independent rows: identical ones count as one, heavy ones as more.

    It is (sum w)^2 / (sum w^2) over distinct rows, which copies in place of weights, or another
    unit of weights, do not change.
    """
    _, item = np.unique(hashes, return_inverse=True)
    heavy = exact_totals(item, weights, int(item.max()) + 1)
    heavy /= heavy.max()
    return math.fsum(heavy) ** 2 / math.fsum(heavy**2)


def _smoothed(found: Floats, own: Indices, smoothing: float) -> Floats:
    """Return the margin that each row should have on average."""
    lines = np.arange(len(found))
    mine = found[lines, own]
    others = found.copy()
    others[lines, own] = -np.inf
    return (1 - smoothing) * mine + smoothing * others.max(axis=1)


def _slopes(
    found: Floats, wanted: Floats, weights: Floats | None, temperature: float
) -> Iterator[float]:
    for tile in tiles(len(found), max(1, _TILE_VALUES // found.shape[1])):
        shares = tempered(found[tile], temperature)
        mean = (shares * found[tile]).sum(axis=1) / shares.sum(axis=1)
        slopes = np.rint((mean - wanted[tile]) / _GRID)
        yield from (slopes if weights is None else slopes * weights[tile]).tolist()
