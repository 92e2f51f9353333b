"""What each part of the learned metric is worth: held-out error without it.

    python benchmarks/metric.py                         # all variants: about eight minutes
    python benchmarks/metric.py digits "curved border"  # some sets
    python benchmarks/metric.py --only "as it is" Euclidean
    python benchmarks/metric.py --targets               # errors to be reached: some minutes
    python benchmarks/metric.py --targets "digits 40"   # one of them
    python benchmarks/metric.py --ranks                 # largest ranks for many features

Each variant changes one constant of the algorithm. Rows are in their own units, but standardised
for Euclidean distances. Errors are means over stratified 80/20 splits, in %. The last lines are the
mean over the sets of log((wrong + 0.5) / (n + 1)), what a variant adds to it, the standard error
of that, and the seconds of processor time of all fits. A variant is worse than the algorithm as it
is if it adds more than two standard errors. These are somewhat too small, as splits share rows.

`--targets` compares the learned metric with Euclidean refinement, by error and by processor time.
`--ranks` does the same for several largest ranks, on sets of more than 256 features.
"relevant columns" is the curved border with nothing but the three columns that define it, and
"five times the passes" refines it five times as long. Their errors are close to that on all 64
columns: with so many prototypes, there is little left for a metric to gain.
"""

import argparse
import time
import warnings
from collections import defaultdict
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
from common import (
    curved_border,
    data_folder,
    dependent_features,
    overlapping_blobs,
    print_result,
    yale_faces,
)
from defaults import imbalanced, in_units, with_noise_columns
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans, ScaleWarning
from dkmeans.growth import first_metric, metric_descent, refine, robust_field, start_metric

warnings.simplefilter("ignore", ScaleWarning)
EUCLIDEAN, AS_IT_IS = "Euclidean", "as it is"
STEP = metric_descent.FIRST_METRIC_STEP
# Constants by variant: module, name and value.
VARIANTS = {
    EUCLIDEAN: (),
    AS_IT_IS: (),
    "not robust": ((robust_field, "MAX_NOISE", 0.0),),
    "rank 8": (),
    "no relevances": ((start_metric, "LEAST_RELEVANCE", 1.0),),
    "no short fit": ((first_metric, "MIN_ROWS", np.inf),),
    "no trial by range": ((first_metric, "MAX_RANGE_FEATURES", 0),),
    "usual step": ((first_metric, "SMALL_STEP", 1.0),),
    "all axes kept": ((first_metric, "LEAST_AXIS", 0.0),),
    "plain steps": ((metric_descent, "MAX_DECORRELATED", 0),),
    "step / 5": ((metric_descent, "FIRST_METRIC_STEP", STEP / 5),),
    "step x 2": ((metric_descent, "FIRST_METRIC_STEP", STEP * 2),),
}


def sets(folder):
    """Functions that make the sets, numbers of prototypes and of splits, by name."""
    iris, wine = load_iris(return_X_y=True), load_wine(return_X_y=True)
    cancer, digits = load_breast_cancer(return_X_y=True), load_digits(return_X_y=True)
    found = {
        "iris": (lambda: iris, 6, 10),
        "wine": (lambda: wine, 6, 10),
        "breast cancer": (lambda: cancer, 8, 10),
        "digits": (lambda: digits, 40, 6),
        "digits and noise": (lambda: (with_noise_columns(digits[0], 64), digits[1]), 40, 5),
        "imbalanced": (lambda: imbalanced(5000), 30, 4),
        "hypercube": (lambda: _hypercube(), 40, 6),
        "dependent features": (lambda: dependent_features(2000), 12, 4),
        "blobs": (lambda: overlapping_blobs(5000), 60, 3),
        "curved border": (lambda: _curved(8000), 64, 3),
    }
    if folder is not None:
        found["letter, 6000 rows"] = (lambda: _letter(folder, 6000), 104, 3)
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


def _curved(n, relevant=64):
    X, y = curved_border(n)
    return in_units(X[:, :relevant]), y


def _letter(folder, n=None):
    letter = np.load(folder / "letter.npz")
    rows = np.random.default_rng(0).permutation(len(letter["y"]))[:n]
    return letter["X"][rows].astype(np.float64), letter["y"][rows]


