"""Simulate fits on clusters that are not at hand: 1,000,000,000 x 128 on 100 and 1,000 workers.

    python benchmarks/simulate_cluster.py            # about ten minutes
    python benchmarks/simulate_cluster.py --quick    # a few minutes

`cluster_model.py` is a discrete-event model of a fit on a Dask cluster. This script feeds it with
what it measures on this machine, call by call, in fits on a cluster of one worker process: the
seconds of the worker, those of the driver between two calls, what a call takes besides, the bytes
of requests and results, and the seconds to merge two results. The worker's seconds are split into
those per call and those per row by a fit of the same rows, each four times: as repeating all rows
changes nothing, it consists of the same calls. Further measured parts are what a call costs the
driver, and how much longer work takes while two workers compute at the same time.

Then real fits on 1, 2 and 4 worker processes are compared with the model, twice: by the clock, and
by processor time, which other programs on the machine disturb less. In processor time, a call takes
that of the driver and that of the busiest worker, or an equal share of all workers' time for each
core if there are more workers than cores. All fits take turns, and each call counts with its
shortest time in all turns; the shortest whole fit is printed beside. `--clock` chooses which times
the model of the large clusters is fed with. Last, the table of large clusters, with what would be
saved if one cost were zero: the largest one limits the fit. "Sent on" are the seconds if one worker
of each group sent the requests of passes on to the others, which fits do not do.
"""

import argparse
import os
import tempfile
import time
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from cluster_model import COSTS, Machine, Simulation, Step, simulate
from cluster_trace import CLOCKS, Bench, now
from common import overlapping_blobs, print_result

from dkmeans import DiscriminativeKMeans, OverfittingWarning

warnings.simplefilter("ignore", OverfittingWarning)
COPIES = 4  # of each row, in the larger fit
SMALL_BYTES = 1 << 14  # calls with fewer bytes give the latency
HASH_BYTES = 9.0  # of a row that is sent to be compared: its hash and its class


def model_of(k, growth):
    """Make the estimator that is fitted."""
    return DiscriminativeKMeans(k, growth=growth, refine=None, metric="euclidean")


@contextmanager
def a_client(n_workers):
    """Start worker processes of one thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def bench(client, file, y, n_features, k, growth):
    """Prepare fits of the rows of a file."""
    from big_data import partitioned  # needs pyarrow

    n_workers = len(client.scheduler_info()["workers"])
    with client.as_current():
        arrays = partitioned(client, str(file), y, n_features, n_workers)
    return Bench(client, arrays, model_of(k, growth))


def fit_alone(n_features):
    """Return the seconds of a fit in memory; runs on workers."""
    X, y = overlapping_blobs(20_000, n_features)
    model = model_of(64, "paper").set_params(n_threads=1)
    model.fit(X, y)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        model.fit(X, y)
        times.append(time.perf_counter() - start)
    return min(times)


def measure_crowding(client, n_features):
    """Measure how much longer work takes while two workers compute at the same time."""
    names = list(client.scheduler_info()["workers"])[:2]

    def longest(some):
        pending = [client.submit(fit_alone, n_features, workers=[n], pure=False) for n in some]
        return max(one.result() for one in pending)

    alone = min(longest(names[:1]) for _ in range(3))
    return max(1.0, min(longest(names) for _ in range(3)) / alone)


class Echo:
    """An actor that returns what it gets."""

    def echo(self, value):
        """Return it."""
        return value


def measure_dispatch(client, repeats=300):
    """Return the seconds of the driver's processor that a call takes."""
    with client.as_current():
        actor = client.submit(Echo, actor=True, pure=False).result()
        actor.echo(0).result()
        start = time.process_time()
        for pending in [actor.echo(0) for _ in range(repeats)]:
            pending.result()
        return (time.process_time() - start) / repeats


def measure_bandwidth(client, repeats=5):
    """Return the bytes per second to a worker and back, by each clock."""
    block = np.zeros(1 << 22)
    with client.as_current():
        actor = client.submit(Echo, actor=True, pure=False).result()
        times = []
        for _ in range(repeats + 1):
            start = now()
            actor.echo(block).result()
            times.append(now() - start)
    return dict(zip(CLOCKS, 2 * block.nbytes / np.min(times[1:], axis=0), strict=True))


