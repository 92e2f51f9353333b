"""Rows of batches that are yet to come, laid together while the source is read for another one."""

from collections.abc import Callable, Iterator

from dkmeans.kernels.block import Matrix
from dkmeans.passes.batch import Batch
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import RowState
from dkmeans.runners.row_store import RowStore


class BatchRows:
    """Stores of the rows of batches, as many as there is room for.

    Parameters
    ----------
    new_store : callable
        Returns an empty store that keeps nothing in memory.
    """

    def __init__(self, new_store: Callable[[], RowStore]) -> None:
        self._new_store = new_store
        self._stores: dict[Batch, RowStore] = {}
        self._sizes: dict[Batch, list[int]] = {}  # numbers of rows of each part

    def begin(self, batch: Batch) -> None:
        """Start to store the batches after one, and drop all others."""
        self.close()
        self._stores = {later: self._new_store() for later in batch.later()}
        self._sizes = {later: [] for later in self._stores}

    def add(self, part: Part, state: RowState) -> None:
        """Store the rows of the next part; the last batches give way if there is no room."""
        for batch in list(self._stores):
            if batch not in self._stores:
                return
            X = part.raw[batch.rows(part, state)]
            while not self._stores[batch].fits(X):
                last = next(reversed(self._stores))
                self._drop(last)
                if last == batch:
                    return
            if self._stores[batch].add(X):
                self._sizes[batch].append(X.shape[0])
            else:  # the disk is full
                self._drop(batch)

    def __contains__(self, batch: Batch) -> bool:
        return batch in self._stores

    def take(self, batch: Batch) -> Iterator[Matrix]:
        """Iterate over the rows of each part in a batch, and drop them at the end."""
        yield from self._stores[batch].read(self._sizes[batch])
        self._drop(batch)

    def close(self) -> None:
        """Drop everything."""
        for batch in list(self._stores):
            self._drop(batch)

    def _drop(self, batch: Batch) -> None:
        self._stores.pop(batch).close()
