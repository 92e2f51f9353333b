"""Resumable work: every finished job is stored on disk."""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
import sklearn
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import dkmeans
from dkmeans.atomic import replacing
from dkmeans_paper.faces import DataError
from dkmeans_paper.processes import SECONDS_KEY, Arrays, Job, Workers

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
    """A folder of figures and of finished jobs. Leaving its context ends the processes.

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
        self.out, self.console = out, console
        self._workers, self._alone = Workers(jobs), Workers(1)
        self.seconds: dict[str, float] = {}  # by title, over all processes
        self._kept = out / "work"
        try:
            for folder in (self._kept, out / "figures"):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"--out {out} is not a folder that can be written to: {error}"
            ) from error

    def __enter__(self) -> "Study":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workers.close()

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
        digests = {name: _digest(inputs[name]) for name in sorted(inputs)}
        for name, digest in digests.items():
            common.update(f"{name}{digest}".encode())
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
            workers = self._alone if alone else self._workers
            todo = [(i, settings[i]) for i in missing]
            for i, result in workers.run(job, todo, inputs, digests):
                _save(paths[i], result)
                results[i] = result
                progress.advance(task)
        reused = len(settings) - len(missing)
        note = f", {reused} of them from an earlier run" if reused else ""
        self.console.print(f"{title}: {len(settings)} done{note}", soft_wrap=True)
        finished = [dict(result) for result in results if result is not None]
        self.seconds[title] = float(sum(result.pop(SECONDS_KEY) for result in finished))
        return finished

    def save_figure(self, name: str, figure: Any) -> str:
        """Write a figure as PNG and SVG, and return its name."""
        for kind, options in (("png", {"dpi": 130}), ("svg", {})):
            with replacing(self.out / "figures" / f"{name}.{kind}") as file:
                figure.savefig(file, format=kind, **options)
        return name


def _save(path: Path, result: Arrays) -> None:
    arrays: dict[str, Any] = result
    with replacing(path, durable=False) as file:  # there are thousands; damaged ones are made again
        np.savez(file, **arrays)


def _load(path: Path) -> Arrays | None:
    """Read a stored result; None if it cannot be read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error):
        return None


def _digest(array: npt.NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


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
