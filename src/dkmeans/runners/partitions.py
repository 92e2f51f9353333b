"""Partitions of Dask collections, and which worker holds which of them."""

from dataclasses import dataclass
from typing import Any, Self

from dask.core import flatten
from distributed import Client, futures_of

from dkmeans.data.blocks import Batch
from dkmeans.data.dask_collections import DaskBlocks, is_dask
from dkmeans.runners.dask_worker import ReadColumns
from dkmeans.runners.worker_proxy import AnyFuture

MAX_EXCESS = 0.1  # partitions of a worker that has more than its share by this are moved


@dataclass(frozen=True)
class Partitions:
    """Partitions of a data set, as futures of what workers have or will compute.

    Attributes
    ----------
    columns : list of tuples
        What `read` converts to a `Batch`, for each partition: futures, or arrays that are here.
    read : callable
    futures : list of lists
        Futures of each partition, that of its rows first.
    owned : list of futures
        Those that were made for the fit, to be cancelled at its end.
    """

    columns: list[tuple[Any, ...]]
    read: ReadColumns
    futures: list[list[AnyFuture]]
    owned: list[AnyFuture]

    @classmethod
    def of(cls, client: Client, blocks: DaskBlocks) -> Self:
        """Take partitions as they are if workers have all of them; else let them be computed."""
        lazy = [column for column in blocks.columns if is_dask(column)]
        found = [_persisted(client, column) for column in lazy]
        if any(futures is None for futures in found):
            batches = client.compute(blocks.batches)
            return cls([(one,) for one in batches], _as_it_is, [[one] for one in batches], batches)
        futures = [futures for futures in found if futures is not None]
        left = iter(futures)
        columns = [next(left) if is_dask(column) else column for column in blocks.columns]
        by_partition = [list(some) for some in zip(*futures, strict=True)]
        return cls(list(zip(*columns, strict=True)), blocks.read, by_partition, [])

    def __len__(self) -> int:
        return len(self.columns)

    def are_lost(self) -> bool:
        """Return whether some can no longer be computed."""
        return any(future.status == "cancelled" for some in self.futures for future in some)


def _persisted(client: Client, collection: Any) -> list[AnyFuture] | None:
    """Return the futures of the partitions of a collection; None unless all are persisted."""
    known = {future.key: future for future in futures_of(collection) if future.client is client}
    keys = list(flatten(collection.__dask_keys__()))
    return [known[key] for key in keys] if all(key in known for key in keys) else None


def _as_it_is(number: int, batch: Batch) -> Batch:
    return batch


def balance(
    where: dict[int, str], sizes: dict[int, int], n_threads: dict[str, int]
) -> dict[int, str]:
    """Move partitions from workers that have more than their share, as a pass waits for all.

    Parameters
    ----------
    where : dict
        Worker of each partition, by number.
    sizes : dict
        Bytes of each partition.
    n_threads : dict
        Threads of each worker; its share is proportional to them.
    """
    if not n_threads or not sum(sizes.values()):
        return where
    share = sum(sizes.values()) / sum(n_threads.values())
    loads = dict.fromkeys(n_threads, 0)
    chosen, left = {}, []
    for number in sorted(where, key=lambda n: (-sizes[n], n)):
        worker = where[number]
        most = (1 + MAX_EXCESS) * share * n_threads.get(worker, 0)
        if worker in loads and loads[worker] + sizes[number] <= most:
            chosen[number] = worker
            loads[worker] += sizes[number]
        else:
            left.append(number)
    for number in left:  # to the worker that will have the least for each of its threads

        def load(worker: str, number: int = number) -> tuple[float, bool, str]:
            after = (loads[worker] + sizes[number]) / n_threads[worker]
            return after, worker != where[number], worker

        chosen[number] = min(loads, key=load)
        loads[chosen[number]] += sizes[number]
    return {number: chosen[number] for number in where}
