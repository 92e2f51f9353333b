"""Time to the same number of clusters, and the error there, beside k-means libraries.

    python benchmarks/fit.py            # everything: about ten minutes
    python benchmarks/fit.py --quick    # a tenth of the rows, no files needed: a minute
    python benchmarks/fit.py --only Fashion-MNIST

Large sets: DiscriminativeKMeans with the paper's growth, with its default growth, and with
refinement after it; class-wise k-means of scikit-learn with one random start each, and class-wise
faiss where it is installed; on two generators (overlapping blobs, six per class; one isotropic
cloud cut by curved borders) and on Fashion-MNIST. The methods take turns, and the least time of
each counts; refinement, which takes longest, is timed once. Faces: the paper's own comparison,
k-means with k = 8 to convergence against the discriminative run to 8 clusters, one person against
the rest, on the same rows of Extended Yale B.
"""

import argparse
import time
import warnings
from importlib.util import find_spec

import numpy as np
from common import (
    best_times,
    curved_border,
    data_folder,
    overlapping_blobs,
    print_result,
    yale_faces,
)
from sklearn.cluster import KMeans

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.baselines import ClasswiseKMeans

warnings.simplefilter("ignore", OverfittingWarning)
GENERATORS = {"curved border": curved_border, "overlapping blobs": overlapping_blobs}
SETS = [*GENERATORS, "Fashion-MNIST", "faces"]
WITHOUT_FAISS = "faiss is not installed: pip install 'dkmeans[bench]'"


class ClasswiseFaiss:
    """Class-wise k-means of faiss, without its subsampling."""

    def __init__(self, k):
        self.k = k

    def fit(self, X, y):
        """Fit one k-means per class."""
        import faiss

        classes = np.unique(y)
        shares = np.full(len(classes), self.k // len(classes))
        shares[: self.k % len(classes)] += 1
        centers = []
        for label, share in zip(classes, shares, strict=True):
            rows = np.ascontiguousarray(X[y == label])
            model = faiss.Kmeans(
                X.shape[1], int(share), niter=25, seed=0, max_points_per_centroid=len(rows)
            )
            model.train(rows)
            centers.append(model.centroids)
        self.index = faiss.IndexFlatL2(X.shape[1])
        self.index.add(np.concatenate(centers))
        self.classes = np.repeat(classes, shares)
        return self

    def score(self, X, y):
        """Share of rows whose nearest centre is of their class."""
        return float(np.mean(self.classes[self.index.search(X, 1)[1][:, 0]] == y))


REFINED = "dkmeans, refined"
METHODS = {
    "dkmeans, paper's growth": lambda k: DiscriminativeKMeans.paper(k),
    "dkmeans": lambda k: DiscriminativeKMeans(k, refine=None, metric="euclidean"),
    REFINED: lambda k: DiscriminativeKMeans(k, refine="margin", metric="euclidean"),
    "class-wise scikit-learn": lambda k: ClasswiseKMeans(k, n_init=1, init="random"),
    "class-wise faiss": ClasswiseFaiss,
}


def compare(title, train, test, k, repeats):
    """Fit with each method in turns; least time, and the error on other rows."""
    methods = dict(METHODS)
    if find_spec("faiss") is None:
        print(WITHOUT_FAISS)
        del methods["class-wise faiss"]
    print(f"\n{title}, {k} clusters\n{'':28s}{'seconds':>10s}{'error %':>10s}")
    times, errors = dict.fromkeys(methods, np.inf), {}
    for turn in range(repeats):
        for name, make in methods.items():
            if turn and name == REFINED:
                continue
            start = time.perf_counter()
            model = make(k).fit(*train)
            times[name] = min(times[name], time.perf_counter() - start)
            errors[name] = 1 - model.score(*test)
    for name in methods:
        print(f"{name:28s}{times[name]:10.2f}{100 * errors[name]:10.2f}", flush=True)
    base = times["class-wise scikit-learn"]
    return {name: round(times[name] / base, 3) for name in methods}


def load_compiled_code():
    """Fit each method of this package once, on rows of few and of many features."""
    X, y = curved_border(8192, 512)
    for train in (curved_border(70_000), (X, y)):
        for name, make in METHODS.items():
            if "dkmeans" in name:
                make(20).fit(*train)


def faces(folder, people, repeats):
    """Time the paper's own comparison, summed over people."""
    X, y = yale_faces(folder)
    names = ("k-means", "discriminative")
    times = dict.fromkeys(names, 0.0)
    for person in np.unique(y)[:people]:
        ours = DiscriminativeKMeans.paper(8, repulsion=0.25)
        theirs = KMeans(8, init="random", n_init=1, random_state=0)
        jobs = {
            "k-means": lambda model=theirs: model.fit(X),
            "discriminative": lambda model=ours, target=y == person: model.fit(X, target),
        }
        for name, best in best_times(jobs, repeats).items():
            times[name] += best
    print(f"\nExtended Yale B, {len(X)} faces, 8 clusters, sum over {people} people")
    for name in names:
        print(f"{name:28s}{times[name]:10.2f} s")
    return round(times["discriminative"] / times["k-means"], 3)


def main():
    """Measure, print tables and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, no files")
    parser.add_argument("--data", help="folder with fashion_mnist.npz and yaleb_ext_48x42.npz")
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS, help="some of the sets")
    arguments = parser.parse_args()
    n = 100_000 if arguments.quick else 1_000_000
    load_compiled_code()
    ratios = {}
    for title, make in GENERATORS.items():
        if title not in arguments.only:
            continue
        train, test = make(n), make(50_000, seed=1)
        ratios[title] = compare(f"{title}, {n:,} x 64, 10 classes", train, test, 256, 2)
    folder = None if arguments.quick else data_folder(arguments.data)
    if folder is not None and "Fashion-MNIST" in arguments.only:
        fashion = np.load(folder / "fashion_mnist.npz")
        X = fashion["images"].reshape(len(fashion["y"]), -1).astype(np.float32) / 255
        part = fashion["is_train"]
        train, test = (X[part], fashion["y"][part]), (X[~part], fashion["y"][~part])
        ratios["Fashion-MNIST"] = compare("Fashion-MNIST, 60,000 x 784", train, test, 600, 3)
    if folder is not None and "faces" in arguments.only:
        ratios["faces"] = {"discriminative over k-means": faces(folder, 10, 3)}
    print("\nRatios: time over that of class-wise scikit-learn; the paper's claim is 0.27.")
    print_result({"fit": ratios})


if __name__ == "__main__":
    main()
