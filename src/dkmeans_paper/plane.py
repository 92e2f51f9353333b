"""Two classes in the plane, fitted in three ways, and measurements on the fits."""

import warnings
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist, pdist
from scipy.stats import spearmanr

from dkmeans.baselines import ClasswiseKMeans
from dkmeans.estimator import DiscriminativeKMeans, OverfittingWarning
from dkmeans_paper.sections import Verdict

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Sets: TypeAlias = tuple[Floats, Ints, Floats, Ints]
Stroke: TypeAlias = tuple[list[tuple[float, float]], int, float]  # corners, points, width

POSITIVE: list[Stroke] = [
    ([(0.9, 1.3), (0.8, 2.3), (1.2, 3.2)], 45, 0.9),
    ([(2.4, 5.2), (3.4, 5.7), (4.6, 5.8)], 45, 0.9),
    ([(6.1, 4.8), (6.5, 3.8), (7.3, 3.5), (8.3, 3.9), (9.3, 3.6)], 70, 0.6),
]
NEGATIVE: list[Stroke] = [
    ([(3.3, 1.2), (4.2, 1.4), (5.0, 2.0)], 45, 0.7),
    ([(5.7, 3.5), (6.2, 3.0), (7.0, 2.75), (7.8, 2.95), (8.5, 3.2), (9.2, 2.8)], 70, 0.6),
    ([(8.2, 0.6), (9.2, 0.8)], 30, 0.8),
]
ADDED: list[Stroke] = [([(2.5, 1.8), (3.3, 1.95), (4.0, 2.2), (4.5, 2.7)], 40, 0.6)]
TOLERANCE = 0.25  # of the typical spacing of centres: closer centres count as equal
TOLERANCES = (TOLERANCE / 2, TOLERANCE, 2 * TOLERANCE)  # to show the sensitivity to it


def plane_sets(drawing: int = 0) -> Sets:
    """Generate two classes in the plane, and the same with more positives near the negatives.

    Parameters
    ----------
    drawing : int
        Seed of the positions of the points; the shapes are always the same.

    Returns
    -------
    X1, y1, X2, y2 : ndarray
        Rows and labels (1 positive, 0 negative) of both sets. The second starts with the first.
    """
    start = 7 * drawing
    positive, negative, added = (
        np.concatenate([_scatter(stroke, start + first + 97 * k) for k, stroke in enumerate(part)])
        for first, part in ((1, POSITIVE), (500, NEGATIVE), (1000, ADDED))
    )
    X = np.concatenate([positive, negative, added])
    y = np.repeat([1, 0, 1], [len(positive), len(negative), len(added)])
    n = len(X) - len(added)
    return X[:n], y[:n], X, y


def _scatter(stroke: Stroke, first: int) -> Floats:
    """Place points along a polyline, with deterministic irregular offsets."""
    corners, n, width = np.array(stroke[0]), stroke[1], stroke[2]
    steps = np.diff(corners, axis=0)
    lengths = np.hypot(*steps.T)
    until = np.concatenate([[0], lengths.cumsum()])
    i = np.arange(n)
    # Fractional parts of squares times an irrational: evenly distributed, without a lattice.
    ahead, aside = (
        (i + first) ** 2 * root % 1 for root in (0.6180339887498949, 0.41421356237309503)
    )
    along = until[-1] * (i + ahead) / n
    on_line = np.stack([np.interp(along, until, corners[:, j]) for j in (0, 1)], axis=1)
    part = np.searchsorted(until, along, side="right") - 1
    across = np.stack([-steps[:, 1], steps[:, 0]], axis=1)[part] / lengths[part, None]
    # Round to three decimals, which are the same on all machines.
    return np.round(on_line + width * (aside - 0.5)[:, None] * across, 3)


def fit_three(sets: Sets) -> list[DiscriminativeKMeans]:
    """Fit set 1, set 2 from scratch, and set 2 starting from the fit of set 1."""
    X1, y1, X2, y2 = sets
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfittingWarning)
        first, afresh = (DiscriminativeKMeans.paper().fit(*data) for data in ((X1, y1), (X2, y2)))
        going_on = DiscriminativeKMeans.paper(warm_start=True).fit(X1, y1)
        return [first, afresh, going_on.fit(X2, y2)]


def measure(sets: Sets, models: list[DiscriminativeKMeans]) -> dict[str, Any]:
    """Compute all measurements that the claims are judged by."""
    X1, y1, X2, y2 = sets
    first, afresh, continued = models
    spacing = float(np.median(_to_same_class(first, first, itself=False)))
    added = X2[len(X1) :]
    far = float(pdist(added).max())
    blind = ClasswiseKMeans(afresh.n_clusters_).fit(X2, y2)
    fitted = (("1", first, X1, y1), ("2", afresh, X2, y2), ("3", continued, X2, y2))
    return {
        "rows": [len(X1), len(X2)],
        "width": float(np.ptp(X2[:, 0])),
        "spacing": spacing,
        "tolerance": TOLERANCE * spacing,
        "far": far,
        "rounds": [model.n_iter_ for model in models],
        "clusters": [model.n_clusters_ for model in models],
        "converged": [bool(model.converged_) for model in models],
        "density": {name: _density(X, y, m.cluster_centers_) for name, m, X, y in fitted}
        | {"k-means": _density(X2, y2, blind.cluster_centers_)},
        "change": {
            f"{a} to {b}": _change(before, after, added, far, spacing)
            for a, before, b, after in (
                ("1", first, "2", afresh),
                ("2", afresh, "1", first),
                ("1", first, "3", continued),
                ("3", continued, "1", first),
            )
        },
        "agreement": _agreement(afresh, continued, X2, spacing),
    }


