"""Rejection of rows of classes that the fit has never seen, and of others with them.

    python benchmarks/reject.py                  # digits, Extended Yale B and letter
    python benchmarks/reject.py digits           # one of them
    python benchmarks/reject.py letter --metric learned

Each digit is left out of training in turn, a fifth of the people of Extended Yale B, and a fifth of
the letters (files are read from `--data`, the folder named by DKMEANS_DATA, or ../shared/data). The
rows of the others are cut into four stratified parts, and each part is the test once: two parts
train, one chooses the thresholds. All methods see the same rows, and all thresholds are the same
quantile of their scores.

Prints tables: area under the ROC curve, share of strangers that are rejected, share of known rows
that are rejected beside what is promised, and the same for the worst class, by true label. Writes
reject-digits.png and so on with the ROC curves to `--out`.
"""

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
from common import data_folder, print_result, yale_faces
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.plots.style import color

RATES = (0.01, 0.05, 0.1)
RATE = 0.05  # of the main table
PARTS = 4
OURS = "dkmeans"
TOLD = (f"{OURS}, per class", f"{OURS}, per all")  # at all rates
GRID = np.linspace(0, 1, 201)
# What the picture shows of the methods, with the style of the line.
DRAWN = {
    f"{OURS}, per all": "-",
    f"{OURS}, per class": (0, (8, 2)),
    "highest probability": "--",
    "1-NN distance": "-.",
    "LOF": ":",
    "isolation forest": (0, (5, 1, 1, 1, 1, 1)),
}


def ours(model):
    """Other scores that take the prototypes alone."""

    def near(X):
        return np.sort(model._class_distances(X).astype(np.float64), axis=1)

    return {
        "distance": lambda X: near(X)[:, 0],
        "distance / rival": lambda X: np.divide(*near(X)[:, :2].T),
        "highest probability": lambda X: -model.predict_proba(X).max(axis=1),
    }


def baselines(X):
    """Methods that keep all training rows, or grow a forest on them."""
    neighbours = NearestNeighbors(n_neighbors=5).fit(X)
    factor = LocalOutlierFactor(novelty=True).fit(X)
    forest = IsolationForest(random_state=0).fit(X)
    return {
        "1-NN distance": lambda Z: neighbours.kneighbors(Z, 1)[0][:, 0],
        "5-NN distance": lambda Z: neighbours.kneighbors(Z)[0][:, 4],
        "LOF": lambda Z: -factor.score_samples(Z),
        "isolation forest": lambda Z: -forest.score_samples(Z),
    }


def quantile(scores, rate):
    """Threshold by the rank of a new row among all: written down here once more, for the others."""
    above = math.floor(rate * (len(scores) + 1) + 1e-9)
    return np.sort(scores)[len(scores) - above]


def measure(X, y, strangers, per_class, refine, metric, note):
    """Rows of (method, rate, run, AUC, detected, false alarms, by class), and ROC curves."""
    known = ~np.isin(y, strangers)
    X_strange, X, y = X[~known], X[known], y[known]
    folds = StratifiedKFold(PARTS, shuffle=True, random_state=0).split(X, y)
    parts = [test for _, test in folds]
    for turn in range(PARTS):
        a, b, held, test = (parts[(turn + i) % PARTS] for i in range(PARTS))
        train = np.concatenate([a, b])
        model = DiscriminativeKMeans(per_class * len(np.unique(y)), refine=refine, metric=metric)
        model.fit(X[train], y[train])
        for per in ("class", "prototype", "all"):
            for rate in RATES if per != "prototype" else (RATE,):
                model.set_rejection(X[held], false_alarm_rate=rate, per=per)
                # Expected: by the number of held-out rows that each threshold comes from.
                promised = model.rejection_.rate[model.predict_cluster(X[test])].mean()
                seen, strange = model.unknown_score(X[test]), model.unknown_score(X_strange)
                note(f"{OURS}, per {per}", rate, seen, strange, 1.0, y[test], promised)
        for name, score in (ours(model) | baselines(X[train])).items():
            held_scores, seen, strange = score(X[held]), score(X[test]), score(X_strange)
            for rate in RATES:
                expected = math.floor(rate * (len(held) + 1) + 1e-9) / (len(held) + 1)
                note(name, rate, seen, strange, quantile(held_scores, rate), y[test], expected)


class Notes:
    """All that was measured on one set."""

    def __init__(self):
        self.records = {}
        self.curves = {}
        self.counts = {}

    def __call__(self, method, rate, seen, strange, threshold, labels, promised):
        """Note a run."""
        truth = np.repeat([0, 1], [len(seen), len(strange)])
        scores = np.concatenate([seen, strange])
        wrong = seen > threshold
        record = (
            roc_auc_score(truth, scores),
            (strange > threshold).mean(),
            wrong.mean(),
            promised,
        )
        self.records.setdefault((method, rate), []).append(record)
        tally = self.counts.setdefault((method, rate), {})
        for label in np.unique(labels):
            n, k = tally.get(label, (0, 0))
            mine = labels == label
            tally[label] = n + int(mine.sum()), k + int(wrong[mine].sum())
        if rate == RATE:
            false, true, _ = roc_curve(truth, scores)
            self.curves.setdefault(method, []).append(np.interp(GRID, false, true))

    def summary(self, method, rate, n_known):
        """Means over runs, the sampling error of the false alarms, and the worst class's."""
        area, detected, alarms, promised = np.mean(self.records[method, rate], axis=0)
        # For each group left out, every known row is the test once, and once chooses a threshold.
        # Others left out give nearly the same rows again, which is not counted as more of them.
        error = math.sqrt(2 * promised * (1 - promised) / n_known)
        worst = max(k / n for n, k in self.counts[method, rate].values())
        return {
            "auc": round(float(area), 4),
            "detected": round(float(detected), 4),
            "false_alarms": round(float(alarms), 4),
            "expected": round(float(promised), 4),
            "standard_error": round(error, 4),
            "worst_class": round(worst, 4),
        }

    @property
    def methods(self):
        """Names in the order of their measuring."""
        return list(dict.fromkeys(method for method, _ in self.records))


