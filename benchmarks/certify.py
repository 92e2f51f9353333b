"""Attacks on the certified radius of `explain`, and how far it is from the exact one.

    python benchmarks/certify.py            # digits, wine, moons and iris: ten minutes
    python benchmarks/certify.py --quick    # fewer rows and moves

Every row of a held-out half is moved by just less than its radius: in random directions, straight
towards the plane between every prototype of its class and every rival, and along the exact shortest
move; then it is counted how often `predict` says another class, which must be never. The exact
shortest move to another class is a small quadratic programme per rival; the ratio of the radius to
its length tells how tight the certificate is. As a control, the same moves are made 1 % longer than
the exact distance, where some must succeed.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from common import best_times, print_result
from sklearn.datasets import load_digits, load_iris, load_wine, make_moons
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans, OverfittingWarning

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from moves import broken, shortest_move, space_of

METRICS = ("euclidean", "cosine", "learned")


def sets():
    """Data, and numbers of prototypes; the second wine is in the units of its columns."""
    standardise = StandardScaler().fit_transform
    X_wine, y_wine = load_wine(return_X_y=True)
    return {
        "digits": (*load_digits(return_X_y=True), (10, 40, 120)),
        "wine": (standardise(X_wine), y_wine, (6,)),
        "raw wine": (X_wine, y_wine, (6,)),
        "iris": (*load_iris(return_X_y=True), (6,)),
        "moons": (*make_moons(1000, noise=0.25, random_state=0), (12, 40)),
    }


def tightness(model, X, most):
    """Ratios of radii to exact distances, and how many moves beyond these change the class."""
    why, space = model.explain(X), space_of(model)
    ratios, beyond, safe = [], 0, 0
    for x, label, radius in list(zip(X, why.label, why.radius, strict=True))[:most]:
        move = shortest_move(x, *space, label)
        length = float(np.linalg.norm(move))
        if length > 0:
            ratios.append(float(radius) / length)
            safe += ratios[-1] <= 1
            beyond += bool(model.predict((x + 1.01 * move)[None])[0] != label)
    return np.array(ratios), safe, beyond


def main():
    """Attack, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", OverfittingWarning)
    rows, n_random = (20, 100) if quick else (150, 300)
    rng = np.random.default_rng(0)
    head = f"{'data':8} {'type':8} {'metric':10} {'clusters':>8} {'median radius':>13} {'moves':>8}"
    print(f"{head} {'changed':>7} {'ratio':>6} {'lowest tenth':>12} {'exact':>6} {'beyond':>7}")
    total = changed = 0
    medians = {}
    for name, (X, y, budgets) in sets().items():
        split = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
        for k in budgets:
            for dtype in (np.float64, np.float32):
                for metric in METRICS:
                    a, b = (part.astype(dtype) for part in split[:2])
                    model = DiscriminativeKMeans(k, refine="margin", metric=metric)
                    model.fit(a, split[2])
                    tried, failed = broken(model, b[:rows], n_random, rng)
                    ratios, safe, beyond = tightness(model, b, rows)
                    total, changed = total + tried, changed + failed
                    key = f"{name} {k} {metric} {np.dtype(dtype).name}"
                    medians[key] = round(float(np.median(ratios)), 4)
                    assert safe == len(ratios), "a radius is larger than the exact distance"
                    radius = float(np.median(model.explain(b).radius))
                    print(
                        f"{name:8} {np.dtype(dtype).name:8} {metric:10} {k:8} {radius:13.4g} "
                        f"{tried:8} {failed:7} {np.median(ratios):6.3f} "
                        f"{np.percentile(ratios, 10):12.3f} {np.mean(ratios > 0.999):6.1%} "
                        f"{beyond:3}/{len(ratios)}",
                        flush=True,
                    )
    X, y, _ = sets()["digits"]
    model = DiscriminativeKMeans(120, refine=None, metric="euclidean").fit(X, y)
    times = best_times({"t": lambda: model.transform(X), "e": lambda: model.explain(X)}, 5)
    cost = times["e"] / times["t"]
    print(f"explain takes {cost:.1f} times as long as transform (digits, 120 clusters)")
    print_result({"moves": total, "changed": changed, "median_ratio": medians, "cost": cost})


if __name__ == "__main__":
    main()
