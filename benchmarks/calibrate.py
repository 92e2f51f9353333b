"""Log-loss and calibration error of probabilities, and the coverage of prediction sets.

    python benchmarks/calibrate.py                   # the sets of benchmarks/accuracy.py
    python benchmarks/calibrate.py digits letter     # some of them
    python benchmarks/calibrate.py --coverage        # prediction sets, ten splits each
    python benchmarks/calibrate.py --quick           # digits: seconds

Splits are those of accuracy.py, the first `--splits` of each set. A fifth of the training rows is
held out for calibration, and the model is fitted on the others (10,000 rows at most). "rule of
thumb" is `predict_proba` without calibration, "calibrate" that after `calibrate`; sigmoid and
isotonic are scikit-learn's CalibratedClassifierCV, for the same model and the same held-out rows.
`max_clusters="auto"` is fitted on all training rows and calibrates itself; the number of clusters
is then its own.

Expected calibration error: mean difference between confidence and accuracy in 15 bins of
equal width, by rows. Of noisy digits the test labels are noisy, too.

With `--coverage`, ten stratified splits in halves: one trains, the other is cut into held-out rows
and test rows. The table has the share of sets that hold the true class, its lowest value among
the ten splits, the same for the class that is worst over all splits, and the mean size of sets.
"""

import argparse
import warnings

import numpy as np
from accuracy import FILES, load
from common import data_folder, print_result
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.plots import ReliabilityDisplay
from dkmeans.plots.display import off_screen

# Number of prototypes of each set.
SETS = {
    "digits": 40,
    "noisy digits": 40,
    "breast cancer": 8,
    "wine": 6,
    "irrelevant": 64,
    "letter": 104,
    "yale b": 152,
    "fashion": 100,
}
BINS = 15
LEAST = 1e-7  # probability that log-loss counts in place of 0
MAX_ROWS = 10_000  # of which a model is fitted
ALPHAS = (0.05, 0.1)


def figures(model, X, y):
    """Log-loss and expected calibration error, both of probabilities."""
    own = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    with off_screen():
        display = ReliabilityDisplay.from_estimator(model, X, y, n_bins=BINS)
    return -np.log(np.maximum(own, LEAST)).mean(), display.calibration_error


def noisy(task, y, split):
    """Labels of test rows, wrong as often as those of training rows."""
    if not task.noise:
        return y
    rng, classes = np.random.default_rng(1000 + split), np.unique(task.y)
    codes = np.searchsorted(classes, y)
    wrong = rng.random(len(y)) < task.noise
    return classes[(codes + wrong * rng.integers(1, len(classes), len(y))) % len(classes)]


def measure(task, k, split, metric):
    """Figures of all methods on one split."""
    X, y, X_test, y_test = task.parts(split, "")
    y_test = noisy(task, y_test, split)
    if len(X) > MAX_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MAX_ROWS, stratify=y, random_state=split)
    X_fit, X_held, y_fit, y_held = train_test_split(
        X, y, test_size=0.2, stratify=y, random_state=split
    )
    model = DiscriminativeKMeans(k, refine="margin", metric=metric).fit(X_fit, y_fit)
    yield "rule of thumb", *figures(model, X_test, y_test)
    for method in ("sigmoid", "isotonic"):
        other = CalibratedClassifierCV(FrozenEstimator(model), method=method).fit(X_held, y_held)
        yield f"scikit-learn, {method}", *figures(other, X_test, y_test)
    model.calibrate(X_held, y_held)
    yield "calibrate", *figures(model, X_test, y_test)
    auto = DiscriminativeKMeans("auto", refine="margin", metric=metric).fit(X, y)
    yield 'max_clusters="auto"', *figures(auto, X_test, y_test)


def probabilities(names, n_splits, metric):
    """Print log-loss and calibration error of each set."""
    result = {}
    for name in names:
        task, found = load(name, data_folder()), {}
        for split in range(min(n_splits, len(task.splits))):
            for method, *values in measure(task, SETS[name], split, metric):
                found.setdefault(method, []).append(values)
        print(f"\n| {name}, {SETS[name]} prototypes | log-loss | calibration error (%) |")
        print("|---|---:|---:|")
        for method, values in found.items():
            loss, error = np.mean(values, axis=0)
            print(f"| {method} | {loss:.4f} | {100 * error:.2f} |", flush=True)
            result.setdefault(name, {})[method] = [round(loss, 4), round(error, 4)]
    return result


def coverage(names, n_splits):
    """Print the coverage of prediction sets of each set."""
    result = {}
    head = ("per", "alpha", "coverage", "lowest", "worst class", "classes in a set")
    print(f"\n| set | {' | '.join(head)} |\n|---|---|{'---:|' * (len(head) - 1)}")
    for name in names:
        task, records = load(name, data_folder()), {}
        X, y = task.X, np.unique(task.y, return_inverse=True)[1]
        if len(X) > 2 * MAX_ROWS:
            X, _, y, _ = train_test_split(X, y, train_size=2 * MAX_ROWS, stratify=y, random_state=0)
        if task.standardise:
            X = StandardScaler().fit_transform(X)
        for split in range(n_splits):
            for key, values in covered(X, y, SETS[name], split):
                records.setdefault(key, []).append(values)
        for (per, alpha), values in records.items():
            shares, sizes, classes = zip(*values, strict=True)
            of_class = np.sum(classes, axis=0)
            worst = (of_class[0] / of_class[1]).min()
            cells = np.mean(shares), np.min(shares), worst, np.mean(sizes)
            text = " | ".join(f"{100 * value:.1f}" for value in cells[:3])
            print(f"| {name} | {per} | {alpha:g} | {text} | {cells[3]:.2f} |", flush=True)
            result.setdefault(name, {})[f"{per} {alpha:g}"] = [round(float(c), 4) for c in cells]
    return result


def covered(X, y, k, split):
    """Share of sets with the true class, sizes of sets, and counts by class, on one split."""
    halves = train_test_split(X, y, test_size=0.5, stratify=y, random_state=split)
    X_fit, X_rest, y_fit, y_rest = halves
    parts = train_test_split(X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=split)
    X_held, X_test, y_held, y_test = parts
    model = DiscriminativeKMeans(k, refine=None, metric="euclidean").fit(X_fit, y_fit)
    model.calibrate(X_held, y_held)
    for per in ("all", "class"):
        for alpha in ALPHAS:
            sets = model.predict_set(X_test, alpha, per=per)
            hit = sets[np.arange(len(y_test)), y_test]
            counts = np.bincount(y_test, hit), np.bincount(y_test)
            yield (per, alpha), (hit.mean(), sets.sum(axis=1).mean(), counts)


def main():
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; none means all")
    parser.add_argument("--splits", type=int, help="how many; 3, or 10 with --coverage")
    parser.add_argument("--metric", default="euclidean", help="of the models")
    parser.add_argument("--coverage", action="store_true", help="measure prediction sets")
    parser.add_argument("--quick", action="store_true", help="digits, one split")
    args = parser.parse_args()
    names = [name.replace("-", " ") for name in args.names]
    if args.quick:
        names, args.splits = ["digits"], 1
    folder = data_folder()
    there = [n for n in SETS if n not in FILES or (folder and (folder / FILES[n]).exists())]
    for name in names:
        if name not in there:
            raise SystemExit(f"No data set {name!r}; there are {', '.join(there)}.")
    if args.coverage:
        print_result(coverage(names or there, args.splits or 10))
    else:
        print_result(probabilities(names or there, args.splits or 3, args.metric))


if __name__ == "__main__":
    warnings.simplefilter("ignore", OverfittingWarning)
    main()
