"""Features that decide most distances by themselves."""

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Floats

DOMINANT_SHARE = 0.95  # of the variance of all features that makes one dominant,
MAIN_SHARE, TIMES_MEAN = 0.5, 10  # or this share, if it is so many times that of an average one
FEW = 1 / 3  # of the features that vary: the most that are named as dominating together,
TIMES_MEDIAN = 20  # if each varies so many times as much as most features do
IN_ORDER = 0.9  # rank correlation with the order of the columns, as principal components have, and
SMOOTH = 5  # none of these varies so many times as much as the next


def is_dominant(share: float, n_features: int) -> bool:
    """Tell whether a feature decides most distances by its share of the variance of all features.

    Examples
    --------
    >>> is_dominant(0.9, 2), is_dominant(0.6, 30)
    (False, True)
    """
    if n_features < 2:
        return False
    return share > DOMINANT_SHARE or (share > MAIN_SHARE and share > TIMES_MEAN / n_features)


def has_dominant(deviations: Floats) -> bool:
    """Tell whether one feature decides most distances, from the standard deviations of all.

    Examples
    --------
    >>> import numpy as np
    >>> has_dominant(np.array([1.0, 1.5])), has_dominant(np.array([0.1, 200.0]))
    (False, True)
    """
    largest = float(np.max(deviations, initial=0.0))
    if not largest > 0:
        return False
    return is_dominant(1 / float(np.square(deviations / largest).sum()), len(deviations))


def dominant_features(deviations: Floats) -> npt.NDArray[np.intp]:
    """Return the few features that decide most distances, largest deviation first; often none.

    Features that are ordered like principal components, whose deviations fall smoothly from one to
    the next, do not dominate, unless the first has nearly all of the variance.

    Parameters
    ----------
    deviations : array of shape (n_features,)
        Standard deviations, 0 of features that do not vary.

    Examples
    --------
    >>> import numpy as np
    >>> dominant_features(np.array([1.0, 300.0, 0.5, 2.0, 400.0, 1.5])).tolist()
    [4, 1]
    >>> dominant_features(1 / np.arange(1.0, 1000.0)).tolist()
    []
    """
    order = np.argsort(-deviations, kind="stable")
    largest_first = deviations[order]
    largest_first = largest_first[largest_first > 0]
    n = len(largest_first)
    if n < 2 or not np.isfinite(deviations).all():
        return order[:0]
    shares = np.square(largest_first / largest_first[0]).cumsum()
    shares /= shares[-1]
    first = float(shares[0])
    m = int(np.searchsorted(shares, DOMINANT_SHARE, side="right")) + 1
    if first <= DOMINANT_SHARE and _falls_smoothly(order[:n], largest_first, m):
        return order[:0]
    if is_dominant(first, n):
        return order[:1]
    stands_out = largest_first[m - 1] >= TIMES_MEDIAN * float(np.median(largest_first))
    return order[:m] if m <= FEW * n and stands_out else order[:0]


def _falls_smoothly(order: npt.NDArray[np.intp], largest_first: Floats, m: int) -> bool:
    """Tell whether features come in the order of their deviations, the first m without a gap."""
    ratios = largest_first[:-1] / largest_first[1:]
    in_order = np.corrcoef(order, np.arange(len(order)))[0, 1] >= IN_ORDER
    return bool(in_order and np.all(ratios[:m] < SMOOTH))
