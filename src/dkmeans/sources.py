"""From checked arrays to the rows that the engine works on."""

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dkmeans.checkpoint.journal import Journal, JournalTeam
from dkmeans.checks import WIDEST
from dkmeans.engine.items import agree_on_labels
from dkmeans.engine.margin_part import Part
from dkmeans.engine.memory import Memory
from dkmeans.engine.rows import Rows
from dkmeans.engine.team import LocalTeam, Team
from dkmeans.engine.threads import default_threads
from dkmeans.kernels.block import Floats, Indices
from dkmeans.validate import Training

_BITS = 40  # weights that are whole to this many significant bits count as whole
_DIVISORS = 64  # how far the search for a common step goes
_DISTINCT = 100_000  # weights that it looks at


@dataclass(frozen=True)
class Source:
    """Rows for the engine, and what is needed to speak of them in the user's terms."""

    rows: Rows
    conflicts: list[Indices]
    weight_unit: float  # a weight of 1 in the engine, in the user's terms


class Teams(Protocol):
    """Rows that are not in the memory of this process."""

    def team(self, weights: Floats | None, about: dict[str, Any]) -> Team:
        """Make parts of them, with weights and what is the same for all parts."""


def make_source(
    training: Training,
    stream: Teams | None,
    n_threads: int | None,
    memory_mb: float | None,
    unit: float | None = None,
    remembered: Memory | None = None,
    n_centers: int = 1,
    journal: Journal | None = None,
) -> Source:
    """Make rows ready for a fit.

    Parameters
    ----------
    training : Training
    stream : Teams or None
        Where the rows are, if they are not in the memory of this process.
    n_threads, memory_mb : as in the estimator
    unit : float, optional
        Weight unit of the fit that this one goes on from.
    remembered : Memory, optional
        What earlier rows left, to be added to these.
    n_centers : int
        How many centres the rows are going to be compared with, about.
    journal : Journal, optional
        Of a fit that may be taken up again.
    """
    weights, unit = _in_units(training, unit)
    about = {
        "n_classes": len(training.classes),
        "n_threads": n_threads or default_threads(),
        "memory_mb": memory_mb,
    }
    team: Team
    if stream is None:
        team = LocalTeam([Part(training.X, training.y, weights, **about)])
    else:
        team = stream.team(weights, about)
    kept = JournalTeam(team) if journal is not None else None
    team = team if kept is None else kept
    rows = Rows(
        team,
        training.dtype,
        training.n_values,
        len(training.classes),
        remembered=remembered,
        n_centers=n_centers,
    )
    conflicts = agree_on_labels(team, training.y, weights)
    if journal is not None and kept is not None:
        journal.expect("data", _fingerprint(rows))
        kept.start(journal)
    return Source(rows, conflicts, unit)


def _fingerprint(rows: Rows) -> str:
    """Tell data from other data: rows in their order, with classes and weights."""
    _, y, weights = rows.labelled()
    digest = hashlib.sha256(rows.hashes().tobytes())
    digest.update(y.astype(np.int64).tobytes())
    digest.update(b"" if weights is None else weights.tobytes())
    return digest.hexdigest()


def _in_units(training: Training, unit: float | None) -> tuple[Floats | None, float]:
    """Express weights as multiples of a unit: the one given, or one that makes them whole numbers.

    Whole weights then are the rows so many times, to the last bit, and multiplying all weights by
    a constant changes nothing, as rounding takes away what the multiplication's own added. Where
    no unit makes all weights whole, a power of two near the lightest does no harm.
    """
    given = training.sample_weight
    if training.class_weight is None and unit in (None, 1.0):
        if given is None or (given == 1).all():
            return None, 1.0
        if (given == np.rint(given)).all() and given.max() < 2.0**_BITS:
            return given, 1.0
    weights, factor = _products(training)
    positive = weights[weights > 0]
    lightest = max(float(positive.min()), float(positive.max()) / WIDEST)
    weights = np.where(weights > 0, np.maximum(weights, lightest), 0.0)
    step = _common_step(weights, lightest) if unit is None else unit / factor
    weights = weights / step
    whole = np.rint(weights)
    if (np.abs(weights - whole) <= weights * 2.0**-_BITS).all():
        weights = whole
    return (None if (weights == 1).all() else weights), step * factor


def _products(training: Training) -> tuple[Floats, float]:
    """Multiply sample and class weights, both with their largest taken out as a factor."""
    weights, factor = np.ones(len(training.y)), 1.0
    if training.sample_weight is not None:
        factor = float(training.sample_weight.max())
        weights = training.sample_weight / factor
    if training.class_weight is not None:
        largest = float(training.class_weight.max())
        weights = weights * (training.class_weight / largest)[training.y]
        factor *= largest
    return weights, factor


def _common_step(weights: Floats, lightest: float) -> float:
    """Find a step of which all weights are whole multiples, or else a power of two."""
    distinct = np.unique(weights)[:_DISTINCT] / lightest
    for divisor in range(1, _DIVISORS + 1):
        multiples = distinct * divisor
        if (np.abs(multiples - np.rint(multiples)) <= multiples * 2.0**-_BITS).all():
            return lightest / divisor
    return float(np.ldexp(1.0, np.frexp(lightest)[1] - 1))
