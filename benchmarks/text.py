"""Sparse text in blocks and on a Dask cluster: time, memory and error beside k-means per class.

    python benchmarks/text.py    # 1,000,000 x 100,000: about half an hour, 3 GB of disk
    python benchmarks/text.py --rows 100000    # minutes
    python benchmarks/text.py --rows 50000 --classes 20 --ways blocks

Rows are like tf-idf vectors of documents: about 100 of 100,000 words, which are drawn from a Zipf
distribution, and from 100 topics, of which each of two classes (`--classes`) has 50; as many words
are from any other topic. They are float32 in CSR files of 10,000 rows. Every fit is a process of
its own: with blocks, on two Dask workers of one thread each, and `MiniBatchKMeans` on the rows of
each class at length one, with as many centres in all. The error is that of the nearest prototype
on rows of other files. Memory is the peak of each process, as the operating system counts it, with
the pages of temporary files that are mapped at that time.
"""

import argparse
import functools
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import print_result

from dkmeans import DiscriminativeKMeans, OverfittingWarning

warnings.simplefilter("ignore", OverfittingWarning)
N_WORDS, N_TOPICS, TOPIC_WORDS, TOKENS = 100_000, 100, 2000, 125
FILE_ROWS, K = 10_000, 200
SHARES = 0.8, 0.88  # up to the first, words are from the language; up to the second, from the topic
WAYS = ("blocks", "two workers", "k-means per class")


@functools.cache
def language():
    """Cumulative word frequencies of the language and of a topic, and the words of topics."""
    rng = np.random.default_rng(0)
    common = 1 / (np.arange(N_WORDS) + 2.7)
    topic = 1 / (np.arange(TOPIC_WORDS) + 2.7)
    words = rng.integers(0, N_WORDS, (N_TOPICS, TOPIC_WORDS))
    return np.cumsum(common / common.sum()), np.cumsum(topic / topic.sum()), words


def documents(n, n_classes, seed):
    """Draw rows and their classes."""
    common, topic, words = language()
    rng = np.random.default_rng((1, seed))
    about = rng.integers(0, len(words), n)
    kind = rng.random((n, TOKENS))
    theme = np.where(kind < SHARES[1], about[:, None], rng.integers(0, len(words), (n, TOKENS)))
    place = rng.random((n, TOKENS))
    from_topic = words[theme, np.minimum(np.searchsorted(topic, place), TOPIC_WORDS - 1)]
    from_language = np.minimum(np.searchsorted(common, place), N_WORDS - 1)
    tokens = np.where(kind < SHARES[0], from_language, from_topic)
    rows = np.repeat(np.arange(n), TOKENS)
    ones = np.ones(n * TOKENS, np.float32)
    X = sp.csr_array((ones, (rows, tokens.ravel())), shape=(n, N_WORDS))
    X.sum_duplicates()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    frequency = np.diff(common, prepend=0.0)
    idf = 1 + np.log(1 / (TOKENS * frequency + 1e-4)).clip(0)  # about that of so many tokens
    X.data = ((1 + np.log(X.data)) * idf[X.indices]).astype(np.float32)
    return X, about % n_classes


