"""Merge the results of parts as they arrive."""

from collections.abc import Iterable
from typing import TypeVar

from dkmeans.passes.contract import Pass

R = TypeVar("R")
MERGE_BATCH = 16  # results merged at a time


def merge_all(task: Pass[R], results: Iterable[R]) -> R:
    """Merge results in batches, to keep few of them in memory."""
    pending: list[R] = []
    for result in results:
        pending.append(result)
        if len(pending) == MERGE_BATCH:
            pending = [task.merge(pending)]
    return task.merge(pending)
