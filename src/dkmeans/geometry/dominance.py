"""Features that decide most Euclidean distances by themselves."""

import numpy as np

from dkmeans.kernels.block import Floats

DOMINANT_SHARE = 0.95  # of the variance of all features that makes one dominant,
MAIN_SHARE, TIMES_MEAN = 0.5, 10  # or this share, if it is so many times that of an average one


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
