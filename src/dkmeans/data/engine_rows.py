"""From checked arrays to the rows that the engine works on."""

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dkmeans.checkpoint.journal import Journal, JournalTeam
from dkmeans.data.validation import Training
from dkmeans.data.value_checks import WIDEST
from dkmeans.engine.items import agree_on_labels
from dkmeans.engine.margin_part import Part
from dkmeans.engine.memory import Memory
from dkmeans.engine.rows import Rows
from dkmeans.engine.team import LocalTeam, Team
from dkmeans.engine.threads import default_threads
from dkmeans.kernels.block import Floats, Indices

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
    found = _in_units(training, unit)
    weights = found.values
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
        by_class=found.by_class,
    )
    conflicts = agree_on_labels(team, training.y, weights)
    if journal is not None and kept is not None:
        journal.expect("data", _fingerprint(rows))
        kept.start(journal)
    return Source(rows, conflicts, found.unit)


def _fingerprint(rows: Rows) -> str:
    """Tell data from other data: rows in their order, with classes and weights."""
    _, y, weights = rows.labelled()
    digest = hashlib.sha256(rows.hashes().tobytes())
    digest.update(y.astype(np.int64).tobytes())
    digest.update(b"" if weights is None else weights.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Weights:
    """Weights as the engine has them."""

    values: Floats | None  # None stands for ones
    unit: float  # a weight of 1, in the user's terms
    by_class: Floats | None = None  # factors that the weights have in them, if any


def _in_units(training: Training, unit: float | None) -> _Weights:
    """Express weights as multiples of a unit: the one given, or one that makes them whole numbers.

    Whole weights then are the rows so many times, to the last bit, and multiplying all weights by
    a constant changes nothing, as rounding takes away what the multiplication's own added. Where
    no unit makes all weights whole, a power of two near the lightest does no harm.
    """
    given = training.sample_weight
    if training.class_weight is None and unit in (None, 1.0):
        if given is None or (given == 1).all():
            return _Weights(None, 1.0)
        if (given == np.rint(given)).all() and given.max() < 2.0**_BITS:
            return _Weights(given, 1.0)
    sample = np.ones(len(training.y)) if given is None else given
    if unit is not None:
        return _in_given_units(sample, training, unit)
    sample, sample_unit, _ = _in_steps(sample, sample > 0)
    present = np.zeros(len(training.classes), dtype=bool)
    present[training.y[sample > 0]] = training.factors[training.y[sample > 0]] > 0
    by_class, class_unit, whole = _in_steps(training.factors, present)
    weights = _bounded(sample * by_class[training.y])
    values = None if (weights == 1).all() else weights
    return _Weights(values, sample_unit * class_unit, None if whole else by_class)


def _in_given_units(sample: Floats, training: Training, unit: float) -> _Weights:
    """Go on with the unit of an earlier fit."""
    (sample, factor), (by_class, class_factor) = _near_one(sample), _near_one(training.factors)
    by_class = by_class / (unit / (factor * class_factor))
    weights = _bounded(sample * by_class[training.y])
    whole = _as_whole(weights)
    if whole is not None:
        return _Weights(None if (whole == 1).all() else whole, unit)
    return _Weights(weights, unit, None if training.class_weight is None else by_class)


def _in_steps(values: Floats, which: npt.NDArray[np.bool_]) -> tuple[Floats, float, bool]:
    """Express positive numbers as whole multiples of a unit if those that count can be.

    Returns
    -------
    multiples : array
    unit : float
        A power of two if they cannot.
    whole : bool
    """
    values, factor = _near_one(values)
    values = _bounded(values)
    lightest = float(values[which].min())
    distinct = np.unique(values[which])[:_DISTINCT] / lightest
    for divisor in range(1, _DIVISORS + 1):
        if _as_whole(distinct * divisor) is not None:
            step = lightest / divisor
            multiples = _as_whole(np.where(which, values / step, 0.0))
            if multiples is not None:
                return multiples, step * factor, True
    step = float(np.ldexp(1.0, np.frexp(lightest)[1] - 1))
    return values / step, step * factor, False


def _near_one(values: Floats) -> tuple[Floats, float]:
    """Take a power of two out of numbers, so that products of the largest do not overflow."""
    factor = float(np.ldexp(1.0, int(np.frexp(values.max())[1]) - 1))
    return values / factor, factor


def _bounded(weights: Floats) -> Floats:
    """Make weights that are too light heavier, zeros aside."""
    return np.where(weights > 0, np.maximum(weights, weights.max() / WIDEST), 0.0)


def _as_whole(weights: Floats) -> Floats | None:
    """Take away rounding from whole weights; None if any is not whole."""
    whole = np.rint(weights)
    return whole if (np.abs(weights - whole) <= weights * 2.0**-_BITS).all() else None
