"""Run tasks over tiles of rows in threads, with BLAS limited to one thread."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock, Thread
from typing import Any

from threadpoolctl import ThreadpoolController

_NO_LIMIT = 1 << 30
MAX_THREADS_PER_CORE = 4


def _omp_limit() -> int:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdigit() and int(first) else _NO_LIMIT


# Read once, as OpenMP does: a local Dask cluster sets the variable for its workers, and leaves it
# set in the process that started them.
_OMP_LIMIT = _omp_limit()


class _SingleThreadedBlas:
    """Limits BLAS to one thread while at least one thread is inside the context."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._libraries: list[Any] | None = None
        self._original_limits: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._original_limits = self._current_limits()
                for library in self._blas_libraries():
                    library.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for library, limit in zip(
                    self._blas_libraries(), self._original_limits, strict=True
                ):
                    library.set_num_threads(limit)

    def thread_limit(self) -> int:
        """Return how many threads BLAS may use outside the context."""
        with self._lock:
            limits = self._original_limits if self._users else self._current_limits()
        return min(limits, default=_NO_LIMIT)

    def _current_limits(self) -> list[int]:
        return [library.get_num_threads() for library in self._blas_libraries()]

    def _blas_libraries(self) -> list[Any]:
        # The controllers of single libraries, as limits are set for each small pass: the methods of
        # `ThreadpoolController` take longer than a small pass.
        if self._libraries is None:
            self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return self._libraries


single_threaded_blas = (
    _SingleThreadedBlas()
)  # entered by each pass; entering it once per fit saves time


def default_threads() -> int:
    """Return the number of cores this process may use, or a lower limit set by the user.

    Limits are OMP_NUM_THREADS at import and the number of threads of BLAS, which reflects
    OPENBLAS_NUM_THREADS, threadpoolctl and joblib workers.
    """
    return max(1, min(_count_cores(), _OMP_LIMIT, single_threaded_blas.thread_limit()))


def cap_threads(wanted: int) -> int:
    """Limit a number of threads to a small multiple of the cores: more do not help."""
    return min(wanted, MAX_THREADS_PER_CORE * _count_cores())


def _count_cores() -> int:
    """Count the cores this process may use."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return known or 1


def for_each(task: Callable[[slice], Any], tiles: Iterable[slice], n_threads: int) -> None:
    """Call a task on every tile, in any order."""
    tiles = list(tiles)
    n_threads = min(cap_threads(n_threads), len(tiles)) if len(tiles) > 1 else 1
    with single_threaded_blas:
        if n_threads <= 1:
            for tile in tiles:
                task(tile)
            return
        _run_in_threads(task, tiles, n_threads)


def _run_in_threads(task: Callable[[slice], Any], tiles: list[slice], n_threads: int) -> None:
    """Process tiles in this thread and in helper threads until none is left or a task fails.

    A pass over the rows may take less than a millisecond, and there are many passes: starting a
    thread costs a tenth of what a pool and its futures do.
    """
    left = deque(tiles)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not errors:
                try:
                    tile = left.popleft()
                except IndexError:
                    return
                task(tile)
        except BaseException as error:
            errors.append(error)

    helpers = [Thread(target=work, name="dkmeans", daemon=True) for _ in range(n_threads - 1)]
    started: list[Thread] = []
    try:
        for helper in helpers:
            helper.start()
            started.append(helper)
        work()
    except BaseException as error:
        errors.append(error)  # also stops the helpers
    for helper in started:
        helper.join()
    if errors:
        raise errors[0]


def tiles(n_rows: int, rows_per_tile: int) -> list[slice]:
    """Split a range of rows into tiles."""
    return [slice(i, min(i + rows_per_tile, n_rows)) for i in range(0, n_rows, rows_per_tile)]
