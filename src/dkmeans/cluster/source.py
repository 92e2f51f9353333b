"""Rows on the workers of a Dask cluster, made ready for a fit."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from distributed import Client, get_client

from dkmeans.cluster.team import Crew, DaskTeam, threads_per_worker
from dkmeans.data import validation
from dkmeans.data.blocks import SourceError
from dkmeans.data.dask_collections import DaskBlocks
from dkmeans.data.first_pass import FirstPass
from dkmeans.data.out_of_core import cuts
from dkmeans.kernels.block import Floats


@dataclass(frozen=True)
class ClusterStream:
    """Partitions that have been looked at once, where they are."""

    training: validation.Training
    crew: Crew
    numbers: list[int]  # of the partitions that are not empty
    sizes: list[int]  # rows of each of them
    unit: bool  # whether rows are made to be of length one
    n_threads: int | None

    def team(self, weights: Floats | None, about: dict[str, Any]) -> DaskTeam:
        """Make parts of the partitions."""
        threads = self.n_threads or threads_per_worker(self.crew.client)
        about = about | {"dtype": self.training.dtype, "unit": self.unit, "n_threads": threads}
        parts = {}
        for number, cut in zip(self.numbers, cuts(self.sizes), strict=True):
            mine = None if weights is None else weights[cut]
            parts[number] = cut.start, self.training.y[cut], mine
        return self.crew.build(parts, about)


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
    afresh: bool,
    classes: Any = None,
) -> ClusterStream:
    """Let workers look at their partitions, and keep what is small: labels and weights.

    The workers drop the rows when `ending` is closed. Further parameters are those of
    `validation.check_training`.
    """
    crew = Crew(client, client.compute(blocks.batches))
    ending.callback(crew.release)
    look = FirstPass(estimator, blocks.names, afresh)
    numbers = []
    for number, (seen, dtype, error) in enumerate(crew.look(blocks.names)):
        if error:
            raise SourceError(f"In {seen.where}: {error}")
        if not seen.shape[0]:
            continue
        if not look.sizes:
            look.begin(seen.shape, seen.sparse)
        look.check_alike(seen.where, seen.shape, dtype, seen.sparse)
        look.note(seen)
        numbers.append(number)
    training = look.training(reach, classes)
    unit = estimator.metric == "cosine"
    return ClusterStream(training, crew, numbers, look.sizes, unit, estimator.n_threads)
