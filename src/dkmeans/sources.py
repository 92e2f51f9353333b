"""From checked arrays to the rows that the engine works on."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dkmeans.checkpoint.journal import Journal, JournalTeam
from dkmeans.checks import WIDEST
from dkmeans.engine.items import agree_on_labels
from dkmeans.engine.margin_part import Part
from dkmeans.engine.memory import Memory
from dkmeans.engine.rows import Rows
from dkmeans.engine.team import LocalTeam, Team
from dkmeans.engine.threads import default_threads
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import leading_bits
from dkmeans.validate import Training

_BITS = 40  # weights that are whole to this many significant bits count as whole
_DIVISORS = 64  # how far the search for a common step goes
_CLASS_DIVISORS = 4096  # the same for the weights of classes
_DISTINCT = 100_000  # weights that it looks at
_SOME = 50  # of them, which it looks at first


@dataclass(frozen=True)
class Source:
    """Rows for the engine, and what is needed to speak of them in the user's terms."""

    rows: Rows
    conflicts: list[Indices]
    weight_unit: float  # a weight of 1 in the engine, in the user's terms
    journal: Journal | None = None


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
    journal: Callable[[str], Journal] | None = None,
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
    journal : callable, optional
        Opens the journal of a fit that may be taken up again, for data of some fingerprint.
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
    if journal is None or kept is None:
        return Source(rows, conflicts, unit)
    opened = journal(_fingerprint(rows))
    kept.start(opened)
    return Source(rows, conflicts, unit, opened)


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
        if _is_whole(given):
            return given, 1.0
    weights, step = np.ones(len(training.y)), 1.0
    if given is not None:
        weights, step = (given, 1.0) if _is_whole(given) else _multiples(given, _DIVISORS)
    if training.class_weight is not None:
        factors, class_step = _multiples(training.class_weight, _CLASS_DIVISORS)
        # With few digits, so that a whole weight times a factor is the factor so many times.
        weights, step = weights * leading_bits(factors, _BITS)[training.y], step * class_step
        weights = _clamped(weights)
    if unit is not None:
        weights, step = _rounded(weights * (step / unit)), unit
    return (None if (weights == 1).all() else weights), step


def _is_whole(weights: Floats) -> bool:
    return bool((weights == np.rint(weights)).all() and weights.max() < 2.0**_BITS)


def _multiples(weights: Floats, n_divisors: int) -> tuple[Floats, float]:
    """Express weights as multiples of a step, whole ones if there is such a step."""
    weights = _clamped(weights)
    step = _common_step(weights, float(weights[weights > 0].min()), n_divisors)
    return _rounded(weights / step), step


def _clamped(weights: Floats) -> Floats:
    """Make weights that are lighter than can be told from none as light as can be."""
    return np.where(weights > 0, np.maximum(weights, weights.max() / WIDEST), 0.0)


def _rounded(weights: Floats) -> Floats:
    """Make weights that are whole but for rounding whole."""
    return np.rint(weights) if _are_whole(weights).all() else weights


def _common_step(weights: Floats, lightest: float, n_divisors: int) -> float:
    """Find a step of which all weights are whole multiples, or else a power of two."""
    distinct = np.unique(weights)[:_DISTINCT] / lightest
    divisors = np.arange(1, n_divisors + 1)
    # A look at some of the weights leaves few divisors, if any.
    for divisor in divisors[_are_whole(distinct[:_SOME, None] * divisors).all(axis=0)]:
        if _are_whole(distinct * divisor).all():
            return float(lightest / divisor)
    return float(np.ldexp(1.0, np.frexp(lightest)[1] - 1))


def _are_whole(values: Floats) -> npt.NDArray[np.bool_]:
    return np.abs(values - np.rint(values)) <= values * 2.0**-_BITS
