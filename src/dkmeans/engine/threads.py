"""A team of threads over tiles of rows, with BLAS kept to one thread each."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


def default_threads() -> int:
    """Count the cores this process may use, or fewer if OMP_NUM_THREADS says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, min(cores or 1, int(wanted) if wanted.isdigit() and int(wanted) else cores or 1))


class _CalmBlas:
    """Holds BLAS to one thread while anyone needs it; threads may come and go in any order."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._controller: ThreadpoolController | None = None
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._controller = self._controller or ThreadpoolController()
                self._limiter = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limiter.restore_original_limits()


_calm_blas = _CalmBlas()


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
