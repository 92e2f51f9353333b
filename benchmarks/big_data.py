"""What it costs to fit data from blocks and on a Dask cluster, beside the same fit in memory.

    python benchmarks/big_data.py            # about fifteen minutes, 2 GB of disk
    python benchmarks/big_data.py --quick    # a tenth of the rows: about a minute
    python benchmarks/big_data.py --large    # also a Parquet set of 5 GB: its peak of memory
    python benchmarks/big_data.py --only-driver    # the driver's memory per row on a cluster
    python benchmarks/big_data.py --only-partitions --rows 500000    # only 4, 50, 500 partitions
    python benchmarks/big_data.py --only-refinement --rows 1000000    # only fits with refinement

All fits use two cores: two threads in memory and over blocks, two workers of one thread each on the
cluster, which is up and has the data. First 4,000,000 x 32 (float32) to 256 clusters with the
paper's growth, in turns, best of three; then the same rows in 4, 50 and 500 partitions; then the
default growth; then a quarter of the rows with the paper's growth and eight passes of refinement.
There, "decoded again" has room on disk for the state of rows only, "batches kept" for nine tenths
of the rows, too. What travels is what is pickled at the driver.
"""

import argparse
import itertools
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import overlapping_blobs, print_result
from pyarrow import parquet as pq

from dkmeans import DiscriminativeKMeans, OverfittingWarning

warnings.simplefilter("ignore", OverfittingWarning)
D, K, FILES = 32, 256, 8
NAMES = [f"x{j:03d}" for j in range(64)]
PARTITIONS = (4, 50, 500)
WARM_UP_ROWS = 8_000  # of a first fit, which imports what is needed
SETUP = ("FindFacts",)  # passes made once per fit
REFINE_PASSES = 8
STATE_BYTES = 160  # of a row, which come first in a budget of the disk


def save_parquet(folder, X, y, files):
    """Write rows as a Parquet folder, as pyarrow does it by default."""
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        part = slice(rows[0], rows[-1] + 1)
        columns = dict(zip(NAMES, X[part].T, strict=False))
        pq.write_table(pa.table(columns | {"kind": y[part]}), folder / f"{number:04d}.parquet")


def rows_of(path, shape, start, stop):
    """Read some rows of a file of float32, on a worker."""
    return np.array(np.memmap(path, np.float32, "r", shape=shape)[start:stop])


def partitioned(client, path, y, d, n_partitions):
    """Make persisted Dask arrays of a file of float32."""
    import dask.array as da
    from dask import delayed
    from distributed import wait

    ends = np.linspace(0, len(y), n_partitions + 1).astype(int).tolist()
    parts = [
        da.from_delayed(delayed(rows_of)(path, (len(y), d), start, stop), (stop - start, d), "f4")
        for start, stop in itertools.pairwise(ends)
    ]
    X = da.concatenate(parts)
    arrays = client.persist([X, da.from_array(y, chunks=(X.chunks[0],))])
    wait(arrays)
    return arrays


def take_turns(jobs, repeats):
    """Least time of each fit, after one to warm up, and whether all have the same centres."""
    centers, best = {}, dict.fromkeys(jobs, np.inf)
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            model = job()
            taken = time.perf_counter() - start
            centers[name] = model.cluster_centers_
            if turn:
                best[name] = min(best[name], taken)
    first = centers["in memory"]
    assert all(np.array_equal(other, first) for other in centers.values())
    return best, model


def print_times(title, best):
    """Print seconds and ratios."""
    base = best["in memory"]
    print(f"\n{title}\n{'':24s}{'seconds':>10s}{'ratio':>8s}")
    for name, seconds in best.items():
        print(f"{name:24s}{seconds:10.2f}{seconds / base:8.2f}", flush=True)
    return {name: round(seconds / base, 3) for name, seconds in best.items() if seconds != base}