def model_of(variant, k):
    """Return an estimator of a variant, not yet fitted."""
    if variant == EUCLIDEAN:
        model = DiscriminativeKMeans(k, metric="euclidean", refine="margin")
        return make_pipeline(StandardScaler(), model)
    return DiscriminativeKMeans(
        k,
        metric="learned",
        refine="margin",
        n_components=8 if variant == "rank 8" else None,
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


LONGER = ((refine, "PASSES", 5 * refine.PASSES),)


def targets(folder):
    """Functions that make the sets, prototypes, errors to be reached, and constants, by name."""
    digits, cancer = load_digits(return_X_y=True), load_breast_cancer(return_X_y=True)
    found = {
        "digits 40": (lambda: digits, 40, 1.2, ()),
        "breast cancer 8": (lambda: cancer, 8, 4.2, ()),
        "curved border 64": (lambda: _curved(30_000), 64, 20.0, ()),
        "relevant columns": (lambda: _curved(30_000, 3), 64, None, ()),
        "five times the passes": (lambda: _curved(30_000, 3), 64, None, LONGER),
    }
    if folder is not None:
        found |= {
            "letter 104": (lambda: _letter(folder), 104, 6.0, ()),
            "letter 416": (lambda: _letter(folder), 416, 2.7, ()),
            "Yale B 304": (lambda: yale_faces(folder), 304, 3.6, ()),
            "Fashion 100, 4000 rows": (lambda: _fashion(folder, 4000), 100, None, ()),
            "Fashion 100, 30000 rows": (lambda: _fashion(folder, 30_000), 100, None, ()),
            "Fashion 100": (lambda: _fashion(folder, 70_000), 100, None, ()),
            "Fashion 600": (lambda: _fashion(folder, 70_000), 600, None, ()),
        }
    return found


def compare_with_targets(names, folder):
    """Print errors, targets and times for three splits."""
    every = targets(folder)
    print(f"{'':<24}{'target':>8}{'learned':>9}{'Euclidean':>11}{'time ratio':>12}")
    found = {}
    for name in names or every:
        make, k, target, constants = every[name]
        X, y = make()
        errors, seconds = defaultdict(list), defaultdict(float)
        for seed in range(3):
            parts = train_test_split(
                np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed
            )
            for metric in ("learned", "euclidean"):
                wrong, taken = _fit_in_own_units(metric, k, X, y, *parts, constants, name)
                errors[metric].append(100 * wrong / len(parts[1]))
                seconds[metric] += taken
        learned, plain = (round(float(np.mean(errors[m])), 2) for m in ("learned", "euclidean"))
        ratio = round(seconds["learned"] / seconds["euclidean"], 2)
        shown = "" if target is None else f"{target:g}"
        print(f"{name:<24}{shown:>8}{learned:>9.2f}{plain:>11.2f}{ratio:>12.2f}", flush=True)
        found[name] = {
            "target": target,
            "learned": learned,
            "euclidean": plain,
            "splits": [round(error, 2) for error in errors["learned"]],
            "time_ratio": ratio,
        }
    print_result({"targets": found})


def many_features(folder):
    """Functions that make sets of many features, and numbers of prototypes, by name."""
    found = {
        "500 features, 5 classes": (lambda: _wide(500, 5, n_redundant=50, class_sep=1.5), 40),
        "1000 features, 3 classes": (lambda: _wide(1000, 3, n_redundant=0, class_sep=1.0), 30),
    }
    if folder is not None:
        found |= {
            "Yale B": (lambda: yale_faces(folder), 304),
            "Fashion, 4000 rows": (lambda: _fashion(folder, 4000), 100),
        }
    return found


def _wide(n_features, n_classes, **about):
    about |= {"n_informative": 15, "n_classes": n_classes, "random_state": 1}
    return make_classification(2500, n_features, **about)


def _fashion(folder, n):
    fashion = np.load(folder / "fashion_mnist.npz")
    return fashion["images"][:n].reshape(n, -1).astype(np.float32), fashion["y"][:n]


def compare_ranks(folder):
    """Print errors and times by largest rank, for three splits."""
    ranks, found = (64, 128, 256), {}
    print(f"{'':<28}" + "".join(f"{f'rank {rank}':>18}" for rank in ranks))
    for name, (make, k) in many_features(folder).items():
        X, y = make()
        errors, seconds = defaultdict(list), defaultdict(float)
        for seed in range(3):
            parts = train_test_split(
                np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed
            )
            about = k, X, y, *parts
            _, taken = _fit_in_own_units("euclidean", *about, (), "Yale")
            seconds["euclidean"] += taken
            for rank in ranks:
                constants = [
                    (start_metric, which, rank)
                    for which in ("WIDE_COMPONENTS", "MIN_COMPONENTS", "MAX_COMPONENTS")
                ]
                wrong, taken = _fit_in_own_units("learned", *about, constants, name)
                errors[rank].append(100 * wrong / len(parts[1]))
                seconds[rank] += taken
        found[name] = {
            str(rank): {
                "error": round(float(np.mean(errors[rank])), 2),
                "time_ratio": round(seconds[rank] / seconds["euclidean"], 2),
            }
            for rank in ranks
        }
        texts = [f"{v['error']:.2f} % ({v['time_ratio']:.1f})" for v in found[name].values()]
        print(f"{name:<28}" + "".join(f"{text:>18}" for text in texts), flush=True)
    print("\nIn brackets: time relative to Euclidean refinement.")
    print_result({"ranks": found})


def _fit_in_own_units(metric, k, X, y, train, test, constants, name):
    """Fit, and return the number of errors; Euclidean rows are standardised if units differ."""
    model = DiscriminativeKMeans(k, refine="margin", metric=metric, max_iter=1000)
    if metric == "euclidean" and not name.startswith(("digits", "Yale", "Fashion")):
        model = make_pipeline(StandardScaler(), model)
    with ExitStack() as changes:
        for module, constant, value in constants:
            changes.enter_context(patch.object(module, constant, value))
        start = time.process_time()
        model.fit(X[train], y[train])
        seconds = time.process_time() - start
    return int((model.predict(X[test]) != y[test]).sum()), seconds


def mean_log_error(logs):
    """Return the mean over sets, given the values of their splits."""
    return round(float(np.mean([np.mean(scores) for scores in logs])), 3)


def added(logs, others):
    """Return the mean difference from a variant over sets, and its standard error.

    Both were measured on the same splits. A set with a single split adds nothing to the error.
    """
    worse = [np.subtract(a, b) for a, b in zip(logs, others, strict=True)]
    squares = [one.var(ddof=1) / len(one) for one in worse if len(one) > 1]
    error = float(np.sqrt(np.sum(squares))) / len(worse)
    return mean_log_error(worse), round(error, 3)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="default: all")
    parser.add_argument("--data", help="folder with letter.npz")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--targets", action="store_true", help="compare with the targets")
    parser.add_argument("--ranks", action="store_true", help="largest ranks for many features")
    options = parser.parse_args()
    if options.ranks:
        compare_ranks(data_folder(options.data))
        return
    if options.targets:
        known = targets(data_folder(options.data))
        if not set(options.sets) <= set(known):
            parser.error(f"the targets are {', '.join(known)}")
        compare_with_targets(options.sets, data_folder(options.data))
        return
    every, variants = sets(data_folder(options.data)), options.only
    unknown = set(options.sets) - set(every)
    if unknown:
        parser.error(f"unknown sets {sorted(unknown)}; the sets are {', '.join(every)}")
    print(f"{'':<20}" + "".join(f"{name:>19}" for name in variants))
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
            logs[variant].append(scores)
        print(f"{name:<20}" + "".join(f"{e:>19.2f}" for e in errors[name].values()), flush=True)
    found = {"mean log error": {v: mean_log_error(logs[v]) for v in variants}}
    if AS_IT_IS in variants:
        for at, name in enumerate(("it adds", "standard error")):
            found[name] = {v: added(logs[v], logs[AS_IT_IS])[at] for v in variants}
    for name, values in found.items():
        print(f"{name:<20}" + "".join(f"{value:>19.3f}" for value in values.values()))
    print(f"{'seconds':<20}" + "".join(f"{s:>19.1f}" for s in times.values()))
    print_result({"errors": errors} | found | {"seconds": times})


if __name__ == "__main__":
    main()
