"""Requests to Dask workers: make parts of what they hold, run passes, exchange results."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import iscoroutine
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Batch
from dkmeans.data.row_weights import Weighting
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.kernels.tally import TotalsGrid
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.passes.contract import AnyPass, Derivation, Exchange, HashedRows, Pass
from dkmeans.passes.part import Part, Setting
from dkmeans.runners.allocator import allocator
from dkmeans.runners.dask_worker import Codes, Holdings, Inspect, Peer, Request
from dkmeans.runners.local import LocalRunner
from dkmeans.runners.merging import merge_all, n_bytes
from dkmeans.runners.packet import Packet

R = TypeVar("R")
PEER_TIMEOUT_S = 60.0  # to fetch a result that another worker has
FIRST_SET = 0  # number of the set of parts built from the partitions


@dataclass(frozen=True)
class InspectPartitions(Request[dict[int, R]]):
    """Apply a function to every partition; it returns the code of each row's label, too."""

    function: Callable[[Batch], tuple[R, Codes]]

    def execute(self, holdings: Holdings) -> dict[int, R]:
        """Return results by number of the partition, and keep the codes."""
        found = {}
        for number in [*holdings.batches, *holdings.columns]:
            found[number], holdings.codes[number] = self.function(holdings.batch(number))
        return found


@dataclass(frozen=True)
class AskPartitions(Request[dict[int, R]]):
    """Apply a function to every partition, given its number and the codes of its rows, too."""

    function: Callable[[int, Batch, Codes], R]
    inspect: Inspect  # finds the codes where they are not known

    def execute(self, holdings: Holdings) -> dict[int, R]:
        """Return results by number of the partition."""
        return {
            number: self.function(
                number, holdings.batch(number), holdings.codes_of(number, self.inspect)
            )
            for number in [*holdings.batches, *holdings.columns]
        }


@dataclass(frozen=True)
class PartPlan:
    """What a part has besides its partition: its first row, and the class of each label."""

    start: int
    classes: npt.NDArray[np.int32]


@dataclass(frozen=True)
class BuildParts(Request[None]):
    """Make parts of the partitions.

    Parameters
    ----------
    plans : dict
        By number of the partition; other partitions are dropped.
    prepare : callable
        Converts a partition to rows.
    inspect : callable
        Finds the codes of the rows of a partition, where they are not known.
    weighting : Weighting or None
        None means that all weights are 1.
    n_classes, memory_mb : of all parts
    n_threads : int or None
        None means those of the worker.
    """

    plans: dict[int, PartPlan]
    prepare: Callable[[Batch], Matrix]
    inspect: Inspect
    weighting: Weighting | None
    n_classes: int
    n_threads: int | None
    memory_mb: float | None

    def execute(self, holdings: Holdings) -> None:
        """Make the first set: one part, as every further one takes time in every pass."""
        parts, sample_weights = [], []
        for number, plan in sorted(self.plans.items()):
            batch = holdings.batch(number)
            classes = plan.classes[holdings.codes_of(number, self.inspect)].astype(np.intp)
            weighting = self.weighting
            part = Part.of(
                self.prepare(batch),
                classes,
                None if weighting is None else weighting.of(batch.weight, classes),
                n_classes=self.n_classes,
                start=plan.start,
                n_threads=self.n_threads or 1,
                memory_mb=self.memory_mb,
            )
            parts.append(part)
            if batch.weight is not None:
                sample_weights.append(batch.weight)
        holdings.sample_weights = np.concatenate(sample_weights) if sample_weights else None
        holdings.sets = {FIRST_SET: LocalRunner([Part.joined(parts)] if parts else [])}
        holdings.drop()

    def on(self, numbers: list[int], n_threads: int) -> "BuildParts":
        """Return the request for the partitions of a worker with so many threads."""
        plans = {number: self.plans[number] for number in numbers if number in self.plans}
        return replace(self, plans=plans, n_threads=self.n_threads or n_threads)


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
class Shared(Request[R]):
    """A request to all workers, which is pickled once."""

    request: Request[R]

    def execute(self, holdings: Holdings) -> R:
        """Execute the request."""
        return self.request.execute(holdings)

    def __reduce__(self) -> tuple[Any, ...]:
        return Shared, (self._packet,)

    @cached_property
    def _packet(self) -> Packet:
        return Packet(self.request)


@dataclass(frozen=True)
class RunPass(Request[list[R]]):
    """Run a pass over all parts of a set."""

    number: int
    task: Pass[R]

    def execute(self, holdings: Holdings) -> list[R]:
        """Return the merged result in a list, which is empty if there are no parts."""
        runner = holdings.sets[self.number]
        with single_threaded_blas:
            found = [runner.run(self.task)] if runner.parts else []
        allocator.trim_after(n_bytes(found))
        return found