class Traffic:
    """Counts what the driver sends and gets while a fit runs, call by call."""

    def __init__(self):
        from dkmeans.runners.dask import Crew

        self._owner, self._plain = Crew, Crew._ask_all
        self.sent, self.back, self.calls = (defaultdict(int) for _ in range(3))

    def __enter__(self):
        from dkmeans.runners.dask_requests import RunPass, Shared

        def counted(crew, request):
            found = self._plain(crew, request)
            request = request.request if isinstance(request, Shared) else request
            if isinstance(request, RunPass):
                if not self.calls:  # while there is a crew
                    self._time_calls(crew)
                name, workers = type(request.task).__name__, len(crew._workers)
                self.sent[name] += workers * len(pickle.dumps(request, 5))
                self.back[name] += len(pickle.dumps(found, 5))
                self.calls[name] += 1
                self.workers = workers
            return found

        self._owner._ask_all = counted
        return self

    def __exit__(self, *_):
        self._owner._ask_all = self._plain

    def _time_calls(self, crew):
        """Measure the time of a call that does next to nothing."""
        from dkmeans.passes.facts import FindWeightFacts
        from dkmeans.runners.dask_requests import RunPass

        times = []
        for _ in range(50):
            start = time.perf_counter()
            self._plain(crew, RunPass(0, FindWeightFacts(None)))
            times.append(time.perf_counter() - start)
        self.milliseconds = 1e3 * float(np.median(times))

    def summary(self, rounds):
        """Return bytes and calls per round."""
        passes = [m for m in self.calls if m not in SETUP]
        return {
            "calls per round": round(sum(self.calls[m] for m in passes) / rounds, 1),
            "kB to a worker per round": round(
                sum(self.sent[m] for m in passes) / rounds / self.workers / 1e3, 1
            ),
            "kB back from a worker per round": round(
                sum(self.back[m] for m in passes) / rounds / self.workers / 1e3, 1
            ),
        }


def fit(growth, *data, **more):
    """Fit to the number of clusters that all cases have."""
    plain = {"refine": None, "metric": "euclidean"} | more
    return DiscriminativeKMeans(K, growth=growth, n_threads=2, **plain).fit(*data)


def on_cluster(growth, X, y, **more):
    """Fit with as many threads as workers have."""
    plain = {"refine": None, "metric": "euclidean"} | more
    return DiscriminativeKMeans(K, growth=growth, **plain).fit(X, y)


def compare(title, growth, n, client, folder, repeats):
    """Fit the same rows in memory, from blocks and on the cluster, in turns."""
    X, y = overlapping_blobs(n, D)
    place = folder / f"{growth}-{n}"
    place.mkdir()
    X.tofile(place / "rows.f4")
    mapped = np.memmap(place / "rows.f4", np.float32, "r", shape=X.shape)
    save_parquet(place / "tables", X, y, FILES)
    dask = partitioned(client, str(place / "rows.f4"), y, D, FILES)
    budget = min(256, X.nbytes / 2**21)  # half of the rows, so that the map is read in blocks
    enough = X.nbytes / 2**19 + 1  # twice the rows, so that they are kept once they are read
    jobs = {
        "in memory": lambda: fit(growth, X, y),
        "memory map": lambda: fit(growth, mapped, y, memory_mb=budget),
        "Parquet": lambda: fit(growth, place / "tables", "kind", memory_mb=budget),
        "Parquet, kept": lambda: fit(growth, place / "tables", "kind", memory_mb=enough),
        "Dask, two workers": lambda: on_cluster(growth, *dask),
    }
    best, model = take_turns(jobs, repeats)
    rounds = len(model.history_)
    ratios = print_times(f"{title}, {n:,} x {D}, {K} clusters, {rounds} rounds", best)
    return ratios, {"in memory": lambda: fit(growth, X, y)}, place, y, best, rounds


def refinement(client, folder, n, repeats):
    """Fit with refinement: most passes see one of eight batches of the rows."""
    X, y = overlapping_blobs(n, D)
    place = folder / f"refinement-{n}"
    place.mkdir()
    X.tofile(place / "rows.f4")
    tables = place / "tables"
    save_parquet(tables, X, y, FILES)
    dask = partitioned(client, str(place / "rows.f4"), y, D, FILES)
    budget = min(256, X.nbytes / 2**21)
    state, rows = STATE_BYTES * n / 2**20 - budget / 4, X.nbytes / 2**20
    more = {"refine": "margin", "max_iter": REFINE_PASSES}
    blocks = more | {"memory_mb": budget}
    jobs = {
        "in memory": lambda: fit("paper", X, y, **more),
        "Parquet": lambda: fit("paper", tables, "kind", **blocks),
        "Parquet, decoded again": lambda: fit("paper", tables, "kind", **blocks, disk_mb=state),
        "Parquet, batches kept": lambda: fit(
            "paper", tables, "kind", **blocks, disk_mb=state + 0.9 * rows
        ),
        "Dask, two workers": lambda: on_cluster("paper", *dask, **more),
    }
    best, model = take_turns(jobs, repeats)
    rounds = len(model.history_)
    return print_times(f"Refinement, {n:,} x {D}, {K} clusters, {rounds} rounds", best)


