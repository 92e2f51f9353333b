"""Code that runs on a Dask worker: the parts it holds, and requests about them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Batch
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.passes.contract import AnyPass, Derivation, Pass
from dkmeans.passes.part import Part, Setting
from dkmeans.runners.local import LocalRunner
from dkmeans.runners.merging import merge_all

R = TypeVar("R")
PEER_TIMEOUT_S = 60.0  # to fetch a result that another worker has
FIRST_SET = 0  # number of the set of parts built from the partitions


@dataclass
class Holdings:
    """Partitions and parts that one worker holds."""

    batches: dict[int, Batch]  # by index of the partition, until parts are built
    sets: dict[int, LocalRunner] = field(default_factory=dict)  # of parts
    results: dict[int, list[Any]] = field(default_factory=dict)  # of the last pass, by its call


class Request(ABC, Generic[R]):
    """A request to a worker about its holdings."""

    @abstractmethod
    def execute(self, holdings: Holdings) -> R:
        """Execute the request, and return the result."""


@dataclass(frozen=True)
class Answer(Generic[R]):
    """Answer to a request: the result, or an error raised by the computation."""

    error: Exception | None
    results: list[R]  # one result, unless there was an error


class Holder:
    """The actor on a worker.

    Parameters
    ----------
    numbers : list of int
        Of the partitions that it holds.
    batches : list of Batch
        The partitions.
    """

    def __init__(self, numbers: list[int], batches: list[Batch]) -> None:
        self._holdings = Holdings(dict(zip(numbers, batches, strict=True)))

    def answer(self, request: Request[R]) -> Answer[R]:
        """Execute a request.

        Errors of the computation are returned; a raised error means that the worker failed.
        """
        try:
            return Answer(None, [request.execute(self._holdings)])
        except Exception as error:
            return Answer(error, [])


@dataclass(frozen=True)
class InspectPartitions(Request[dict[int, R]]):
    """Apply a function to every partition."""

    function: Callable[[Batch], R]

    def execute(self, holdings: Holdings) -> dict[int, R]:
        """Return results by number of the partition."""
        return {number: self.function(batch) for number, batch in holdings.batches.items()}


@dataclass(frozen=True)
class PartPlan:
    """Data of a part, besides the rows of its partition."""

    start: int
    classes: npt.NDArray[np.int32]
    weights: Floats | None


@dataclass(frozen=True)
class BuildParts(Request[None]):
    """Make parts of the partitions.

    Parameters
    ----------
    plans : dict
        By number of the partition; other partitions are dropped.
    prepare : callable
        Converts a partition to rows.
    n_classes, n_threads, memory_mb : of all parts
    """

    plans: dict[int, PartPlan]
    prepare: Callable[[Batch], Matrix]
    n_classes: int
    n_threads: int
    memory_mb: float | None

    def execute(self, holdings: Holdings) -> None:
        """Make the first set: one part, as every further one takes time in every pass."""
        parts = [
            Part.of(
                self.prepare(holdings.batches.pop(number)),
                plan.classes.astype(np.intp),
                plan.weights,
                n_classes=self.n_classes,
                start=plan.start,
                n_threads=self.n_threads,
                memory_mb=self.memory_mb,
            )
            for number, plan in sorted(self.plans.items())
        ]
        holdings.sets = {FIRST_SET: LocalRunner([Part.joined(parts)] if parts else [])}
        holdings.batches.clear()

    def limited_to(self, numbers: list[int]) -> "BuildParts":
        """Return the request for some partitions."""
        plans = {number: self.plans[number] for number in numbers if number in self.plans}
        return BuildParts(plans, self.prepare, self.n_classes, self.n_threads, self.memory_mb)


@dataclass(frozen=True)
class DeriveParts(Request[None]):
    """Make another set of parts, and drop unused sets."""

    source: int
    target: int
    derivation: Derivation
    unused: tuple[int, ...] = ()

    def execute(self, holdings: Holdings) -> None:
        """Make the set."""
        for number in self.unused:
            holdings.sets.pop(number, None)
        holdings.sets[self.target] = holdings.sets[self.source].derive(self.derivation)


@dataclass(frozen=True)
class ConfigureParts(Request[None]):
    """Set the setting of all parts of a set."""

    number: int
    setting: Setting

    def execute(self, holdings: Holdings) -> None:
        """Configure the parts."""
        holdings.sets[self.number].configure(self.setting)


@dataclass(frozen=True)
class RunPass(Request[list[R]]):
    """Run a pass over all parts of a set."""

    number: int
    task: Pass[R]

    def execute(self, holdings: Holdings) -> list[R]:
        """Return the merged result in a list, which is empty if there are no parts."""
        runner = holdings.sets[self.number]
        with single_threaded_blas:
            return [runner.run(self.task)] if runner.parts else []


class Peer(Protocol):
    """Protocol: the methods used of Dask's proxy of the `Holder` of another worker."""

    def answer(self, request: Request[R]) -> "Pending[R]":
        """Start a call."""


class Pending(Protocol[R]):
    """Protocol: the methods used of the futures that an actor returns."""

    def result(self, timeout: float) -> Answer[R]:
        """Wait for the answer."""


@dataclass(frozen=True)
class KeepResult(Request[None]):
    """Run a pass over all parts of a set, and keep the result for `TakeResult`."""

    number: int
    task: Pass[Any]
    call: int

    def execute(self, holdings: Holdings) -> None:
        """Keep the result instead of the one before."""
        holdings.results = {self.call: RunPass(self.number, self.task).execute(holdings)}


@dataclass(frozen=True)
class TakeResult(Request[list[R]]):
    """Return the result that `KeepResult` kept, or run the pass where it has not run."""

    number: int
    task: Pass[R]
    call: int

    def execute(self, holdings: Holdings) -> list[R]:
        """Return the merged result in a list, which is empty if there are no parts."""
        if self.call not in holdings.results:
            KeepResult(self.number, self.task, self.call).execute(holdings)
        return holdings.results[self.call]


@dataclass(frozen=True)
class MergePeers(Request[list[R] | None]):
    """Merge the results that this worker and some others have kept."""

    take: TakeResult[R]
    peers: list[Peer]

    def execute(self, holdings: Holdings) -> list[R] | None:
        """Return the merged result in a list; None if another worker does not answer."""
        try:
            pending = [peer.answer(self.take) for peer in self.peers]
            answers = [one.result(timeout=PEER_TIMEOUT_S) for one in pending]
        except Exception:  # lost, or about to be: the driver asks each of them
            return None
        if any(answer.error is not None for answer in answers):
            return None
        results = self.take.execute(holdings) + [r for one in answers for r in one.results[0]]
        return [merge_all(self.take.task, results)] if results else []


@dataclass(frozen=True)
class ReplayPasses(Request[None]):
    """Repeat the effects of passes on a set."""

    number: int
    tasks: Sequence[AnyPass]

    def execute(self, holdings: Holdings) -> None:
        """Replay the passes."""
        with single_threaded_blas:
            holdings.sets[self.number].replay(self.tasks)
