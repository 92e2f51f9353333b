"""A discrete-event model of a fit on a Dask cluster; `simulate_cluster.py` feeds it."""

import heapq
import itertools
import math
from dataclasses import dataclass, field, replace

MIN_TREE_WORKERS = 9  # with fewer, the driver merges the results of all workers
COSTS = ("work", "driver", "calls", "transfer", "merge")


@dataclass(frozen=True)
class Step:
    """One call to all workers, and what the driver does before it.

    Attributes
    ----------
    name : str
    per_call, per_row : float
        Seconds of a worker: whatever its number of rows, and for each of them.
    n_rows : float or None
        Rows of a sample; None for all rows.
    sent, back : float
        Bytes of the request and of the result, for each worker.
    merging : float
        Seconds to add one result to others.
    exchanged : float
        Bytes per row that workers send to each other.
    sorting : float
        Seconds per row to sort rows by receiver, if there is more than one worker.
    before : float
        Seconds of the driver between the call before and this one.
    """

    name: str
    per_call: float
    per_row: float
    n_rows: float | None = None
    sent: float = 0.0
    back: float = 0.0
    merging: float = 0.0
    exchanged: float = 0.0
    sorting: float = 0.0
    before: float = 0.0


@dataclass(frozen=True)
class Machine:
    """A cluster: what its parts cost.

    Attributes
    ----------
    n_workers : int
        Of one thread each.
    cores : int
        Workers that can compute at the same time.
    crowding : float
        How many times as long work takes if workers on one machine compute at the same time.
    latency : float
        Seconds from a request without work to its answer, apart from those of the driver.
    dispatch : float
        Seconds that one call keeps the driver busy.
    bandwidth : float
        Bytes per second from or to one process, with packing and unpacking.
    end : float
        Seconds of the driver after the last call.
    forwards : bool
        Whether requests go to one worker of each group, which sends them on. Fits do not do so.
    """

    n_workers: int
    cores: int
    crowding: float = 1.0
    latency: float = 0.0
    dispatch: float = 0.0
    bandwidth: float = math.inf
    end: float = 0.0
    forwards: bool = False


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
        for step in steps:
            self.now += step.before
            self._call(step, n_rows)
        return self.now + self._machine.end

    def _at(self, when, event):
        heapq.heappush(self._events, (when, next(self._numbers), event))

    def _drain(self):
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event(self.now)

    def _call(self, step, n_rows):
        """Let all workers answer a request, and bring the results together."""
        m = self._machine
        rows = (n_rows if step.n_rows is None else min(step.n_rows, n_rows)) / m.n_workers
        work, exchange = step.per_call + rows * step.per_row, 0.0
        if m.n_workers > 1:
            work = m.crowding * (work + rows * step.sorting)
            exchange = rows * step.exchanged * (1 - 1 / m.n_workers) / m.bandwidth
        asked = m.dispatch + step.sent / m.bandwidth
        is_tree = m.n_workers >= MIN_TREE_WORKERS and step.back > 0
        way = m.latency / 2  # there or back

        def arrive(now):
            self._at(self._cores.serve(now, work), answer)

        def answer(now):
            ready = now + exchange + way
            self._at(ready, (lambda when: None) if is_tree else self._collect(step))

        def forward(size):
            def event(now):
                leader = Server()
                for number in range(size):  # the last one is the leader itself
                    is_other = number < size - 1
                    sent = leader.serve(now, asked) + way if is_other else leader.serve(now, 0.0)
                    self._at(sent, arrive)

            return event

        n_asked = round(m.n_workers**0.5) if m.forwards and is_tree else m.n_workers
        for number in range(n_asked):
            size = len(range(number, m.n_workers, n_asked))
            event = forward(size) if size > 1 else arrive
            self._at(self._driver.serve(self.now, asked) + way, event)
        self._drain()
        if is_tree:
            self._merge_in_groups(step)

    def _merge_in_groups(self, step):
        """Let one worker of each group collect the results of its group, and send the sum."""
        m = self._machine
        count = round(m.n_workers**0.5)
        most = -(-m.n_workers // count)
        one = step.back / m.bandwidth + step.merging

        def lead(now):
            done = now + m.latency + (most - 1) * one
            self._at(done + m.latency / 2, self._collect(step))

        for _ in range(count):
            self._at(self._driver.serve(self.now, m.dispatch) + m.latency / 2, lead)
        self._drain()

    def _collect(self, step):
        """Return the event that the driver gets a result, and merges it if there are others."""
        m = self._machine
        seconds = step.back / m.bandwidth + (step.merging if m.n_workers > 1 else 0.0)

        def collect(now):
            self._at(self._driver.serve(now, seconds), lambda when: None)

        return collect


def simulate(steps, n_rows, machine):
    """Return the seconds of a fit, and what would be saved if one cost were zero."""
    whole = Simulation(machine).run(steps, n_rows)

    def without(**costs):
        return [replace(step, **costs) for step in steps]

    free = {
        "work": (without(per_call=0.0, per_row=0.0, sorting=0.0), machine),
        "driver": (without(before=0.0), replace(machine, end=0.0)),
        "calls": (steps, replace(machine, latency=0.0, dispatch=0.0)),
        "transfer": (steps, replace(machine, bandwidth=math.inf)),
        "merge": (without(merging=0.0), machine),
    }
    saved = {
        name: whole - Simulation(other).run(some, n_rows) for name, (some, other) in free.items()
    }
    return whole, saved
