"""Run passes on the workers of a Dask cluster, with one call per worker and pass.

Lost workers are replaced.
"""

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from distributed import Client, KilledWorker, wait

from dkmeans.data.blocks import Batch
from dkmeans.data.dask_collections import raise_unreadable
from dkmeans.kernels.block import Floats
from dkmeans.kernels.tally import TotalsGrid
from dkmeans.passes.contract import AnyPass, Derivation, Exchange, Pass
from dkmeans.passes.part import Setting
from dkmeans.runners.allocator import allocator
from dkmeans.runners.dask_requests import (
    FIRST_SET,
    AskPartitions,
    BuildParts,
    ConfigureParts,
    DeriveParts,
    DropKept,
    InspectPartitions,
    KeepResult,
    MergePeers,
    ReplayPasses,
    RunPass,
    SettleRange,
    Shared,
    SplitRows,
    SumSampleWeights,
    TakeResult,
)
from dkmeans.runners.dask_worker import Holder, Request
from dkmeans.runners.merging import merge_all, n_bytes
from dkmeans.runners.partitions import Partitions, balance
from dkmeans.runners.replay import ReplayLog
from dkmeans.runners.worker_proxy import POLL_S, AnyFuture, ClusterError, LostError, WorkerProxy

R = TypeVar("R")
MIN_TREE_WORKERS = 9  # with fewer, the driver merges the results of all workers
MAX_DEATHS = 4  # consecutive worker deaths tolerated per partition
MAX_ATTEMPTS = 2 * MAX_DEATHS  # to let workers exchange rows while some of them die
NO_WORKERS_TIMEOUT_S = 300.0
_logger = logging.getLogger("dkmeans")


RequestFor: TypeAlias = Callable[[WorkerProxy], Request[R]]
Inspection: TypeAlias = Callable[[Batch], tuple[R, npt.NDArray[np.integer]]]


@dataclass
class _Set:
    """A set of parts on the workers, and what is needed to rebuild it."""

    origin: tuple[int, Derivation] | None  # the set that it is derived from
    setting: Setting = field(default_factory=Setting)
    log: ReplayLog = field(default_factory=ReplayLog)