def _to_same_class(a: Any, b: Any, itself: bool = True) -> Floats:
    """Compute the distance from each centre to the nearest of its class in another model."""
    distances = cdist(a.cluster_centers_, b.cluster_centers_)
    distances[a.cluster_classes_[:, None] != b.cluster_classes_] = np.inf
    if not itself:
        np.fill_diagonal(distances, np.inf)
    return distances.min(axis=1)


def _change(before: Any, after: Any, added: Floats, far: float, spacing: float) -> dict[str, Any]:
    """Measure how far centres moved between two models, near the added rows and far from them."""
    away = cdist(before.cluster_centers_, added).min(axis=1)
    moved = _to_same_class(before, after)
    result: dict[str, Any] = {"distance": away.tolist(), "displacement": moved.tolist()}
    for name, where in (("far", away > far), ("near", away <= far)):
        result[name] = {
            "centres": int(where.sum()),
            "same": float((moved[where] <= TOLERANCE * spacing).mean()),
            "within": [float((moved[where] <= m * spacing).mean()) for m in TOLERANCES],
            "median": float(np.median(moved[where])),
        }
    return result


def gaps_and_sizes(X: Floats, y: Ints, centers: Floats) -> tuple[Floats, Ints]:
    """Compute each row's distance to the other class, and the number of rows in its cell."""
    gaps = np.where(y == 1, *(cdist(X, X[y == c]).min(axis=1) for c in (0, 1)))
    owner = cdist(X, centers).argmin(axis=1)
    return gaps, np.bincount(owner)[owner]


def _density(X: Floats, y: Ints, centers: Floats) -> dict[str, Any]:
    """Compute the density of centres, by the distance of the rows to the other class."""
    gaps, sizes = gaps_and_sizes(X, y, centers)
    borders = np.quantile(gaps, [0.25, 0.5, 0.75])
    quarter = np.searchsorted(borders, gaps)
    # Each row counts as an equal share of the centre of its cell.
    per_100 = [float(100 * (1 / sizes[quarter == q]).mean()) for q in range(4)]
    correlation = float(spearmanr(gaps, sizes)[0])
    return {"borders": borders.tolist(), "per_100": per_100, "spearman": correlation}


def _agreement(a: Any, b: Any, X: Floats, spacing: float) -> dict[str, Any]:
    """Measure how well the centres of two models match, and where their predictions agree."""
    matched: list[float] = []
    alone = 0
    for label in (0, 1):
        cost = cdist(*(m.cluster_centers_[m.cluster_classes_ == label] for m in (a, b)))
        matched += cost[linear_sum_assignment(cost)].tolist()
        alone += abs(cost.shape[0] - cost.shape[1])
    sides = (
        np.linspace(low, high, 200) for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)
    )
    plane = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    relative = np.array(matched) / spacing
    return {
        "matched": len(matched),
        "unmatched": alone,
        "mean": float(relative.mean()),
        "median": float(np.median(relative)),
        "same": float((relative <= TOLERANCE).sum() / (len(matched) + alone)),
        "plane": float((a.predict(plane) == b.predict(plane)).mean()),
    }


def judge(numbers: dict[str, Any]) -> dict[str, Verdict]:
    """Compare the numbers with limits fixed before they were measured."""
    to, back = numbers["change"]["1 to 2"], numbers["change"]["2 to 1"]
    kept = min(way["far"]["same"] for way in (to, back))
    more_near, more_far = (back[w]["centres"] / to[w]["centres"] for w in ("near", "far"))
    moved_near = all(way["near"]["median"] > way["far"]["median"] for way in (to, back))
    agreement, done = numbers["agreement"], numbers["converged"]
    runs = [numbers["density"][run] for run in ("1", "2", "3")]
    ratios, correlations = zip(*((ratio(run), run["spearman"]) for run in runs), strict=True)
    return {
        "converge": _verdict(all(done), any(done)),
        "density": _verdict(
            min(ratios) >= 2 and min(correlations) >= 0.3, min(ratios) > 1 and min(correlations) > 0
        ),
        "far": _verdict(kept >= 0.9, kept >= 0.5),
        "near": _verdict(more_near > more_far and moved_near, more_near > more_far or moved_near),
        "agreement": _verdict(
            agreement["same"] >= 0.9 and agreement["plane"] >= 0.95,
            agreement["same"] >= 0.5 or agreement["plane"] >= 0.95,
        ),
    }


def ratio(density: dict[str, Any]) -> float:
    """Divide the density of centres where classes are closest by that where they are farthest."""
    return density["per_100"][0] / density["per_100"][3]


def _verdict(whole: bool, half: bool) -> Verdict:
    return "confirmed" if whole else "in part" if half else "not confirmed"
