"""Held-out error, and the time to fit and to predict, against the number of prototypes.

    python benchmarks/accuracy.py                    # all sets
    python benchmarks/accuracy.py digits letter      # some of them
    python benchmarks/accuracy.py --only refined learned    # two of the methods
    python benchmarks/accuracy.py --quick            # digits, one fold, two budgets: under a minute

The sets are digits, breast-cancer and wine, which scikit-learn ships; noisy-digits, where a fifth
of the training labels are wrong; irrelevant, 64 features in units from 1e-3 to 1e3 of which 3
matter; and letter, yale-b and fashion, whose files are read from `--data`, the folder named by
DKMEANS_DATA, or ../shared/data. The learned metric gets rows in their own units, all others
standardised ones where units differ. LDA and NCA are fitted before growth and refinement; NCA on
2000 rows at most, as its time grows with their square.

Prints tables, and writes accuracy.csv (one row per fit) and a figure per set to `--out`.

A run that was interrupted goes on where it was: results in accuracy.csv are used again, those of
dkmeans only if the sources of its algorithm are still the same, those of GLVQ only if glvq.py is.
`--fresh` forgets what the file holds of the sets asked for. Times are those of the run that
measured them, on all cores where a method can use them, but one for gradient boosting.
"""

import argparse
import csv
import hashlib
import io
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import curved_border, data_folder, print_result, yale_faces
from glvq import GLVQ
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.neighbors import (
    KNeighborsClassifier,
    NearestCentroid,
    NeighborhoodComponentsAnalysis,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import dkmeans
from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.atomic import write_atomically
from dkmeans.baselines import ClasswiseKMeans
from dkmeans.plots.style import color, marker


class SampledNCA(NeighborhoodComponentsAnalysis):
    """Neighbourhood components analysis on a random part of the rows."""

    def fit(self, X, y):
        """Fit on 2000 rows at most."""
        rng = np.random.default_rng(self.random_state)
        rows = rng.permutation(len(X))[:2000]
        return super().fit(X[rows], y[rows])


# Each takes a budget of prototypes and a seed, which is the number of the split.
PROTOTYPES = {
    "dkmeans, paper": lambda k, seed: DiscriminativeKMeans.paper(k),
    "dkmeans, best": lambda k, seed: DiscriminativeKMeans(
        k, growth="best", refine=None, metric="euclidean"
    ),
    "dkmeans, best + refined": lambda k, seed: DiscriminativeKMeans(
        k, growth="best", refine="margin", metric="euclidean"
    ),
    "dkmeans, learned metric": lambda k, seed: DiscriminativeKMeans(
        k, refine="margin", metric="learned"
    ),
    "dkmeans, after LDA": lambda k, seed: make_pipeline(
        LinearDiscriminantAnalysis(), DiscriminativeKMeans(k, refine="margin", metric="euclidean")
    ),
    "dkmeans, after NCA": lambda k, seed: make_pipeline(
        SampledNCA(random_state=seed), DiscriminativeKMeans(k, refine="margin", metric="euclidean")
    ),
    "class-wise k-means": lambda k, seed: ClasswiseKMeans(k, n_init=3, random_state=seed),
    "GLVQ": lambda k, seed: GLVQ(k, random_state=seed),
}
ALL_DATA = {
    "nearest centroid": NearestCentroid,
    "1-NN": lambda: KNeighborsClassifier(1),
    "5-NN": lambda: KNeighborsClassifier(5),
    "RBF SVM": lambda: SVC(C=10, gamma="scale"),
    "gradient boosting": lambda: HistGradientBoostingClassifier(
        early_stopping=False, random_state=0
    ),
}
LEFT_OUT = {
    ("yale b", "dkmeans, after NCA"): "takes too long with 2016 features",
    ("fashion", "dkmeans, after NCA"): "takes too long with 784 features",
    ("yale b", "dkmeans, after LDA"): "needs more rows than the 2016 features",
    ("fashion", "RBF SVM"): "takes too long on 60,000 rows",
    ("fashion", "gradient boosting"): "takes too long on 60,000 rows of 784 features",
    ("yale b", "gradient boosting"): "takes too long with 2016 features and 38 classes",
    ("fashion", "GLVQ"): "takes too long: minutes for every hundred prototypes",
    ("yale b", "GLVQ"): "takes too long: half a minute for each of the fits",
}
FILES = {
    "letter": "letter.npz",
    "yale b": "yaleb_ext_48x42.npz",
    "fashion": "fashion_mnist.npz",
}
REFINED, LEARNED = "dkmeans, best + refined", "dkmeans, learned metric"
IN_OWN_UNITS = {LEARNED}  # methods that standardise rows themselves
# Errors in % that are to be reached.
TARGETS = {
    (REFINED, "digits", 20): 2.2,
    (REFINED, "digits", 40): 1.6,
    (REFINED, "letter", 104): 11.0,
    (REFINED, "letter", 416): 4.5,
    (REFINED, "yale b", 304): 4.5,
    (REFINED, "fashion", 600): 12.0,
    (LEARNED, "digits", 40): 1.2,
    (LEARNED, "breast cancer", 8): 4.2,
    (LEARNED, "irrelevant", 64): 20.0,
    (LEARNED, "letter", 104): 6.0,
    (LEARNED, "letter", 416): 2.7,
    (LEARNED, "yale b", 304): 3.6,
    (LEARNED, "fashion", 600): 11.2,
}
FIELDS = (
    "set",
    "method",
    "budget",
    "split",
    "prototypes",
    "error",
    "test_rows",
    "fit_seconds",
    "predict_seconds",
    "digest",
)


@dataclass(frozen=True)
class Task:
    """A data set, how it is split, and the budgets of prototypes to try."""

    name: str
    X: np.ndarray
    y: np.ndarray
    splits: list
    protocol: str
    budgets: tuple
    standardise: bool = False
    noise: float = 0.0  # share of training labels that are wrong
    all_data: tuple = tuple(ALL_DATA)
    only: tuple = ("",)  # what names of methods contain

    @property
    def cells(self):
        """Pairs of method and budget; None stands for all data."""
        pairs = [(method, k) for method in PROTOTYPES for k in self.budgets]
        pairs += [(method, None) for method in self.all_data]
        return [
            (method, k)
            for method, k in pairs
            if (self.name, method) not in LEFT_OUT and any(text in method for text in self.only)
        ]

    def parts(self, split, method):
        """Training and test rows of a split, scaled by what the training rows show."""
        train, test = self.splits[split]
        X_train, X_test = self.X[train], self.X[test]
        if self.standardise and method not in IN_OWN_UNITS:
            scaler = StandardScaler().fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        return X_train, self._training_labels(train, split), X_test, self.y[test]

    def _training_labels(self, train, split):
        """Replace some labels by others."""
        rng, classes = np.random.default_rng(split), np.unique(self.y)
        y = np.searchsorted(classes, self.y[train])
        wrong = rng.random(len(y)) < self.noise
        return classes[(y + wrong * rng.integers(1, len(classes), len(y))) % len(classes)]


def load(name, folder):
    """Load a set and split it."""
    if name == "digits":
        return folded(name, *load_digits(return_X_y=True), 5, (10, 20, 40, 100))
    if name == "noisy digits":
        task = folded(name, *load_digits(return_X_y=True), 5, (20, 40))
        return replace(task, noise=0.2, protocol=f"{task.protocol}, a fifth of labels wrong")
    if name == "irrelevant":
        X, y = curved_border(30_000)
        X = X * np.logspace(-3, 3, X.shape[1], dtype=np.float32)
        return Task(name, X, y, *three_splits(X, y), (64, 256), standardise=True)
    if name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return folded(name, X, y, 5, (2, 4, 8, 16), standardise=True)
    if name == "wine":
        return folded(name, *load_wine(return_X_y=True), 5, (3, 6, 12, 24), standardise=True)
    if name == "yale b":
        return folded(name, *yale_faces(folder), 10, (152, 304))
    if name == "letter":
        letter = np.load(folder / FILES[name])
        X, y = letter["X"].astype(np.float64), letter["y"]
        return Task(name, X, y, *three_splits(X, y), (26, 104, 416), standardise=True)
    fashion = np.load(folder / FILES[name])
    X = fashion["images"].reshape(len(fashion["y"]), -1).astype(np.float32) / 255
    splits = [(np.flatnonzero(fashion["is_train"]), np.flatnonzero(~fashion["is_train"]))]
    return Task(name, X, fashion["y"], splits, "its own test rows", (100, 600))


def three_splits(X, y):
    """Split stratified, and say how."""
    splits = [
        next(StratifiedShuffleSplit(1, test_size=0.2, random_state=seed).split(X, y))
        for seed in range(3)
    ]
    return splits, "three stratified splits, 80 % to train"


def folded(name, X, y, n_folds, budgets, standardise=False):
    """Make a task of stratified, shuffled cross-validation."""
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y)
    return Task(name, X, y, list(folds), f"stratified {n_folds}-fold", budgets, standardise)


