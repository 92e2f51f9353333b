"""Rows on the workers of a Dask cluster, made ready for a fit."""

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
from dkmeans.geometry import Geometry, geometry_of
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats, Matrix
from dkmeans.runners.dask import Crew, DaskRunner, threads_per_worker
from dkmeans.runners.dask_worker import BuildParts, PartPlan
from dkmeans.sources.out_of_core import cuts


@dataclass(frozen=True)
class PrepareRows:
    """Turns a partition into rows: of the type of all, in the space of a geometry."""

    dtype: np.dtype[np.floating]
    geometry: Geometry

    def __call__(self, batch: Batch) -> Matrix:
        """Return the rows."""
        return self.geometry.rows(batch.X.astype(self.dtype, copy=False))


@dataclass(frozen=True)
class SeenPartition:
    """What must be known of a partition before a part can be made of it."""

    seen: BlockSummary
    dtype: np.dtype[np.generic]
    error: str  # what is wrong with the values


@dataclass(frozen=True)
class LookAtPartition:
    """Looks at a partition where it is.

    Parameters
    ----------
    names : array or None
        Of the features, for messages.
    n_threads : int
    """

    names: npt.NDArray[np.object_] | None
    n_threads: int

    def __call__(self, batch: Batch) -> SeenPartition:
        """Check the values, and return what is small."""
        X, error, largest = batch.X, "", 0.0
        try:
            largest = finite_range(X, self.names, self.n_threads) if X.shape[0] else 0.0
        except ValueError as problem:
            error = str(problem)
        return SeenPartition(BlockSummary.of(batch, X, largest), X.dtype, error)


@dataclass(frozen=True)
class ClusterStream:
    """Partitions that have been looked at once, where they are."""

    training: validation.Training
    crew: Crew
    numbers: list[int]  # of the partitions that are not empty
    sizes: list[int]  # rows of each of them
    geometry: Geometry
    n_threads: int | None

    def runner(
        self, weights: Floats | None, *, n_classes: int, n_threads: int, memory_mb: float | None
    ) -> DaskRunner:
        """Make parts of the partitions; they use the threads of the workers."""
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
    """Return the client that is active, if any."""
    try:
        return get_client()
    except ValueError:
        return None


def look_at_partitions(
    estimator: Any,
    client: Client,
    blocks: DaskBlocks,
    ending: ExitStack,
    *,
    reach: float,
    how: Continuation,
    classes: Any = None,
) -> ClusterStream:
    """Let workers look at their partitions, and keep what is small: labels and weights.

    The workers drop the rows when `ending` is closed. Further parameters are those of
    `validation.check_training`.
    """
    crew = Crew(client, client.compute(blocks.batches))
    ending.callback(crew.release)
    look = FirstPass(estimator, blocks.names, how)
    numbers = []
    names = None if blocks.names is None else np.array(blocks.names, dtype=object)
    found = crew.inspect(partial(LookAtPartition, names))
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
    geometry = geometry_of(estimator.metric)
    return ClusterStream(training, crew, numbers, look.sizes, geometry, estimator.n_threads)
