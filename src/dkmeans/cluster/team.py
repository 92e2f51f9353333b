"""A team on a Dask cluster: one call per worker and pass; a worker that is lost is replaced."""

import itertools
import logging
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias

from distributed import Client, KilledWorker, wait

from dkmeans.cluster.holder import Holder
from dkmeans.data.dask_collections import raise_unreadable
from dkmeans.engine.log import Log

_TRIES = 4  # at replacing the worker of a partition without a pass that it survives
_LOOK = 5.0  # seconds after which to see whether what is waited for can still come
_PATIENCE = 300.0  # seconds that a cluster may be without workers
_logger = logging.getLogger("dkmeans")


class ClusterError(RuntimeError):
    """The cluster cannot go on with a fit.

    Its workers keep dying, there are none, or it was closed or restarted during the fit.
    """


class _LostError(Exception):
    """A worker is gone, with all that it held."""


class _Held:
    """Partitions that one worker holds.

    Parameters
    ----------
    numbers : list of int
        Which they are.
    future : Future
        Of an actor that runs a `Holder`.
    """

    def __init__(self, numbers: list[int], future: Any) -> None:
        self.numbers, self.future = numbers, future
        self._actor: Any = None

    def ask(self, method: str, arguments: tuple[Any, ...]) -> Callable[[], Any]:
        """Start a call, and return a function that waits for its result."""
        try:
            if self._actor is None:
                self._actor = self.future.result()
            answer = self._actor.run(method, *arguments)
        except Exception as problem:
            return partial(_raise_lost, problem)
        return partial(self._result, answer)

    def settle(self) -> None:
        """Wait until the scheduler knows of the loss, so that it does not count on the worker."""
        end = time.monotonic() + _LOOK
        while self.future.status == "finished" and time.monotonic() < end:
            time.sleep(0.01)

    def _result(self, answer: Any) -> Any:
        while True:
            try:
                error, result = answer.result(timeout=_LOOK)
                break
            except TimeoutError as problem:
                # An answer may never come where a whole machine is gone.
                if self.future.status != "finished":
                    raise _LostError("no answer") from problem
            except Exception as problem:
                raise _LostError(str(problem)) from problem
        if error is not None:
            raise error
        return result


Arguments: TypeAlias = Callable[[_Held], tuple[Any, ...]]  # of a call, by holder


def _same(*arguments: Any) -> Arguments:
    return lambda _: arguments


def _raise_lost(problem: Exception) -> NoReturn:
    raise _LostError(str(problem)) from problem


@dataclass(frozen=True)
class _Set:
    """A set of parts that was made of another one."""

    log: Log
    origin: tuple[int, str, tuple[Any, ...]] | None  # the set, method and arguments
    team: "weakref.ref[DaskTeam]"


