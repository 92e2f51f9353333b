"""Merge the results of parts."""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from dkmeans.exact.record import Record
from dkmeans.passes.contract import Exchange, HashedRows, Pass

R = TypeVar("R")
MERGE_BATCH = 16  # results merged at a time
MERGE_BYTES = 1 << 26  # results of this size, together, are merged even if they are fewer
RANGE_ROWS = 1 << 21  # approximate number of rows that are compared at a time


def merge_all(task: Pass[R], results: Iterable[R]) -> R:
    """Merge results in batches, to keep few of them in memory."""
    pending: list[R] = []
    for result in results:
        pending.append(result)
        del result  # so that it is freed once it is merged
        many = len(pending) == MERGE_BATCH
        if many or (len(pending) > 1 and n_bytes(pending) > MERGE_BYTES):
            pending = [task.merge(pending)]
    return task.merge(pending)


def settle_all(task: Exchange[R], parts: Iterable[HashedRows]) -> R:
    """Compare rows range by range, to save memory."""
    hashed = list(parts)
    n_ranges = 1 + sum(len(one.hashes) for one in hashed) // RANGE_ROWS
    split = [hashed.pop(0).by_range(n_ranges) for _ in range(len(hashed))]  # frees what is split
    return task.merge(
        [task.settle(HashedRows.joined(list(some))) for some in zip(*split, strict=True)]
    )


def n_bytes(result: object) -> int:
    """Return the bytes of the arrays of a result, or of several."""
    if isinstance(result, np.ndarray):
        return result.nbytes
    if isinstance(result, Record):
        return sum(map(n_bytes, vars(result).values()))
    return sum(map(n_bytes, result)) if isinstance(result, list) else 0