def smaller(task):
    """Leave what takes seconds: the first split, two budgets, and no gradient boosting."""
    return replace(
        task,
        splits=task.splits[:1],
        protocol=f"one split of {task.protocol}",
        budgets=task.budgets[:2],
        all_data=tuple(method for method in task.all_data if method != "gradient boosting"),
    )


class Results:
    """All fits measured so far, kept in a CSV file."""

    def __init__(self, path, forget=()):
        self.path = path
        self.rows = {}
        self.digests = {
            "dkmeans": package_digest(),
            "GLVQ": digest([Path(__file__).parent / "glvq.py"]),
        }
        if path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    if row["set"] not in forget:
                        self.rows[self._key(row)] = row

    def get(self, task, method, budget, split):
        """Find a fit, or measure it."""
        row = {
            "set": task.name,
            "method": method,
            "budget": "all" if budget is None else budget,
            "split": split,
            "digest": self.digests.get(method.split(",")[0], ""),
        }
        key = self._key(row)
        if key not in self.rows or self.rows[key]["digest"] != row["digest"]:
            self.rows[key] = row | measure(task, method, budget, split)
            self._write()
        return self.rows[key]

    @staticmethod
    def _key(row):
        return tuple(str(row[field]) for field in ("set", "method", "budget", "split"))

    def _write(self):
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, FIELDS)
        writer.writeheader()
        writer.writerows(self.rows.values())
        # Whole or not at all: an interruption must not cost what was measured before.
        write_atomically(self.path, text.getvalue().encode())


