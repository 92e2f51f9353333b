"""Medoids and landmarks for any metric, beside class-wise FasterPAM and median GLVQ.

    python benchmarks/medoids.py             # errors on all sets, and times: minutes
    python benchmarks/medoids.py errors      # held-out errors at equal numbers of prototypes
    python benchmarks/medoids.py landmarks   # digits: Landmarks, then DiscriminativeKMeans
    python benchmarks/medoids.py speed       # 8,000 rows, 100 medoids
    python benchmarks/medoids.py memory      # 40,000 rows in float32: peak memory

Errors are means over three stratified 80/20 splits. Strings are words that were drawn from a
grammar per class and misspelt, compared by edit distance; series are curves of different lengths,
stretched in time, compared by dynamic time warping.

FasterPAM (`kmedoids`) and median GLVQ (`proto-dist-ml`) are compared with if they are installed.
Both are under the GPL, so they are neither a dependency nor an extra.
"""

import importlib.util
import resource
import sys
import time

import numba
import numpy as np
from common import data_folder, overlapping_blobs, print_result, small_sets
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from dkmeans import DiscriminativeKMeans, DiscriminativeKMedoids, Landmarks

HAS_PAM = importlib.util.find_spec("kmedoids") is not None
HAS_GLVQ = importlib.util.find_spec("proto_dist_ml") is not None
SEEDS = (0, 1, 2)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def edit_distances(words, others):
    """Levenshtein distances, row by row of the table for all pairs at once."""
    codes, code_lengths = padded(words)
    marks, mark_lengths = padded(others)
    found = np.empty((len(words), len(others)))
    width = marks.shape[1]
    steps = np.arange(width + 1)
    for i, word in enumerate(codes):
        line = np.tile(steps, (len(others), 1))
        for at, letter in enumerate(word[: code_lengths[i]], 1):
            new = np.empty_like(line)
            new[:, 0] = at
            new[:, 1:] = np.minimum(line[:, 1:] + 1, line[:, :-1] + (marks != letter))
            # Insertions: the running minimum of what is left of each place, less its distance.
            line = np.minimum.accumulate(new - steps, axis=1) + steps
        found[i] = line[np.arange(len(others)), mark_lengths]
    return found


def padded(words):
    """Words as an array of codes, and their lengths."""
    lengths = np.array([len(word) for word in words])
    codes = np.full((len(words), lengths.max()), -1)
    for line, word in zip(codes, words, strict=True):
        line[: len(word)] = [ord(letter) for letter in word]
    return codes, lengths


def strings(n=2000, n_classes=8, seed=0):
    """Misspelt words: each class has three spellings, some of them close to another class's."""
    rng = np.random.default_rng(seed)

    def misspell(word, n_errors):
        letters = list(word)
        for _ in range(n_errors):
            at, letter = rng.integers(0, len(letters)), LETTERS[rng.integers(0, 26)]
            kind = rng.integers(0, 3)
            if kind == 0:
                letters[at] = letter
            elif kind == 1:
                letters.insert(at, letter)
            elif len(letters) > 2:
                del letters[at]
        return "".join(letters)

    stems = ["".join(LETTERS[i] for i in rng.integers(0, 26, 9)) for _ in range(n_classes)]
    spellings = [
        [stem, misspell(stem, 5), misspell(stems[(c + 1) % n_classes], 4)]
        for c, stem in enumerate(stems)
    ]
    y = rng.integers(0, n_classes, n)
    words = [misspell(spellings[c][rng.integers(0, 3)], rng.integers(1, 5)) for c in y]
    return np.array(words, dtype=object), y


