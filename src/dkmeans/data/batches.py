"""Batches that the user provides: anything that can be iterated repeatedly."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from dkmeans.data.blocks import Batch, BlockSource, SourceError, csr_of_block, labels_of_block


class UserBatches(BlockSource):
    """Batches (X, y) or (X, y, sample_weight) from an iterable, or from a function that makes one.

    Parameters
    ----------
    source : iterable or callable
    """

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if not callable(source) and iter(source) is source:
            raise SourceError(
                "X is an iterator, which can be read only once, but a fit reads the data several "
                "times: pass a function that makes a new one, or an object with __iter__."
            )
        self._source = source

    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning."""
        batches = self._source() if callable(self._source) else self._source
        for number, batch in enumerate(batches):
            if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
                raise SourceError(
                    f"Batch {number} must be a tuple (X, y) or (X, y, sample_weight), not "
                    f"{type(batch).__name__}."
                )
            X, y, weight = batch if len(batch) == 3 else (*batch, None)
            where = f"batch {number}"
            # Copies, as the next batch is requested meanwhile, and may reuse the same array.
            X = csr_of_block(X, where).copy() if sp.issparse(X) else np.array(X)
            y = labels_of_block(y, where).copy()
            if X.ndim != 2 or y.shape != X.shape[:1]:
                raise SourceError(
                    f"Batch {number} must have rows in X, and as many labels in y, but their "
                    f"shapes are {X.shape} and {y.shape}."
                )
            weight = None if weight is None else np.array(weight)
            yield Batch(X, y, weight, where)


def check_source(X: Any, y: Any = None) -> None:
    """Refuse rows that would be mistaken for others: bytes, and lists of batches or of nothing."""
    is_list = isinstance(X, list | tuple)
    first = X[0] if is_list and len(X) else X
    if isinstance(first, bytes | bytearray):
        raise SourceError(
            f"X is {'a list of bytes' if is_list else 'bytes'}, but a path must be text: decode it "
            "with os.fsdecode."
        )
    if not is_list:
        return
    if not len(X) and isinstance(y, str):
        raise SourceError("X is an empty list: at least one path is needed.")
    if isinstance(first, list | tuple) and len(first) in (2, 3) and _has_rows(first[0]):
        raise SourceError(
            "X is a list of batches, but lists are taken for rows: pass a function that returns "
            "the batches, as in fit(lambda: batches)."
        )


def _has_rows(X: Any) -> bool:
    """Tell whether X is an array, a sparse matrix or a table."""
    shape = getattr(X, "shape", ())
    return isinstance(shape, tuple) and len(shape) == 2


def are_batches(X: Any) -> bool:
    """Tell whether X is an iterable or a function, and neither an array nor a table."""
    if isinstance(X, list | tuple | str | dict) or hasattr(X, "shape") or hasattr(X, "__array__"):
        return False
    if hasattr(X, "__dataframe__") or hasattr(X, "columns"):
        return False
    return callable(X) or hasattr(X, "__iter__")