@dataclass(frozen=True)
class KeepResult(Request[None]):
    """Run a pass over all parts of a set, and keep the result for `TakeResult`."""

    number: int
    task: Pass[Any]
    call: int

    def execute(self, holdings: Holdings) -> None:
        """Keep the result instead of the one before."""
        holdings.kept = {self.call: [RunPass(self.number, self.task).execute(holdings)]}


@dataclass(frozen=True)
class TakeResult(Request[list[R]]):
    """Return the result that `KeepResult` kept, or run the pass where it has not run."""

    number: int
    task: Pass[R]
    call: int

    def execute(self, holdings: Holdings) -> list[R]:
        """Return the merged result in a list, which is empty if there are no parts."""
        if self.call not in holdings.kept:
            KeepResult(self.number, self.task, self.call).execute(holdings)
        found: list[R] = holdings.kept[self.call][0]
        return found


@dataclass(frozen=True)
class MergePeers(Request[list[R] | None]):
    """Merge the results that this worker and some others have kept."""

    take: TakeResult[R]
    peers: list[Peer]

    def execute(self, holdings: Holdings) -> list[R] | None:
        """Return the merged result in a list; None if another worker does not answer."""
        others = fetch(self.peers, self.take.call, 0)
        if others is None:  # the driver asks each of them
            return None
        results = self.take.execute(holdings) + list(chain(*others))
        return [merge_all(self.take.task, results)] if results else []


@dataclass(frozen=True)
class SplitRows(Request[None]):
    """Hash the rows of a set, and keep them by range of hashes for `SettleRange`."""

    number: int
    task: Exchange[Any]
    call: int
    n_ranges: int

    def execute(self, holdings: Holdings) -> None:
        """Keep a list of rows for each range."""
        runner = holdings.sets[self.number]
        pairs = zip(runner.parts, runner.states, strict=True)
        split = [self.task.split(*pair).by_range(self.n_ranges) for pair in pairs]
        ranges = range(self.n_ranges)
        holdings.kept = {self.call: [[one[at] for one in split] for at in ranges]}


@dataclass(frozen=True)
class SettleRange(Request[list[R] | None]):
    """Compare the rows in one range of hashes, which all workers have kept."""

    task: Exchange[R]
    call: int
    at: int
    peers: list[Peer]

    def execute(self, holdings: Holdings) -> list[R] | None:
        """Return the result in a list; empty without rows, None if a worker does not answer."""
        others = fetch(self.peers, self.call, self.at)
        if others is None:
            return None
        rows = [*chain(*holdings.kept[self.call][self.at : self.at + 1]), *chain(*others)]
        return [self.task.settle(HashedRows.joined(rows))] if rows else []


@dataclass(frozen=True)
class DropKept(Request[None]):
    """Drop what was kept for other workers."""

    def execute(self, holdings: Holdings) -> None:
        """Drop it."""
        holdings.kept = {}


@dataclass(frozen=True)
class SumSampleWeights(Request[Floats]):
    """Sum the weights of the rows of each cell in the user's terms, or count the rows."""

    grid: TotalsGrid | None  # None counts the rows
    n_cells: int

    def execute(self, holdings: Holdings) -> Floats:
        """Return slices of sums, or counts."""
        states = holdings.sets[FIRST_SET].states
        cells = np.concatenate([np.zeros(0, np.intp), *(state.cells.labels for state in states)])
        if self.grid is None:
            return np.bincount(cells, minlength=self.n_cells).astype(np.float64)
        assert holdings.sample_weights is not None or not len(cells)
        weights = np.zeros(0) if holdings.sample_weights is None else holdings.sample_weights
        return self.grid.slices(cells, weights, self.n_cells)


def fetch(peers: Sequence[Peer], call: int, at: int) -> list[Any] | None:
    """Return what other workers have kept; None if one of them does not answer or has nothing."""
    try:
        pending = [peer.kept(call, at) for peer in peers]
        found = [_value(one) for one in pending]
    except Exception:  # lost, or about to be
        return None
    return [one[0] for one in found] if all(found) else None


def _value(pending: Any) -> Any:
    """Wait for an answer; that of a holder on the same worker is a coroutine."""
    if iscoroutine(pending):
        return asyncio.run(pending)
    return pending.result(timeout=PEER_TIMEOUT_S)


@dataclass(frozen=True)
class ReplayPasses(Request[None]):
    """Repeat the effects of passes on a set."""

    number: int
    tasks: Sequence[AnyPass]

    def execute(self, holdings: Holdings) -> None:
        """Replay the passes."""
        with single_threaded_blas:
            holdings.sets[self.number].replay(self.tasks)
