"""Which settings to choose as defaults: candidates on many data sets, without any tuning.

    python benchmarks/defaults.py                  # all sets: about an hour
    python benchmarks/defaults.py wine moons       # some of them
    python benchmarks/defaults.py Fashion-MNIST --candidates "auto, refined"    # the defaults there
    python benchmarks/defaults.py --quick          # small sets, one split: about a minute

Every candidate is fitted as a new user would: raw columns, nothing set but what the candidate is
about. The score of a candidate is the mean over the sets of log((wrong + 0.5) / (n + 1)) on test
rows, over three stratified 80/20 splits (Fashion-MNIST: its own test rows). Results are kept in
`--out`, so a run that was interrupted goes on. Times are relative to class-wise k-means with as
many clusters, the best of three. On Fashion-MNIST, fits of a third of the rows load the compiled
code first, and tell how much longer the first fit of a process takes.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from common import curved_border, data_folder, overlapping_blobs, print_result, yale_faces
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_moons,
)
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans
from dkmeans.baselines import ClasswiseKMeans

N_SPLITS = 3
FIELDS = ("set", "candidate", "split", "prototypes", "wrong", "rows", "seconds", "over k-means")


def _model(**settings):
    return lambda: DiscriminativeKMeans(**settings)


def _scaled(**settings):
    return lambda: make_pipeline(StandardScaler(), DiscriminativeKMeans(**settings))


GROWN = {"growth": "best", "metric": "euclidean", "refine": None}
REFINED = GROWN | {"refine": "margin"}
LEARNED = REFINED | {"metric": "learned"}
CANDIDATES = {
    "converged": _model(max_clusters=None, **GROWN),
    "converged, scaled": _scaled(max_clusters=None, **GROWN),
    "converged, refined": _model(max_clusters=None, **REFINED),
    "converged, refined, scaled": _scaled(max_clusters=None, **REFINED),
    "converged, learned": _model(max_clusters=None, **LEARNED),
    "auto": _model(max_clusters="auto", **GROWN),
    "auto, scaled": _scaled(max_clusters="auto", **GROWN),
    "auto, refined": _model(max_clusters="auto", **REFINED),
    "auto, refined, scaled": _scaled(max_clusters="auto", **REFINED),
    "auto, learned": _model(max_clusters="auto", **LEARNED),
    "defaults": _model(),  # "auto, refined" or "auto, learned"
}


def with_wrong_labels(X, y, share, seed=0):
    """Change a share of the labels to another class at random."""
    rng = np.random.default_rng(seed)
    classes = np.unique(y)
    wrong = rng.random(len(y)) < share
    shift = rng.integers(1, len(classes), len(y))
    index = np.searchsorted(classes, y)
    return X, np.where(wrong, classes[(index + shift) % len(classes)], y)


def in_units(X, seed=0):
    """Give the columns units between a thousandth and a thousand."""
    return X * 10.0 ** np.random.default_rng(seed).uniform(-3, 3, X.shape[1])


def with_noise_columns(X, count, seed=0):
    """Add columns that say nothing about the classes."""
    noise = np.random.default_rng(seed).normal(size=(len(X), count)) * X.std()
    return np.hstack([X, noise])


def imbalanced(n, seed=0):
    """Three classes, of which one has 94 % of the rows."""
    return make_classification(
        n, 12, n_informative=6, n_classes=3, weights=[0.94, 0.04, 0.02], random_state=seed
    )


def data_sets(folder):
    """Functions that make the sets, by name: real ones, and made ones with a known difficulty."""
    iris, wine = load_iris(return_X_y=True), load_wine(return_X_y=True)
    cancer, digits = load_breast_cancer(return_X_y=True), load_digits(return_X_y=True)
    sets = {
        "iris": lambda: iris,
        "wine": lambda: wine,
        "breast cancer": lambda: cancer,
        "digits": lambda: digits,
        "digits, 20 % wrong labels": lambda: with_wrong_labels(*digits, 0.2),
        "digits and 64 columns of noise": lambda: (with_noise_columns(digits[0], 64), digits[1]),
        "breast cancer, mixed units": lambda: (in_units(cancer[0]), cancer[1]),
        "moons": lambda: make_moons(2000, noise=0.1, random_state=0),
        "noisy moons": lambda: make_moons(2000, noise=0.35, random_state=0),
        "tiny": lambda: (iris[0][::4], iris[1][::4]),
        "imbalanced": lambda: imbalanced(5000),
        "curved border, mixed units": lambda: _curved(),
        "blobs": lambda: overlapping_blobs(10_000),
    }
    if folder is not None:
        sets |= {
            "letter": lambda: _letter(folder),
            "Yale B": lambda: yale_faces(folder),
            "Fashion-MNIST": lambda: _fashion(folder),
        }
    return sets


def _curved():
    X, y = curved_border(10_000)
    return in_units(X), y


def _letter(folder):
    letter = np.load(folder / "letter.npz")
    return letter["X"].astype(np.float64), letter["y"]


def _fashion(folder):
    fashion = np.load(folder / "fashion_mnist.npz")
    return fashion["images"].reshape(len(fashion["y"]), -1).astype(np.float32), fashion["y"]


def splits_of(name, X, y, folder, quick):
    """Pairs of training and test rows."""
    if name == "Fashion-MNIST":
        part = np.load(folder / "fashion_mnist.npz")["is_train"]
        return [(np.flatnonzero(part), np.flatnonzero(~part))]
    splits = StratifiedShuffleSplit(N_SPLITS, test_size=0.2, random_state=0).split(X, y)
    return list(splits)[: 1 if quick else None]


def truth(name, y, split):
    """Labels to test on: those before some were made wrong."""
    if name.endswith("wrong labels"):
        return load_digits().target[split]
    return y[split]


def measure(name, candidate, X, y, train, test, k_means_seconds):
    """Fit once, and count the errors on test rows."""
    model = CANDIDATES[candidate]()
    seconds = _timed(model, X[train], y[train])
    fitted = model[-1] if hasattr(model, "steps") else model
    wrong = int((model.predict(X[test]) != truth(name, y, test)).sum())
    k = len(fitted.cluster_centers_)
    return {
        "prototypes": k,
        "wrong": wrong,
        "rows": len(test),
        "seconds": round(seconds, 3),
        "over k-means": round(seconds / k_means_seconds(k), 2),
    }


class ClasswiseTimes:
    """Seconds that class-wise k-means takes on some rows, by number of clusters."""

    def __init__(self, X, y):
        self.X, self.y, self.known = X, y, {}

    def __call__(self, k):
        """Fit three times for each number of clusters; the shortest time counts."""
        if k not in self.known:
            model = ClasswiseKMeans(k, n_init=1, init="random")
            self.known[k] = min(_timed(model, self.X, self.y) for _ in range(3))
        return self.known[k]


def _timed(model, X, y):
    """Fit, and return the seconds that it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return time.perf_counter() - start


