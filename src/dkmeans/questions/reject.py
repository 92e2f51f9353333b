"""Rejection of rows that belong to none of the known classes.

Thresholds are those of split conformal prediction. If a new row and the held-out rows of its group
come from the same distribution, each of them is equally likely to have the j-th largest score, so
the new one is above the j-th largest of n with a probability of at most j / (n + 1).

That holds within each group if the groups are a symmetric function of all rows, the new one
included. So the group of a prototype is chosen as if one more row were counted there: the new one.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.data.value_checks import InvalidParameterError, is_real
from dkmeans.fitted import Predictor
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.questions import nearest_prototype
from dkmeans.questions.conformal import least_rows, rows_beyond
from dkmeans.questions.references import keep_references, nearest_reference
from dkmeans.results.answers import Rejection

Per: TypeAlias = Literal["prototype", "class", "all"]
LEVELS: tuple[Per, ...] = ("prototype", "class", "all")

_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Thresholds:
    """One entry per prototype."""

    values: Floats  # rows with a larger score are rejected
    rows: npt.NDArray[np.int64]  # number of held-out rows that each is based on
    rates: Floats  # expected share of rejected rows, at most
    levels: Indices  # source of these rows, an index into LEVELS


def check_options(false_alarm_rate: Any, per: Any) -> None:
    """Check the options of `choose_rejection`."""
    if not (is_real(false_alarm_rate) and 0 < false_alarm_rate < 1):
        raise InvalidParameterError(
            f"false_alarm_rate={false_alarm_rate!r} is not accepted: it must be a number between 0 "
            "and 1."
        )
    if not isinstance(per, str) or per not in LEVELS:
        raise InvalidParameterError(
            f"per={per!r} is not accepted: it must be 'class', 'prototype' or 'all'."
        )


def choose_rejection(
    model: Predictor, X: Matrix, rate: float, per: Per, n_threads: int
) -> Rejection:
    """Choose the threshold of each prototype from held-out rows of the known classes."""
    kept = keep_references(X, model.prototypes.centers)
    scores, cells = score_strangeness(model, X, n_threads, kept)
    ids, codes = model.prototypes.ids, model.prototypes.classes
    table = rejection_table(scores, cells, ids, codes, model.classes, rate, per)
    return table.with_references(kept)


def rejection_table(
    scores: npt.NDArray[np.floating],
    cells: Indices,
    ids: npt.NDArray[np.integer],
    codes: Indices,
    classes: npt.NDArray[Any],
    rate: float,
    per: Per,
) -> Rejection:
    """Choose the threshold of each prototype from scores and cells of held-out rows.

    `ids` and `codes` are the ids of the prototypes and the numbers of their classes.
    """
    least = least_rows(rate)
    if len(scores) < least:
        raise ValueError(
            f"false_alarm_rate={rate!r} needs at least {least} held-out rows, but "
            f"X has {len(scores)}: pass more rows, or accept more false alarms."
        )
    chosen = choose(scores, cells, codes, rate, per)
    return Rejection(
        id=ids,
        label=classes[codes],
        threshold=chosen.values,
        rows=chosen.rows,
        rate=chosen.rates,
        per=np.array(LEVELS)[chosen.levels],
    )


def unknown_scores(
    model: Predictor, rejection: Rejection, X: Matrix, n_threads: int
) -> npt.NDArray[np.floating]:
    """Return the strangeness of rows, divided by the threshold of their nearest prototype."""
    found = score_strangeness(model, X, n_threads, rejection.references)
    return relative_scores(*found, rejection)


def relative_scores(
    scores: npt.NDArray[np.floating], cells: Indices, rejection: Rejection
) -> npt.NDArray[np.floating]:
    """Divide scores by the thresholds of the cells."""
    thresholds = rejection.threshold.astype(scores.dtype)[cells]
    most = np.finfo(scores.dtype).max
    with np.errstate(over="ignore"):
        ratio = np.divide(
            scores,
            thresholds,
            out=np.where(scores > 0, most, scores),
            where=thresholds > 0,
        )
    return np.minimum(ratio, most)


def label_dtype(classes: npt.NDArray[Any], rejected: Any) -> np.dtype[Any]:
    """Return the type of class labels with `rejected` among them; refuse ambiguous ones."""
    if rejected is None:
        return np.dtype(object)
    if classes.dtype.kind not in "biuf":
        fits = isinstance(rejected, str)
    else:
        whole = isinstance(rejected, int | np.integer)
        fits = is_real(rejected) and (
            whole if classes.dtype.kind in "iu" else classes.dtype != bool
        )
    if not fits:
        raise InvalidParameterError(
            f"rejected={rejected!r} is not accepted: it must be None, or of the kind of the class "
            f"labels, which are such as {classes[:1].tolist()[0]!r}."
        )
    if rejected in classes.tolist():
        raise ValueError(
            f"rejected={rejected!r} is one of the class labels: choose something that is not."
        )
    kind = np.promote_types(classes.dtype, np.asarray(rejected).dtype)
    # If only a float type holds both, whole numbers would be rounded.
    return np.dtype(object) if kind.kind != classes.dtype.kind and kind.kind == "f" else kind


def score_strangeness(
    model: Predictor,
    X: Matrix,
    n_threads: int,
    references: npt.NDArray[np.floating] | None = None,
) -> tuple[npt.NDArray[np.floating], Indices]:
    """Return the strangeness and the nearest prototype of each row."""
    near = nearest_prototype.class_distances(X, model.prototypes, len(model.classes), n_threads)
    cells, _ = nearest_prototype.nearest(X, model.prototypes.centers, n_threads)
    if references is None:
        return strangeness(near), cells
    return strangeness(near, nearest_reference(X, references, n_threads)), cells


def strangeness(
    near: npt.NDArray[np.floating], to_reference: npt.NDArray[np.floating] | None = None
) -> npt.NDArray[np.floating]:
    """Score rows from their distances to the nearest prototype of each class.

    The score is sqrt(D N) D / R, with D the distance to the nearest prototype, R that to the
    nearest one of another class, and N that to the nearest reference: large far from all
    prototypes and references, and larger between classes. Without references N is D. With one
    class the factor D / R is left out.
    """
    best = near.min(axis=1)
    if to_reference is not None:
        near_by = np.where(np.isinf(to_reference), best, to_reference).astype(np.float64)
        best = np.sqrt(best.astype(np.float64)) * np.sqrt(near_by)
    return (best * _between(near)).astype(near.dtype)


def _between(near: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return D / R, from 0 on a prototype to 1 halfway between classes; 1 with one class."""
    best = near.min(axis=1)
    if near.shape[1] < 2:
        return np.ones(len(best))
    second = np.partition(near, 1, axis=1)[:, 1].astype(np.float64)
    # If the second distance is 0, so is the first; it is infinite if there is no rival.
    return np.divide(best, second, out=np.ones(len(best)), where=(second > 0) & (second < np.inf))


