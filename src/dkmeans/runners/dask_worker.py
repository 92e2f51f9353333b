"""What a Dask worker holds, and how it answers requests about that."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Batch
from dkmeans.data.dask_collections import raise_unreadable
from dkmeans.kernels.block import Floats
from dkmeans.runners.allocator import allocator
from dkmeans.runners.local import LocalRunner
from dkmeans.runners.packet import Packet

R = TypeVar("R")
ReadColumns: TypeAlias = Callable[..., Batch]  # given the number of a partition and its columns
Codes: TypeAlias = npt.NDArray[np.integer]
Inspect: TypeAlias = Callable[[Batch], tuple[Any, Codes]]


@dataclass
class Holdings:
    """Partitions and parts that one worker holds."""

    columns: dict[int, tuple[Any, ...]]  # by number of the partition, until they are read
    read: ReadColumns
    batches: dict[int, Batch] = field(default_factory=dict)  # until parts are built
    sets: dict[int, LocalRunner] = field(default_factory=dict)  # of parts
    kept: dict[int, list[Any]] = field(default_factory=dict)  # for other workers, by call
    sample_weights: Floats | None = None  # of the rows of the first set, in the user's terms
    codes: dict[int, Codes] = field(default_factory=dict)  # of labels among those of a partition

    def batch(self, number: int) -> Batch:
        """Return a partition; errors name it."""
        if number not in self.batches:
            try:
                self.batches[number] = self.read(number, *self.columns.pop(number))
            except Exception as problem:
                raise_unreadable(number, problem)
        return self.batches[number]

    def codes_of(self, number: int, inspect: Inspect) -> Codes:
        """Return the label of each row of a partition, as an index into those of the partition."""
        if number not in self.codes:  # a worker was lost
            _, self.codes[number] = inspect(self.batch(number))
        return self.codes[number]

    def drop(self) -> None:
        """Drop the partitions."""
        self.codes.clear()
        self.columns.clear()
        self.batches.clear()


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

    def __reduce__(self) -> tuple[Any, ...]:
        return Answer, (self.error, Packet(self.results))


class Holder:
    """The actor on a worker.

    Parameters
    ----------
    numbers : list of int
        Of the partitions that it holds.
    columns : list of tuples
        What `read` converts to a batch, for each partition.
    read : callable
    """

    def __init__(
        self, numbers: list[int], columns: list[tuple[Any, ...]], read: ReadColumns
    ) -> None:
        self._holdings = Holdings(dict(zip(numbers, columns, strict=True)), read)
        allocator.keep_memory_for(self)

    def answer(self, request: Request[R]) -> Answer[R]:
        """Execute a request.

        Errors of the computation are returned; a raised error means that the worker failed.
        """
        try:
            return Answer(None, [request.execute(self._holdings)])
        except Exception as error:
            return Answer(error, [])

    async def kept(self, call: int, at: int) -> list[Any]:
        """Return what a request kept for other workers, in a list; empty if it is not there.

        This runs beside `answer`: workers that wait for each other do not block each other.
        """
        return self._holdings.kept.get(call, [])[at : at + 1]


class Peer(Protocol):
    """Protocol: the methods used of Dask's proxy of the `Holder` of another worker."""

    def answer(self, request: Request[R]) -> "Pending[R]":
        """Start a call."""

    def kept(self, call: int, at: int) -> Any:
        """Start to fetch what was kept."""


class Pending(Protocol[R]):
    """Protocol: the methods used of the futures that an actor returns."""

    def result(self, timeout: float) -> Answer[R]:
        """Wait for the answer."""