def series(n=900, seed=0):
    """Noisy curves of three classes with two shapes each, of 30 to 60 points, stretched in time."""
    rng = np.random.default_rng(seed)
    shapes = [
        lambda t: np.sin(2 * np.pi * t),
        lambda t: np.sin(2 * np.pi * t) + 0.8 * np.sin(6 * np.pi * t),
        lambda t: np.sin(4 * np.pi * t),
        lambda t: np.sin(2 * np.pi * t) + 0.8 * np.exp(-200 * (t - 0.7) ** 2),
        lambda t: np.sign(np.sin(2 * np.pi * t)),
        lambda t: np.sign(np.sin(4 * np.pi * t)),
    ]
    y = rng.integers(0, 3, n)
    curves = np.empty(n, dtype=object)
    for i, c in enumerate(y):
        t = np.linspace(0, 1, rng.integers(30, 61)) ** rng.uniform(0.6, 1.6)
        curves[i] = shapes[2 * c + rng.integers(0, 2)](t) + rng.normal(0, 0.45, len(t))
    return curves, y


@numba.njit
def time_warping(a, b):
    """Dynamic time warping: the root of the least sum of squares along any alignment."""
    line = np.full(len(b) + 1, np.inf)
    line[0] = 0.0
    for x in a:
        steps = np.minimum(line[:-1], line[1:])
        costs = (x - b) ** 2
        new = np.empty_like(line)
        new[0] = best = np.inf
        for j, cost in enumerate(costs):
            best = cost + min(best, steps[j])
            new[j + 1] = best
        line = new
    return np.sqrt(line[-1])


def warping_distances(curves, others):
    """All distances."""
    return np.array([[time_warping(a, b) for b in others] for a in curves])


def symmetric(function, X):
    """Distances between all rows, each pair once."""
    D = np.zeros((len(X), len(X)))
    for i in range(1, len(X)):
        D[i, :i] = D[:i, i] = function(X[i : i + 1], X[:i])[0]
    return D


def sets():
    """Distances, classes and numbers of prototypes of each set."""
    X, y = small_sets()["digits"]
    yield "digits", pairwise_distances(X), y, (20, 40)
    words, y = strings()
    yield "strings", symmetric(edit_distances, words), y, (16, 40)
    curves, y = series()
    yield "series", symmetric(warping_distances, curves), y, (6, 15)


