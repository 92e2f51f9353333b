"""Training rows whose label may be wrong."""

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from dkmeans.data.batches import are_batches
from dkmeans.data.blocks import BlockSource
from dkmeans.data.value_checks import InvalidParameterError, as_labels, check_same_kind
from dkmeans.fitted import Fitted
from dkmeans.kernels.block import Floats, Indices, Matrix
from dkmeans.kernels.rowhash import Hashes
from dkmeans.questions import nearest_prototype
from dkmeans.questions.label_noise import count_wrong, neighbourhood_sizes
from dkmeans.questions.neighbourhood import Neighbourhoods, label_disagreement
from dkmeans.questions.row_groups import group_rows, remembered_groups
from dkmeans.results.answers import LabelNoise, Suspects

_SMALL_CELL_ROWS = 3  # weight of a small cell, in rows of average weight
DOUBTFUL_SCORE = 0.5  # other classes are as near as the own class
_REASONS = (
    "conflict",
    "none",
    "only one of its class",
    "cell of another class",
    "small foreign cell",
)
_OTHERWISE = "nearer to others"


@dataclass(frozen=True)
class ScoredRows:
    """Training rows, and how much their neighbourhood disagrees with their labels."""

    classes: Indices  # by number
    cells: Indices
    around: Neighbourhoods
    conflicting: npt.NDArray[np.bool_]  # whether an identical row has another label

    @property
    def scores(self) -> Floats:
        """Disagreement of the neighbourhood with each label."""
        return self.around.scores

    @property
    def suggested(self) -> Indices:
        """Class, by number, that the neighbourhood suggests."""
        return self.around.suggested

    def wrong(self, n_classes: int) -> Floats:
        """Estimate how many labels of each class are wrong."""
        return count_wrong(self.classes, self.around.majority, self.around.shares, n_classes)

    def listed(self, wrong: float) -> npt.NDArray[np.bool_]:
        """Mark conflicts, single rows of a class, and as many others as labels are wrong."""
        alone = np.bincount(self.classes)[self.classes] == 1
        marked = self.conflicting | (alone & (self.scores > DOUBTFUL_SCORE))
        others = np.flatnonzero(~self.conflicting)
        marked[others] |= most_suspicious(self.scores[others], wrong)
        return marked


def check_arguments(X: Any, y: Any, sample_weight: Any, n: Any) -> None:
    """Check which arguments of `suspects` are given together."""
    check_number_listed(n)
    has_labels = isinstance(X, BlockSource) or are_batches(X)
    if X is not None and y is None and not has_labels:
        raise ValueError("y is None, but X is given: suspects needs the labels of the rows, too.")
    if X is None and (y is not None or sample_weight is not None):
        raise ValueError("X is None, but y or sample_weight is given: pass the rows, too.")


def check_number_listed(n: Any) -> None:
    """Check the number of rows to list."""
    whole = isinstance(n, numbers.Integral) and not isinstance(n, bool | np.bool_)
    if n is not None and not (whole and n >= 0):
        raise InvalidParameterError(f"n={n!r} is not accepted: it must be None or an integer >= 0.")


def known_classes(classes: npt.NDArray[Any], y: Any, n_rows: int) -> Indices:
    """Convert labels to class numbers, and refuse those that the model does not know."""
    y = column_or_1d(as_labels(y))
    if len(y) != n_rows:
        raise ValueError(f"y has {len(y)} labels, but X has {n_rows} rows.")
    check_same_kind(classes, y)
    unknown = np.flatnonzero(~np.isin(y, classes))
    if len(unknown):
        row = int(unknown[0])
        raise ValueError(
            f"y has the label {y[row : row + 1].tolist()[0]!r} in row {row}, which the model was "
            "not fitted on: see classes_."
        )
    return np.searchsorted(classes, y).astype(np.intp)


def score_rows(
    model: Fitted, X: Matrix, classes: Indices, weights: Floats | None, n_threads: int
) -> ScoredRows:
    """Score rows at their own position."""
    cells, _ = nearest_prototype.nearest(X, model.prototypes.centers, n_threads)
    groups, own = group_rows(X, cells, classes, weights, len(model.classes))
    each = np.ones(len(classes)) if weights is None else weights
    unit = groups.weights.sum() / np.count_nonzero(each)
    sizes = neighbourhood_sizes(classes)
    around = label_disagreement(X, classes, own, each, groups, unit, sizes, n_threads)
    conflicting = _conflicting(nearest_prototype.hashes(X), classes, each)
    return ScoredRows(classes, cells, around, conflicting)


