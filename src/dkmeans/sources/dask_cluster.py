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
from dkmeans.data.dask_collections import DaskBlocks, room_for_tasks
from dkmeans.data.first_pass import BlockSummary, FirstPass
from dkmeans.data.row_sample import sample_of_part, stacked
from dkmeans.data.row_weights import WeightFacts, Weighting
from dkmeans.data.value_checks import check_weights, finite_range
from dkmeans.geometry import Geometry, reading_geometry
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.runners.dask import Crew, DaskRunner, threads_per_worker
from dkmeans.runners.dask_requests import BuildParts, PartPlan
from dkmeans.runners.partitions import Partitions
from dkmeans.sources.cluster_weights import ClusterWeights
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
    sample: Matrix | None  # a few of the rows


@dataclass(frozen=True)
class SummarizePartition:
    """Checks and summarises a partition on its worker.

    Parameters
    ----------
    names : array or None
        Feature names, for messages.
    share : float
        Of the sample of rows: that of this partition in a fit from scratch, else 0.
    n_threads : int
    """

    names: npt.NDArray[np.object_] | None
    share: float
    n_threads: int

    def __call__(self, batch: Batch) -> tuple[PartitionSummary, npt.NDArray[np.integer]]:
        """Check the values, and return the summary and the code of each row's label."""
        X, error, largest = batch.X, "", 0.0
        try:
            largest = finite_range(X, self.names, self.n_threads) if X.shape[0] else 0.0
            if batch.weight is not None:
                check_weights(batch.weight, X.shape[0])
        except ValueError as problem:
            error = str(problem)
            batch = replace(batch, weight=None)  # there may be too few weights
        seen, codes = BlockSummary.of(batch, X, largest).by_label()
        # The samples of all partitions together have a bounded size, as they travel.
        has_sample = self.share > 0 and X.shape[0] > 0 and not error
        sample = sample_of_part(X, self.share, batch.where) if has_sample else None
        return PartitionSummary(seen, X.dtype, error, sample), codes


@dataclass(frozen=True)
class ClusterStream:
    """Partitions on their workers, after the first pass."""

    training: validation.Training
    crew: Crew
    numbers: list[int]  # indices of the non-empty partitions
    sizes: list[int]  # their numbers of rows
    weights: ClusterWeights
    inspect: SummarizePartition
    geometry: Geometry
    n_threads: int | None

    def runner(
        self,
        weighting: Weighting | None,
        *,
        n_classes: int,
        n_threads: int,
        memory_mb: float | None,
    ) -> DaskRunner:
        """Build parts from the partitions; passes use the threads of the workers."""
        plans = {
            number: PartPlan(rows.start, self.weights.classes[number])
            for number, rows in zip(self.numbers, cuts(self.sizes), strict=True)
        }
        return self.crew.build(
            BuildParts(
                plans,
                PrepareRows(self.training.dtype, self.geometry),
                self.inspect,
                weighting,
                n_classes=n_classes,
                n_threads=self.n_threads,
                memory_mb=memory_mb,
            )
        )

    def sum_cells(self, n_cells: int) -> Floats:
        """Sum the weights of the rows of each cell, in the user's terms."""
        grid = self.weights.grid() if self.weights.are_given else None
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
    ending.enter_context(room_for_tasks())
    partitions = Partitions.of(client, blocks)
    crew = Crew(client, partitions)
    ending.callback(crew.release)
    look = FirstPass(estimator, blocks.names, how)
    numbers, facts, samples = [], [], []
    are_given = False
    names = None if blocks.names is None else np.array(blocks.names, dtype=object)
    share = 1 / len(partitions) if how.is_fresh else 0.0
    found = crew.inspect(partial(SummarizePartition, names, share))
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
        assert seen.facts is not None
        facts.append(seen.facts)
        if one.sample is not None:
            samples.append(one.sample)
        are_given = seen.weight is not None
    inspect = SummarizePartition(names, 0.0, threads_per_worker(client))

    def weights_of(y: npt.NDArray[np.int32], n_classes: int) -> ClusterWeights:
        every = [y[cut] for cut in cuts([len(one.counts) for one in facts])]
        by_number = dict(zip(numbers, every, strict=True))
        merged = WeightFacts.merged(facts, y, n_classes)
        return ClusterWeights(crew, inspect, by_number, merged, are_given)

    sample = stacked(samples) if samples else None
    training = look.training(reach, classes, weights_of, sample)
    geometry, n_threads = reading_geometry(estimator.metric), estimator.n_threads
    weights = training.elsewhere
    assert isinstance(weights, ClusterWeights)
    return ClusterStream(training, crew, numbers, look.sizes, weights, inspect, geometry, n_threads)