def partitions(client, jobs, place, y):
    """Cut the same rows into more and more partitions."""
    arrays = {m: partitioned(client, str(place / "rows.f4"), y, D, m) for m in PARTITIONS}
    for m, data in arrays.items():
        jobs[f"{m} partitions"] = lambda data=data: on_cluster("paper", *data)
    best, model = take_turns(jobs, 2)
    ratios = print_times("Number of partitions", best)
    found = {}
    for m, data in arrays.items():
        with Traffic() as traffic:
            on_cluster("paper", *data)
        found[m] = traffic.summary(len(model.history_))
        found[m]["milliseconds per empty call"] = round(traffic.milliseconds, 2)
    print(f"\n{'':36s}" + "".join(f"{m:>12d}" for m in PARTITIONS))
    for name in found[PARTITIONS[0]]:
        print(f"{name:36s}" + "".join(f"{found[m][name]:12.1f}" for m in PARTITIONS))
    return ratios, found


def block_of(seed, n, d):
    """Make some rows on a worker."""
    X, y = overlapping_blobs(n, d, seed=seed)
    return np.column_stack([X, y.astype(np.float32)])


def driver_memory(client, n_rows, n_partitions=8, d=8):
    """Measure the driver's peak of memory during fits of rows that it never holds."""
    import tracemalloc

    import dask.array as da
    from dask import delayed
    from distributed import wait

    cases = {
        "paper": {"max_clusters": 64, "growth": "paper"},
        '"auto"': {"max_clusters": "auto", "growth": "paper", "max_iter": 4},
        "real weights": {"max_clusters": 64, "growth": "paper"},
    }
    peaks = {name: [] for name in cases}
    for n in (WARM_UP_ROWS, *n_rows):
        size = n // n_partitions
        parts = [
            da.from_delayed(delayed(block_of)(seed, size, d), (size, d + 1), np.float32)
            for seed in range(n_partitions)
        ]
        both = da.concatenate(parts)
        weights = abs(both[:, 0].astype(np.float64)) + 0.1  # nearly all of them differ
        X, y, w = client.persist([both[:, :d], both[:, d].astype(np.int64), weights])
        wait([X, y, w])
        for name, more in cases.items():
            model = DiscriminativeKMeans(refine=None, metric="euclidean", **more)
            tracemalloc.start()
            model.fit(X, y, w if name == "real weights" else None)
            peaks[name].append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        del X, y, w, weights, both, parts, model
    peaks = {name: some[1:] for name, some in peaks.items()}
    print(f"\nDriver's peak of memory, MB{'':10s}" + "".join(f"{n:>12,d}" for n in n_rows), end="")
    print(f"{'bytes per row':>16s}")
    found = {}
    for name, some in peaks.items():
        found[name] = round((some[-1] - some[0]) / (n_rows[-1] - n_rows[0]), 2)
        print(f"{name:37s}" + "".join(f"{peak / 1e6:12.1f}" for peak in some), end="")
        print(f"{found[name]:16.2f}", flush=True)
    return found


LARGE = """
import re, sys, time
from pathlib import Path
from dkmeans import DiscriminativeKMeans
import pyarrow.parquet
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) / 1024
imported = peak()
folder = Path(sys.argv[1])
plain = {"growth": sys.argv[2], "refine": None, "metric": "euclidean", "n_threads": 2}
small = DiscriminativeKMeans(20, **plain, memory_mb=16)
small.fit(folder / "small", "kind")
warm = peak()
start = time.perf_counter()
model = DiscriminativeKMeans(int(sys.argv[3]), **plain).fit(folder / "large", "kind")
print(imported, warm, peak(), time.perf_counter() - start, len(model.history_))
"""


