"""How the defaults were chosen.

    python benchmarks/ablation.py repulsion     # held-out error for values of `repulsion`
    python benchmarks/ablation.py images        # the same on Fashion-MNIST and Yale B, if at hand
    python benchmarks/ablation.py probability   # log loss for exponents in `predict_proba`
    python benchmarks/ablation.py growth        # "paper" and "best", refined or not
    python benchmarks/ablation.py robust        # refinement with and without noise around the rows
    python benchmarks/ablation.py soft          # centres by soft memberships in place of hard ones
    python benchmarks/ablation.py noise         # overlapping classes, wrong labels: "auto" beside k

All but the last use stratified, shuffled 5-fold cross-validation.
"""

import sys
import warnings
from collections import defaultdict
from unittest.mock import patch

import numpy as np
from common import image_sets, print_result, small_sets
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import log_loss, pairwise_distances, pairwise_distances_argmin
from sklearn.model_selection import StratifiedKFold

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.baselines import ClasswiseKMeans
from dkmeans.growth import robust_field
from dkmeans.questions.memberships import memberships

REPULSIONS = (0.0, 0.1, 0.25, 0.5, 1.0, "size")


def folds(X, y, seed=0):
    """Yield training and test parts."""
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        yield X[train], y[train], X[test], y[test]


def budgets(y):
    """Budgets of 2, 4 and 10 per class, and convergence."""
    n_classes = len(np.unique(y))
    return (2 * n_classes, 4 * n_classes, 10 * n_classes, None)


def repulsion(sets):
    """Print held-out error in %, mean over folds; clusters in brackets at convergence."""
    result, gaps = {}, defaultdict(list)
    print(f"{'data set':<14}{'budget':>8}" + "".join(f"{w!s:>14}" for w in REPULSIONS))
    for name, (X, y) in sets.items():
        for budget in budgets(y):
            errors, cells = [], []
            for w in REPULSIONS:
                fold_errors, counts = [], []
                for X_train, y_train, X_test, y_test in folds(X, y):
                    model = DiscriminativeKMeans.paper(budget, repulsion=w).fit(X_train, y_train)
                    fold_errors.append(100 * (1 - model.score(X_test, y_test)))
                    counts.append(model.n_clusters_)
                errors.append(float(np.mean(fold_errors)))
                count = f" ({np.mean(counts):.0f})" if budget is None else ""
                cells.append(f"{errors[-1]:.2f}{count}")
                gaps[w].append(errors[-1])
            print(f"{name:<14}{budget or 'none':>8}" + "".join(f"{c:>14}" for c in cells))
            result[f"{name} {budget or 'none'}"] = [round(e, 2) for e in errors]
    logs = {w: float(np.exp(np.mean(np.log(g)))) for w, g in gaps.items()}
    print(f"{'geometric mean':<22}" + "".join(f"{logs[w]:>14.2f}" for w in REPULSIONS))
    print_result({"repulsions": [str(w) for w in REPULSIONS], **result})


def probability():
    """Print log loss for exponents p in 1 / D^p, and for the rule min(2 sqrt(d), 16)."""
    powers = (2, 4, 8, 16, 32)
    result = {}
    print(f"{'data set':<14}{'d':>4}{'budget':>8}" + "".join(f"{p:>8}" for p in (*powers, "rule")))
    for name, (X, y) in small_sets().items():
        for budget in budgets(y):
            losses = defaultdict(list)
            for X_train, y_train, X_test, y_test in folds(X, y):
                model = DiscriminativeKMeans(budget, refine=None, metric="euclidean").fit(
                    X_train, y_train
                )
                D = model.transform(X_test)
                D = np.stack([D[:, model.cluster_classes_ == c].min(1) for c in model.classes_], 1)
                D = np.maximum(D, 1e-9)
                for p in powers:
                    q = (D.min(1, keepdims=True) / D) ** p
                    losses[p].append(log_loss(y_test, q / q.sum(1, keepdims=True)))
                losses["rule"].append(log_loss(y_test, model.predict_proba(X_test)))
            means = {p: float(np.mean(v)) for p, v in losses.items()}
            row = "".join(f"{v:>8.3f}" for v in means.values())
            print(f"{name:<14}{X.shape[1]:>4}{budget or 'none':>8}{row}")
            result[f"{name} {budget or 'none'}"] = {str(p): round(v, 3) for p, v in means.items()}
    print_result(result)


