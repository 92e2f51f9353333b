"""The medoids that growth passed through, for `at(k)`, as arrays and a table, and back."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.files.container import Arrays, Document
from dkmeans.files.refusal import require
from dkmeans.files.table_columns import codes, restore, store
from dkmeans.fitted_medoids import MedoidPath
from dkmeans.kernels.block import Floats, Indices
from dkmeans.medoids.waypoints import Waypoint

_PREFIX = "waypoints."
_NUMBERS = ("training_error", "heldout_error", "cost", "inertia")  # fields of Waypoint
_ARRAYS = {"rounds", "refined", "numbers", "counts", "rows", "class_codes", "sizes"}
_WRONG = "has models on the way that do not make sense"


def describe(way: MedoidPath, classes: npt.NDArray[Any]) -> tuple[Arrays, Document]:
    """Return the waypoints one after the other, and how many medoids each has."""
    points = way.waypoints
    numbers = [[getattr(point, name) for name in _NUMBERS] for point in points]
    arrays: Arrays = {
        "rounds": np.array([point.round for point in points], dtype=np.int64),
        "refined": np.array([point.refined for point in points], dtype=np.int64),
        "numbers": np.array(numbers, dtype=np.float64),
        "counts": np.array([len(point) for point in points], dtype=np.int64),
        "rows": np.concatenate([point.medoids for point in points]).astype(np.int64),
        "class_codes": np.concatenate(way.codes).astype(np.int64),
        "sizes": np.concatenate([point.sizes for point in points]).astype(np.float64),
    }
    if way.kept[0] is not None:
        kept = [one.toarray() if sp.issparse(one) else one for one in way.kept]
        arrays["centers"] = np.concatenate(kept)
    document = {"history": store("history", way.history, classes, arrays)}
    return {_PREFIX + name: array for name, array in arrays.items()}, document


def rebuild(
    arrays: Arrays, document: Any, classes: npt.NDArray[Any], n_features: int, *, kept: Any
) -> MedoidPath:
    """Rebuild the waypoints; entries that are used are removed from `arrays`.

    `kept` are the medoids of the model itself: those of the waypoints are of the same kind.
    """
    mine = {
        name.removeprefix(_PREFIX): arrays.pop(name)
        for name in list(arrays)
        if name.startswith(_PREFIX)
    }
    require(isinstance(document, dict) and set(document) == {"history"}, _WRONG)
    history: Any = restore("history", document["history"], classes, mine)
    require(set(mine) == (_ARRAYS if kept is None else _ARRAYS | {"centers"}), _WRONG)
    rounds, refined = codes(mine["rounds"], 1 << 62, _WRONG), codes(mine["refined"], 2, _WRONG)
    counts, n = codes(mine["counts"], 1 << 62, _WRONG), len(rounds)
    numbers, total = mine["numbers"], int(counts.sum())
    require(
        n > 0 and len(refined) == len(counts) == n and bool((np.diff(counts) > 0).all()), _WRONG
    )
    require(counts[0] > 0 and numbers.dtype == np.float64 and numbers.shape == (n, 4), _WRONG)
    medoids = codes(mine["rows"], 1 << 62 if kept is not None else n_features, _WRONG)
    of, sizes = codes(mine["class_codes"], len(classes), _WRONG), mine["sizes"]
    require(len(medoids) == len(of) == len(sizes) == total, _WRONG)
    require(sizes.dtype == np.float64 and bool(((sizes >= 0) & (sizes < np.inf)).all()), _WRONG)
    cuts = np.cumsum(counts)[:-1]
    centers: list[Any] = [None] * n
    if kept is not None:
        found = mine["centers"]
        require(found.dtype == kept.dtype and found.shape == (total, n_features), _WRONG)
        require(bool(np.isfinite(found).all()), _WRONG)
        centers = np.split(found, cuts)
    rows: list[Indices] = np.split(medoids, cuts)
    weights: list[Floats] = np.split(sizes, cuts)
    waypoints = []
    for at in range(n):
        about = dict(zip(_NUMBERS, numbers[at].tolist(), strict=True))
        require(0 <= about["inertia"] < np.inf and 0 <= about["cost"] < np.inf, _WRONG)
        require(len(np.unique(rows[at])) == len(rows[at]), _WRONG)
        point = Waypoint(int(rounds[at]), rows[at], weights[at], **about, refined=bool(refined[at]))
        waypoints.append(point)
    return MedoidPath(waypoints, centers, np.split(of, cuts), history)
