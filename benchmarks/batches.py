"""Whether it matters in which order and in how many batches rows arrive.

    python benchmarks/batches.py
    python benchmarks/batches.py --small

Held-out error of `partial_fit` over 1, 10 and 100 batches, shuffled or sorted by class, beside one
`fit` on the same rows; stratified 5-fold cross-validation, run to convergence and under a budget.

With --small, batches have few rows, and parameters are the defaults, but for the number of
clusters: what the first call chooses counts for all of them.
"""

import argparse
import warnings

import numpy as np
from common import print_result, small_sets
from sklearn.datasets import make_moons
from sklearn.model_selection import StratifiedKFold

from dkmeans import DiscriminativeKMeans, OverfittingWarning


def error(model, X, y):
    """Error in %."""
    return 100 * (1 - model.score(X, y))


def batches_of(train, y, seed, order, size):
    """Cut rows to batches of a size."""
    rows = np.random.default_rng(seed).permutation(train)
    if order == "sorted":
        rows = rows[np.argsort(y[rows], kind="stable")]
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def small_batches():
    """Measure and print what a small first call means for the defaults."""
    sets = small_sets() | {"noisy moons": make_moons(4000, noise=0.3, random_state=0)}
    result = {}
    print(f"{'data set':<13}{'order':<10}{'size':>5}  {'max_clusters':<14}{'error %':>8}  metrics")
    for name, order, size in (
        ("digits", "shuffled", 100),
        ("digits", "shuffled", 300),
        ("digits", "sorted", 180),
        ("noisy moons", "shuffled", 100),
        ("letter", "shuffled", 1000),
    ):
        if name not in sets:
            continue
        X, y = sets[name]
        for budget in ("auto", 40):
            errors, metrics = [], set()
            folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
            for fold, (train, test) in enumerate(folds):
                model = DiscriminativeKMeans(budget)
                for part in batches_of(train, y, fold, order, size):
                    model.partial_fit(X[part], y[part])
                errors.append(error(model, X[test], y[test]))
                metrics.add(model.metric_)
            mean = float(np.mean(errors))
            print(
                f"{name:<13}{order:<10}{size:>5}  {budget!s:<14}{mean:>8.2f}  "
                f"{', '.join(sorted(metrics))}",
                flush=True,
            )
            result[f"{name} {order} {size} {budget}"] = round(mean, 2)
    print_result({"error with small batches in %": result})


def main():
    """Measure and print."""
    result = {}
    print(
        f"{'data set':<10}{'budget':>8}{'order':>10}{'batches':>9}{'error %':>15}"
        f"{'fit %':>8}{'clusters':>10}"
    )
    sets = small_sets()
    for name in ("digits", "letter"):
        if name not in sets:
            continue
        X, y = sets[name]
        for budget in (None, 10 * len(np.unique(y))):
            for order in ("shuffled", "sorted"):
                for n_batches in (1, 10, 100):
                    ours, fits, counts = [], [], []
                    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
                    for fold, (train, test) in enumerate(folds):
                        rows = np.random.default_rng(fold).permutation(train)
                        if order == "sorted":
                            rows = rows[np.argsort(y[rows], kind="stable")]
                        fits.append(
                            error(
                                DiscriminativeKMeans.paper(budget).fit(X[train], y[train]),
                                X[test],
                                y[test],
                            )
                        )
                        model = DiscriminativeKMeans.paper(budget)
                        for part in np.array_split(rows, n_batches):
                            model.partial_fit(X[part], y[part])
                        ours.append(error(model, X[test], y[test]))
                        counts.append(model.n_clusters_)
                    mean, spread = np.mean(ours), np.std(ours, ddof=1) / 5**0.5
                    print(
                        f"{name:<10}{budget or 'none':>8}{order:>10}{n_batches:>9}"
                        f"{mean:>9.2f} +-{spread:.2f}{np.mean(fits):>8.2f}{np.mean(counts):>10.0f}",
                        flush=True,
                    )
                    key = f"{name} {budget or 'none'} {order} {n_batches}"
                    result[key] = round(float(mean - np.mean(fits)), 2)
    print_result({"error minus that of one fit, in points": result})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="batches of few rows")
    is_small = parser.parse_args().small
    warnings.simplefilter("ignore", UserWarning if is_small else OverfittingWarning)
    small_batches() if is_small else main()
