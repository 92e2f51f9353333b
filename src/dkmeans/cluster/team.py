"""A team on a Dask cluster: one call per worker and pass; a worker that is lost is replaced."""

import itertools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from distributed import Client, wait

from dkmeans.cluster.holder import Holder
from dkmeans.cluster.log import Log

_TRIES = 4  # at replacing workers without a pass that succeeds
_logger = logging.getLogger("dkmeans")


class ClusterError(RuntimeError):
    """Workers of the cluster keep dying."""


class _Held:
    """Partitions that one worker holds."""

    def __init__(self, numbers: list[int], actor: Any) -> None:
        self.numbers, self.actor = numbers, actor


class Crew:
    """The workers that hold the partitions of a data set.

    Parameters
    ----------
    client : Client
    partitions : sequence of futures
        Of a `Batch` each.
    """

    def __init__(self, client: Client, partitions: Sequence[Any]) -> None:
        self.client, self._partitions = client, list(partitions)
        self._parts: dict[int, Any] = {}  # what parts are made of, by partition
        self._about: dict[str, Any] = {}
        self._logs: dict[int, tuple[Log, Any]] = {}  # by set of parts, with where it is from
        self._held = self._hold(range(len(self._partitions)))

    def look(self) -> list[Any]:
        """Tell what must be known of each partition."""
        threads, found = 1, {}
        for future in [held.actor.look(threads) for held in self._held]:
            found.update(dict(future.result()))
        return [found[number] for number in range(len(self._partitions))]

    def build(self, parts: dict[int, Any], about: dict[str, Any]) -> "DaskTeam":
        """Make parts of all partitions."""
        self._parts, self._about = parts, about
        self._logs[0] = Log(), None
        for future in [self._build(held) for held in self._held]:
            future.result()
        return DaskTeam(self, 0)

    def each(self, source: int, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Do a pass over all parts of a set."""
        waiting = [(held, held.actor.call(source, method, arguments)) for held in self._held]
        merged: list[Any] = []
        by_part: list[list[tuple[int, Any]]] = []
        for tries in itertools.count():
            lost = []
            for held, future in waiting:
                try:
                    kind, result = future.result()
                except (OSError, ValueError) as problem:  # what Dask says of actors that are gone
                    lost.append(held)
                    _logger.warning("A worker was lost (%s); its rows are read again.", problem)
                    continue
                if kind == "error":
                    raise result
                (merged if kind == "merged" else by_part).append(result)
            if not lost:
                break
            if tries >= _TRIES:
                numbers = sorted(n for held in lost for n in held.numbers)
                raise ClusterError(
                    f"Workers died {tries + 1} times in a row over the partitions {numbers}: they "
                    "may need more memory, or smaller partitions."
                )
            replaced = self._replace(lost)
            waiting = [(held, held.actor.call(source, method, arguments)) for held in replaced]
        self._logs[source][0].add(method, arguments)
        ordered = sorted(itertools.chain(*by_part), key=lambda pair: pair[0])
        return merged + [result for _, result in ordered]

    def derive(self, source: int, method: str, arguments: tuple[Any, ...]) -> "DaskTeam":
        """Make another set of parts."""
        target = max(self._logs) + 1
        self._logs[target] = Log(), (source, method, arguments)
        futures = [held.actor.derive(source, target, method, arguments) for held in self._held]
        for future in futures:
            future.result()
        return DaskTeam(self, target)

    def _hold(self, numbers: Any) -> list[_Held]:
        """Find out which worker has which partition, and let each hold its own."""
        futures = [self._partitions[number] for number in numbers]
        wait(futures)
        for number, future in zip(numbers, futures, strict=True):
            if future.status == "error":
                problem = future.exception()
                raise type(problem)(f"Partition {number} cannot be read: {problem}") from problem
        where = self.client.who_has(futures)
        by_worker: dict[str, list[int]] = {}
        for number, future in zip(numbers, futures, strict=True):
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
                allow_other_workers=True,
            )
            held.append((mine, actor))
        return [_Held(mine, actor.result()) for mine, actor in held]

    def _build(self, held: _Held) -> Any:
        mine = {number: self._parts[number] for number in held.numbers}
        return held.actor.build(mine, self._about)

    def _replace(self, lost: list[_Held]) -> list[_Held]:
        """Let other workers take over partitions, and bring them to the state that they had."""
        self._held = [held for held in self._held if held not in lost]
        replaced = self._hold(sorted(n for held in lost for n in held.numbers))
        for held in replaced:
            try:
                self._build(held).result()
                for source, (log, origin) in self._logs.items():
                    if origin is not None:
                        parent, method, arguments = origin
                        held.actor.derive(parent, source, method, arguments).result()
                    for method, arguments in log.calls():
                        kind, result = held.actor.call(source, method, arguments).result()
                        if kind == "error":
                            raise result
            except (OSError, ValueError):  # lost again: the next call will see
                continue
        self._held += replaced
        return replaced


class DaskTeam:
    """A set of parts on the workers of a crew."""

    def __init__(self, crew: Crew, source: int) -> None:
        self._crew, self._source = crew, source

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every part; results come by worker or, where it matters, by part."""
        return self._crew.each(self._source, method, arguments)

    def derive(self, method: str, *arguments: Any) -> "DaskTeam":
        """Make a team of the parts that a method of every part returns."""
        return self._crew.derive(self._source, method, arguments)


def threads_per_worker(client: Client) -> int:
    """Tell how many threads each worker has, at least."""
    return int(np.min(list(client.nthreads().values())))
