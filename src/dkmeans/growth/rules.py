"""The parameters of the algorithm, and what a fit starts from."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from dkmeans.geometry import Euclidean, Geometry
from dkmeans.kernels.block import Floats


class Continuation(Enum):
    """What a fit starts from, and which rows it sees."""

    FRESH = "fresh"  # one prototype at the mean of all rows
    FIRST_ROWS = "first rows"  # the same, but it sees the first rows only: others may come
    WARM = "warm"  # the prototypes of an earlier fit; it sees all rows
    NEW_ROWS = "new rows"  # the prototypes of an earlier fit; it sees new rows only
    REFINE = "refine"  # the prototypes of an earlier fit, which are refined only; it sees all rows

    @property
    def is_fresh(self) -> bool:
        """Whether there is no earlier fit."""
        return self in (Continuation.FRESH, Continuation.FIRST_ROWS)


@dataclass(frozen=True)
class FirstMetric:
    """How the learned metric that growth starts in is found (`growth.first_metric`)."""

    n_components: int | None  # largest rank
    or_euclidean: bool = False  # whether rows may be compared as they are instead,
    or_by_range: bool = True  # or with features divided by their range


@dataclass(frozen=True)
class Rules:
    """The parameters of the algorithm.

    `growth` and `refine` are names of the registry (`growth.registry`).
    """

    repulsion: float | Literal["size"]
    max_clusters: int | None
    max_iter: int
    min_weights: Floats | None = None  # by class: weight that a group needs for its own prototype
    prune: bool = False
    growth: str = "paper"
    refine: str | None = None
    geometry: Geometry = field(default_factory=Euclidean)
    continuation: Continuation = Continuation.FRESH
    first_metric: FirstMetric | None = None  # None: growth starts in the geometry
    metric_step: float = 1.0  # of the projection in refinement, relative to the usual; 0 keeps it
    metric_batches: int = 4  # in each pass of refinement, at least, to learn a projection
