"""Simulate fits on clusters that are not at hand: 1,000,000,000 x 128 on 100 and 1,000 workers.

    python benchmarks/simulate_cluster.py            # about five minutes
    python benchmarks/simulate_cluster.py --quick    # about a minute

A discrete-event model of a fit on a Dask cluster, fed by what this script measures on this machine:
the work per row, the size of the request and of the result of every pass, from a fit in memory with
one thread; the latency of a call, what calls cost the driver, and the bandwidth between processes,
from a local cluster; and the time to merge results. Then real fits on 1, 2 and 4 worker processes
are compared with the model, whose error is printed. Last, the table of large clusters, with what
would be saved if one cost were zero: the largest one limits the fit.
"""

import argparse
import heapq
import itertools
import math
import os
import pickle
import tempfile
import time
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from common import overlapping_blobs, print_result

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.runners.local import LocalRunner

warnings.simplefilter("ignore", OverfittingWarning)
MIN_TREE_WORKERS = 9  # with fewer, the driver merges the results of all workers
COSTS = ("work", "calls", "transfer", "merge")


@dataclass(frozen=True)
class Step:
    """One pass over the rows."""

    name: str
    seconds_per_row: float
    n_rows: int | None  # of a sample; None for all rows
    sent: float  # bytes of the request, for each worker
    back: float  # bytes of a worker's result, whatever its number of rows
    exchanged: float = 0.0  # bytes per row that workers send to each other


@dataclass(frozen=True)
class Machine:
    """A cluster: what its parts cost.

    Attributes
    ----------
    n_workers : int
        Of one thread each.
    cores : int
        Workers that can compute at the same time.
    latency : float
        Seconds from a request without work to its answer.
    dispatch : float
        Seconds that one call keeps the driver busy.
    bandwidth : float
        Bytes per second from or to one process.
    merging : float
        Seconds per byte of a result that is merged.
    start : float
        Seconds of a fit before its first pass.
    """

    n_workers: int
    cores: int
    latency: float = 0.0
    dispatch: float = 0.0
    bandwidth: float = math.inf
    merging: float = 0.0
    start: float = 0.0


@dataclass
class Server:
    """Something that does one thing after the other, or a few at a time."""

    count: int = 1
    free_at: list[float] = field(default_factory=list)

    def serve(self, now, seconds):
        """Return when something that arrives now is done."""
        busy = len(self.free_at) == self.count
        begin = max(now, heapq.heappop(self.free_at)) if busy else now
        heapq.heappush(self.free_at, begin + seconds)
        return begin + seconds


