"""Resumable work: every finished job is stored on disk."""

import hashlib
import json
import signal
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy
import sklearn
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

import dkmeans
from dkmeans.atomic import replacing
from dkmeans_paper.faces import DataError

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Job: TypeAlias = Callable[..., Arrays]

SECONDS_KEY = "seconds of this piece"

_PACKAGES = (Path(dkmeans.__file__).parent, Path(__file__).parent)
# Modules that cannot change a result: reports and figures. Changing them keeps stored results.
_REPORT_MODULES = {
    "cli",
    "plots",
    "command.py",
    "effort.py",
    "face_claims.py",
    "face_section.py",
    "figures.py",
    "readings.py",
    "report.py",
    "sections.py",
    "sequences.py",
    "synthetic.py",
}


class Study:
    """A folder of figures and of finished jobs.

    Parameters
    ----------
    out : Path
        The folder.
    jobs : int
        Number of processes.
    console : Console
        Where to show progress.
    """

    def __init__(self, out: Path, jobs: int, console: Console) -> None:
        self.out, self.jobs, self.console = out, jobs, console
        self.seconds: dict[str, float] = {}  # by title, over all processes
        self._kept = out / "work"
        try:
            for folder in (self._kept, out / "figures"):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"--out {out} is not a folder that can be written to: {error}"
            ) from error

    def compute(
        self,
        title: str,
        job: Job,
        settings: Sequence[Mapping[str, Any]],
        inputs: Arrays,
        *,
        alone: bool = False,
    ) -> list[Arrays]:
        """Run a job for each setting, in parallel; reuse results of earlier runs.

        Parameters
        ----------
        title : str
            Title of the progress bar.
        job : callable
            A module-level function, called as ``job(**inputs, **setting)``.
        settings : sequence of dict
            Arguments of JSON types.
        inputs : dict of arrays
            Arguments shared by all jobs.
        alone : bool
            Whether to run one job at a time, as needed to measure time.

        Returns
        -------
        results : list of dict of arrays
            One per setting, in order.
        """
        common = hashlib.sha256(_code().encode())
        common.update(f"{job.__module__}.{job.__qualname__}".encode())
        for name in sorted(inputs):
            common.update(name.encode() + _digest(inputs[name]))
        paths = []
        for setting in settings:
            key = common.copy()
            key.update(json.dumps(setting, sort_keys=True).encode())
            paths.append(self._kept / f"{key.hexdigest()[:32]}.npz")
        results = [_load(path) for path in paths]
        missing = [i for i, result in enumerate(results) if result is None]
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        quiet = not self.console.is_terminal  # files and pipes only get the final line
        with Progress(*columns, console=self.console, transient=True, disable=quiet) as progress:
            task = progress.add_task(title, total=len(settings))
            progress.advance(task, len(settings) - len(missing))
            for i, result in self._run(job, settings, missing, inputs, 1 if alone else self.jobs):
                _save(paths[i], result)
                results[i] = result
                progress.advance(task)
        reused = len(settings) - len(missing)
        note = f", {reused} of them from an earlier run" if reused else ""
        self.console.print(f"{title}: {len(settings)} done{note}", soft_wrap=True)
        finished = [dict(result) for result in results if result is not None]
        self.seconds[title] = float(sum(result.pop(SECONDS_KEY) for result in finished))
        return finished

    def _run(
        self,
        job: Job,
        settings: Sequence[Mapping[str, Any]],
        which: list[int],
        inputs: Arrays,
        jobs: int,
    ) -> Iterator[tuple[int, Arrays]]:
        if jobs == 1 or len(which) < 2:
            for i in which:
                yield _run_timed(i, job, settings[i], inputs)
            return
        with _blocked_interrupts():
            pool = ProcessPoolExecutor(jobs, get_context("spawn"))
            todo = [pool.submit(_run_alone, i, job, settings[i], inputs) for i in which]
        try:
            for done in as_completed(todo):
                yield done.result()
        except BaseException:  # Ctrl-C: what has not started never will, and the rest is ended
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()
            raise
        pool.shutdown()

    def save_figure(self, name: str, figure: Any) -> str:
        """Write a figure as PNG and SVG, and return its name."""
        for kind, options in (("png", {"dpi": 130}), ("svg", {})):
            with replacing(self.out / "figures" / f"{name}.{kind}") as file:
                figure.savefig(file, format=kind, **options)
        return name


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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_timed(i: int, job: Job, setting: Mapping[str, Any], inputs: Arrays) -> tuple[int, Arrays]:
    start = time.perf_counter()
    result = job(**inputs, **setting)
    return i, result | {SECONDS_KEY: np.array(time.perf_counter() - start)}


def _run_alone(i: int, job: Job, setting: Mapping[str, Any], inputs: Arrays) -> tuple[int, Arrays]:
    """Run a job in a process of its own, with one thread."""
    with threadpool_limits(1):
        return _run_timed(i, job, setting, inputs)


def _save(path: Path, result: Arrays) -> None:
    arrays: dict[str, Any] = result
    with replacing(path) as file:
        np.savez(file, **arrays)


def _load(path: Path) -> Arrays | None:
    """Read a stored result; None if it cannot be read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error):
        return None


def _digest(array: npt.NDArray[Any]) -> bytes:
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


@cache
def _code() -> str:
    """Return a digest of the code that computes results, and of the versions of its libraries."""
    versions = (np.__version__, scipy.__version__, sklearn.__version__)
    digest = hashlib.sha256(repr(versions).encode())
    for package in _PACKAGES:
        for path in sorted(package.rglob("*.py")):
            if not set(path.relative_to(package).parts) & _REPORT_MODULES:
                digest.update(path.read_bytes())
    return digest.hexdigest()
