"""A team of threads over tiles of rows, with BLAS kept to one thread each."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_NO_LIMIT = 1 << 30


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


_calm_blas = _CalmBlas()


def default_threads() -> int:
    """Count the cores this process may use, or fewer if someone has set a limit.

    Limits are what OMP_NUM_THREADS says, and how many threads BLAS may use: that is where
    OPENBLAS_NUM_THREADS, threadpoolctl and the workers of joblib leave theirs.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    limit = int(wanted) if wanted.isdigit() and int(wanted) else _NO_LIMIT
    return max(1, min(cores or 1, limit, _calm_blas.allowed()))


def for_each(task: Callable[[slice], Any], tiles: Iterable[slice], n_threads: int) -> None:
    """Call a task on every tile; tasks must not depend on each other's order."""
    tiles = list(tiles)
    n_threads = min(n_threads, len(tiles))
    with _calm_blas:
        if n_threads <= 1:
            for tile in tiles:
                task(tile)
            return
        with ThreadPoolExecutor(n_threads, thread_name_prefix="dkmeans") as pool:
            futures = [pool.submit(task, tile) for tile in tiles]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def tiles(n_rows: int, rows_per_tile: int) -> list[slice]:
    """Cut a range of rows into tiles."""
    return [slice(i, min(i + rows_per_tile, n_rows)) for i in range(0, n_rows, rows_per_tile)]
