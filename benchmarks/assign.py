"""The full scan: nearest of all centres for every row, beside k-means libraries.

    python benchmarks/assign.py            # all sizes: about three minutes
    python benchmarks/assign.py --quick    # a tenth of the rows
    OMP_NUM_THREADS=1 python benchmarks/assign.py --only "n ="    # small data, one thread

Times `predict_cluster` against scikit-learn's `KMeans.predict` and, where they are installed
(`pip install dkmeans[bench]`), scikit-learn-intelex and faiss, all on the same rows and centres, in
turns, best of several. The last column sets multiplications and additions per second against what
a large matrix product of this machine's BLAS reaches, which is close to what the processor can do.
"""

import argparse
import warnings

import numpy as np
import scipy.sparse as sp
from common import best_times, print_result
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.kernels.threads import default_threads

# Name: rows, features, centres, type of numbers.
SIZES = {
    "1,000,000 x 64, k = 256": (1_000_000, 64, 256, np.float32),
    "the same in float64": (1_000_000, 64, 256, np.float64),
    "d = 2": (1_000_000, 2, 256, np.float32),
    "d = 2000": (30_000, 2000, 256, np.float32),
    "k = 2": (1_000_000, 64, 2, np.float32),
    "k = 10,000": (50_000, 64, 10_000, np.float32),
    "n = 100": (100, 64, 256, np.float32),
    **{f"n = {n:,}, k = {k}": (n, 64, k, np.float32) for n in (5000, 60_000) for k in (2, 8, 40)},
}
SHORT = 10_000_000  # rows times centres up to which a call is short, and timed more often


def fitted(centers):
    """Fit an estimator whose prototypes are these centres: two equal rows and a class for each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfittingWarning)
        model = DiscriminativeKMeans(len(centers), refine=None, metric="euclidean")
        return model.fit(np.repeat(centers, 2, axis=0), np.repeat(np.arange(len(centers)), 2))


def k_means(kind, centers, X):
    """Make a k-means of scikit-learn's kind that has about these centres."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rows = X if X.shape[0] > len(centers) else centers
        return kind(len(centers), init=centers, n_init=1, max_iter=1).fit(rows[:100_000])


def contestants(X, centers):
    """Functions that find the nearest centre of each row, by name."""
    ours, theirs = fitted(centers), k_means(KMeans, centers, X)
    jobs = {"dkmeans": lambda: ours.predict_cluster(X), "scikit-learn": lambda: theirs.predict(X)}
    if sp.issparse(X):
        return jobs
    try:
        from sklearnex.cluster import KMeans as Accelerated
    except ImportError:
        pass
    else:
        if len(X) > len(centers):  # it leaves small fits to scikit-learn
            accelerated = k_means(Accelerated, centers, X)
            jobs["intelex"] = lambda: accelerated.predict(X)
    try:
        import faiss
    except ImportError:
        pass
    else:
        index = faiss.IndexFlatL2(X.shape[1])
        index.add(centers.astype(np.float32))
        if X.dtype == np.float32:
            jobs["faiss"] = lambda: index.search(X, 1)
    return jobs


def blas_speed(dtype):
    """Multiplications and additions per second of a large matrix product, all cores."""
    a = np.random.default_rng(0).normal(size=(3000, 3000)).astype(dtype)
    return 2 * len(a) ** 3 / best_times({"product": lambda: a @ a}, 20)["product"]


def main():
    """Measure, print a table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", default="", help="lines whose name has this text")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    peak = {dtype: blas_speed(dtype) for dtype in (np.float32, np.float64)}
    print(
        f"{default_threads()} threads; BLAS reaches {peak[np.float32] / 1e9:.0f} GFLOP/s in ",
        end="",
    )
    print(f"float32, {peak[np.float64] / 1e9:.0f} in float64\n")
    names = ("dkmeans", "scikit-learn", "intelex", "faiss")
    print(f"{'milliseconds':28s}" + "".join(f"{name:>14s}" for name in names) + "  share of BLAS")
    ratios = {}

    def report(title, jobs, flops=None, dtype=None, repeats=5):
        times = best_times(jobs, repeats)
        ratios[title] = {
            name: round(t / times["dkmeans"], 2) for name, t in times.items() if name != "dkmeans"
        }
        columns = [f"{1e3 * times[n]:14.2f}" if n in times else f"{'':14s}" for n in names]
        share = f"{flops / times['dkmeans'] / peak[dtype]:14.0%}" if flops else ""
        print(f"{title:28s}" + "".join(columns) + share, flush=True)

    for title, (n, d, k, dtype) in SIZES.items():
        if arguments.only not in title:
            continue
        n = max(100, n // 10) if arguments.quick else n
        X = rng.normal(size=(n, d)).astype(dtype)
        centers = rng.normal(size=(k, d)).astype(dtype)
        repeats = 50 if n * k < SHORT else 5
        report(title, contestants(X, centers), 2.0 * n * d * k, dtype, repeats)
    if arguments.only in (title := "CSR 200,000 x 5,000, 50 each"):
        n = 20_000 if arguments.quick else 200_000
        X = sp.random_array((n, 5000), density=0.01, format="csr", dtype=np.float32, rng=rng)
        centers = sp.random_array((256, 5000), density=0.05, dtype=np.float32, rng=rng).toarray()
        report(title, contestants(X, centers))
    print("\nRatios: time of the other over that of dkmeans.")
    print_result({"assign": ratios, "threads": default_threads()})


if __name__ == "__main__":
    main()