def write(folder, n, n_classes):
    """Write files of rows and labels, and as many as a tenth of them to test."""
    for name, first, rows in (("train", 0, n), ("test", 10**6, max(FILE_ROWS, n // 20))):
        (folder / name).mkdir()
        for number in range(-(-rows // FILE_ROWS)):
            some = min(FILE_ROWS, rows - number * FILE_ROWS)
            X, y = documents(some, n_classes, first + number)
            sp.save_npz(folder / name / f"{number:04d}.npz", X, compressed=False)
            np.save(folder / name / f"{number:04d}.npy", y)


def batches(folder):
    """Read one file after the other."""
    for path in sorted(folder.glob("*.npz")):
        yield sp.load_npz(path), np.load(path.with_suffix(".npy"))


def peak(pid="self"):
    """Peak of a process's memory in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024


def estimator(growth, **more):
    """Make the estimator that all ways use."""
    return DiscriminativeKMeans(K, growth=growth, refine=None, metric="cosine", **more)


def fit_blocks(folder, growth):
    """Fit from files, in this process."""
    start = time.perf_counter()
    model = estimator(growth, n_threads=2).fit(functools.partial(batches, folder / "train"))
    return model, time.perf_counter() - start, {"process": peak()}


def fit_on_workers(folder, growth):
    """Fit on two workers, which have read the files."""
    import dask.array as da
    from dask import delayed
    from distributed import Client, LocalCluster, wait

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        y, parts = [], []
        for path in sorted((folder / "train").glob("*.npz")):
            y.append(np.load(path.with_suffix(".npy")))
            shape = len(y[-1]), N_WORDS
            kind = {"dtype": np.float32, "meta": sp.csr_array((0, 0), dtype=np.float32)}
            parts.append(da.from_delayed(delayed(sp.load_npz)(path), shape, **kind))
        X = client.persist(da.concatenate(parts))
        wait(X)
        start = time.perf_counter()
        model = estimator(growth).fit(X, np.concatenate(y))
        taken = time.perf_counter() - start
        pids = client.run(lambda: __import__("os").getpid()).values()
        memory = {"driver": peak()}
        memory |= {f"worker {number}": peak(pid) for number, pid in enumerate(pids)}
    return model, taken, memory


class PerClass:
    """Centres of each class, and the class of the nearest one."""

    def __init__(self, centers, classes):
        self.centers, self.classes = centers, classes

    def score(self, X, y):
        """Share of the rows whose nearest centre is of their class."""
        far = -2 * (X @ self.centers.T) + np.square(self.centers).sum(axis=1)
        return float(np.mean(self.classes[far.argmin(axis=1)] == y))


def fit_per_class(folder, growth):
    """Fit `MiniBatchKMeans` to the rows of each class, file by file."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.preprocessing import normalize

    start = time.perf_counter()
    n_classes = 1 + max(int(y.max()) for _, y in batches(folder / "train"))
    models = {c: MiniBatchKMeans(K // n_classes, random_state=0) for c in range(n_classes)}
    waiting = {c: [] for c in models}
    for X, y in [*batches(folder / "train"), (None, None)]:
        for c, model in models.items():
            if X is not None:
                waiting[c].append(normalize(X[y == c]))
            if waiting[c] and (X is None or sum(rows.shape[0] for rows in waiting[c]) >= 2048):
                model.partial_fit(sp.vstack(waiting[c], format="csr"))
                waiting[c].clear()
    centers = np.concatenate([model.cluster_centers_ for model in models.values()])
    model = PerClass(centers, np.repeat(np.arange(n_classes), K // n_classes))
    return model, time.perf_counter() - start, {"process": peak()}


def run(way, folder, growth):
    """Fit in one way, and print what was measured."""
    fit = dict(zip(WAYS, (fit_blocks, fit_on_workers, fit_per_class), strict=True))[way]
    model, seconds, memory = fit(folder, growth)
    scores = [model.score(X, y) for X, y in batches(folder / "test")]
    found = {"seconds": round(seconds, 1), "error": round(1 - float(np.mean(scores)), 4)}
    found["MiB"] = {name: round(value) for name, value in memory.items()}
    print(json.dumps(found))


def main():
    """Write the files, fit in all ways, print a table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--growth", default="best", choices=("best", "paper"))
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--folder", type=Path, help="where temporary files go")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        run(given.one, given.folder, given.growth)
        return
    result = {}
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="text-") as place:
        folder = Path(place)
        write(folder, given.rows, given.classes)
        X, _ = next(batches(folder / "train"))
        print(f"{given.rows:,} x {N_WORDS:,}, {X.nnz / X.shape[0]:.0f} values a row, ", end="")
        print(f"{given.classes} classes, {K} centres")
        print(f"{'':20s}{'seconds':>10s}{'error':>9s}   MiB at the peak")
        for way in given.ways:
            command = [sys.executable, __file__, "--one", way, "--folder", place]
            done = subprocess.run(
                [*command, "--growth", given.growth], stdout=subprocess.PIPE, text=True, check=True
            )
            one = result[way] = json.loads(done.stdout.splitlines()[-1])
            memory = ", ".join(f"{name} {value:,}" for name, value in one["MiB"].items())
            print(f"{way:20s}{one['seconds']:10.1f}{one['error']:9.4f}   {memory}", flush=True)
    print_result(
        {"text": result, "rows": given.rows, "classes": given.classes, "growth": given.growth}
    )


if __name__ == "__main__":
    main()