def choose(
    scores: npt.NDArray[np.floating],
    cells: Indices,
    classes: Indices,
    rate: float,
    per: Per,
) -> Thresholds:
    """Choose a threshold for each prototype, from at least `least_rows(rate)` held-out rows.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Strangeness of rows of known classes that the fit has not seen.
    cells : ndarray of shape (n,)
        Their nearest prototypes.
    classes : ndarray of shape (k,)
        Class of each prototype.
    rate : float
        Largest share of rows of known classes to reject, between 0 and 1.
    per : str
        Rows for which the rate holds: of each prototype, of each class, of all together.
    """
    k = len(classes)
    codes = np.unique(classes, return_inverse=True)[1]  # without classes that have no prototype
    counts = np.bincount(cells, minlength=k)
    values, rows = np.empty(k), np.empty(k, dtype=np.int64)
    rates, levels = np.empty(k), np.empty(k, dtype=np.intp)
    found: dict[bytes, tuple[float, int, float]] = {}  # many prototypes share a group
    for i in range(k):
        seen = counts + (np.arange(k) == i)
        group = _group(i, seen, codes, least_rows(rate) + 1, per)
        key = np.packbits(group).tobytes()
        if key not in found:
            mine = np.sort(scores[group[cells]])
            beyond = rows_beyond(len(mine), rate)
            found[key] = float(mine[-beyond]), len(mine), beyond / (len(mine) + 1)
        values[i], rows[i], rates[i] = found[key]
        levels[i] = _level(codes[group & (seen > 0)])
    return Thresholds(values, rows, rates, levels)


def _group(i: int, counts: Indices, codes: Indices, least: int, per: Per) -> _Mask:
    """Find the prototypes that share a threshold with prototype i; each group has enough rows."""
    if per == "all":
        return np.ones(len(codes), dtype=bool)
    joined = _joined(np.bincount(codes, counts), least)[codes]
    if joined[i]:
        return joined
    mine = codes == codes[i]
    if per == "class":
        return mine
    of_class = np.flatnonzero(mine)
    joined = np.zeros(len(codes), dtype=bool)
    joined[of_class] = _joined(counts[of_class], least)
    return joined if joined[i] else np.arange(len(codes)) == i


def _joined(counts: npt.NDArray[np.number], least: int) -> _Mask:
    """Join groups that are too small and, if that is not enough, the next smallest."""
    order = np.argsort(counts, kind="stable")
    small = int((counts < least).sum())
    enough = int(np.searchsorted(np.cumsum(counts[order]), least)) + 1
    result = np.zeros(len(counts), dtype=bool)
    result[order[: max(small, enough) if small else 0]] = True
    return result


def _level(classes: Indices) -> int:
    if len(classes) == 1:
        return 0
    return 1 if (classes == classes[0]).all() else 2
