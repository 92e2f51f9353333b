"""A team of threads over tiles of rows, with BLAS kept to one thread each."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock, Thread
from typing import Any

from threadpoolctl import ThreadpoolController

_NO_LIMIT = 1 << 30
_PER_CORE = 4


def _omp_limit() -> int:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdigit() and int(first) else _NO_LIMIT


# Read once, as OpenMP does: a Dask cluster on this machine sets the variable for its workers, and
# leaves it set in the process that started them.
_OMP_LIMIT = _omp_limit()


class _CalmBlas:
    """Holds BLAS to one thread while anyone needs it; threads may come and go in any order."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._controller: ThreadpoolController | None = None
        self._limiter: Any = None
        self._allowed = 0

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._allowed = self._now()
                self._limiter = self._known().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limiter.restore_original_limits()

    def allowed(self) -> int:
        """Tell how many threads BLAS may use when it is not held to one."""
        with self._lock:
            return self._allowed if self._users else self._now()

    def _now(self) -> int:
        pools = [pool["num_threads"] for pool in self._known().info() if pool["user_api"] == "blas"]
        return min(pools, default=_NO_LIMIT)

    def _known(self) -> ThreadpoolController:
        self._controller = self._controller or ThreadpoolController()
        return self._controller


calm_blas = _CalmBlas()  # each pass enters it; to enter it for a whole fit saves time


def default_threads() -> int:
    """Count the cores this process may use, or fewer if someone has set a limit.

    Limits are what OMP_NUM_THREADS said at import, and how many threads BLAS may use: that is where
    OPENBLAS_NUM_THREADS, threadpoolctl and the workers of joblib leave theirs.
    """
    return max(1, min(_cores(), _OMP_LIMIT, calm_blas.allowed()))


def sensible_threads(wanted: int) -> int:
    """Keep a number of threads to what cannot hurt: more than there are cores do not help."""
    return min(wanted, _PER_CORE * _cores())


def _cores() -> int:
    """Count the cores this process may use."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return known or 1


def for_each(task: Callable[[slice], Any], tiles: Iterable[slice], n_threads: int) -> None:
    """Call a task on every tile; tasks must not depend on each other's order."""
    tiles = list(tiles)
    n_threads = min(sensible_threads(n_threads), len(tiles))
    with calm_blas:
        if n_threads <= 1:
            for tile in tiles:
                task(tile)
            return
        _share(task, tiles, n_threads)


def _share(task: Callable[[slice], Any], tiles: list[slice], n_threads: int) -> None:
    """Let this thread and some helpers take tiles until none is left, or something goes wrong.

    A pass over the rows may take no more than a millisecond, and there are many passes: starting
    a plain thread costs a tenth of what a pool and its futures do.
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
        errors.append(error)  # tells the helpers to stop, too
    for helper in started:
        helper.join()
    if errors:
        raise errors[0]


def tiles(n_rows: int, rows_per_tile: int) -> list[slice]:
    """Cut a range of rows into tiles."""
    return [slice(i, min(i + rows_per_tile, n_rows)) for i in range(0, n_rows, rows_per_tile)]
