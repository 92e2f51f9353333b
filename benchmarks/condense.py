"""Error of 1-NN on what is kept of the rows, how many are kept, and the time that it takes.

    python benchmarks/condense.py                    # all sets
    python benchmarks/condense.py digits letter      # some of them
    python benchmarks/condense.py --quick            # digits, one split: under a minute

`condense` beside imbalanced-learn (`pip install 'dkmeans[bench]'`): ClusterCentroids (k-means per
class, made to keep as many rows of each class as its share) and CondensedNearestNeighbour. The
latter is made for two classes of which one is rare: it keeps the smallest class as it is, and
compares each other one with that alone. So Hart's rule over all classes, which it comes from, is
measured as well, and random rows as a floor. Errors are those of rows that were held out, means
over the splits. For sets that are not balanced, the mean error of the classes is what counts, and
is in the column `balanced`. `--only TEXT` measures methods with that in their name.

digits comes with scikit-learn; letter and fashion are read from `--data`, the folder named by
DKMEANS_DATA, or ../shared/data. "rare letter" tells one letter from all others; 1 row in 26 is
one. Times are of one thread; all methods take turns within a split, and ratios are to
ClusterCentroids.
"""

import argparse
import time
import warnings
from collections import Counter

import numpy as np
from common import data_folder, print_result
from imblearn.under_sampling import ClusterCentroids, CondensedNearestNeighbour
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from dkmeans import OverfittingWarning, condense

SHARES = (0.05, 0.1)


def quota(y, share):
    """Rows of each class to keep, so that the shares of classes stay."""
    classes, counts = np.unique(y, return_counts=True)
    return {
        c: max(1, round(share * n)) for c, n in zip(classes.tolist(), counts.tolist(), strict=True)
    }


def ours(share, **options):
    """Condense, and give rows and labels."""

    def keep(X, y, seed):
        small = condense(X, y, share, n_threads=1, **options)
        return small.X, small.y

    return keep


def cluster_centroids(share):
    """Centres of k-means in each class."""

    def keep(X, y, seed):
        means = KMeans(n_init=1, random_state=seed)
        return ClusterCentroids(
            sampling_strategy=quota(y, share), estimator=means, voting="soft"
        ).fit_resample(X, y)

    return keep


def condensed_neighbours(X, y, seed):
    """Leave the smallest class, and reduce each other one beside it, as imbalanced-learn does."""
    # The rule takes the first of the smallest classes, "auto" may take another one, and a class
    # that is compared with itself comes down to one row: so the classes to reduce are named.
    counts = Counter(y.tolist())
    others = sorted(set(counts) - {min(counts, key=counts.get)})
    sampler = CondensedNearestNeighbour(sampling_strategy=others, random_state=seed)
    return sampler.fit_resample(X, y)


def hart(X, y, seed):
    """Add rows that 1-NN on those kept gets wrong, over and over, until there are none."""
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    nearest, taken_for = np.full(len(y), np.inf), np.full(len(y), -1, dtype=np.intp)
    kept = []
    row = 0
    while True:
        kept.append(row)
        squares = ((X - X[row]) ** 2).sum(axis=1)
        nearer = squares < nearest
        nearest[nearer], taken_for[nearer] = squares[nearer], row
        wrong = np.flatnonzero(y[taken_for] != y)
        wrong = wrong[~np.isin(wrong, kept)]  # of identical rows with different labels
        if not len(wrong):
            return X[kept], y[kept]
        later = wrong[wrong > row]  # go on from here, then begin again
        row = int(later[0] if len(later) else wrong[0])


def at_random(share):
    """Random rows of each class."""

    def keep(X, y, seed):
        rng = np.random.default_rng(seed)
        each = [rng.permutation(np.flatnonzero(y == c))[:k] for c, k in quota(y, share).items()]
        rows = np.concatenate(each)
        return X[rows], y[rows]

    return keep


