"""Some of the rows that a fit reads, kept for what is said about their scale afterwards.

Any number of rows, in any blocks, gives a sample of bounded size, with no further pass over the
data. Its rows are evenly spaced, so that data sorted by class are all represented. It decides
nothing in a fit.
"""

import hashlib

import numpy as np
import scipy.sparse as sp

from dkmeans.kernels.block import Matrix

MAX_ROWS = 5_000  # from which variances are estimated
MAX_VALUES = 1 << 20  # that are stored in a sample: of wide rows there are fewer,
FEW_ROWS = 64  # but at least as many as this
SHARE_THAT_TRAVELS = 1 / 8  # of both limits, for a sample that comes from many workers


class RowSample:
    """Every row whose number is a multiple of a step, which doubles when there are too many."""

    def __init__(self) -> None:
        self._parts: list[Matrix] = []
        self._step, self._n_rows, self._n_values = 1, 0, 0

    def add(self, X: Matrix) -> None:
        """Take some rows of the next block."""
        begin = self._n_rows
        self._n_rows += X.shape[0]
        self._n_values += _stored(X)
        step = _step(self._step, self._n_rows, self._n_values)
        if step > self._step and self._parts:
            self._parts = [_copy(stacked(self._parts)[:: step // self._step])]
        self._step = step
        first = -begin % step
        if first < X.shape[0]:
            self._parts.append(_copy(X[first::step]))

    def rows(self) -> Matrix | None:
        """Return the sample, if there are any rows."""
        if len(self._parts) > 1:
            self._parts = [stacked(self._parts)]
        return self._parts[0] if self._parts else None


def sample_of(X: Matrix) -> Matrix:
    """Return a sample of rows that are in memory, of dense ones as a view.

    Examples
    --------
    >>> import numpy as np
    >>> sample_of(np.arange(9_000.0)[:, None])[:3].ravel().tolist()
    [0.0, 2.0, 4.0]
    """
    return X[:: _step(1, X.shape[0], _stored(X))]


def sample_of_part(X: Matrix, share: float, name: str) -> Matrix:
    """Return so few rows of one part of the data that those of all parts are one sample.

    Parameters
    ----------
    X : matrix
        The rows of the part.
    share : float
        Of the sample, which is smaller than others as it travels: 0.01 if there are 100 parts.
    name : str
        Of the part. Its hash decides whether a fraction of a row is a row or none, so that
        thousands of parts do not give a row each where that would be too many.
    """
    chance = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32
    n_rows = X.shape[0]
    most = _most_rows(n_rows, _stored(X), SHARE_THAT_TRAVELS)
    taken = min(n_rows, int(share * most + chance))
    return _copy(X[np.arange(taken) * n_rows // max(1, taken)])


def stacked(parts: list[Matrix]) -> Matrix:
    """Return the rows of several parts as one matrix."""
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _step(least: int, n_rows: int, n_values: int) -> int:
    """Return the least step, doubled until the sample is small enough."""
    most, step = _most_rows(n_rows, n_values), least
    while -(-n_rows // step) > most:
        step *= 2
    return step


def _most_rows(n_rows: int, n_values: int, part: float = 1.0) -> int:
    """Return how many rows a sample may have, given the size of the rows that it is for."""
    of_values = int(part * MAX_VALUES * max(1, n_rows) / max(1, n_values))
    return min(int(part * MAX_ROWS), max(FEW_ROWS, of_values))


def _stored(X: Matrix) -> int:
    """Return the number of stored values."""
    return int(X.nnz if sp.issparse(X) else X.size)


def _copy(X: Matrix) -> Matrix:
    """Copy rows, so that the block that they come from can be released."""
    return X.copy() if sp.issparse(X) else np.array(X)
