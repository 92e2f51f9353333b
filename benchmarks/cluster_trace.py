"""Times and sizes of the calls of fits on a Dask cluster; `simulate_cluster.py` uses them."""

import pickle
import time
from dataclasses import dataclass

import numpy as np

CLOCKS = ("wall", "processor")


def now():
    """Return the time of the clock and of this process."""
    return np.array([time.perf_counter(), time.process_time()])


def watch_worker():
    """Let the worker note its requests; runs on it."""
    from dkmeans.runners import dask_worker

    dask_worker.notes = []
    if hasattr(dask_worker, "plain_answer"):
        return
    dask_worker.plain_answer = dask_worker.Holder.answer

    def answer(self, request):
        start = time.perf_counter(), time.process_time()
        found = dask_worker.plain_answer(self, request)
        taken = time.perf_counter() - start[0], time.process_time() - start[1]
        request = getattr(request, "request", request)  # of a shared one, that which it shares
        number = getattr(request, "number", getattr(request, "source", 0))
        runner = self._holdings.sets.get(number)
        n_rows = 0 if runner is None else sum(len(part) for part in runner.parts)
        dask_worker.notes.append((taken, n_rows))
        return found

    dask_worker.Holder.answer = answer


def notes_of_worker():
    """Return what a worker has noted; runs on it."""
    from dkmeans.runners import dask_worker

    return dask_worker.notes


@dataclass
class Call:
    """What was seen of one call, on the driver."""

    name: str
    times: tuple[float, ...]  # since the call before, and of the call, as in `Times`
    sent: int = 0
    back: int = 0
    merging: float = 0.0


class Watch:
    """Notes every call of the driver; sizes are measured in a fit whose times do not count."""

    def __init__(self, with_sizes=False):
        from dkmeans.runners.dask import Crew

        self._crew, self._plain = Crew, (Crew._ask, Crew._settled)
        self._with_sizes, self.calls, self._last = with_sizes, [], now()

    def __enter__(self):
        ask, settle = self._plain

        def asked(crew, request_for, workers=None):
            request = request_for(crew._workers[0])
            request = getattr(request, "request", request)  # of a shared one, that which it shares
            return self._noted(request, lambda: ask(crew, request_for, workers))

        def settled(crew, task, call):
            return self._noted(task, lambda: settle(crew, task, call))

        self._crew._ask, self._crew._settled = asked, settled
        self._last = now()
        return self

    def __exit__(self, *_):
        self.end = now() - self._last
        self._crew._ask, self._crew._settled = self._plain

    def _noted(self, request, answer):
        start = now()
        found = answer()
        end = now()
        task = getattr(request, "task", None)
        name = type(request).__name__ + ("" if task is None else f" {type(task).__name__}")
        call = Call(name, (*(start - self._last), *(end - start)))
        if self._with_sizes:
            call.sent, call.back = len(pickle.dumps(request, 5)), len(pickle.dumps(found[:1], 5))
            if type(request).__name__ == "RunPass":
                begin = time.process_time()
                task.merge([*found[0], *found[0]])
                call.merging = (time.process_time() - begin) / 2
        self.calls.append(call)
        self._last = now()
        return found


class Bench:
    """Fits of the same data on a cluster of some workers, whose calls are noted in turns."""

    def __init__(self, client, arrays, model):
        self._client, self._arrays, self._model = client, arrays, model
        with self._client.as_current():
            model.fit(*arrays)  # compiles
            self._client.run(watch_worker)
            with Watch(with_sizes=True) as sizes:
                model.fit(*arrays)
        self.sizes, self.fit, self._end = sizes.calls, np.inf, np.full(2, np.inf)
        self.n_rows, self._driver, self._workers = None, np.inf, np.inf

    def turn(self):
        """Fit once more, and keep the shortest times of each call."""
        with self._client.as_current():
            self._client.run(watch_worker)
            start = time.perf_counter()
            with Watch() as seen:
                self._model.fit(*self._arrays)
            self.fit = min(self.fit, time.perf_counter() - start)
            notes = list(self._client.run(notes_of_worker).values())
        self._end = np.minimum(self._end, seen.end)
        self._driver = np.minimum(self._driver, [call.times for call in seen.calls])
        work = np.array([[note[0] for note in mine] for mine in notes])
        self._workers = np.minimum(self._workers, work)
        self.n_rows = [note[1] for note in notes[0]]

    def times(self, clock, cores):
        """Return the shortest times of each call, by the clock or of processors."""
        at = CLOCKS.index(clock)
        work = self._workers[:, :, at]
        longest = np.maximum(work.max(axis=0), work.sum(axis=0) / min(cores, len(work)))
        besides = self._driver[:, 2 + at]
        if clock == "wall":  # what a call takes includes the work
            besides = besides - longest
        return Times(self._driver[:, at], besides, longest, float(self._end[at]))


@dataclass(frozen=True)
class Times:
    """Seconds of each call of a fit."""

    before: np.ndarray  # of the driver, since the call before
    besides: np.ndarray  # besides the work
    work: np.ndarray  # of the workers
    end: float  # of the driver, after the last call

    @property
    def total(self):
        """Those of the whole fit."""
        return float((self.before + self.besides + self.work).sum() + self.end)
