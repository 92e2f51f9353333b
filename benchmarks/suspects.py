"""How many wrong labels `suspects` finds, beside disagreement among nearest neighbours.

    python benchmarks/suspects.py                   # all sets, three seeds
    python benchmarks/suspects.py digits letter     # some of them
    python benchmarks/suspects.py digits --more     # two more ways to ask
    python benchmarks/suspects.py --quick           # digits, one seed: seconds

5 % of the labels are changed, to any other class ("uniform") or to that of the nearest row of
another class ("confusable"). Every method ranks all rows; what counts is the share of changed
labels in the first 5 % of its list (precision), and the average precision of the whole list.

k-NN is the share of the k nearest other rows that have another label; where it is the same, the
one with the larger share by inverse distance comes first. With `--more`, "same score, every
row by itself" is `suspects` with cells of one row each, a comparison of all rows with all.
"""

import argparse
import time
import warnings

import numpy as np
from common import data_folder, print_result, small_sets, yale_faces
from sklearn.metrics import average_precision_score
from sklearn.neighbors import NearestNeighbors

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.questions.neighbourhood import label_disagreement
from dkmeans.questions.row_groups import Groups

SHARE = 0.05
NEIGHBOURS = (5, 10, 20)


def load(names):
    """Load sets, each with its classes by number."""
    sets, folder = small_sets(), data_folder()
    if folder is not None:
        fashion = np.load(folder / "fashion_mnist.npz")
        pixels = fashion["images"][:5000].reshape(5000, -1).astype(np.float32) / 255
        sets |= {"fashion": (pixels, fashion["y"][:5000]), "yale b": yale_faces(folder)}
    names = [name.replace("-", " ") for name in names] or list(sets)
    for name in names:
        if name not in sets:
            raise SystemExit(f"No data set {name!r}; there are {', '.join(sets)}.")
    return {
        name: (sets[name][0], np.unique(sets[name][1], return_inverse=True)[1]) for name in names
    }


def neighbours(X, y):
    """Other rows in the order of their distance, enough for the largest k and for confusion."""
    k = max(NEIGHBOURS)
    distances, index = NearestNeighbors(n_neighbors=k + 1).fit(X).kneighbors(X)
    itself = index == np.arange(len(X))[:, None]
    itself[~itself.any(axis=1), -1] = True  # more identical rows than neighbours
    shape = (len(X), k)
    return distances[~itself].reshape(shape), index[~itself].reshape(shape)


def nearest_other(X, y):
    """Class of the nearest row of another class."""
    found = np.empty_like(y)
    for c in np.unique(y):
        others = np.flatnonzero(y != c)
        near = NearestNeighbors(n_neighbors=1).fit(X[others]).kneighbors(X[y == c])[1][:, 0]
        found[y == c] = y[others[near]]
    return found


def corrupt(y, seed, confusable=None):
    """Change some labels; tell which."""
    rng = np.random.default_rng(seed)
    wrong = rng.permutation(len(y))[: round(SHARE * len(y))]
    changed, n_classes = y.copy(), y.max() + 1
    changed[wrong] = (y[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    if confusable is not None:
        changed[wrong] = confusable[wrong]
    return changed, changed != y


def disagreement(y, distances, index, k):
    """Score rows by their k nearest neighbours."""
    differs = y[index[:, :k]] != y[:, None]
    weights = 1 / np.maximum(distances[:, :k], 1e-12)
    return differs.mean(axis=1) + 1e-6 * (differs * weights).sum(axis=1) / weights.sum(axis=1)


def from_list(suspects, n):
    """Turn a list of all rows into scores."""
    scores = np.empty(n)
    scores[suspects.row] = suspects.score
    return scores


def one_by_one(X, y):
    """Score rows with every row as a group of its own."""
    order = np.argsort(y, kind="stable")
    groups = Groups(X[order].astype(np.float64), y[order], np.ones(len(y)))
    own = np.empty(len(y), dtype=np.intp)
    own[order] = np.arange(len(y))
    return label_disagreement(X, y, own, np.ones(len(y)), groups, 1.0, 2)[0]


def methods(X, y, near, more):
    """Score all rows in every way."""
    for k in NEIGHBOURS:
        yield f"k-NN, k={k}", disagreement(y, *near, k)
    start = time.perf_counter()
    model = DiscriminativeKMeans(max_clusters=None, refine=None, metric="euclidean").fit(X, y)
    fitted = time.perf_counter()
    yield "suspects()", from_list(model.suspects(n=len(y)), len(y))
    asked = time.perf_counter()
    yield "suspects(X, y)", from_list(model.suspects(X, y, n=len(y)), len(y))
    print(
        f"    {model.n_clusters_} clusters in {fitted - start:.1f} s; "
        f"suspects(X, y) in {time.perf_counter() - asked:.1f} s",
        flush=True,
    )
    if more:
        few = DiscriminativeKMeans(
            max(len(y) // 40, y.max() + 1), refine="margin", metric="euclidean"
        ).fit(X, y)
        yield (
            "suspects(X, y), n/40 refined clusters",
            from_list(few.suspects(X, y, n=len(y)), len(y)),
        )
        yield "same score, every row by itself", one_by_one(X, y)


def main():
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; none means all")
    parser.add_argument("--seeds", type=int, default=3, help="how often labels are changed")
    parser.add_argument("--quick", action="store_true", help="digits, one seed")
    parser.add_argument("--more", action="store_true", help="other clusters, and none at all")
    args = parser.parse_args()
    if args.quick:
        args.names, args.seeds = ["digits"], 1
    result = {}
    for name, (X, y) in load(args.names).items():
        near, confusable = neighbours(X, y), nearest_other(X, y)
        for kind in ("uniform", "confusable"):
            if kind == "confusable" and y.max() == 1:
                continue  # with two classes, it is the same
            print(f"{name}, {kind}: {len(y)} rows, {args.seeds} seeds", flush=True)
            found = {}
            for seed in range(args.seeds):
                labels, wrong = corrupt(y, seed, confusable if kind == "confusable" else None)
                for method, scores in methods(X, labels, near, args.more):
                    first = np.argsort(-scores, kind="stable")[: wrong.sum()]
                    figures = wrong[first].mean(), average_precision_score(wrong, scores)
                    found.setdefault(method, []).append(figures)
            print(
                f"\n| {name}, {kind} | precision, first 5 % | average precision |\n|---|---:|---:|"
            )
            for method, figures in found.items():
                mean, spread = np.mean(figures, axis=0), np.std(figures, axis=0)
                cells = (f"{m:.3f} +- {s:.3f}" for m, s in zip(mean, spread, strict=True))
                print(f"| {method} | {' | '.join(cells)} |")
                at = result.setdefault(name, {}).setdefault(kind, {})
                at[method] = [round(float(m), 4) for m in mean]
            print(flush=True)
    print_result(result)


if __name__ == "__main__":
    warnings.simplefilter("ignore", OverfittingWarning)
    main()