def digits(folder):
    """Rows, labels, groups to leave out, prototypes per class, ways to refine, a title."""
    X, y = load_digits(return_X_y=True)
    return X, y, [[c] for c in range(10)], 10, (None, "margin"), "digits, each left out in turn"


def yale(folder):
    """The same for faces."""
    X, y = yale_faces(_there(folder))
    groups = [list(range(i, 38, 5)) for i in range(5)]
    about = "Extended Yale B, a fifth of the people left out in turn"
    return X, y, groups, 4, ("margin",), about


def letter(folder):
    """The same for letters, standardised."""
    found = np.load(_there(folder) / "letter.npz")
    X, y = StandardScaler().fit_transform(found["X"].astype(np.float64)), found["y"]
    groups = [np.unique(y)[i::5] for i in range(5)]
    return X, y, groups, 16, (None,), "letter, a fifth of them left out in turn"


def _there(folder):
    if folder is None:
        raise SystemExit("No data: name a folder with the .npz files as --data.")
    return folder


SETS = {"digits": digits, "yale-b": yale, "letter": letter}


def main():
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--metric", choices=("euclidean", "learned"), default="euclidean")
    parser.add_argument("--data", help="folder of the .npz files")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the figure")
    options = parser.parse_args()
    warnings.simplefilter("ignore", OverfittingWarning)
    results = {}
    for name in options.sets:
        if name not in SETS:
            raise SystemExit(f"There is no set {name!r}: choose of {', '.join(SETS)}.")
        X, y, groups, per_class, ways, about = SETS[name](data_folder(options.data))
        n_known = round(len(y) * (1 - 1 / len(groups)))
        if options.metric == "learned":  # which is learned by refining
            ways = ("margin",)
        for refine in ways:
            notes = Notes()
            for group in groups:
                measure(X, y, group, per_class, refine, options.metric, notes)
            how = f"refine={refine}, metric={options.metric}"
            results[f"{name}, {how}"] = table(about, per_class, how, notes, n_known)
        options.out.mkdir(parents=True, exist_ok=True)
        ending = "" if options.metric == "euclidean" else f"-{options.metric}"
        draw(about, notes).savefig(options.out / f"reject-{name}{ending}.png", dpi=110)
    print_result(results)


def table(about, per_class, how, notes, n_known):
    """Print what was found on one set."""
    print(f"\n{about}; {per_class} prototypes per class, {how}; in %")
    head = ("promised", "AUC", "strangers rejected", "known rejected", "expected", "worst class")
    print(f"{'':24s}" + "".join(f"{text:>20s}" for text in head))
    found = {}
    for method in notes.methods:
        rates = [rate for rate in RATES if rate == RATE or method in TOLD]
        rates = [rate for rate in rates if (method, rate) in notes.records]
        found[method] = {f"{rate}": notes.summary(method, rate, n_known) for rate in rates}
        for rate in rates:
            row = found[method][f"{rate}"]
            alarms = f"{100 * row['false_alarms']:.2f} +- {100 * row['standard_error']:.2f}"
            cells = (
                f"{100 * rate:g}",
                f"{100 * row['auc']:.1f}",
                f"{100 * row['detected']:.1f}",
                alarms,
                f"{100 * row['expected']:.2f}",
                f"{100 * row['worst_class']:.1f}",
            )
            print(f"{method:24s}" + "".join(f"{text:>20s}" for text in cells), flush=True)
    return found


def draw(about, notes):
    """ROC curves, averaged over runs at each share of known rows."""
    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    ax = figure.subplots()
    for number, (method, line) in enumerate(DRAWN.items()):
        curve = np.mean(notes.curves[method], axis=0)
        area = np.mean([record[0] for record in notes.records[method, RATE]])
        style = {"color": color(number), "ls": line, "lw": 2.2 if method in TOLD else 1.5}
        ax.plot(100 * GRID, 100 * curve, **style, label=f"{method} ({area:.3f})")
    ax.axvline(100 * RATE, color="0.6", lw=1, label=f"{RATE:.0%} of known rows rejected")
    ax.plot([0, 100], [0, 100], color="0.8", lw=1, zorder=0)
    ax.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
    ax.set_title(about, fontsize=10)
    ax.set_xlabel("rows of known classes rejected (%)")
    ax.set_ylabel("rows of unknown classes rejected (%)")
    ax.legend(fontsize=8, loc="lower right", title="method (area under curve)", title_fontsize=8)
    return figure


if __name__ == "__main__":
    main()
