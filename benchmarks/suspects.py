"""How many wrong labels `suspects` finds, beside disagreement among nearest neighbours.

    python benchmarks/suspects.py                   # all sets, three seeds
    python benchmarks/suspects.py digits letter     # some of them
    python benchmarks/suspects.py digits --more     # two more ways to ask
    python benchmarks/suspects.py --counts          # how many are listed, and how many are wrong
    python benchmarks/suspects.py --quick           # digits, one seed: seconds

5 % of the labels are changed, to any other class ("uniform") or to that of the nearest row of
another class ("confusable"). Every method ranks all rows; what counts is the share of changed
labels in the first 5 % of its list (precision), and the average precision of the whole list.

k-NN is the share of the k nearest other rows that have another label; where it is the same, the
one with the larger share by inverse distance comes first. With `--more`, "same score, every
row by itself" is `suspects` with cells of one row each, a comparison of all rows with all.

With `--counts`, 0, 5 and 20 % of the labels are changed, and every method decides how many rows
it lists. Beside `suspects` these are `find_suspects` and, if it is installed, cleanlab's
`find_label_issues`, both with the same probabilities: those of 10-NN in five-fold cross-validation.
"score above 0.5" lists all rows with that score. Two sets of overlapping Gaussian classes are
added, where labels agree with the distribution and rows are still amid others.
"""

import argparse
import time
import warnings

import numpy as np
from common import data_folder, print_result, small_sets, yale_faces
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from dkmeans import DiscriminativeKMeans, OverfittingWarning, find_suspects
from dkmeans.questions.neighbourhood import label_disagreement
from dkmeans.questions.row_groups import Groups

SHARE = 0.05
SHARES = (0.0, 0.05, 0.2)  # with --counts
SIZES = (16.0,)
NEIGHBOURS = (5, 10, 20)


def load(names):
    """Load sets, each with its classes by number."""
    sets, folder = small_sets(), data_folder()
    if folder is not None:
        fashion = np.load(folder / "fashion_mnist.npz")
        pixels = fashion["images"][:5000].reshape(5000, -1).astype(np.float32) / 255
        sets |= {"fashion": (pixels, fashion["y"][:5000]), "yale b": yale_faces(folder)}
    sets |= overlapping()
    names = [name.replace("-", " ") for name in names] or list(sets)
    for name in names:
        if name not in sets:
            raise SystemExit(f"No data set {name!r}; there are {', '.join(sets)}.")
    return {
        name: (sets[name][0], np.unique(sets[name][1], return_inverse=True)[1]) for name in names
    }


def overlapping():
    """Gaussian classes in the plane that overlap, without wrong labels."""
    rng = np.random.default_rng(0)
    two, three = np.repeat([0, 1], 400), np.repeat([0, 1, 2], 200)
    corners = np.array([[0.0, 0.0], [1.6, 0.0], [0.8, 1.4]])
    return {
        "two overlapping": (rng.normal(size=(800, 2)) + 1.3 * np.outer(two, [1, 0]), two),
        "three overlapping": (rng.normal(size=(600, 2)) + corners[three], three),
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


def corrupt(y, seed, confusable=None, share=SHARE):
    """Change some labels; tell which."""
    rng = np.random.default_rng(seed)
    wrong = rng.permutation(len(y))[: round(share * len(y))]
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
    return label_disagreement(X, y, own, np.ones(len(y)), groups, 1.0, SIZES, 2).scores


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


def lists(X, y):
    """Rows that each method lists, and how many wrong labels it counts."""
    model = DiscriminativeKMeans(max_clusters=None, refine=None, metric="euclidean").fit(X, y)
    whole = model.suspects(X, y, n=len(y))
    yield "score above 0.5", whole.row[whole.score > 0.5], np.nan
    for name, found in (
        ("suspects(X, y)", model.suspects(X, y)),
        ("suspects()", model.suspects()),
    ):
        yield name, found.row, found.noise.wrong.sum()
    shares = cross_val_predict(KNeighborsClassifier(10), X, y, cv=5, method="predict_proba")
    found = find_suspects(shares, y)
    yield "find_suspects, 10-NN", found.row, found.noise.wrong.sum()
    try:
        from cleanlab.count import num_label_issues
        from cleanlab.filter import find_label_issues
    except ImportError:
        return
    listed = np.flatnonzero(find_label_issues(y, shares, n_jobs=1))
    yield "cleanlab, 10-NN", listed, num_label_issues(y, shares)


def count(sets, seeds):
    """Print how many rows are listed, with precision and recall."""
    result = {}
    head = "| set | noise | wrong | method | estimate | listed | precision | recall |"
    print(f"{head}\n|---|---|---:|---|---:|---:|---:|---:|")
    for name, (X, y) in sets.items():
        confusable = nearest_other(X, y)
        for share in SHARES:
            for kind in ("uniform", "confusable") if share and y.max() > 1 else ("uniform",):
                found = {}
                for seed in range(seeds if share else 1):
                    other = confusable if kind == "confusable" else None
                    labels, wrong = corrupt(y, seed, other, share)
                    for method, rows, estimate in lists(X, labels):
                        hits = wrong[rows].sum()
                        figures = estimate, len(rows), hits / max(len(rows), 1)
                        found.setdefault(method, []).append((*figures, hits / max(wrong.sum(), 1)))
                for method, figures in found.items():
                    estimate, listed, *rates = np.mean(figures, axis=0)
                    shown = "" if np.isnan(estimate) else f"{estimate:.0f}"
                    text = f"| {name} | {kind if share else 'none'} | {wrong.sum()} | {method}"
                    text += f" | {shown} | {listed:.0f} "
                    cells = [f"{rate:.2f}" if share else "" for rate in rates]
                    print(f"{text}| {' | '.join(cells)} |", flush=True)
                    at = result.setdefault(name, {}).setdefault(f"{kind} {share:g}", {})
                    values = [estimate, listed, *rates]
                    at[method] = [None if np.isnan(v) else round(float(v), 3) for v in values]
    return result


def main():
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; none means all")
    parser.add_argument("--seeds", type=int, default=3, help="how often labels are changed")
    parser.add_argument("--quick", action="store_true", help="digits, one seed")
    parser.add_argument("--more", action="store_true", help="other clusters, and none at all")
    parser.add_argument("--counts", action="store_true", help="let methods choose how many")
    args = parser.parse_args()
    if args.quick:
        args.names, args.seeds = ["digits"], 1
    if args.counts:
        print_result(count(load(args.names), args.seeds))
        return
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