def score_remembered_rows(model: Fitted, n_threads: int) -> ScoredRows:
    """Score the training rows of the last fit, each at the mean of its cell and class."""
    kept, cells, conflicts = model.training_classes, model.labels, model.conflicts
    if kept is None or cells is None or conflicts is None:
        raise ValueError(
            "suspects() without rows needs a model as fit left it; after partial_fit, an edit, "
            "at(k), load or a fit of Dask collections, pass the training rows: suspects(X, y)."
        )
    k, classes = model.n_clusters, kept.codes.astype(np.intp)
    owners = model.earlier_rows.cells(model.prototypes)
    groups, keys = remembered_groups(model.earlier_rows, owners, kept.weights, k)
    kinds, kind, count = np.unique(classes * k + cells, return_inverse=True, return_counts=True)
    # Rows that did not count, or counted as another class because identical rows outvoted them,
    # have no group: they are placed at the centre of their cell.
    there = np.isin(kinds, keys)
    own = np.where(there, np.searchsorted(keys, kinds), -1)
    points = model.prototypes.centers[kinds % k].astype(np.float64)
    points[there] = groups.means[own[there]]
    each = np.where(there, groups.weights[own] / count, 0.0)
    unit = groups.weights.sum() / len(classes)
    sizes = neighbourhood_sizes(classes)
    around = label_disagreement(points, kinds // k, own, each, groups, unit, sizes, n_threads)
    conflicting = np.zeros(len(classes), dtype=bool)
    conflicting[np.concatenate([np.zeros(0, dtype=np.intp), *conflicts])] = True
    return ScoredRows(classes, cells, around.take(kind), conflicting)


def list_suspects(model: Fitted, rows: ScoredRows, n: int | None) -> Suspects:
    """List the n rows with the highest scores; None lists those that are doubtful."""
    of, ids = model.prototypes.classes, model.prototypes.ids
    return suspects_table(rows, model.classes, of, ids, model.sizes, n)


def suspects_table(
    rows: ScoredRows,
    labels: npt.NDArray[Any],
    codes: Indices,
    ids: npt.NDArray[np.integer],
    sizes: Floats,
    n: int | None,
) -> Suspects:
    """Do the same; `codes`, `ids` and `sizes` are those of the prototypes, `labels` of classes."""
    counts, wrong = np.bincount(rows.classes, minlength=len(labels)), rows.wrong(len(labels))
    order = order_by_score(rows.scores, rows.listed(float(wrong.sum())), n)
    classes, cells, scores = rows.classes[order], rows.cells[order], rows.scores[order]
    average = sizes.sum() / len(rows.scores)
    reasons = [
        rows.conflicting[order],
        scores <= DOUBTFUL_SCORE,
        counts[classes] == 1,
        classes != codes[cells],
        sizes[cells] <= _SMALL_CELL_ROWS * average * (1 + 1e-9),
    ]
    return Suspects(
        noise=LabelNoise(label=labels, rows=counts, wrong=wrong),
        row=order,
        label=labels[classes],
        suggested=labels[rows.suggested[order]],
        cluster=ids[cells],
        score=scores,
        reason=np.select(reasons, _REASONS, _OTHERWISE),
    )


def order_by_score(scores: Floats, marked: npt.NDArray[np.bool_], n: int | None) -> Indices:
    """Return the rows with the n highest scores, or all that are marked if n is None."""
    order = np.argsort(-scores, kind="stable")
    return order[marked[order]] if n is None else order[:n]


def most_suspicious(scores: Floats, wrong: float) -> npt.NDArray[np.bool_]:
    """Mark as many rows as have a wrong label, by estimate: those with the highest scores.

    Rows with a score of one half or less are not marked. Rows with equal scores are all marked.
    """
    count = min(math.floor(wrong + 0.5), len(scores))
    if not count:
        return np.zeros(len(scores), dtype=bool)
    least = np.sort(scores)[-count]
    return np.asarray((scores >= least) & (scores > DOUBTFUL_SCORE))


def _conflicting(hashes: Hashes, classes: Indices, weights: Floats) -> npt.NDArray[np.bool_]:
    """Return whether each row has an identical one with another label."""
    rows = np.flatnonzero(weights > 0)
    _, item = np.unique(hashes[rows], return_inverse=True)
    first, last = np.full(item.max() + 1, len(hashes)), np.zeros(item.max() + 1, dtype=np.intp)
    np.minimum.at(first, item, classes[rows])
    np.maximum.at(last, item, classes[rows])
    found = np.zeros(len(hashes), dtype=bool)
    found[rows] = (first != last)[item]
    return found