def growth(sets):
    """Print held-out error in % for each growth, refined or not; clusters at convergence."""
    ways = {
        "paper": {"growth": "paper", "refine": None},
        "best": {"growth": "best", "refine": None},
        "paper, refined": {"growth": "paper", "refine": "margin"},
        "best, refined": {"growth": "best", "refine": "margin"},
    }
    result = {}
    print(f"{'data set':<14}{'budget':>8}" + "".join(f"{name:>24}" for name in ways))
    for name, (X, y) in sets.items():
        for budget in budgets(y):
            cells = []
            for way, parameters in ways.items():
                errors, counts = [], []
                for X_train, y_train, X_test, y_test in folds(X, y):
                    model = DiscriminativeKMeans(budget, metric="euclidean", **parameters)
                    model.fit(X_train, y_train)
                    errors.append(100 * (1 - model.score(X_test, y_test)))
                    counts.append(model.n_clusters_)
                count = f" ({np.mean(counts):.0f})" if budget is None else ""
                spread = np.std(errors, ddof=1) / len(errors) ** 0.5
                cells.append(f"{np.mean(errors):.2f} +- {spread:.2f}{count}")
                result.setdefault(f"{name} {budget or 'none'}", {})[way] = round(np.mean(errors), 2)
            line = "".join(f"{cell:>24}" for cell in cells)
            print(f"{name:<14}{budget or 'none':>8}{line}", flush=True)
    print_result(result)


def robust(sets):
    """Print held-out error in % of refinement with and without noise, and what the noise adds.

    What it adds is the mean difference of log((wrong + 0.5) / (n + 1)) over the folds.
    """
    noises, gains, result = {"robust": robust_field.MAX_NOISE, "plain": 0.0}, [], {}
    print(f"{'data set':<14}{'budget':>8}{'robust':>9}{'plain':>9}{'adds':>9}{'error':>8}")
    for name, (X, y) in sets.items():
        for budget in budgets(y)[:-1]:
            shares, logs = defaultdict(list), defaultdict(list)
            for X_train, y_train, X_test, y_test in folds(X, y):
                for way, most in noises.items():
                    model = DiscriminativeKMeans(budget, refine="margin", metric="euclidean")
                    with patch.object(robust_field, "MAX_NOISE", most):
                        model.fit(X_train, y_train)
                    wrong = int((model.predict(X_test) != y_test).sum())
                    shares[way].append(100 * wrong / len(y_test))
                    logs[way].append(np.log((wrong + 0.5) / (len(y_test) + 1)))
            added = np.subtract(logs["robust"], logs["plain"])
            gains.append(added.mean())
            spread = added.std(ddof=1) / len(added) ** 0.5
            errors = {way: round(float(np.mean(of)), 2) for way, of in shares.items()}
            cells = "".join(f"{error:>9.2f}" for error in errors.values())
            print(f"{name:<14}{budget:>8}{cells}{gains[-1]:>9.3f}{spread:>8.3f}", flush=True)
            result[f"{name} {budget}"] = [*errors.values(), round(gains[-1], 3), round(spread, 3)]
    print(f"{'mean':<40}{np.mean(gains):>9.3f}")
    print_result({"mean": round(float(np.mean(gains)), 3), **result})


def noisy_sets():
    """Overlapping classes and wrong labels: functions that draw so many rows from a seed."""

    def overlapping(n, seed):
        return make_blobs(n, centers=[[0, 0], [2, 0]], cluster_std=1.0, random_state=seed)

    def moons(n, seed):
        X, y = make_moons(n, noise=0.1, random_state=seed)
        return X, np.where(np.random.default_rng(seed).random(n) < 0.2, 1 - y, y)

    def blobs(n, seed):
        rng = np.random.default_rng(seed)
        centers = np.random.default_rng(3).uniform(-10, 10, size=(8, 2))
        kind = rng.integers(0, 8, n)
        X = centers[kind] + rng.normal(scale=1.2, size=(n, 2))
        return X, np.where(rng.random(n) < 0.2, rng.integers(0, 4, n), kind % 4)

    return {
        "two overlapping Gaussians": overlapping,
        "two moons, 20 % of labels wrong": moons,
        "eight blobs of four classes, 20 % drawn anew": blobs,
    }