class Crew:
    """The workers that hold the partitions of a data set, from `inspect` until `release`.

    Parameters
    ----------
    client : Client
    partitions : Partitions
    """

    def __init__(self, client: Client, partitions: Partitions) -> None:
        self.client, self._partitions = client, partitions
        self._build: BuildParts | None = None
        self._sets: dict[int, _Set] = {}
        self._numbers = itertools.count(FIRST_SET + 1)
        self._calls = itertools.count()  # numbers of the passes whose results workers keep
        self._unused: list[int] = []  # sets that workers still hold
        self._deaths: dict[int, int] = {}  # consecutive ones, by partition
        self._workers: list[WorkerProxy] = []

    def inspect(self, make: Callable[[int], Inspection[R]]) -> list[R]:
        """Let workers hold the partitions, and apply a function to each partition.

        `make` returns the function, given the number of threads per worker. The function returns
        the code of each row's label, too, which stays with the worker.
        """
        with self._connected():
            self._workers = self._hold(range(len(self._partitions)), self._balanced)
            function = make(threads_per_worker(self.client))
        found: dict[int, R] = {}
        for some in self._ask_all(InspectPartitions(function)):
            found |= some
        return [found[number] for number in range(len(self._partitions))]

    def ask_partitions(
        self,
        function: Callable[[int, Batch, npt.NDArray[np.integer]], R],
        inspect: Inspection[object],
    ) -> dict[int, R]:
        """Apply a function to every partition, before parts are made; see `AskPartitions`."""
        found: dict[int, R] = {}
        for some in self._ask_all(Shared(AskPartitions(function, inspect))):
            found |= some
        return found

    def release(self) -> None:
        """Let the workers drop all rows.

        They are cancelled: dropping references here is not enough, as Dask's actors are in
        reference cycles, and an error that the client knows refers to all that was in use.
        """
        self._cancel([worker.future for worker in self._workers])  # these depend on the others
        self._cancel(self._partitions.owned)

    def build(self, request: BuildParts) -> "DaskRunner":
        """Make parts of all partitions; those that are left out are dropped."""
        self._ask(lambda worker: request.on(worker.numbers, worker.n_threads))
        self._build = request
        self._sets[FIRST_SET] = _Set(None)
        return DaskRunner(self, FIRST_SET)

    def run(self, number: int, task: Pass[R]) -> R:
        """Run a pass over all parts of a set."""
        if len(self._workers) < MIN_TREE_WORKERS:
            found = self._ask_all(Shared(RunPass(number, task)))
        else:
            found = self._run_in_groups(TakeResult(number, task, next(self._calls)))
        self._sets[number].log.add(task)
        result = merge_all(task, _taken_out(found))
        allocator.trim_after(n_bytes(result))
        return result

    def exchange(self, number: int, task: Exchange[R]) -> R:
        """Compare the rows of a set: each worker settles one range of hashes."""
        for _ in range(MAX_ATTEMPTS):
            call, count = next(self._calls), len(self._workers)
            self._ask_all(SplitRows(number, task, call, count))  # replaces lost workers
            if len(self._workers) == count:
                found = self._settled(task, call)
                if found is not None:
                    self._ask_all(DropKept())
                    return task.merge(found)
        raise ClusterError(
            "The workers of the Dask cluster cannot send rows to each other: check that they can "
            "connect to each other's addresses."
        )

    def _settled(self, task: Exchange[R], call: int) -> list[R] | None:
        """Let each worker settle its range; None if one of them does not answer."""
        found: list[R] = []
        with self._connected():
            pending = []
            for at, worker in enumerate(self._workers):
                peers = [other.peer for other in self._workers if other is not worker]
                pending.append(worker.ask(SettleRange(task, call, at, peers)))
            answers = []
            for wait_for in pending:  # all of them, so that no worker is busy afterwards
                try:
                    answers.append(wait_for())
                except LostError:
                    answers.append(None)
        for answer in answers:
            if answer is None:
                return None
            found += answer
        return found

    def sample_weights(self, grid: TotalsGrid | None, n_cells: int) -> Floats:
        """Sum the weights of the rows of each cell in the user's terms, or count the rows."""
        found = np.sum(self._ask_all(SumSampleWeights(grid, n_cells)), axis=0)
        return np.asarray(found) if grid is None else grid.totals(found)

    def configure(self, number: int, setting: Setting) -> None:
        """Set the setting of all parts of a set."""
        self._ask_all(ConfigureParts(number, setting))
        self._sets[number].setting = setting

    def replay(self, number: int, tasks: Sequence[AnyPass]) -> None:
        """Repeat the effects of passes on a set."""
        self._ask_all(ReplayPasses(number, tasks))
        for task in tasks:
            self._sets[number].log.add(task)

    def derive(self, source: int, derivation: Derivation) -> "DaskRunner":
        """Make another set of parts; workers drop the unused ones."""
        target = next(self._numbers)
        self._ask_all(DeriveParts(source, target, derivation, tuple(self._unused)))
        self._unused = []
        self._sets[target] = _Set((source, derivation))
        return DaskRunner(self, target)

    def close(self, number: int) -> None:
        """Note that a set is no longer used."""
        if number in self._sets:
            del self._sets[number]
            self._unused.append(number)

    def _run_in_groups(self, take: TakeResult[R]) -> list[list[R]]:
        """Run a pass, and let one worker of each group merge the results of its group.

        So neither the driver nor any worker gets more than about the root of their number. If a
        worker is lost meanwhile, the driver asks each worker of its group.
        """
        self._ask_all(Shared(KeepResult(take.number, take.task, take.call)))
        count = round(len(self._workers) ** 0.5)
        groups = [self._workers[first::count] for first in range(count)]
        found: list[list[R]] = []
        with self._connected():
            merging = [
                (group, group[0].ask(MergePeers(take, [worker.peer for worker in group[1:]])))
                for group in groups
            ]
            for group, wait_for in merging:
                try:
                    merged = wait_for()
                except LostError:
                    merged = None
                found += self._ask(_same(take), group) if merged is None else [merged]
        return found

    def _ask_all(self, request: Request[R]) -> list[R]:
        """Let every worker execute the same request."""
        return self._ask(_same(request))

    def _ask(self, request_for: RequestFor[R], workers: list[WorkerProxy] | None = None) -> list[R]:
        """Let workers execute a request, all by default; repeat it where they were replaced."""
        results: list[R] = []
        died: set[int] = set()
        todo = self._workers if workers is None else workers
        with self._connected():
            while todo:
                lost = []
                for worker, wait_for in [(one, one.ask(request_for(one))) for one in todo]:
                    try:
                        results.append(wait_for())
                    except LostError as problem:
                        self._note_loss(worker, problem)
                        died.update(worker.numbers)
                        lost.append(worker)
                todo = self._replaced(lost)
        self._deaths = {n: count for n, count in self._deaths.items() if n in died}
        return results

    def _cancel(self, futures: Sequence[AnyFuture]) -> None:
        with suppress(Exception):  # an unreachable cluster holds nothing to cancel
            self.client.cancel([one for one in futures if one.status != "cancelled"])

    def _note_loss(self, worker: WorkerProxy, problem: LostError) -> None:
        worker.settle()
        self._check_connection(problem)
        _logger.warning("A worker was lost (%s); its rows are read again.", problem)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Raise a clear error if calls fail because the client or the data are lost."""
        try:
            yield
        except ClusterError:
            raise
        except Exception as problem:
            self._check_connection(problem)
            raise

    def _check_connection(self, problem: Exception) -> None:
        """Raise an error if the client or the partitions are lost permanently."""
        if self.client.status != "running":
            raise ClusterError(
                "The Dask client was closed, or lost its scheduler, while the fit was running (its "
                f"status is {self.client.status!r}): connect a client and fit again."
            ) from problem
        if self._partitions.are_lost():
            raise ClusterError(
                "The Dask cluster dropped the rows while the fit was running: it was restarted, or "
                "lost data that it cannot compute again; load the data and fit again."
            ) from problem

    def _replaced(self, lost: list[WorkerProxy]) -> list[WorkerProxy]:
        """Move partitions to other workers, and rebuild the row state there."""
        ready: list[WorkerProxy] = []
        while lost:
            self._count_deaths(lost)
            self._cancel([worker.future for worker in lost])  # a worker may only be unreachable
            self._workers = [worker for worker in self._workers if worker not in lost]
            restored = self._hold(sorted(n for worker in lost for n in worker.numbers))
            self._workers += restored
            lost = []
            for request_for in self._restoring():
                for worker, wait_for in [(one, one.ask(request_for(one))) for one in restored]:
                    try:
                        wait_for()
                    except LostError as problem:
                        self._note_loss(worker, problem)
                        lost.append(worker)
                restored = [worker for worker in restored if worker not in lost]
            ready += restored
        return ready

    def _restoring(self) -> Iterator[RequestFor[None]]:
        """List the requests that bring a new worker to the state of the others."""
        build = self._build
        if build is None:
            return
        yield lambda worker: build.on(worker.numbers, worker.n_threads)
        for number, one in self._sets.items():
            if one.origin is not None:
                source, derivation = one.origin
                yield _same(DeriveParts(source, number, derivation))
            yield _same(ConfigureParts(number, one.setting))
            yield _same(ReplayPasses(number, one.log.tasks()))

    def _count_deaths(self, lost: list[WorkerProxy]) -> None:
        numbers = sorted(n for worker in lost for n in worker.numbers)
        for number in numbers:
            self._deaths[number] = self._deaths.get(number, 0) + 1
        often = max(self._deaths[number] for number in numbers)
        if often > MAX_DEATHS:
            raise ClusterError(
                f"Workers died {often} times in a row over the partitions {numbers}: they may "
                "need more memory, or smaller partitions."
            )

    def _balanced(self, where: dict[int, str]) -> dict[int, str]:
        """Choose a worker for each partition, so that none has much more than its share."""
        keys = {number: self._partitions.futures[number][0].key for number in where}
        n_bytes = self.client.nbytes(list(keys.values()), summary=False)
        sizes = {number: n_bytes.get(key, 0) for number, key in keys.items()}
        return balance(where, sizes, self.client.nthreads())

    def _hold(
        self,
        numbers: Iterable[int],
        place: Callable[[dict[int, str]], dict[int, str]] = dict,
    ) -> list[WorkerProxy]:
        """Start a holder on each worker, of the partitions that it has, or that it is given.

        Parameters
        ----------
        numbers : iterable of int
            Of the partitions.
        place : callable, optional
            Chooses the workers of partitions, given those that have them.
        """
        partitions = self._partitions
        futures = {number: partitions.futures[number] for number in numbers}
        self._wait([one for some in futures.values() for one in some])
        for number, some in futures.items():
            for future in some:
                if future.status == "error":
                    _raise_unreadable(number, future.exception())
        where = self.client.who_has([some[0] for some in futures.values()])
        there = {n: min(where.get(some[0].key) or (), default="") for n, some in futures.items()}
        by_worker: dict[str, list[int]] = {}
        for number, worker in place(there).items():
            by_worker.setdefault(worker, []).append(number)
        held, n_threads = [], self.client.nthreads()
        least = min(n_threads.values(), default=1)
        for worker, mine in sorted(by_worker.items()):
            actor = self.client.submit(
                Holder,
                mine,
                [partitions.columns[number] for number in mine],
                partitions.read,
                actor=True,
                pure=False,
                workers=[worker] if worker else None,
                allow_other_workers=bool(worker),
            )
            held.append(WorkerProxy(mine, actor, n_threads.get(worker, least)))
        self._wait([one.future for one in held])
        return held

    def _wait(self, futures: list[AnyFuture]) -> None:
        """Wait for futures, with a timeout if no worker can compute them."""
        last = time.monotonic()
        pending = [one for one in futures if one.status == "pending"]  # most of them are not
        while pending:
            try:
                wait(pending, timeout=min(POLL_S, NO_WORKERS_TIMEOUT_S))
                return
            except TimeoutError as problem:
                now = time.monotonic()
                if self.client.nthreads():
                    last = now
                elif now - last > NO_WORKERS_TIMEOUT_S:
                    raise ClusterError(
                        f"The cluster has had no workers for {NO_WORKERS_TIMEOUT_S:g} seconds: "
                        "start some."
                    ) from problem


class DaskRunner:
    """A set of parts on the workers of a crew.

    Parameters
    ----------
    crew : Crew
    number : int
        Of the set.
    """

    def __init__(self, crew: Crew, number: int) -> None:
        self._crew, self._number = crew, number

    def run(self, task: Pass[R]) -> R:
        """Run a pass over all parts, and merge the results."""
        return self._crew.run(self._number, task)

    def exchange(self, task: Exchange[R]) -> R:
        """Compare the rows of all parts."""
        return self._crew.exchange(self._number, task)

    def configure(self, setting: Setting) -> None:
        """Set the setting of all parts."""
        self._crew.configure(self._number, setting)

    def replay(self, tasks: Sequence[AnyPass]) -> None:
        """Repeat the effects of passes."""
        self._crew.replay(self._number, tasks)

    def derive(self, derivation: Derivation) -> "DaskRunner":
        """Make a runner of other parts of the same rows."""
        return self._crew.derive(self._number, derivation)

    def close(self) -> None:
        """Drop the parts; the workers do so when the next set is made, or at the end."""
        self._crew.close(self._number)


def threads_per_worker(client: Client) -> int:
    """Return the smallest number of threads that a worker has."""
    return int(min(client.nthreads().values(), default=1))


def _taken_out(lists: list[list[R]]) -> Iterator[R]:
    """Iterate over the results in lists, which are emptied, so that merged ones are freed."""
    while lists:
        some = lists.pop(0)
        while some:
            yield some.pop(0)


def _same(request: Request[R]) -> RequestFor[R]:
    return lambda _: request


def _raise_unreadable(number: int, problem: Exception) -> NoReturn:
    if isinstance(problem, KilledWorker):
        raise ClusterError(
            f"Workers keep dying while they read partition {number}: they may need more memory, or "
            "smaller partitions."
        ) from problem
    raise_unreadable(number, problem)