def methods(is_rare):
    """What is compared, by name; for rare classes with balanced weights, too."""
    found = {}
    for share in SHARES:
        of = f"{share:.0%}"
        found[f"condense, {of}"] = ours(share)
        found[f"condense, {of}, unrefined"] = ours(share, refine=None)
        found[f"condense, {of}, exemplars"] = ours(share, keep="exemplars")
        found[f"condense, {of}, exemplars, refined"] = ours(
            share, keep="exemplars", refine="margin"
        )
        if is_rare:
            balanced = {"class_weight": "balanced"}
            found[f"condense, {of}, balanced"] = ours(share, **balanced)
            found[f"condense, {of}, unrefined, balanced"] = ours(share, refine=None, **balanced)
        found[f"ClusterCentroids, {of}"] = cluster_centroids(share)
        found[f"random rows, {of}"] = at_random(share)
    found["condense, until converged"] = ours(None)
    found["CondensedNearestNeighbour"] = condensed_neighbours
    found["Hart's rule in all classes"] = hart
    if is_rare:
        found["ClusterCentroids, balancing"] = lambda X, y, seed: ClusterCentroids(
            estimator=KMeans(n_init=1, random_state=seed), voting="soft"
        ).fit_resample(X, y)
    found["all rows"] = lambda X, y, seed: (X, y)
    return found


def load(name, folder):
    """Load a set: rows, labels, whether they are to be scaled."""
    if name == "digits":
        return (*load_digits(return_X_y=True), False)
    if name == "moons":
        return (*make_moons(2000, noise=0.25, random_state=0), False)
    if folder is None:
        raise SystemExit("No data: pass --data, or set DKMEANS_DATA to a folder with .npz files.")
    if name == "fashion":
        fashion = np.load(folder / "fashion_mnist.npz")
        pixels = fashion["images"][:5000].reshape(5000, -1).astype(np.float32) / 255
        return pixels, fashion["y"][:5000], False
    letter = np.load(folder / "letter.npz")
    X, y = letter["X"][:8000].astype(np.float64), letter["y"][:8000]
    if name == "rare letter":
        y = (y == np.unique(y)[3]).astype(int)
    return X, y, True


def compare(name, X, y, scale, n_splits, only):
    """Measure all methods on the same splits, in turns."""
    is_rare = np.bincount(np.unique(y, return_inverse=True)[1]).min() < 0.2 * len(y) / len(set(y))
    unit = f"ClusterCentroids, {SHARES[-1]:.0%}"
    compared = {m: keep for m, keep in methods(is_rare).items() if only in m or m == unit}
    found = {method: [] for method in compared}
    splits = StratifiedShuffleSplit(n_splits, test_size=0.25, random_state=0).split(X, y)
    for seed, (train, test) in enumerate(splits):
        X_train, X_test = X[train], X[test]
        if scale:
            scaler = StandardScaler().fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        for method, keep in compared.items():
            start = time.perf_counter()
            X_kept, y_kept = keep(X_train, y[train], seed)
            seconds = time.perf_counter() - start
            predicted = KNeighborsClassifier(1).fit(X_kept, y_kept).predict(X_test)
            wrong = 100 * np.mean(predicted != y[test])
            balanced = 100 * (1 - balanced_accuracy_score(y[test], predicted))
            found[method].append((len(y_kept), wrong, balanced, seconds))
    means = {method: np.mean(rows, axis=0) for method, rows in found.items()}
    print(f"\n{name}: {len(train)} rows to train, {n_splits} splits")
    print(f"{'':38}{'kept':>7}{'error %':>9}{'balanced':>10}{'seconds':>9}")
    for method, (kept, wrong, balanced, seconds) in means.items():
        print(f"{method:38}{kept:7.0f}{wrong:9.2f}{balanced:10.2f}{seconds:9.2f}")
    return {
        method: {
            "kept": round(kept),
            "error": round(wrong, 2),
            "balanced_error": round(balanced, 2),
            "time_ratio": round(seconds / means[unit][3], 2),
        }
        for method, (kept, wrong, balanced, seconds) in means.items()
    }


def main():
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = ("digits", "moons", "letter", "fashion", "rare letter")
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--data", help="folder with letter.npz and fashion_mnist.npz")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--only", default="", help="text in the names of methods to measure")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    chosen = options.sets or (names[:1] if options.quick else names)
    unknown = sorted(set(chosen) - set(names))
    if unknown:
        parser.error(f"there is no set {unknown[0]!r}: choose from {', '.join(names)}")
    warnings.simplefilter("ignore", OverfittingWarning)
    folder, result = data_folder(options.data), {}
    with threadpool_limits(1):
        for name in chosen:
            n_splits = 1 if options.quick else options.splits
            result[name] = compare(name, *load(name, folder), n_splits, options.only)
    print_result(result)


if __name__ == "__main__":
    main()
