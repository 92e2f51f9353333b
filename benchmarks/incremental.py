"""What going on costs beside starting again.

    python benchmarks/incremental.py

Fits 500,000 x 32, then adds 1 % more rows in one region by `partial_fit`, and compares the time
with a fresh fit on all rows; best of three each, in one run. Also the paper's third experiment on
two-dimensional data: a fit on the first set, continued with the second, beside a fresh fit.
"""

import time
import warnings
from functools import partial

import numpy as np
from common import print_result
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from dkmeans import DiscriminativeKMeans, OverfittingWarning


def blobs(n, d=32, n_classes=10, per_class=6, seed=0):
    """Overlapping blobs, several per class."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_classes * per_class, d))
    blob = rng.integers(0, len(centers), n)
    X = centers[blob] + rng.normal(size=(n, d))
    return X.astype(np.float32), blob // per_class, centers


def seconds(job):
    """Time a job."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def locality():
    """Measure the ratio of a local update to a fresh fit."""
    X, y, centers = blobs(500_000)
    rng = np.random.default_rng(1)
    new = (centers[0] + rng.normal(size=(5_000, 32))).astype(np.float32)
    X_all, y_all = np.concatenate([X, new]), np.concatenate([y, np.zeros(5_000, dtype=y.dtype)])
    fresh, update = [], []
    for _ in range(3):
        fresh.append(seconds(lambda: DiscriminativeKMeans.paper(256).fit(X_all, y_all)))
        model = DiscriminativeKMeans.paper(256).fit(X, y)
        before = {
            i: c.tobytes() for i, c in zip(model.cluster_ids_, model.cluster_centers_, strict=True)
        }
        update.append(seconds(partial(model.partial_fit, new, np.zeros(5_000, dtype=y.dtype))))
    kept = [
        before.get(i) == c.tobytes()
        for i, c in zip(model.cluster_ids_, model.cluster_centers_, strict=True)
    ]
    print(f"fresh fit {min(fresh):.2f} s, partial_fit {min(update):.3f} s")
    print(f"prototypes that kept every bit: {np.mean(kept):.1%} of {len(kept)}")
    return {
        "partial_fit / fit": round(min(update) / min(fresh), 4),
        "kept": round(float(np.mean(kept)), 3),
    }


def plane_sets(seed=0):
    """Two classes in the plane; the second set adds rows of one class near the other."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, np.pi, 150)
    positive = np.c_[np.cos(t), np.sin(t)] * 2 + 0.25 * rng.normal(size=(150, 2))
    negative = np.c_[rng.normal(0, 0.9, 150), rng.normal(-0.6, 0.4, 150)]
    added = np.c_[rng.normal(1.9, 0.3, 60), rng.normal(-1.4, 0.3, 60)]
    X1, y1 = np.concatenate([positive, negative]), np.repeat([1, 0], 150)
    return X1, y1, np.concatenate([X1, added]), np.concatenate([y1, np.ones(60, dtype=int)])


def agreement():
    """Compare a continued fit with a fresh one on the plane."""
    X1, y1, X2, y2 = plane_sets()
    fresh = DiscriminativeKMeans.paper().fit(X2, y2)
    warm = DiscriminativeKMeans.paper(warm_start=True).fit(X1, y1).fit(X2, y2)
    part = DiscriminativeKMeans.paper().fit(X1, y1).partial_fit(X2[len(X1) :], y2[len(X1) :])
    spread = np.sqrt(X2.var(axis=0).sum())
    plane = np.stack(
        np.meshgrid(
            *(np.linspace(*X2[:, j][[X2[:, j].argmin(), X2[:, j].argmax()]], 200) for j in (0, 1))
        ),
        -1,
    )
    plane = plane.reshape(-1, 2)
    result = {}
    for name, model in (("warm start", warm), ("partial_fit", part)):
        distances = []
        for label in (0, 1):
            a = fresh.cluster_centers_[fresh.cluster_classes_ == label]
            b = model.cluster_centers_[model.cluster_classes_ == label]
            cost = cdist(a, b)
            distances += cost[linear_sum_assignment(cost)].tolist()
        same_rows = (fresh.predict(X2) == model.predict(X2)).mean()
        same_plane = (fresh.predict(plane) == model.predict(plane)).mean()
        print(
            f"{name}: {model.n_clusters_} clusters (fresh {fresh.n_clusters_}), matched centres "
            f"{np.mean(distances) / spread:.3f} of the spread apart, same class on "
            f"{same_rows:.1%} of rows and {same_plane:.1%} of the plane"
        )
        result[name] = {
            "matched / spread": round(float(np.mean(distances) / spread), 4),
            "same on rows": round(float(same_rows), 4),
            "same on plane": round(float(same_plane), 4),
        }
    return result


if __name__ == "__main__":
    warnings.simplefilter("ignore", OverfittingWarning)
    print_result({**locality(), **agreement()})