def seconds_to_sort(n=1 << 20):
    """Return the seconds per row to sort hashes by their receivers."""
    from dkmeans.passes.contract import HashedRows

    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**63, n).astype(np.uint64)
    rows = HashedRows(hashes, np.zeros(n, np.uint8))
    times = []
    for _ in range(5):
        start = time.process_time()
        rows.by_range(100)
        times.append(time.process_time() - start)
    return min(times) / n


def partners(names, others):
    """Return, for each name, the index of its partner in another list; -1 if it has none."""
    found = np.full(len(names), -1)
    for here, there, size in SequenceMatcher(None, names, others, False).get_matching_blocks():
        found[here : here + size] = np.arange(there, there + size)
    return found


def steps_of(once, repeated, n_rows, clock, cores):
    """Split the worker's time in each call by two fits that consist of the same calls.

    If a sample is planned in other steps, the time of a call without partner is all per row.
    """
    few, many = (one.times(clock, cores) for one in (once, repeated))
    names = ([call.name for call in one.sizes] for one in (repeated, once))
    steps, sorting = [], seconds_to_sort()
    both = zip(repeated.sizes, repeated.n_rows, partners(*names), strict=True)
    for at, (call, rows, other) in enumerate(both):
        rows = rows or COPIES * n_rows  # partitions that are not parts yet
        less = 0 if other < 0 else once.n_rows[other] or n_rows
        seconds = 0.0 if other < 0 else few.work[other]
        per_row = max(0.0, many.work[at] - seconds) / (rows - less) if rows > less else 0.0
        per_call = max(0.0, many.work[at] - rows * per_row)
        is_exchange = call.name.startswith("SplitRows")
        steps.append(
            Step(
                call.name,
                per_call,
                per_row,
                None if rows == COPIES * n_rows else rows / COPIES,
                call.sent,
                call.back,
                call.merging,
                HASH_BYTES if is_exchange else 0.0,
                sorting if is_exchange else 0.0,
                float(many.before[at]),
            )
        )
    return steps


def least_call(calls, besides):
    """Return what a call with few bytes takes besides its work."""
    small = [call.sent + call.back < SMALL_BYTES for call in calls]
    return max(0.0, float(np.median(besides[small])))


def measure(n_rows, n_features, k, growth, repeats, folder):
    """Compare real fits on 1, 2 and 4 workers with simulated ones; returns the parts as well."""
    X, y = overlapping_blobs(n_rows, n_features)
    files = {1: folder / "once.f4", COPIES: folder / "repeated.f4"}
    for copies, file in files.items():
        np.tile(X, (copies, 1)).tofile(file)
    y_many, cores = np.tile(y, COPIES), len(os.sched_getaffinity(0))
    with ExitStack() as ending:
        clients = {n: ending.enter_context(a_client(n)) for n in (1, 2, 4)}
        dispatch = min(measure_dispatch(clients[1]) for _ in range(5))
        bandwidth = measure_bandwidth(clients[1])
        crowding = measure_crowding(clients[2], n_features)
        once = bench(clients[1], files[1], y, n_features, k, growth)
        real = {
            n: bench(client, files[COPIES], y_many, n_features, k, growth)
            for n, client in clients.items()
        }
        for _ in range(repeats):
            for one in (once, *real.values()):
                one.turn()
    calls, parts, errors = real[1].sizes, {}, {}
    for one in real.values():
        assert [call.name for call in one.sizes] == [call.name for call in calls]
    waiting = least_call(calls, real[1].times("wall", cores).besides)
    for clock in CLOCKS:
        many = real[1].times(clock, cores)
        steps = steps_of(once, real[1], n_rows, clock, cores)
        least = least_call(calls, many.besides)
        busy = least if clock == "processor" else min(least, dispatch)
        network = {"latency": least - busy, "dispatch": busy, "bandwidth": bandwidth[clock]}
        network["end"] = many.end
        errors[clock] = compare(steps, n_rows, network, real, clock, cores, crowding)
        parts[clock] = steps, network | {"latency": max(0.0, waiting - busy)}
    return parts, {"error %": errors, "crowding": round(crowding, 2)}