class Simulation:
    """Events in the order of time: each is a function of its time, and may plan others."""

    def __init__(self, machine):
        self._machine, self._events, self._numbers = machine, [], itertools.count()
        self._driver, self._cores = Server(), Server(machine.cores)
        self.now = 0.0

    def run(self, steps, n_rows):
        """Return the seconds of a fit."""
        self.now = self._machine.start
        for step in steps:
            self._pass(step, n_rows)
        return self.now

    def _at(self, when, event):
        heapq.heappush(self._events, (when, next(self._numbers), event))

    def _drain(self):
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event(self.now)

    def _pass(self, step, n_rows):
        """Let all workers run a pass, and bring the results together."""
        m = self._machine
        rows = (n_rows if step.n_rows is None else min(step.n_rows, n_rows)) / m.n_workers
        work = rows * step.seconds_per_row
        exchange = rows * step.exchanged / m.bandwidth
        asked = m.dispatch + step.sent / m.bandwidth
        is_tree = m.n_workers >= MIN_TREE_WORKERS

        def arrive(now):
            self._at(self._cores.serve(now, work), answer)

        def answer(now):
            ready = now + exchange + m.latency / 2
            self._at(ready, (lambda when: None) if is_tree else self._collect(step.back))

        for _ in range(m.n_workers):
            self._at(self._driver.serve(self.now, asked) + m.latency / 2, arrive)
        self._drain()
        if is_tree:
            self._merge_in_groups(step)

    def _merge_in_groups(self, step):
        """Let one worker of each group collect the results of its group, and send the sum."""
        m = self._machine
        count = round(m.n_workers**0.5)
        most = -(-m.n_workers // count)
        one = step.back / m.bandwidth + step.back * m.merging

        def lead(now):
            done = now + m.latency + (most - 1) * one
            self._at(done + m.latency / 2, self._collect(step.back))

        for _ in range(count):
            self._at(self._driver.serve(self.now, m.dispatch) + m.latency / 2, lead)
        self._drain()

    def _collect(self, n_bytes):
        """Return the event that the driver gets a result and merges it."""
        m = self._machine
        seconds = n_bytes / m.bandwidth + n_bytes * m.merging

        def collect(now):
            self._at(self._driver.serve(now, seconds), lambda when: None)

        return collect


def simulate(steps, n_rows, machine):
    """Return the seconds of a fit, and what would be saved if one cost were zero."""
    whole = Simulation(machine).run(steps, n_rows)
    free = {
        "work": ([replace(step, seconds_per_row=0.0) for step in steps], machine),
        "calls": (steps, replace(machine, latency=0.0, dispatch=0.0)),
        "transfer": (steps, replace(machine, bandwidth=math.inf)),
        "merge": (steps, replace(machine, merging=0.0)),
    }
    saved = {
        name: whole - Simulation(other).run(some, n_rows) for name, (some, other) in free.items()
    }
    return whole, saved


@dataclass(frozen=True)
class Note:
    """What was seen of one call of a fit in memory."""

    name: str
    seconds: float
    n_rows: int
    sent: int
    back: int
    exchanged: int = 0


class Notebook:
    """Notes every call of a fit in memory, and the seconds per byte of merges of large results."""

    def __init__(self):
        self.notes, self.merges = [], []
        calls = "run", "exchange", "derive", "configure"
        self._plain = {name: getattr(LocalRunner, name) for name in calls}

    def __enter__(self):
        for name in self._plain:
            setattr(LocalRunner, name, self._noted(name))
        return self

    def __exit__(self, *_):
        for name, plain in self._plain.items():
            setattr(LocalRunner, name, plain)

    def _noted(self, method):
        def call(runner, task):
            n_rows, exchanged = sum(len(part) for part in runner.parts), 0
            start = time.process_time()
            result = self._plain[method](runner, task)
            seconds = time.process_time() - start
            back = len(pickle.dumps(result, 5)) if method == "run" else 0
            if back > 1 << 18:
                start = time.process_time()
                task.merge([result, result])
                self.merges.append((time.process_time() - start) / (2 * back))
            if method == "exchange":
                pairs = zip(runner.parts, runner.states, strict=True)
                exchanged = sum(len(pickle.dumps(task.split(*pair), 5)) for pair in pairs)
            sent = len(pickle.dumps(task, 5))
            self.notes.append(Note(type(task).__name__, seconds, n_rows, sent, back, exchanged))
            return result

        return call


def trace(n_rows, n_features, k, growth):
    """Return the passes of a fit, seconds to merge a byte, and the number of rounds."""
    X, y = overlapping_blobs(n_rows, n_features)
    model = DiscriminativeKMeans(k, growth=growth, refine=None, metric="euclidean", n_threads=1)
    model.fit(X, y)  # compiles
    with Notebook() as few:
        model.fit(X[: n_rows // 4], y[: n_rows // 4])
    with Notebook() as seen:
        model.fit(X, y)
    small = {}  # largest result of each pass on a quarter of the rows
    for note in few.notes:
        small[note.name] = max(note.back, small.get(note.name, 0))
    steps = []
    for note in seen.notes:
        # Results that grow with the rows have one entry for each row, and stay on the workers.
        is_per_row = note.back >= max(note.n_rows, 3 * small.get(note.name, note.back))
        steps.append(
            Step(
                note.name,
                note.seconds / note.n_rows,
                None if note.n_rows == n_rows else note.n_rows,
                note.sent,
                0 if is_per_row else note.back,
                note.exchanged / note.n_rows,
            )
        )
    merging = float(np.median(seen.merges)) if seen.merges else 0.0
    return steps, merging, len(model.history_)


class Echo:
    """An actor that returns what it gets."""

    def echo(self, value):
        """Return it."""
        return value


def times_of(function, repeats):
    """Times of a function in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def measure_network(client):
    """Measure latency, what calls cost the driver, and bandwidth, on the workers of a client."""
    names = list(client.scheduler_info()["workers"])
    actors = [client.submit(Echo, actor=True, workers=[n], pure=False).result() for n in names]
    latency = float(np.median(times_of(lambda: actors[0].echo(0).result(), 50)))

    def ask_all():
        for pending in [actor.echo(0) for actor in actors]:
            pending.result()

    together = float(np.median(times_of(ask_all, 50)))
    dispatch = max(0.0, together - latency) / max(1, len(actors) - 1)
    block = np.zeros(1 << 22)
    both_ways = min(times_of(lambda: actors[0].echo(block).result(), 5)) - latency
    return {"latency": latency, "dispatch": dispatch, "bandwidth": 2 * block.nbytes / both_ways}


def real_fit(client, file, y, n_features, k, growth):
    """Least time of two fits on the workers of a client, after one that compiles."""
    from big_data import partitioned  # needs pyarrow

    n_workers = len(client.scheduler_info()["workers"])
    arrays = partitioned(client, str(file), y, n_features, n_workers)
    model = DiscriminativeKMeans(k, growth=growth, refine=None, metric="euclidean")
    model.fit(*arrays)
    return min(times_of(lambda: model.fit(*arrays), 2))


def compare(steps, n_rows, n_features, k, growth, merging, cores, folder):
    """Fit on 1, 2 and 4 real workers, and simulate the same; returns the network as well."""
    from distributed import Client, LocalCluster

    X, y = overlapping_blobs(n_rows, n_features)
    few, found, network, start = n_rows // 20, {}, None, 0.0
    file = folder / f"{growth}.f4"
    X.tofile(file)
    print(f"\n{'workers':>8s}{'real':>10s}{'simulated':>12s}{'error':>9s}")
    for n_workers in (1, 2, 4):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            if n_workers != 1 or network is None:
                network = measure_network(client)
            machine = Machine(n_workers, min(cores, n_workers), merging=merging, **network)
            real = real_fit(client, file, y, n_features, k, growth)
            if n_workers == 1:  # what a fit takes apart from its passes, from one with few rows
                least = real_fit(client, file, y[:few], n_features, k, growth)
                start = max(0.0, least - Simulation(machine).run(steps, few))
        simulated = Simulation(replace(machine, start=start)).run(steps, n_rows)
        found[n_workers] = round(100 * (simulated / real - 1), 1)
        print(f"{n_workers:8d}{real:10.2f}{simulated:12.2f}{found[n_workers]:8.1f}%", flush=True)
    return found, network | {"start": start}


def table(steps, n_rows, network, merging, workers):
    """Print what large clusters would take, and what limits them."""
    found = {}
    print(f"\n{n_rows:,} rows\n{'workers':>8s}{'seconds':>10s}", end="")
    print("".join(f"{name:>10s}" for name in COSTS) + "   limited by")
    for n_workers in workers:
        machine = Machine(n_workers, n_workers, merging=merging, **network)
        whole, saved = simulate(steps, n_rows, machine)
        limit = max(saved, key=saved.get)
        print(f"{n_workers:8d}{whole:10.1f}" + "".join(f"{saved[c]:10.1f}" for c in COSTS), end="")
        print(f"   {limit}", flush=True)
        found[n_workers] = {"seconds": round(whole, 1), "limited by": limit} | {
            name: round(seconds, 1) for name, seconds in saved.items()
        }
    return found


def main():
    """Measure, compare with real fits, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the measured rows")
    parser.add_argument("--rows", type=int, default=1_000_000_000, help="of the simulated fits")
    parser.add_argument("--workers", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--growth", nargs="+", default=["paper", "best"])
    parser.add_argument(
        "--bandwidth", type=float, default=1.25e9, help="of a large network, bytes/s"
    )
    given = parser.parse_args()
    n_features, k, n_rows = 128, 256, 30_000 if given.quick else 300_000
    cores, result = len(os.sched_getaffinity(0)), {}
    for growth in given.growth:
        print(f"\ngrowth={growth!r}, {n_features} features, {k} clusters; {n_rows:,} rows measured")
        steps, merging, rounds = trace(n_rows, n_features, k, growth)
        with tempfile.TemporaryDirectory() as folder:
            place = merging, cores, Path(folder)
            errors, network = compare(steps, n_rows, n_features, k, growth, *place)
        costs = network | {"nanoseconds to merge a byte": 1e9 * merging}
        per_row = sum(step.seconds_per_row for step in steps if step.n_rows is None)
        print(f"\nmeasured: {1e9 * per_row:.0f} ns of work per row, {len(steps)} passes", end="")
        print(f", {rounds} rounds; " + ", ".join(f"{n} {v:.3g}" for n, v in costs.items()))
        network["bandwidth"] = min(network["bandwidth"], given.bandwidth)
        found = table(steps, given.rows, network, merging, given.workers)
        result[growth] = {
            "error %": errors,
            "seconds per row": per_row,
            "passes": len(steps),
            "costs": costs,
            "workers": found,
        }
    print_result({"simulation": result, "rows": given.rows, "features": n_features})


if __name__ == "__main__":
    main()
