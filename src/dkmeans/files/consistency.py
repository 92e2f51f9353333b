"""Checks that the parts of a model in a file are consistent."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.exact.sparse_sums import dense
from dkmeans.files.container import Arrays
from dkmeans.files.refusal import require
from dkmeans.files.table_columns import codes
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.prototypes import Prototypes
from dkmeans.questions.reject import LEVELS
from dkmeans.results.table import Table

REFERENCES = "rejection_references"  # name of the array


def check_prototypes(arrays: Arrays, n_classes: int, n_features: int) -> Prototypes:
    """Read the prototypes: finite, in order, with unique ids."""
    require({"centers", "class_codes", "ids"} <= set(arrays), "lacks prototypes")
    centers, ids = arrays.pop("centers"), arrays.pop("ids")
    require(
        centers.dtype in (np.float32, np.float64)
        and centers.ndim == 2
        and len(centers) >= 1
        and centers.shape[1] == n_features,
        "has centres of the wrong type or shape",
    )
    require(bool(np.isfinite(centers).all()), "has centres that are NaN or infinite")
    of = codes(arrays.pop("class_codes"), n_classes, "has prototypes of unknown classes")
    require(ids.dtype == np.int64 and ids.shape == of.shape == centers.shape[:1], "has wrong ids")
    later = (np.diff(of) > 0) | ((np.diff(of) == 0) & (ids[1:] > ids[:-1]))
    require(bool(later.all()), "has prototypes that are not in order")
    require(len(np.unique(ids)) == len(ids), "has two prototypes with the same id")
    return Prototypes(centers, of, ids)


def check_tree(tables: dict[str, Table], prototypes: Prototypes, classes: npt.NDArray[Any]) -> None:
    """Check that parents come before children, and that all prototypes are in the tree."""
    require({"tree", "history", "changes"} <= set(tables), "lacks the tree, history or changes")
    tree, changes = tables["tree"], tables["changes"]
    n, wrong = len(tree), "has a tree that does not make sense"
    require(bool((tree.id == np.arange(n)).all()), wrong)
    require(bool(((tree.parent >= -1) & (tree.parent < tree.id)).all()), wrong)
    for column in (tree.call, tree.born, tree.ended_call, tree.ended):
        require(bool(((column >= -1) & (column < 1 << 62)).all()), wrong)
    require(bool(((prototypes.ids >= 0) & (prototypes.ids < n)).all()), wrong)
    require(np.array_equal(tree.label[prototypes.ids], classes[prototypes.classes]), wrong)
    require(bool(((changes.id >= 0) & (changes.id < n)).all()), "has changes of unknown ids")


def check_earlier_rows(earlier: EarlierRows, prototypes: Prototypes) -> None:
    """Check that each entry has a prototype, a positive weight and a finite sum."""
    wrong = "has a memory that does not make sense"
    n = len(earlier.classes)
    require(earlier.ids.dtype == np.int64 and earlier.ids.shape == (n,), wrong)
    require(earlier.weights.dtype == np.float64 and earlier.weights.shape == (2, n), wrong)
    sums = dense(earlier.sums)
    require(sums.dtype == np.float64, wrong)
    require(sums.shape == (2, n, prototypes.centers.shape[1]), wrong)
    require(bool(np.isin(earlier.ids, prototypes.ids).all()), wrong)
    require(bool(np.isfinite(sums).all() and np.isfinite(earlier.weights).all()), wrong)
    require(bool((earlier.weights[0] > 0).all()), wrong)
    pairs = np.unique(np.stack([earlier.ids, earlier.classes]), axis=1) if n else earlier.ids[None]
    require(pairs.shape[1] == n, wrong)


def check_rejection(
    tables: dict[str, Any],
    prototypes: Prototypes,
    classes: npt.NDArray[Any],
    arrays: Arrays,
) -> None:
    """Check that thresholds, if there are any, belong to the prototypes, and add references."""
    if "rejection" not in tables:
        return
    found, wrong = tables["rejection"], "has thresholds of rejection that do not make sense"
    require(np.array_equal(found.id, prototypes.ids), wrong)
    require(np.array_equal(found.label, classes[prototypes.classes]), wrong)
    require(bool(((found.threshold >= 0) & (found.threshold < np.inf)).all()), wrong)
    require(bool((found.rows >= 1).all()), wrong)
    require(bool(((found.rate > 0) & (found.rate < 1)).all()), wrong)
    require(found.per.dtype.kind == "U" and bool(np.isin(found.per, LEVELS).all()), wrong)
    if REFERENCES in arrays:
        rows, centers = arrays.pop(REFERENCES), prototypes.centers
        require(rows.ndim == 2 and rows.dtype == centers.dtype and len(rows) > 1, wrong)
        require(rows.shape[1] == centers.shape[1] and bool(np.isfinite(rows).all()), wrong)
        tables["rejection"] = found.with_references(rows)