def compare(steps, n_rows, network, real, clock, cores, crowding):
    """Print the times of real and simulated fits, and return the errors in percent."""
    found = {}
    print(f"\n{clock} time\n{'workers':>8s}{'shortest fit':>14s}{'its calls':>11s}", end="")
    print(f"{'simulated':>11s}{'error':>9s}   work of these, real and simulated")
    # Samples are drawn with all copies of a row.
    steps = [s if s.n_rows is None else replace(s, n_rows=COPIES * s.n_rows) for s in steps]
    for n, one in real.items():
        machine = Machine(n, min(cores, n), crowding if clock == "wall" else 1.0, **network)
        simulated = Simulation(machine).run(steps, COPIES * n_rows)
        seconds = one.times(clock, cores).total
        found[n] = round(100 * (simulated / seconds - 1), 1)
        print(f"{n:8d}{one.fit:14.2f}{seconds:11.2f}{simulated:11.2f}{found[n]:8.1f}%", end="")
        idle = [replace(step, per_call=0.0, per_row=0.0, sorting=0.0) for step in steps]
        work = simulated - Simulation(machine).run(idle, COPIES * n_rows)
        print(f"{one.times(clock, cores).work.sum():11.2f}{work:8.2f}", flush=True)
    print("The parts are of 1 worker. With more, a core for each is as on a large cluster;", end="")
    print(f" there are {cores} here.")
    return found


def table(steps, n_rows, network, workers):
    """Print what large clusters would take, and what limits them."""
    found = {}
    print(f"\n{n_rows:,} rows\n{'workers':>8s}{'seconds':>10s}", end="")
    print("".join(f"{name:>10s}" for name in COSTS) + "  sent on   limited by")
    for n_workers in workers:
        machine = Machine(n_workers, n_workers, **network)
        whole, saved = simulate(steps, n_rows, machine)
        sent_on = Simulation(replace(machine, forwards=True)).run(steps, n_rows)
        limit = max(saved, key=saved.get)
        print(f"{n_workers:8d}{whole:10.1f}" + "".join(f"{saved[c]:10.1f}" for c in COSTS), end="")
        print(f"{sent_on:9.1f}   {limit}", flush=True)
        found[n_workers] = {"seconds": round(whole, 1), "limited by": limit}
        found[n_workers] |= {"seconds if requests are sent on": round(sent_on, 1)}
        found[n_workers] |= {name: round(seconds, 1) for name, seconds in saved.items()}
    return found


def main():
    """Measure, compare with real fits, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and turns")
    parser.add_argument("--rows", type=int, default=1_000_000_000, help="of the simulated fits")
    parser.add_argument("--workers", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--growth", nargs="+", default=["paper", "best"])
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="times that the table is made of"
    )
    parser.add_argument(
        "--bandwidth", type=float, default=1.25e9, help="of a large network, bytes/s"
    )
    given = parser.parse_args()
    n_features, k, result = 128, 256, {}
    n_rows, repeats = (40_000, 3) if given.quick else (75_000, 8)
    for growth in given.growth:
        print(f"\ngrowth={growth!r}, {n_features} features, {k} clusters; ", end="")
        print(f"{COPIES * n_rows:,} rows measured", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            place = repeats, Path(folder)
            parts, check = measure(n_rows, n_features, k, growth, *place)
        steps, network = parts[given.clock]
        per_row = sum(step.per_row for step in steps if step.n_rows is None)
        sums = sum(step.back for step in steps) / 1e6
        print(f"\nmeasured: {1e9 * per_row:.0f} ns of work per row, {len(steps)} calls", end="")
        print(f" with {sums:.1f} MB of results; crowding {check['crowding']}; ", end="")
        print(", ".join(f"{name} {value:.3g}" for name, value in network.items()))
        network["bandwidth"] = min(network["bandwidth"], given.bandwidth)
        found = table(steps, given.rows, network, given.workers)
        result[growth] = check | {
            "seconds per row": per_row,
            "calls": len(steps),
            "network": network,
            "workers": found,
        }
    print_result({"simulation": result, "rows": given.rows, "features": n_features})


if __name__ == "__main__":
    main()