class Crew:
    """The workers that hold the partitions of a data set, from `look` until `release`.

    Parameters
    ----------
    client : Client
    partitions : sequence of futures
        Of a `Batch` each.
    """

    def __init__(self, client: Client, partitions: Sequence[Any]) -> None:
        self.client, self._partitions = client, list(partitions)
        self._parts: dict[int, Any] | None = None  # what parts are made of, by partition
        self._about: dict[str, Any] = {}
        self._sets: dict[int, _Set] = {}
        self._numbers = itertools.count(1)
        self._deaths: dict[int, int] = {}  # of workers, one pass after the other, by partition
        self._held: list[_Held] = []
        self._actors: list[Any] = []  # futures of all that were ever asked for

    def look(self, names: list[str] | None) -> list[Any]:
        """Let workers hold the partitions, and tell what must be known of each.

        `names` are those of the features, for messages.
        """
        with self._connected():
            self._held = self._hold(range(len(self._partitions)))
            threads = threads_per_worker(self.client)
        found = dict(itertools.chain(*self._ask("look", _same(threads, names))))
        return [found[number] for number in range(len(self._partitions))]

    def release(self) -> None:
        """Let the workers drop all rows.

        They are cancelled: to forget them here is not enough, as Dask's actors are parts of
        reference cycles, and an error that the client knows refers to all that was in use.
        """
        self._cancel(self._actors)  # first: they depend on the partitions
        self._cancel(self._partitions)

    def build(self, parts: dict[int, Any], about: dict[str, Any]) -> "DaskTeam":
        """Make parts of all partitions; those that are left out are of no more use."""
        self._ask("build", lambda held: (_some(parts, held.numbers), about))
        self._parts, self._about = parts, about
        return self._team(0, None, None)

    def each(self, source: int, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Do a pass over all parts of a set."""
        found = self._ask("call", _same(source, method, arguments))
        merged = [result for number, result in itertools.chain(*found) if number is None]
        by_part = [pair for pair in itertools.chain(*found) if pair[0] is not None]
        results = merged + [result for _, result in sorted(by_part, key=lambda pair: pair[0])]
        self._sets[source].log.add(method, arguments)
        return results

    def derive(self, team: "DaskTeam", method: str, arguments: tuple[Any, ...]) -> "DaskTeam":
        """Make another set of parts, and drop those that no one uses any more."""
        source = team.source
        target = next(self._numbers)
        unused = tuple(n for n, one in self._sets.items() if n and one.team() is None)
        for number in unused:
            del self._sets[number]
        self._ask("derive", _same(source, target, method, arguments, unused))
        return self._team(target, (source, method, arguments), team)

    def _team(self, number: int, origin: Any, parent: "DaskTeam | None") -> "DaskTeam":
        team = DaskTeam(self, number, parent)
        self._sets[number] = _Set(Log(), origin, weakref.ref(team))
        return team

    def _ask(self, method: str, arguments: Arguments) -> list[Any]:
        """Call a method of every holder, and once more where workers had to be replaced."""
        results, died, todo = [], set(), self._held
        with self._connected():
            while todo:
                lost = []
                for held, answer in [(held, held.ask(method, arguments(held))) for held in todo]:
                    try:
                        results.append(answer())
                    except _LostError as problem:
                        self._note_loss(held, problem)
                        died.update(held.numbers)
                        lost.append(held)
                todo = self._replaced(lost)
        self._deaths = {n: count for n, count in self._deaths.items() if n in died}
        return results

    def _cancel(self, futures: list[Any]) -> None:
        with suppress(Exception):  # a cluster that cannot be reached holds nothing for us
            self.client.cancel([one for one in futures if one.status != "cancelled"])

    def _note_loss(self, held: _Held, problem: _LostError) -> None:
        held.settle()
        self._check_connection(problem)
        _logger.warning("A worker was lost (%s); its rows are read again.", problem)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Say so in one sentence where calls fail because the client or the data are gone."""
        try:
            yield
        except ClusterError:
            raise
        except Exception as problem:
            self._check_connection(problem)
            raise

    def _check_connection(self, problem: Exception) -> None:
        """Raise an error if the client or the partitions are gone for good."""
        if self.client.status != "running":
            raise ClusterError(
                "The Dask client was closed, or lost its scheduler, while the fit was running (its "
                f"status is {self.client.status!r}): connect a client and fit again."
            ) from problem
        if any(future.status == "cancelled" for future in self._partitions):
            raise ClusterError(
                "The Dask cluster dropped the rows while the fit was running: it was restarted, or "
                "lost data that it cannot compute again; load the data and fit again."
            ) from problem

    def _replaced(self, lost: list[_Held]) -> list[_Held]:
        """Let other workers take over partitions, and bring them to the state that they had."""
        ready: list[_Held] = []
        while lost:
            self._count_deaths(lost)
            self._cancel([held.future for held in lost])  # a worker may only be out of reach
            self._held = [held for held in self._held if held not in lost]
            restored = self._hold(sorted(n for held in lost for n in held.numbers))
            self._held += restored
            lost = []
            for method, arguments in self._steps():
                for held, answer in [
                    (held, held.ask(method, arguments(held))) for held in restored
                ]:
                    try:
                        answer()
                    except _LostError as problem:
                        self._note_loss(held, problem)
                        lost.append(held)
                restored = [held for held in restored if held not in lost]
            ready += restored
        return ready

    def _steps(self) -> Iterator[tuple[str, Arguments]]:
        """List the calls that bring holders to the state that all are in."""
        parts = self._parts
        if parts is None:
            return
        yield "build", lambda held: (_some(parts, held.numbers), self._about)
        for number, one in self._sets.items():
            if one.origin is not None:
                source, method, arguments = one.origin
                yield "derive", _same(source, number, method, arguments)
            for method, arguments in one.log.calls():
                yield "call", _same(number, method, arguments)

    def _count_deaths(self, lost: list[_Held]) -> None:
        numbers = sorted(n for held in lost for n in held.numbers)
        for number in numbers:
            self._deaths[number] = self._deaths.get(number, 0) + 1
        often = max(self._deaths[number] for number in numbers)
        if often > _TRIES:
            raise ClusterError(
                f"Workers died {often} times in a row over the partitions {numbers}: they may "
                "need more memory, or smaller partitions."
            )

    def _hold(self, numbers: Iterable[int]) -> list[_Held]:
        """Find out which worker has which partition, and let each hold its own."""
        futures = {number: self._partitions[number] for number in numbers}
        self._wait(list(futures.values()))
        for number, future in futures.items():
            if future.status == "error":
                _raise_unreadable(number, future.exception())
        where = self.client.who_has(list(futures.values()))
        by_worker: dict[str, list[int]] = {}
        for number, future in futures.items():
            workers = where.get(future.key) or ()
            by_worker.setdefault(min(workers, default=""), []).append(number)
        held = []
        for worker, mine in sorted(by_worker.items()):
            actor = self.client.submit(
                Holder,
                mine,
                [self._partitions[number] for number in mine],
                actor=True,
                pure=False,
                workers=[worker] if worker else None,
                allow_other_workers=bool(worker),
            )
            self._actors.append(actor)  # now: waiting for it may fail, or be interrupted
            held.append(_Held(mine, actor))
        self._wait([one.future for one in held])
        return held

    def _wait(self, futures: list[Any]) -> None:
        """Wait for futures, but not for ever where there is no one to compute them."""
        last = time.monotonic()
        while True:
            try:
                wait(futures, timeout=min(_LOOK, _PATIENCE))
                return
            except TimeoutError as problem:
                now = time.monotonic()
                if self.client.nthreads():
                    last = now
                elif now - last > _PATIENCE:
                    raise ClusterError(
                        f"The cluster has had no workers for {_PATIENCE:g} seconds: start some."
                    ) from problem


class DaskTeam:
    """A set of parts on the workers of a crew.

    Parameters
    ----------
    crew : Crew
    source : int
        Number of the set.
    parent : DaskTeam or None
        The team that it was made of, which is needed to make it again.
    """

    def __init__(self, crew: Crew, source: int, parent: "DaskTeam | None") -> None:
        self._crew, self.source, self._parent = crew, source, parent

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every part; results come by worker or, where it matters, by part."""
        return self._crew.each(self.source, method, arguments)

    def derive(self, method: str, *arguments: Any) -> "DaskTeam":
        """Make a team of the parts that a method of every part returns."""
        return self._crew.derive(self, method, arguments)


def threads_per_worker(client: Client) -> int:
    """Tell how many threads each worker has, at least."""
    return int(min(client.nthreads().values(), default=1))


def _some(parts: dict[int, Any], numbers: list[int]) -> dict[int, Any]:
    return {number: parts[number] for number in numbers if number in parts}


def _raise_unreadable(number: int, problem: Exception) -> NoReturn:
    if isinstance(problem, KilledWorker):
        raise ClusterError(
            f"Workers keep dying while they read partition {number}: they may need more memory, or "
            "smaller partitions."
        ) from problem
    raise_unreadable(number, problem)
