"""Prepare rows on the workers of a Dask cluster for a fit."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client, get_client

from dkmeans.data import validation
from dkmeans.data.blocks import Batch, SourceError
from dkmeans.data.dask_collections import DaskBlocks
from dkmeans.data.first_pass import BlockSummary, FirstPass
from dkmeans.data.value_checks import check_weights, finite_range
from dkmeans.geometry import Geometry, reading_geometry
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.kernels.tally import TotalsGrid
from dkmeans.runners.dask import Crew, DaskRunner, threads_per_worker
from dkmeans.runners.dask_worker import BuildParts, PartPlan
from dkmeans.runners.partitions import Partitions
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

    def __call__(self, batch: Batch) -> tuple[PartitionSummary, npt.NDArray[np.integer]]:
        """Check the values, and return the summary and the entry of each row."""
        X, error, largest = batch.X, "", 0.0
        try:
            largest = finite_range(X, self.names, self.n_threads) if X.shape[0] else 0.0
            if batch.weight is not None:
                check_weights(batch.weight, X.shape[0])
        except ValueError as problem:
            error = str(problem)
            batch = replace(batch, weight=None)  # there may be too few weights
        seen, entries = BlockSummary.of(batch, X, largest).distinct()
        return PartitionSummary(seen, X.dtype, error), entries


@dataclass(frozen=True)
class ClusterStream:
    """Partitions on their workers, after the first pass."""

    training: validation.Training
    crew: Crew
    numbers: list[int]  # indices of the non-empty partitions
    sizes: list[int]  # their numbers of rows
    n_entries: list[int]  # their numbers of different labels and weights
    inspect: SummarizePartition
    geometry: Geometry
    n_threads: int | None

    def runner(
        self, weights: Floats | None, *, n_classes: int, n_threads: int, memory_mb: float | None
    ) -> DaskRunner:
        """Build parts from the partitions; passes use the threads of the workers."""
        y, given = self.training.y, self.training.sample_weight
        plans = {
            number: PartPlan(
                rows.start,
                y[cut].astype(np.int32),
                None if weights is None else weights[cut],
                None if given is None else given[cut],
            )
            for number, rows, cut in zip(
                self.numbers, cuts(self.sizes), cuts(self.n_entries), strict=True
            )
        }
        return self.crew.build(
            BuildParts(
                plans,
                PrepareRows(self.training.dtype, self.geometry),
                self.inspect,
                n_classes=n_classes,
                n_threads=self.n_threads,
                memory_mb=memory_mb,
            )
        )

    def sum_cells(self, n_cells: int) -> Floats:
        """Sum the weights of the rows of each cell, in the user's terms."""
        weights = self.training.sample_weight
        grid = None if weights is None else TotalsGrid.of(weights, self.training.n_rows)
        return self.crew.sample_weights(grid, n_cells)


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
    crew = Crew(client, Partitions.of(client, blocks))
    ending.callback(crew.release)
    look = FirstPass(estimator, blocks.names, how)
    numbers, n_entries = [], []
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
        n_entries.append(len(seen.codes))
    training = look.training(reach, classes)
    geometry = reading_geometry(estimator.metric)
    inspect = SummarizePartition(names, threads_per_worker(client))
    about = numbers, look.sizes, n_entries, inspect
    return ClusterStream(training, crew, *about, geometry, estimator.n_threads)
