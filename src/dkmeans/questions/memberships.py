"""Soft memberships in prototypes or classes, by the formula of fuzzy c-means."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dkmeans.data.value_checks import InvalidParameterError, is_real
from dkmeans.kernels.block import Indices

Per = Literal["prototype", "class"]


def check_options(fuzzifier: Any, per: Any) -> None:
    """Check the options of `memberships`."""
    if not (is_real(fuzzifier) and fuzzifier >= 1):
        raise InvalidParameterError(
            f"fuzzifier={fuzzifier!r} is not accepted: it must be a number >= 1, or infinity."
        )
    if not (isinstance(per, str) and per in ("prototype", "class")):
        raise InvalidParameterError(
            f"per={per!r} is not accepted: it must be 'prototype' or 'class'."
        )


def memberships(distances: npt.NDArray[np.floating], fuzzifier: float) -> npt.NDArray[np.floating]:
    """Compute the membership of each row in each prototype; rows sum to 1.

    Parameters
    ----------
    distances : array of shape (n, k)
        Distances to the prototypes.
    fuzzifier : float
        m >= 1. The membership is proportional to D^(-2 / (m - 1)): with m = 1, the limit, only the
        nearest prototypes share a row; with m infinite, all do. A row on a prototype belongs to it
        alone, whatever m is.
    """
    D = distances.astype(np.float64)
    least = D.min(axis=1, keepdims=True)
    # At least 0 and at most 1: 1 for the nearest, and for 0 / 0.
    ratio = np.divide(least, D, out=np.ones_like(D), where=D > 0)
    if fuzzifier == 1:
        shares = (least == D).astype(np.float64)
    elif np.isinf(fuzzifier):
        shares = (ratio > 0).astype(np.float64)
    else:
        with np.errstate(under="ignore"):
            shares = ratio ** (2 / (fuzzifier - 1))
    return (shares / shares.sum(axis=1, keepdims=True)).astype(distances.dtype)


def by_class(
    shares: npt.NDArray[np.floating], codes: Indices, n_classes: int
) -> npt.NDArray[np.floating]:
    """Add up the memberships of each class's prototypes."""
    out = np.zeros((len(shares), n_classes))
    for place, c in enumerate(codes.tolist()):
        out[:, c] += shares[:, place]
    return out.astype(shares.dtype)