def load_compiled_code(candidate, X, y):
    """Fit a third of the rows twice, and print how much longer the first fit took."""
    first, second = (_timed(CANDIDATES[candidate](), X[::3], y[::3]) for _ in range(2))
    print(f"seconds to load compiled code: {first - second:.2f}", flush=True)


class Results:
    """All fits measured so far, kept in a CSV file."""

    def __init__(self, path, fresh):
        self.path, self.rows = path, {}
        if path.exists() and not fresh:
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    self.rows[row["set"], row["candidate"], row["split"]] = row

    def add(self, row):
        """Add a fit, and write the file."""
        self.rows[row["set"], row["candidate"], str(row["split"])] = row
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(self.rows.values())


def run(name, make, candidates, results, folder, quick):
    """Measure candidates on one set."""
    X, y = make()
    for number, (train, test) in enumerate(splits_of(name, X, y, folder, quick)):
        times = ClasswiseTimes(X[train], y[train])
        for candidate in candidates:
            if (name, candidate, str(number)) in results.rows:
                continue
            if name == "Fashion-MNIST":
                load_compiled_code(candidate, X[train], y[train])
            found = measure(name, candidate, X, y, train, test, times)
            results.add({"set": name, "candidate": candidate, "split": number} | found)
            error = 100 * found["wrong"] / found["rows"]
            print(
                f"{name:32s}{candidate:26s}{found['prototypes']:6d}{error:8.2f} %"
                f"{found['seconds']:9.2f} s{found['over k-means']:8.1f}",
                flush=True,
            )


def table(results, names, candidates):
    """Print errors by set, and return the scores of the candidates."""
    print("\nHeld-out error in %, and prototypes in brackets\n")
    print("| set | " + " | ".join(candidates) + " |")
    print("|---|" + "---:|" * len(candidates))
    scores = {candidate: [] for candidate in candidates}
    for name in names:
        texts = []
        for candidate in candidates:
            rows = [r for (s, c, _), r in results.rows.items() if s == name and c == candidate]
            wrong = sum(int(r["wrong"]) for r in rows)
            n = sum(int(r["rows"]) for r in rows)
            scores[candidate].append(np.log((wrong + 0.5) / (n + 1)))
            k = np.mean([int(r["prototypes"]) for r in rows])
            texts.append(f"{100 * wrong / n:.2f} ({k:.0f})")
        print(f"| {name} | " + " | ".join(texts) + " |")
    means = {candidate: round(float(np.mean(s)), 3) for candidate, s in scores.items()}
    print("| mean log error | " + " | ".join(f"{v:.3f}" for v in means.values()) + " |")
    return means


def main():
    """Measure, print a table and the scores."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; none means all")
    parser.add_argument("--quick", action="store_true", help="small sets, one split")
    parser.add_argument(
        "--candidates", nargs="+", choices=CANDIDATES, default=list(CANDIDATES), metavar="NAME"
    )
    parser.add_argument("--fresh", action="store_true", help="forget what was measured")
    parser.add_argument("--data", help="folder with the .npz files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"), help="folder to write")
    arguments = parser.parse_args()
    folder = None if arguments.quick else data_folder(arguments.data)
    sets = data_sets(folder)
    names = arguments.names or list(sets)
    if arguments.quick:
        names = ["iris", "wine", "moons", "noisy moons", "tiny"]
    for name in names:
        if name not in sets:
            parser.error(f"no data set {name!r}; there are {', '.join(sets)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    kind = "-quick" if arguments.quick else ""
    results = Results(arguments.out / f"defaults{kind}.csv", arguments.fresh)
    for name in names:
        run(name, sets[name], arguments.candidates, results, folder, arguments.quick)
    print_result({"defaults": table(results, names, arguments.candidates)})


if __name__ == "__main__":
    main()
