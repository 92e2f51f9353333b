"""The models that growth passed through, for `at(k)`, as arrays and a JSON document, and back."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.exact.sparse_sums import dense
from dkmeans.files.consistency import check_earlier_rows, check_prototypes
from dkmeans.files.container import Arrays, Document
from dkmeans.files.refusal import require
from dkmeans.files.table_columns import codes, restore, store
from dkmeans.fitted import GrowthPath
from dkmeans.geometry import Geometry, Learned
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.growth.waypoints import Waypoint
from dkmeans.kernels.projection import is_rounded

_PREFIX = "waypoints."
_NUMBERS = ("training_error", "heldout_error", "cost", "inertia")  # fields of Waypoint


def describe(path: GrowthPath, classes: npt.NDArray[Any]) -> tuple[Arrays, Document]:
    """Return the waypoints one after the other, and where each ends.

    Learned metrics may differ in their rank: there are zeros in the place of missing components.
    """
    points = path.waypoints
    width = max(point.prototypes.centers.shape[1] for point in points)
    prototypes = [point.prototypes for point in points]
    earlier = [point.earlier_rows for point in points]
    numbers = [[getattr(point, name) for name in _NUMBERS] for point in points]
    arrays = {
        "rounds": np.array([point.round for point in points], dtype=np.int64),
        "refined": np.array([point.refined for point in points], dtype=np.int64),
        "numbers": np.array(numbers, dtype=np.float64),
        "counts": np.array([len(p) for p in prototypes], dtype=np.int64),
        "centers": np.concatenate([_padded(p.centers, width) for p in prototypes]),
        "class_codes": np.concatenate([p.classes for p in prototypes]).astype(np.int64),
        "ids": np.concatenate([p.ids for p in prototypes]),
        "sizes": np.concatenate(path.sizes).astype(np.float64),
        "memory_counts": np.array([len(e) for e in earlier], dtype=np.int64),
        "memory_ids": np.concatenate([e.ids for e in earlier]),
        "memory_class_codes": np.concatenate([e.classes for e in earlier]).astype(np.int64),
        "memory_weights": np.concatenate([e.weights for e in earlier], axis=1),
        "memory_sums": np.concatenate([_padded(dense(e.sums), width) for e in earlier], axis=1),
    }
    arrays |= _describe_spaces([point.geometry for point in points], width)
    tables = {
        "tree": store("tree", path.tree, classes, arrays),
        "history": store("history", path.history, classes, arrays),
    }
    document = {"tables": tables, "call": int(path.call)}
    return {_PREFIX + name: array for name, array in arrays.items()}, document


def rebuild(
    arrays: Arrays,
    document: Any,
    classes: npt.NDArray[Any],
    geometry: Geometry,
    n_features: int,
) -> GrowthPath:
    """Rebuild the waypoints; entries that are used are removed from `arrays`.

    `geometry` is that of the model. With a learned metric, models on the way differ from it in
    their projection only, and in its rank.
    """
    wrong = "has models on the way that do not make sense"
    mine = {
        name.removeprefix(_PREFIX): arrays.pop(name)
        for name in list(arrays)
        if name.startswith(_PREFIX)
    }
    require(isinstance(document, dict) and set(document) == {"tables", "call"}, wrong)
    listed, call = document["tables"], document["call"]
    require(isinstance(listed, dict) and set(listed) == {"tree", "history"}, wrong)
    require(type(call) is int and 0 <= call < 1 << 62, wrong)
    tree: Any = restore("tree", listed["tree"], classes, mine)
    history: Any = restore("history", listed["history"], classes, mine)
    geometries = _rebuild_spaces(mine, geometry, wrong)
    # Files of earlier versions do not say what was refined.
    unknown = np.zeros(len(mine.get("rounds", ())), dtype=np.int64)
    refined = codes(mine.pop("refined", unknown), 2, wrong)
    entries = {"rounds", "numbers", "counts", "centers", "class_codes", "ids", "sizes"}
    memory = {"memory_counts", "memory_ids", "memory_class_codes", "memory_weights", "memory_sums"}
    require(set(mine) == entries | memory, wrong)
    rounds = codes(mine["rounds"], 1 << 62, wrong)
    numbers, n = mine["numbers"], len(rounds)
    require(n > 0 and numbers.dtype == np.float64 and numbers.shape == (n, len(_NUMBERS)), wrong)
    cut = _cuts(mine.pop("counts"), n, len(mine["ids"]), wrong)
    memory_cut = _cuts(mine.pop("memory_counts"), n, len(mine["memory_ids"]), wrong)
    require(len(geometries) in (1, n) and len(refined) == n, wrong)
    total = int(memory_cut[-1])
    ranks = [space.dimension(n_features) for space in geometries]
    width = mine["centers"].shape[1] if mine["centers"].ndim == 2 else 0
    require(width == max(ranks), wrong)
    require(all(len(mine[name]) == cut[-1] for name in ("centers", "class_codes", "sizes")), wrong)
    require(mine["memory_weights"].shape == (2, total), wrong)
    require(mine["memory_sums"].shape == (2, total, width), wrong)
    require(mine["sizes"].dtype == np.float64 and bool((mine["sizes"] >= 0).all()), wrong)
    of_memory = codes(mine["memory_class_codes"], len(classes), wrong)
    require(len(of_memory) == total, wrong)
    waypoints, sizes = [], []
    for at in range(n):
        rows, entry = slice(cut[at], cut[at + 1]), slice(memory_cut[at], memory_cut[at + 1])
        part = {name: mine[name][rows] for name in ("class_codes", "ids")}
        rank = ranks[at % len(ranks)]
        part["centers"] = np.ascontiguousarray(mine["centers"][rows, :rank])
        prototypes = check_prototypes(part, len(classes), rank)
        require(bool(((prototypes.ids >= 0) & (prototypes.ids < len(tree))).all()), wrong)
        earlier = EarlierRows(
            mine["memory_ids"][entry],
            of_memory[entry],
            mine["memory_weights"][:, entry],
            np.ascontiguousarray(mine["memory_sums"][:, entry, :rank]),
        )
        check_earlier_rows(earlier, prototypes)
        about = dict(zip(_NUMBERS, numbers[at].tolist(), strict=True))
        require(0 <= about["inertia"] < np.inf, wrong)
        space = geometries[at % len(geometries)]
        waypoints.append(
            Waypoint(
                int(rounds[at]), prototypes, space, earlier, **about, refined=bool(refined[at])
            )
        )
        sizes.append(mine["sizes"][rows])
    lengths = [len(point) for point in waypoints]
    require(lengths == sorted(set(lengths)), wrong)
    return GrowthPath(waypoints, sizes, history, tree, call)


def _padded(array: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    """Add zeros along the last axis."""
    missing = width - array.shape[-1]
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)]) if missing else array


def _describe_spaces(geometries: list[Geometry], width: int) -> Arrays:
    """Return the different projections of a learned metric, and which each waypoint has."""
    learned = [one for one in geometries if isinstance(one, Learned)]
    if not learned:
        return {}
    different: list[Learned] = []
    for one in learned:
        if one not in different:
            different.append(one)
    return {
        "projections": np.stack([_padded(one.components, width) for one in different]),
        "ranks": np.array([one.components.shape[1] for one in different], dtype=np.int64),
        "spaces": np.array([different.index(one) for one in learned], dtype=np.int64),
    }


def _rebuild_spaces(mine: Arrays, geometry: Geometry, wrong: str) -> list[Geometry]:
    """Return the geometry of each waypoint, or one for all; removes entries that are used."""
    if not isinstance(geometry, Learned):
        return [geometry]
    require({"projections", "spaces"} <= set(mine), wrong)
    projections, spaces = mine.pop("projections"), mine.pop("spaces")
    require(projections.dtype == np.float64 and projections.ndim == 3, wrong)
    n, d, width = projections.shape
    require(n > 0 and d == len(geometry.components), wrong)
    require(all(is_rounded(each) for each in projections), wrong)
    # Files of earlier versions have one rank.
    ranks = codes(mine.pop("ranks", np.full(n, width, dtype=np.int64)), width + 1, wrong)
    require(len(ranks) == n and bool((ranks > 0).all()), wrong)
    found = [
        replace(geometry, components=np.ascontiguousarray(each[:, :rank]))
        for each, rank in zip(projections, ranks.tolist(), strict=True)
    ]
    return [found[code] for code in codes(spaces, len(found), wrong)]


def _cuts(counts: npt.NDArray[Any], n: int, total: int, wrong: str) -> npt.NDArray[np.intp]:
    found = codes(counts, total + 1, wrong)
    require(len(found) == n and sum(found.tolist()) == total, wrong)
    return np.concatenate([np.zeros(1, dtype=np.intp), np.cumsum(found)])