def by_pam(D, y, k, seed):
    """Medoids of each class by itself, as many for each class."""
    import kmedoids

    found, classes = [], np.unique(y)
    shares = np.full(len(classes), k // len(classes))
    shares[: k % len(classes)] += 1
    for c, share in zip(classes, shares, strict=True):
        rows = np.flatnonzero(y == c)
        own = np.ascontiguousarray(D[np.ix_(rows, rows)])
        found.append(rows[kmedoids.fasterpam(own, int(share), random_state=seed).medoids])
    return np.concatenate(found)


def by_glvq(D, y, k, seed):
    """Median GLVQ, as many prototypes for each class."""
    from proto_dist_ml.mglvq import MGLVQ

    np.random.seed(seed)  # noqa: NPY002, as the library draws from it
    return MGLVQ(max(1, k // len(np.unique(y)))).fit(D, y)._w


def by_dkmeans(D, y, k, seed):
    """Discriminative k-medoids; it has no random numbers."""
    return DiscriminativeKMedoids(k, metric="precomputed").fit(D, y).medoid_indices_


def errors(result):
    """Print held-out errors in %."""
    ways = {"dkmeans": by_dkmeans}
    ways |= {"class-wise FasterPAM": by_pam} if HAS_PAM else {}
    ways |= {"median GLVQ": by_glvq} if HAS_GLVQ else {}
    print(f"{'set':<10}{'k':>4}" + "".join(f"{way:>24}" for way in ways) + f"{'1-NN':>10}")
    for name, D, y, budgets in sets():
        parts = [
            train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed)
            for seed in SEEDS
        ]
        everyone = np.mean([(y[a][D[np.ix_(b, a)].argmin(1)] != y[b]).mean() for a, b in parts])
        for k in budgets:
            cells, entry = [], {}
            for way, choose in ways.items():
                found, seconds = [], 0.0
                for seed, (train, test) in zip(SEEDS, parts, strict=True):
                    start = time.perf_counter()
                    medoids = choose(D[np.ix_(train, train)], y[train], k, seed)
                    seconds += (time.perf_counter() - start) / len(SEEDS)
                    near = D[np.ix_(test, train[medoids])].argmin(axis=1)
                    found.append(100 * (y[train[medoids]][near] != y[test]).mean())
                cells.append(f"{np.mean(found):.2f} ({seconds:.2f} s)")
                entry[way] = round(float(np.mean(found)), 2)
            result[f"{name} {k}"] = entry
            line = "".join(f"{cell:>24}" for cell in cells)
            print(f"{name:<10}{k:>4}{line}{100 * everyone:>10.2f}", flush=True)
    for k, bar in ((20, 8.8), (40, 4.5)):
        print(f"digits at {k}: {result[f'digits {k}']['dkmeans']:.2f} %, the bar is {bar} %")


def landmarks(result):
    """Print held-out errors of digits through 300 landmarks, in %."""
    X, y = small_sets()["digits"]
    for k, bar in ((20, 1.8), (40, 1.5)):
        found = []
        for seed in SEEDS:
            a, b, y_a, y_b = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
            model = make_pipeline(
                Landmarks(300), DiscriminativeKMeans(k, refine="margin", metric="euclidean")
            )
            found.append(100 * (1 - model.fit(a, y_a).score(b, y_b)))
        result[f"landmarks {k}"] = round(float(np.mean(found)), 2)
        print(f"300 landmarks, {k} prototypes: {np.mean(found):.2f} %, the bar is {bar} %")


def fashion(n):
    """Distances between so many images, in float32, or between blobs where they are not."""
    folder = data_folder()
    if folder is None:
        X, y = overlapping_blobs(n)
    else:
        file = np.load(folder / "fashion_mnist.npz")
        X, y = file["images"][:n].reshape(n, -1).astype(np.float32) / 255, file["y"][:n]
    D = pairwise_distances(X).astype(np.float32)
    return (D + D.T) / 2, y.astype(np.int64)


def speed(result):
    """Print the time of 8,000 rows and 100 medoids, with two and with ten classes."""
    D, y = fashion(8000)
    by_dkmeans(D[:1100, :1100], y[:1100], 20, 0)  # compiles
    for n_classes, classes in ((2, (y >= 5).astype(np.int64)), (10, y)):
        jobs = {"dkmeans": by_dkmeans} | ({"class-wise FasterPAM": by_pam} if HAS_PAM else {})
        best, cpu, kept = dict.fromkeys(jobs, np.inf), dict.fromkeys(jobs, np.inf), {}
        for _ in range(3):
            for name, job in jobs.items():
                start, used = time.perf_counter(), time.process_time()
                kept[name] = job(D, classes, 100, 0)
                best[name] = min(best[name], time.perf_counter() - start)
                cpu[name] = min(cpu[name], time.process_time() - used)
        for name, seconds in best.items():
            wrong = (classes[kept[name]][D[:, kept[name]].argmin(1)] != classes).mean()
            print(
                f"{n_classes:>2} classes, {name:<22}{seconds:>7.2f} s, {cpu[name]:.2f} s of all "
                f"cores, training error {wrong:.2%}"
            )
        entry = {name: round(seconds, 2) for name, seconds in best.items()}
        if HAS_PAM:
            for title, times in (("ratio", best), ("ratio, all cores", cpu)):
                entry[title] = round(times["class-wise FasterPAM"] / times["dkmeans"], 2)
        result[f"seconds, {n_classes} classes"] = entry


def memory(result, n=40_000):
    """Print the peak memory of a fit from rows; the matrix of distances takes 6.4 GB of it."""
    X, y = overlapping_blobs(n, d=16)
    start = time.perf_counter()
    model = DiscriminativeKMedoids(40).fit(X, y)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{n:,} rows, {model.n_medoids_} medoids: {peak:.2f} GiB at most, {seconds:.0f} s")
    result["memory"] = {"rows": n, "GiB": round(peak, 2), "seconds": round(seconds)}


if __name__ == "__main__":
    parts = {"errors": errors, "landmarks": landmarks, "speed": speed, "memory": memory}
    found: dict = {}
    for part in sys.argv[1:] or list(parts):
        parts[part](found)
    print_result(found)