def noise():
    """Print the error in % on 50,000 new rows at numbers of clusters and with "auto"."""
    ways = {
        "class-wise k-means": ClasswiseKMeans,
        "paper": lambda k: DiscriminativeKMeans.paper(k),
        "best": lambda k: DiscriminativeKMeans(k, growth="best", refine=None, metric="euclidean"),
        "best, refined": lambda k: DiscriminativeKMeans(
            k, growth="best", refine="margin", metric="euclidean"
        ),
    }
    counts = (4, 6, 8, 12, 16, 24, 32, 64, 128)
    result = {}
    for name, draw in noisy_sets().items():
        (X, y), (X_test, y_test) = draw(2000, 0), draw(50_000, 1)
        print(f"{name}: 2000 rows")
        print(
            f"{'clusters':<20}" + "".join(f"{k:>7}" for k in counts) + f"{'auto':>16}{'none':>16}"
        )
        for way, make in ways.items():
            errors = [100 * (1 - make(k).fit(X, y).score(X_test, y_test)) for k in counts]
            line = {"best": round(min(errors), 1)}
            cells = []
            if way != "class-wise k-means":
                for budget in ("auto", None):
                    model = make(budget).fit(X, y)
                    error = 100 * (1 - model.score(X_test, y_test))
                    cells.append(f"{error:.1f} ({model.n_clusters_})")
                    line[str(budget)] = [round(error, 1), model.n_clusters_]
            shown = "".join(f"{e:>7.1f}" for e in errors) + "".join(f"{c:>16}" for c in cells)
            print(f"{way:<20}{shown}", flush=True)
            result[f"{name}: {way}"] = line
    print_result(result)


def soft_centers(model, X, y, fuzzifier, n_iterations=20):
    """Move prototypes to fuzzy means of the rows of their class, as fuzzy c-means does."""
    centers = model.cluster_centers_.astype(np.float64)
    for _ in range(n_iterations):
        for label in model.classes_:
            mine, rows = model.cluster_classes_ == label, X[y == label]
            D = pairwise_distances(rows, centers[mine])
            shares = memberships(D, fuzzifier) ** fuzzifier
            weight = shares.sum(axis=0)[:, None]
            moved = np.divide(shares.T @ rows, weight, out=centers[mine], where=weight > 0)
            centers[mine] = moved
    return centers


def soft():
    """Print the error in % of hard and of soft centres, at equal numbers of prototypes."""
    fuzzifiers, result = (1.2, 1.5, 2.0), {}
    data = {name: (draw(2000, 0), draw(20_000, 1)) for name, draw in noisy_sets().items()}
    for name, (X, y) in small_sets().items():
        for share in (0.0, 0.2):
            X_train, y_train, X_test, y_test = next(folds(X[:4000], y[:4000]))
            rng = np.random.default_rng(0)
            wrong = rng.random(len(y_train)) < share
            y_train = np.where(wrong, rng.permutation(y_train), y_train)
            data[f"{name}, {share:.0%} of labels drawn anew"] = (X_train, y_train), (X_test, y_test)
    title = f"{'hard':>8}" + "".join(f"{f'm={m}':>8}" for m in fuzzifiers)
    print(f"{'data set':<48}{'k':>5}{title}{'refined':>9}")
    for name, ((X, y), (X_test, y_test)) in data.items():
        n_classes = len(np.unique(y))
        for k in (2 * n_classes, 6 * n_classes):
            model = DiscriminativeKMeans(k, refine=None, metric="euclidean").fit(X, y)
            refined = DiscriminativeKMeans(k, refine="margin", metric="euclidean").fit(X, y)
            errors = [100 * (1 - model.score(X_test, y_test))]
            for m in fuzzifiers:
                near = pairwise_distances_argmin(X_test, soft_centers(model, X, y, m))
                errors.append(100 * float((model.cluster_classes_[near] != y_test).mean()))
            errors.append(100 * (1 - refined.score(X_test, y_test)))
            line = "".join(f"{error:>8.2f}" for error in errors[:-1]) + f"{errors[-1]:>9.2f}"
            print(f"{name:<48}{k:>5}{line}", flush=True)
            result[f"{name}: {k}"] = [round(error, 2) for error in errors]
    print_result({"columns": ["hard", *map(str, fuzzifiers), "refined"], **result})


if __name__ == "__main__":
    warnings.simplefilter("ignore", OverfittingWarning)
    parts = {
        "repulsion": lambda: repulsion(small_sets()),
        "images": lambda: repulsion(image_sets()),
        "probability": probability,
        "noise": noise,
        "soft": soft,
        "growth": lambda: growth(small_sets()),
        "robust": lambda: robust(small_sets()),
    }
    parts[sys.argv[1]]()
