"""Shares of the classes in the cells, from what each prototype remembers of its rows."""

import numpy as np
import numpy.typing as npt

from dkmeans.fitted import Fitted


def purities(model: Fitted) -> npt.NDArray[np.float64]:
    """Return the share of each prototype's rows that is of its own class."""
    earlier, now = model.earlier_rows, model.prototypes
    cells, weights = earlier.cells(now), earlier.weights[0]
    own = earlier.classes == now.classes[cells]
    whole = np.bincount(cells, weights, len(now))
    mine = np.bincount(cells, weights * own, len(now))
    return np.divide(mine, whole, out=np.full(len(now), np.nan), where=whole > 0)


def class_shares(model: Fitted) -> npt.NDArray[np.float64]:
    """Return the share of each class's rows (line) that lies in cells of each class (column)."""
    earlier, now = model.earlier_rows, model.prototypes
    shares = np.zeros((len(model.classes),) * 2)
    np.add.at(shares, (earlier.classes, now.classes[earlier.cells(now)]), earlier.weights[0])
    whole = shares.sum(axis=1, keepdims=True)
    return np.divide(shares, whole, out=np.zeros_like(shares), where=whole > 0)
