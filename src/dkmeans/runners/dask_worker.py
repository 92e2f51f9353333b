"""Code that runs on a Dask worker: the parts it holds, and requests about them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Batch
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.passes.contract import AnyPass, Derivation, Pass
from dkmeans.passes.part import Part, Setting
from dkmeans.runners.local import LocalRunner

R = TypeVar("R")
FIRST_SET = 0  # number of the set of parts built from the partitions


@dataclass
class Holdings:
    """Partitions and parts that one worker holds."""

    batches: dict[int, Batch]  # by index of the partition, until parts are built
    sets: dict[int, LocalRunner] = field(default_factory=dict)  # of parts


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


@dataclass(frozen=True)
class ReplayPasses(Request[None]):
    """Repeat the effects of passes on a set."""

    number: int
    tasks: Sequence[AnyPass]

    def execute(self, holdings: Holdings) -> None:
        """Replay the passes."""
        with single_threaded_blas:
            holdings.sets[self.number].replay(self.tasks)
