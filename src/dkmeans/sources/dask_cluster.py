"""Prepare rows on the workers of a Dask cluster for a fit."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client, get_client

from dkmeans.data import validation
from dkmeans.data.blocks import Batch, SourceError
from dkmeans.data.dask_collections import DaskBlocks
from dkmeans.data.first_pass import BlockSummary, FirstPass
from dkmeans.data.value_checks import finite_range
from dkmeans.geometry import Geometry, reading_geometry
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.runners.dask import Crew, DaskRunner, threads_per_worker
from dkmeans.runners.dask_worker import BuildParts, PartPlan
from dkmeans.sources.out_of_core import cuts


@dataclass(frozen=True)
class PrepareRows:
    """Converts a partition to rows of the common dtype, in the space of a geometry."""

    dtype: np.dtype[np.floating]
    geometry: Geometry

    def __call__(self, batch: Batch) -> Matrix:
        """Return the rows."""
        return self.geometry.rows(batch.X.astype(self.dtype, copy=False))


@dataclass(frozen=True)
class PartitionSummary:
    """Result of the first pass over a partition."""

    seen: BlockSummary
    dtype: np.dtype[np.generic]
    error: str  # message if values are invalid, else empty


@dataclass(frozen=True)
class SummarizePartition:
    """Checks and summarises a partition on its worker.

    Parameters
    ----------
    names : array or None
        Feature names, for messages.
    n_threads : int
    """

    names: npt.NDArray[np.object_] | None
    n_threads: int

    def __call__(self, batch: Batch) -> PartitionSummary:
        """Check the values, and return the summary."""
        X, error, largest = batch.X, "", 0.0
        try:
            largest = finite_range(X, self.names, self.n_threads) if X.shape[0] else 0.0
        except ValueError as problem:
            error = str(problem)
        return PartitionSummary(BlockSummary.of(batch, X, largest), X.dtype, error)


@dataclass(frozen=True)
class ClusterStream:
    """Partitions on their workers, after the first pass."""

    training: validation.Training
    crew: Crew
    numbers: list[int]  # indices of the non-empty partitions
    sizes: list[int]  # their numbers of rows
    geometry: Geometry
    n_threads: int | None

    def runner(
        self, weights: Floats | None, *, n_classes: int, n_threads: int, memory_mb: float | None
    ) -> DaskRunner:
        """Build parts from the partitions; passes use the threads of the workers."""
        y = self.training.y
        plans = {
            number: PartPlan(
                cut.start, y[cut].astype(np.int32), None if weights is None else weights[cut]
            )
            for number, cut in zip(self.numbers, cuts(self.sizes), strict=True)
        }
        return self.crew.build(
            BuildParts(
                plans,
                PrepareRows(self.training.dtype, self.geometry),
                n_classes=n_classes,
                n_threads=self.n_threads or threads_per_worker(self.crew.client),
                memory_mb=memory_mb,
            )
        )


def active_client() -> Client | None:
    """Return the active Dask client, if any."""
    try:
        return get_client()
    except ValueError:
        return None


def scan_partitions(
    estimator: Any,
    client: Client,
    blocks: DaskBlocks,
    ending: ExitStack,
    *,
    reach: float,
    how: Continuation,
    classes: Any = None,
) -> ClusterStream:
    """Check the partitions on their workers, and collect labels and weights.

    The workers drop the rows when `ending` is closed. Further parameters are those of
    `validation.check_training`.
    """
    crew = Crew(client, client.compute(blocks.batches))
    ending.callback(crew.release)
    look = FirstPass(estimator, blocks.names, how)
    numbers = []
    names = None if blocks.names is None else np.array(blocks.names, dtype=object)
    found = crew.inspect(partial(SummarizePartition, names))
    for number, one in enumerate(found):
        seen = one.seen
        if one.error:
            raise SourceError(f"In {seen.where}: {one.error}")
        if not seen.shape[0]:
            continue
        if not look.sizes:
            look.begin(seen.shape, seen.sparse)
        look.check_alike(seen.where, seen.shape, one.dtype, seen.sparse)
        look.note(seen)
        numbers.append(number)
    training = look.training(reach, classes)
    geometry = reading_geometry(estimator.metric)
    return ClusterStream(training, crew, numbers, look.sizes, geometry, estimator.n_threads)
