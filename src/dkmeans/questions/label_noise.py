"""Estimate how many labels of each class are wrong.

Where classes overlap, rows of one lie amid rows of another although their labels are right, so to
count all rows that disagree with their neighbourhood counts too many. But deep inside a class
there should be no others: the share of other labels *there* is the share of wrong labels. Labels
are taken to be wrong as often elsewhere in the class. In the terms of the literature on
learning with noisy labels, the deepest rows are anchor points of the noise matrix.

Of the rows whose neighbourhood is mostly of class j, the deepest ones, by the share of j among the
nearest rows, say which part of class j has label i. That times the number of rows in such
neighbourhoods is the number of labels i that should be j. Small neighbourhoods find narrow classes,
large ones are less often pure by chance; several sizes are tried, and the least total counts.
"""

import math

import numpy as np

from dkmeans.kernels.block import Floats, Indices

SIZES = (16, 32, 64)  # of neighbourhoods, in rows
DEEPEST_SHARE = 0.15  # of the rows of each neighbourhood class,
MIN_DEEPEST = 25  # and at least so many, if there are
_DECIMALS = 9  # of shares; ties must not depend on rounding
MIN_SHARE = 0.5  # of the class in the neighbourhood of its deepest rows


def neighbourhood_sizes(classes: Indices) -> tuple[float, ...]:
    """Return the sizes to look at: at most half of the class that the median row belongs to."""
    counts = np.bincount(classes)
    typical = float(np.median(counts[classes]))
    most = max(2.0, np.floor(typical / 2))
    return tuple(sorted({min(float(size), most) for size in SIZES}))


def count_wrong(classes: Indices, majority: Indices, shares: Floats, n_classes: int) -> Floats:
    """Estimate the number of wrong labels of each class.

    Parameters
    ----------
    classes : array of shape (n,)
        Classes that the rows have.
    majority, shares : arrays of shape (n, n_sizes)
        Class of the neighbourhood of each row, and its share there, by size of the neighbourhood.
    n_classes : int

    Returns
    -------
    wrong : array of shape (n_classes,)
    """
    tries = [
        _count_wrong(classes, majority[:, at], shares[:, at].round(_DECIMALS), n_classes)
        for at in range(majority.shape[1])
    ]
    return min(tries, key=lambda wrong: float(wrong.sum()))


def _count_wrong(classes: Indices, majority: Indices, shares: Floats, n_classes: int) -> Floats:
    wrong = np.zeros(n_classes)
    for j in np.unique(majority).tolist():
        here = np.flatnonzero(majority == j)
        wanted = max(math.ceil(DEEPEST_SHARE * len(here)), MIN_DEEPEST)
        least = np.sort(shares[here])[-min(wanted, len(here))]
        deep = here[shares[here] >= max(least, MIN_SHARE)]
        if len(deep):
            found = np.bincount(classes[deep], minlength=n_classes) * (len(here) / len(deep))
            found[j] = 0
            wrong += found
    return np.minimum(wrong, np.bincount(classes, minlength=n_classes))
