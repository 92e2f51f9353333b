"""Prediction: how long one row takes, and how many rows a second go through.

    python benchmarks/predict.py

DiscriminativeKMeans with 40 and 256 prototypes beside nearest centroid, class-wise k-means and
5-NN on all rows, fitted on the same 20,000 rows of 64 features and 10 classes; in turns, best of
several. The learned metric has its full rank, 16 or 8: rows are projected first, and then compared
in fewer dimensions.
"""

import warnings

from common import best_times, overlapping_blobs, print_result
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.baselines import ClasswiseKMeans

warnings.simplefilter("ignore", OverfittingWarning)
MANY = 200_000


def _learned(rank):
    return DiscriminativeKMeans(256, metric="learned", refine="margin", n_components=rank)


def main():
    """Measure, print a table and the ratios."""
    iris = load_iris(return_X_y=True)
    fits = {
        "iris": lambda: DiscriminativeKMeans(
            max_clusters=None, refine=None, metric="euclidean"
        ).fit(*iris)
    }
    print(f"fit on iris, to convergence: {1e3 * best_times(fits, 20)['iris']:.1f} ms\n")
    X, y = overlapping_blobs(20_000)
    many = overlapping_blobs(MANY, seed=1)[0]
    models = {
        "dkmeans, 40": DiscriminativeKMeans(40, refine=None, metric="euclidean"),
        "dkmeans, 256": DiscriminativeKMeans(256, refine=None, metric="euclidean"),
        "learned metric, 256, rank 64": _learned(64),
        "learned metric, 256, rank 16": _learned(16),
        "learned metric, 256, rank 8": _learned(8),
        "class-wise k-means, 256": ClasswiseKMeans(256, n_init=1),
        "nearest centroid": NearestCentroid(),
        "5-NN on all rows": KNeighborsClassifier(5),
    }
    for model in models.values():
        model.fit(X, y)
    jobs = {name: model.predict for name, model in models.items()}
    for k in (40, 256):
        jobs[f"dkmeans, {k}, probabilities"] = models[f"dkmeans, {k}"].predict_proba
    one = best_times({name: lambda f=f: f(many[:1]) for name, f in jobs.items()}, 200)
    slow = {"5-NN on all rows"}
    few = {name: len(many) if name not in slow else 5000 for name in jobs}
    whole = best_times({name: lambda f=f, n=few[name]: f(many[:n]) for name, f in jobs.items()}, 3)
    print(f"{'':30s}{'one row, ms':>14s}{'rows a second':>16s}")
    for name in jobs:
        print(f"{name:30s}{1e3 * one[name]:14.3f}{few[name] / whole[name]:16,.0f}")
    base = "class-wise k-means, 256"
    ratios = {
        "one row": {name: round(one[base] / one[name], 2) for name in jobs if name != base},
        "rows a second": {
            name: round(few[name] / whole[name] / (few[base] / whole[base]), 2)
            for name in jobs
            if name != base
        },
    }
    print(f"\nRatios: speed over that of {base}.")
    full = "learned metric, 256, rank 64"
    low_rank = {
        f"rank {rank}": {
            "over full rank": round(whole[full] / whole[f"learned metric, 256, rank {rank}"], 2),
            "over Euclidean": round(
                whole["dkmeans, 256"] / whole[f"learned metric, 256, rank {rank}"], 2
            ),
        }
        for rank in (16, 8)
    }
    print_result({"predict": ratios, "low_rank": low_rank, "rows": MANY})


if __name__ == "__main__":
    main()
