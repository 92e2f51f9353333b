"""A team of threads over tiles of rows, with BLAS kept to one thread each."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def default_threads() -> int:
    """Count the cores this process may use, or fewer if OMP_NUM_THREADS says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, min(cores or 1, int(wanted) if wanted.isdigit() and int(wanted) else cores or 1))


@cache
def _controller(pid: int) -> ThreadpoolController:
    return ThreadpoolController()


def for_each(task: Callable[[slice], Any], tiles: Iterable[slice], n_threads: int) -> None:
    """Call a task on every tile; tasks must not depend on each other's order."""
    tiles = list(tiles)
    n_threads = min(n_threads, len(tiles))
    # One tile is small work, which BLAS does on one thread anyway: not worth asking.
    calm = (
        _controller(os.getpid()).limit(limits=1, user_api="blas")
        if len(tiles) > 1
        else nullcontext()
    )
    with calm:
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