def large(scale, folder, growths):
    """Fit a Parquet set of 5 GB in a process of its own, and watch its peak of memory."""
    n, files, k = 20_000_000 // scale, 40, 64
    for name, rows, parts in (("small", 100_000, 1), ("large", n, files)):
        (folder / name).mkdir()
        X, y = overlapping_blobs(rows // parts, 64)
        X = np.ascontiguousarray(X.T)
        for number in range(parts):
            X += np.float32(0.001)  # quicker than other random numbers
            columns = dict(zip(NAMES, X, strict=True)) | {"kind": y}
            file = folder / name / f"{number:04d}.parquet"
            pq.write_table(pa.table(columns), file, compression="none", use_dictionary=False)
    size = sum(f.stat().st_size for f in (folder / "large").iterdir()) / 1e9
    print(f"\nParquet set of {size:.2f} GB: {n:,} x 64, {k} clusters")
    print(f"{'growth':10s}{'seconds':>10s}{'rounds':>8s}{'MiB after import':>18s}", end="")
    print(f"{'warm':>8s}{'peak':>8s}{'bytes per row':>15s}")
    found = {"GB": round(size, 2)}
    for growth in growths:
        done = subprocess.run(
            [sys.executable, "-c", LARGE, str(folder), growth, str(k)],
            capture_output=True,
            text=True,
            check=True,
        )
        imported, warm, peak, seconds, rounds = map(float, done.stdout.split())
        per_row = (peak - warm) * 2**20 / n
        print(f"{growth:10s}{seconds:10.1f}{rounds:8.0f}{imported:18.0f}", end="")
        print(f"{warm:8.0f}{peak:8.0f}{per_row:15.0f}", flush=True)
        found[growth] = {
            "MiB beyond import": round(peak - imported),
            "MiB beyond a small fit": round(peak - warm),
            "seconds": round(seconds, 1),
        }
    return found


def only_partitions(client, folder, n, result):
    """Cut the rows into more and more partitions."""
    X, y = overlapping_blobs(n, D)
    X.tofile(folder / "rows.f4")
    jobs = {"in memory": lambda: fit("paper", X, y)}
    result["partitions"], result["traffic"] = partitions(client, jobs, folder, y)


def everything(client, folder, n, repeats, result):
    """Measure all cases."""
    run = client, folder
    main_case = "Paper's growth", "paper", n
    ratios, jobs, place, y, best, rounds = compare(*main_case, *run, repeats)
    result["ratio to in memory"] = {"paper": ratios}
    result["nanoseconds per row and round"] = {
        name: round(1e9 * seconds / rounds / n, 1) for name, seconds in best.items()
    }
    result["partitions"], result["traffic"] = partitions(client, jobs, place, y)
    del jobs
    ratios, *_ = compare("Default growth", "best", n, *run, repeats)
    result["ratio to in memory"]["best"] = ratios
    result["ratio to in memory"]["refinement"] = refinement(*run, n // 4, repeats)
    result["bytes per row at the driver"] = driver_memory(client, (n // 4, n))


def main():
    """Measure, print tables and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--large", action="store_true", help="also 5 GB of Parquet")
    parser.add_argument("--only-large", action="store_true", help="nothing but 5 GB of Parquet")
    parser.add_argument("--growth", nargs="+", default=["paper"], help="of the 5 GB")
    parser.add_argument("--folder", help="where temporary files go")
    parser.add_argument("--only-driver", action="store_true", help="nothing but its memory")
    parser.add_argument("--only-partitions", action="store_true", help="nothing but partitions")
    parser.add_argument("--only-refinement", action="store_true", help="nothing but refinement")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="of both growths, best of them")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    n = arguments.rows // scale
    result = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="distbench-") as folder:
        if not arguments.only_large:
            from distributed import Client, LocalCluster

            with (
                LocalCluster(
                    n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                if arguments.only_driver:
                    result["bytes per row at the driver"] = driver_memory(client, (n // 4, n))
                elif arguments.only_partitions:
                    only_partitions(client, Path(folder), n, result)
                elif arguments.only_refinement:
                    found = refinement(client, Path(folder), n, arguments.repeats)
                    result["ratio to in memory"] = {"refinement": found}
                else:
                    everything(client, Path(folder), n, arguments.repeats, result)
        if arguments.large or arguments.only_large:
            result["large"] = large(scale, Path(folder), arguments.growth)
    print_result({"big data": result, "rows": n})


if __name__ == "__main__":
    main()