def package_digest():
    """Digest of the sources that decide on results: the package without `cli` and `plots`."""
    root = Path(dkmeans.__file__).parent
    outside = {"cli", "plots"}
    files = (path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in outside)
    return digest(sorted(files))


def digest(files):
    """Digest of the content of files."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]


def measure(task, method, budget, split):
    """Fit, predict and take the time."""
    X_train, y_train, X_test, y_test = task.parts(split, method)
    model = ALL_DATA[method]() if budget is None else PROTOTYPES[method](budget, split)
    # The threads of the boosting wait for each other so often that on a busy machine two took
    # 18 times as long as one.
    threads = 1 if method == "gradient boosting" else None
    with threadpool_limits(threads, user_api="openmp"):
        start = time.perf_counter()
        model.fit(X_train, y_train)
        fitted = time.perf_counter()
        predicted = model.predict(X_test)
        end = time.perf_counter()
    return {
        "prototypes": count_prototypes(model),
        "error": round(100 * float(np.mean(predicted != y_test)), 4),
        "test_rows": len(y_test),
        "fit_seconds": round(fitted - start, 4),
        "predict_seconds": round(end - fitted, 5),
    }


def count_prototypes(model):
    """Count the rows that a prediction compares with; trees have none."""
    if isinstance(model, Pipeline):
        model = model[-1]
    if hasattr(model, "cluster_centers_"):
        return len(model.cluster_centers_)
    if isinstance(model, NearestCentroid):
        return len(model.centroids_)
    if isinstance(model, KNeighborsClassifier):
        return model.n_samples_fit_
    return int(model.n_support_.sum()) if isinstance(model, SVC) else np.nan


@dataclass(frozen=True)
class Cell:
    """What a method reaches at a budget, over all splits."""

    errors: tuple  # one per split
    error: float
    spread: float
    prototypes: float
    fit_seconds: float
    predict_microseconds: float

    @classmethod
    def of(cls, rows):
        """Sum up one row per split."""
        errors, counts, tests, fits, predicts = (
            np.array([float(row[field]) for row in rows])
            for field in ("error", "prototypes", "test_rows", "fit_seconds", "predict_seconds")
        )
        mean = errors.mean()
        # One split has no spread of its own: take that of a count of errors.
        one = (mean * (100 - mean) / tests[0]) ** 0.5
        spread = errors.std(ddof=1) / len(errors) ** 0.5 if len(errors) > 1 else one
        per_row = np.median(1e6 * predicts / tests)
        times = float(np.median(fits)), float(per_row)
        return cls(tuple(errors), mean, spread, counts.mean(), *times)


def run(task, results):
    """Measure all cells of a task, and say so on the way."""
    cells = {}
    for method, budget in task.cells:
        rows = [results.get(task, method, budget, i) for i in range(len(task.splits))]
        cell = cells[method, budget] = Cell.of(rows)
        print(
            f"{task.name:<14}{method:<24}{budget or 'all':>6}"
            f"{cell.error:>8.2f} +- {cell.spread:<6.2f} fit {cell.fit_seconds:.2f} s",
            file=sys.stderr,
            flush=True,
        )
    return cells


def report(task, cells):
    """Print tables in Markdown: errors, and times."""
    classes = len(np.unique(task.y))
    n, d = task.X.shape
    kind = f"standard error over {len(task.splits)} splits"
    if len(task.splits) == 1:
        kind = f"binomial standard error of one split with {len(task.splits[0][1])} test rows"
    print(f"\n## {task.name}: {n} rows, {d} features, {classes} classes; {task.protocol}\n")
    tables = {
        f"Held-out error in %, mean +- {kind}": lambda c: f"{c.error:.2f} +- {c.spread:.2f}",
        "Seconds to fit, median": lambda c: f"{c.fit_seconds:.3g}",
        "Microseconds to predict a row, median": lambda c: f"{c.predict_microseconds:.3g}",
    }
    columns = (*task.budgets, None)
    for title, text in tables.items():
        print(f"{title}:\n")
        print(f"| {'prototypes':<24}|" + "".join(f"{k or 'all data':>15} |" for k in columns))
        print(f"|{'':-<25}|" + "---------------:|" * len(columns))
        for method in cells_by_method(cells):
            shown = (cells.get((method, k)) for k in columns)
            line = "".join(f"{text(c) if c else '':>15} |" for c in shown)
            print(f"| {method:<24}|{line}")
        print()
    for (method, k), cell in cells.items():
        if k is not None and abs(cell.prototypes - k) > 0.05:
            print(f"Asked for {k} prototypes, {method} used {cell.prototypes:.1f}.")
    for (name, method), why in LEFT_OUT.items():
        if name == task.name:
            print(f"Left out: {method}, which {why}.")
    sys.stdout.flush()


def cells_by_method(cells):
    """Group cells: for each method, pairs of budget and cell."""
    grouped = {}
    for (method, budget), cell in cells.items():
        grouped.setdefault(method, []).append((budget, cell))
    return grouped


def draw(task, cells, path):
    """Draw error against the number of prototypes; dashed lines are methods on all data."""
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log")
    # A log axis has no zero: no error at all is drawn as half an error among all test rows.
    least = 50 / sum(len(test) for _, test in task.splits)
    lines = {}
    for number, (method, found) in enumerate(cells_by_method(cells).items()):
        if method in ALL_DATA:
            lines[method] = max(found[0][1].error, least)
            axes.axhline(lines[method], color="0.45", linewidth=0.9, linestyle="--", zorder=1)
            continue
        axes.errorbar(
            # Moved apart by 2 %, so that no bar hides another.
            [c.prototypes * 1.02 ** (number - 2) for _, c in found],
            [max(c.error, least) for _, c in found],
            [c.spread for _, c in found],
            color=color(number),
            marker=marker(number),
            capsize=3,
            label=method,
        )
    # Room for the bars, unless they reach down to nothing.
    lowest = min(max(c.error - c.spread, c.error / 2, least) for c in cells.values())
    highest = max(c.error + c.spread for c in cells.values())
    axes.set_ylim(lowest / 1.15, highest * 1.15)
    name_lines(axes, lines)
    ticks = [m * 10.0**e for e in range(-2, 3) for m in (1, 1.5, 2, 3, 5, 7)]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_locator(FixedLocator(task.budgets))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.set_xlabel("number of prototypes")
    axes.set_ylabel("held-out error (%)")
    bars = "binomial standard error" if len(task.splits) == 1 else "standard error"
    axes.set_title(f"{task.name}, {task.protocol}; bars: {bars}", fontsize=11)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def name_lines(axes, lines):
    """Name horizontal lines beside the axes, moved apart where they would overlap."""
    low, high = np.log(axes.get_ylim())
    order = sorted(lines, key=lines.get)
    true = np.array([(np.log(lines[name]) - low) / (high - low) for name in order])
    gap, at = 0.045, true.copy()
    for _ in range(100):
        for i in range(1, len(at)):
            overlap = gap - (at[i] - at[i - 1])
            if overlap > 0:
                at[i - 1 : i + 1] += (-overlap / 2, overlap / 2)
    for name, y, y_text in zip(order, true, at, strict=True):
        axes.annotate(
            f"{name} {lines[name]:.3g}",
            (1, y),
            (1.04, y_text),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color="0.25",
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.7, "shrinkA": 1},
        )


def summary(found):
    """Mean errors by set, budget and method, and the targets among them."""
    errors = {}
    for name, cells in found.items():
        for (method, budget), cell in cells.items():
            at = errors.setdefault(name, {}).setdefault(str(budget or "all"), {})
            at[method] = round(float(cell.error), 2)
    targets = {}
    for (method, name, budget), target in TARGETS.items():
        cell = found.get(name, {}).get((method, budget))
        if cell is not None:
            targets[f"{name} {budget}, {method}"] = {
                "target": target,
                "error": round(float(cell.error), 3),
                "standard_error": round(float(cell.spread), 3),
                "reached": bool(cell.error - cell.spread <= target),
                "fit_seconds": round(cell.fit_seconds, 2),
            }
    return {"errors": errors, "targets": targets, "learned": compare_metrics(found)}


def compare_metrics(found):
    """Compare the learned metric with Euclidean refinement, split by split."""
    pairs, logs, times = {}, [], []
    for name, cells in found.items():
        for method, budget in cells:
            if method != LEARNED or (REFINED, budget) not in cells:
                continue
            learned, plain = cells[LEARNED, budget], cells[REFINED, budget]
            gaps = np.subtract(learned.errors, plain.errors)
            spread = gaps.std(ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else plain.spread
            pairs[f"{name} {budget}"] = {
                "difference": round(float(gaps.mean()), 3),
                "standard_error": round(float(spread), 3),
                "worse": bool(gaps.mean() > 2 * spread),
                "time_ratio": round(learned.fit_seconds / plain.fit_seconds, 2),
            }
            logs.append(np.log(max(learned.error, 0.01) / max(plain.error, 0.01)))
            times.append(learned.fit_seconds / plain.fit_seconds)
    if not pairs:
        return {}
    return {
        "over_refined": pairs,
        "mean_log_ratio": round(float(np.mean(logs)), 3),
        "largest_time_ratio": round(float(np.max(times)), 2),
    }


def main():
    """Read the command line and run."""
    known = ("digits", "noisy digits", "breast cancer", "wine", "irrelevant", *FILES)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; none means all")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"), help="folder to write")
    parser.add_argument("--data", help="folder with the .npz files")
    parser.add_argument("--fresh", action="store_true", help="measure all again")
    parser.add_argument("--only", metavar="TEXT", nargs="+", help="methods with this in their name")
    parser.add_argument("--quick", action="store_true", help="a small part, to see that it works")
    args = parser.parse_args()
    names = [name.replace("-", " ") for name in args.names] or list(known)
    for name in names:
        if name not in known:
            there = ", ".join(each.replace(" ", "-") for each in known)
            parser.error(f"no data set {name!r}; there are {there}")
    if args.quick:
        names = ["digits"]
    folder = data_folder(args.data)
    args.out.mkdir(parents=True, exist_ok=True)
    results = Results(args.out / "accuracy.csv", forget=names if args.fresh else ())
    found = {}
    for name in names:
        if name in FILES and (folder is None or not (folder / FILES[name]).exists()):
            print(f"Left out: {name}, as there is no {FILES[name]}; name its folder with --data.")
            continue
        task = load(name, folder)
        if args.quick:
            task = smaller(task)
        if args.only:
            task = replace(task, only=tuple(args.only))
        found[name] = run(task, results)
        report(task, found[name])
        draw(task, found[name], args.out / f"accuracy-{name.replace(' ', '-')}.png")
    print_result(summary(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore", OverfittingWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    # Pixels at the edge of the digits never differ, which the centroids do not mind.
    warnings.filterwarnings("ignore", "self.within_class_std_dev_", UserWarning)
    main()
