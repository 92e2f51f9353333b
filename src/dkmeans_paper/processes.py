"""Processes that run jobs: started once, given several short jobs at a time, silent on Ctrl-C."""

import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Job: TypeAlias = Callable[..., Arrays]
Done: TypeAlias = tuple[int, Arrays]  # the number of a job, and its result
Todo: TypeAlias = tuple[int, Mapping[str, Any]]

SECONDS_KEY = "seconds of this piece"
START_SECONDS = 4.0  # of work that pay for starting processes, which takes about as long
TASK_SECONDS = 0.2  # a process is given so much work at a time, if jobs are shorter
MAX_TASK = 16  # jobs at a time, so that tasks never fill a pipe
MAP_BYTES = 1 << 20  # larger inputs are not read but mapped


class Workers:
    """Processes that are started when there is enough work, and kept for all that follows.

    Until they are ready, jobs run in this process. Every job has one thread, wherever it runs, so
    that results do not depend on it.

    Parameters
    ----------
    number : int
        Number of processes; 1 for none but this one.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._workers: list[_Worker] = []
        self._folder: TemporaryDirectory[str] | None = None
        self._spent = 0.0  # seconds of jobs in this process

    def run(
        self, job: Job, todo: Sequence[Todo], inputs: Arrays, digests: Mapping[str, str]
    ) -> Iterator[Done]:
        """Run a job for each setting; yield results as they are done.

        Parameters
        ----------
        job : callable
            A module-level function, called as ``job(**inputs, **setting)``.
        todo : sequence of (int, dict)
            Numbers and settings.
        inputs : dict of arrays
            Arguments shared by all jobs.
        digests : dict of str
            Names of files for the inputs: equal only if they are.

        Yields
        ------
        number : int
        result : dict of arrays
        """
        left, quickest = deque(todo), np.inf
        with threadpool_limits(1):
            while left and not (len(left) > 1 and any(w.is_ready() for w in self._workers)):
                done = _run_timed(job, left.popleft(), inputs)
                seconds = float(done[1][SECONDS_KEY])
                self._spent += seconds
                yield done
                # The first job also loads compiled code, so two are needed for an estimate.
                expected = min(quickest, seconds) * len(left) if quickest < np.inf else 0.0
                quickest = min(quickest, seconds)
                if len(left) > 1 and self._spent + expected > START_SECONDS:
                    self._start(job)
        if left:
            yield from self._share(job, left, inputs, digests)

    def close(self) -> None:
        """End the processes at once, whatever they do."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
            worker.pipe.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self, job: Job) -> None:
        if self.number > 1 and not self._workers:
            with _blocked_interrupts():
                self._workers = [_Worker(job) for _ in range(self.number)]

    def _share(
        self, job: Job, left: deque[Todo], inputs: Arrays, digests: Mapping[str, str]
    ) -> Iterator[Done]:
        """Run jobs in the processes; end these if anything goes wrong."""
        size, ahead = 1, 1
        try:
            paths = self._store(inputs, digests)
            while True:
                ready = [w for w in self._workers if w.is_ready()]
                for tasks in range(ahead):
                    for worker in ready:
                        if left and worker.tasks == tasks:
                            size = max(1, min(size, len(left) // (2 * self.number)))
                            worker.give((job, [left.popleft() for _ in range(size)], paths))
                # One that is still starting is waited for only if there is something to do.
                busy = [w for w in self._workers if w.tasks or (left and w not in ready)]
                if not busy:
                    return
                spoken = wait([worker.pipe for worker in busy])
                for worker in busy:
                    if worker.pipe not in spoken:
                        continue
                    results = worker.take()
                    yield from results
                    if results:
                        seconds = sum(float(result[SECONDS_KEY]) for _, result in results)
                        size = int(TASK_SECONDS / max(seconds / len(results), 1e-6))
                        size = max(1, min(size, MAX_TASK))
                        # Short tasks wait beside the process, long ones for any process.
                        ahead = 2 if seconds < 2 * TASK_SECONDS else 1
        except BaseException:
            self.close()
            raise

    def _store(self, inputs: Arrays, digests: Mapping[str, str]) -> dict[str, Path]:
        """Write inputs to files that all processes map, and remove those of earlier jobs."""
        self._folder = self._folder or TemporaryDirectory(
            prefix="dkmeans-", ignore_cleanup_errors=True
        )
        folder = Path(self._folder.name)
        paths = {name: folder / f"{digests[name]}.npy" for name in inputs}
        for old in set(folder.iterdir()) - set(paths.values()):
            with suppress(OSError):  # Windows keeps files that are mapped
                old.unlink()
        for name, path in paths.items():
            if not path.exists():
                np.save(path, inputs[name], allow_pickle=False)
        return paths


class _Worker:
    """A process that is given tasks through a pipe. Importing the first job comes before them."""

    def __init__(self, job: Job) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, job), daemon=True)
        self.process.start()
        theirs.close()
        self.tasks = 0
        self._ready = False

    def is_ready(self) -> bool:
        """Return whether the process has started; its first message says so."""
        if not self._ready and self.pipe.poll():
            self.take()
        return self._ready

    def give(self, task: tuple[Job, list[Todo], dict[str, Path]]) -> None:
        """Hand over a task."""
        self.pipe.send(task)
        self.tasks += 1

    def take(self) -> list[Done]:
        """Wait for the next message: the results of a task, none at the start."""
        try:
            results = self.pipe.recv()
        except EOFError:
            raise RuntimeError("A process ended before its work was done.") from None
        if isinstance(results, Exception):
            raise results
        self.tasks -= self._ready
        self._ready = True
        return results


def _work(pipe: Connection, _: Job) -> None:
    """Do tasks until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it cannot be blocked
    known: dict[str, Path] = {}
    inputs: Arrays = {}
    with suppress(EOFError, OSError):
        pipe.send([])
        while True:
            job, todo, paths = pipe.recv()
            try:
                if paths != known:
                    inputs = {name: _read(path) for name, path in paths.items()}
                    known = paths
                with threadpool_limits(1):
                    results = [_run_timed(job, each, inputs) for each in todo]
            except Exception as error:
                error.add_note(traceback.format_exc())
                pipe.send(error)
            else:
                pipe.send(results)


def _read(path: Path) -> npt.NDArray[Any]:
    """Read an array, or map its file; compiled code takes writable arrays only."""
    if path.stat().st_size < MAP_BYTES:
        return np.load(path)
    return np.load(path, mmap_mode="c").view(np.ndarray)


def _run_timed(job: Job, todo: Todo, inputs: Arrays) -> Done:
    number, setting = todo
    start = time.perf_counter()
    result = job(**inputs, **setting)
    return number, result | {SECONDS_KEY: np.array(time.perf_counter() - start)}


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C for good, and take it up here afterwards.

    A terminal sends Ctrl-C to the whole group of processes. This process ends the others; they
    would only print where they were interrupted. Processes inherit the mask of the thread that
    starts them. Windows has no such masks.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the start of the first process would unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
