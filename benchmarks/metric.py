"""What each part of the learned metric is worth: held-out error without it.

    python benchmarks/metric.py                         # all variants: about ten minutes
    python benchmarks/metric.py digits "curved border"  # some sets
    python benchmarks/metric.py --only "as it is" Euclidean

Each variant changes one constant of the algorithm. Rows are in their own units, but standardised
for Euclidean distances. Errors are means over stratified 80/20 splits; the last line is the mean
over the sets of log((wrong + 0.5) / (n + 1)), and the seconds of processor time of all fits.
"""

import argparse
import time
from collections import defaultdict
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
from common import curved_border, data_folder, overlapping_blobs, print_result
from defaults import imbalanced, in_units, with_noise_columns
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans
from dkmeans.growth import first_metric, metric_descent, robust_field, start_metric

EUCLIDEAN = "Euclidean"
STEP = metric_descent.FIRST_METRIC_STEP
# Constants by variant: module, name and value.
VARIANTS = {
    EUCLIDEAN: (),
    "as it is": (),
    "not robust": ((robust_field, "MAX_NOISE", 0.0),),
    "rank 8": (),
    "no relevances": ((start_metric, "LEAST_RELEVANCE", 1.0),),
    "no short fit": ((first_metric, "ROWS_PER_ENTRY", np.inf),),
    "all axes kept": ((first_metric, "LEAST_AXIS", 0.0),),
    "step / 5": ((metric_descent, "FIRST_METRIC_STEP", STEP / 5),),
    "step x 2": ((metric_descent, "FIRST_METRIC_STEP", STEP * 2),),
}


def sets(folder):
    """Functions that make the sets, numbers of prototypes and of splits, by name."""
    iris, wine = load_iris(return_X_y=True), load_wine(return_X_y=True)
    cancer, digits = load_breast_cancer(return_X_y=True), load_digits(return_X_y=True)
    found = {
        "iris": (lambda: iris, 6, 6),
        "wine": (lambda: wine, 6, 6),
        "breast cancer": (lambda: cancer, 8, 6),
        "digits": (lambda: digits, 40, 3),
        "digits and noise": (lambda: (with_noise_columns(digits[0], 64), digits[1]), 40, 3),
        "imbalanced": (lambda: imbalanced(5000), 30, 3),
        "hypercube": (lambda: _hypercube(), 40, 3),
        "blobs": (lambda: overlapping_blobs(5000), 60, 2),
        "curved border": (lambda: _curved(), 64, 2),
    }
    if folder is not None:
        found["letter, 6000 rows"] = (lambda: _letter(folder), 104, 2)
    return found


def _hypercube():
    return make_classification(
        2000,
        20,
        n_informative=8,
        n_redundant=4,
        n_classes=5,
        n_clusters_per_class=3,
        random_state=1,
    )


def _curved():
    X, y = curved_border(8000)
    return in_units(X), y


def _letter(folder):
    letter = np.load(folder / "letter.npz")
    rows = np.random.default_rng(0).permutation(len(letter["y"]))[:6000]
    return letter["X"][rows].astype(np.float64), letter["y"][rows]


def model_of(variant, k):
    """Return an estimator of a variant, not yet fitted."""
    if variant == EUCLIDEAN:
        model = DiscriminativeKMeans(k, metric="euclidean", refine="margin")
        return make_pipeline(StandardScaler(), model)
    return DiscriminativeKMeans(
        k, metric="learned", n_components=8 if variant == "rank 8" else None
    )


def count_errors(variant, k, X, y, train, test):
    """Fit, and return the number of errors on test rows, and the seconds of processor time."""
    with ExitStack() as changes:
        for module, name, value in VARIANTS[variant]:
            changes.enter_context(patch.object(module, name, value))
        start = time.process_time()
        model = model_of(variant, k).fit(X[train], y[train])
        seconds = time.process_time() - start
    return int((model.predict(X[test]) != y[test]).sum()), seconds


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="default: all")
    parser.add_argument("--data", help="folder with letter.npz")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    options = parser.parse_args()
    every, variants = sets(data_folder(options.data)), options.only
    unknown = set(options.sets) - set(every)
    if unknown:
        parser.error(f"unknown sets {sorted(unknown)}; the sets are {', '.join(every)}")
    print(f"{'':<20}" + "".join(f"{name:>15}" for name in variants))
    logs, times, errors = defaultdict(list), dict.fromkeys(variants, 0.0), {}
    for name, (make, k, n_splits) in every.items():
        if options.sets and name not in options.sets:
            continue
        X, y = make()
        splits = list(StratifiedShuffleSplit(n_splits, test_size=0.2, random_state=0).split(X, y))
        errors[name] = {}
        for variant in variants:
            shares, scores = [], []
            for train, test in splits:
                wrong, seconds = count_errors(variant, k, X, y, train, test)
                times[variant] += seconds
                shares.append(100 * wrong / len(test))
                scores.append(np.log((wrong + 0.5) / (len(test) + 1)))
            errors[name][variant] = round(float(np.mean(shares)), 2)
            logs[variant].append(float(np.mean(scores)))
        print(f"{name:<20}" + "".join(f"{e:>15.2f}" for e in errors[name].values()), flush=True)
    means = {variant: round(float(np.mean(logs[variant])), 3) for variant in variants}
    print(f"{'mean log error':<20}" + "".join(f"{m:>15.3f}" for m in means.values()))
    print(f"{'seconds':<20}" + "".join(f"{s:>15.1f}" for s in times.values()))
    print_result({"errors": errors, "mean log error": means, "seconds": times})


if __name__ == "__main__":
    main()
