"""Let a worker reuse freed memory while it holds rows.

Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536. The C library then returns every larger
array to the system as soon as it is freed, and the next one takes page faults: passes over the rows
take half as long again. The settings of the worker are restored when it drops the rows.
"""

import ctypes
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any

VARIABLE = "MALLOC_TRIM_THRESHOLD_"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from malloc.h of the GNU C library
DEFAULT_MMAP_BYTES = 128 << 10  # of the C library, where the variable is set
MOST_MMAP_BYTES = 32 << 20  # the largest that it accepts on all systems
KEPT_BYTES = 1 << 30  # freed memory that a worker keeps during a fit, at most
LARGE_BYTES = 1 << 24  # of a result, from which freed memory is returned nevertheless


class Allocator:
    """Counts the objects in a process that need memory to be reused.

    Parameters
    ----------
    library : callable
        Returns the C library.
    """

    def __init__(self, library: Callable[[], Any] = lambda: ctypes.CDLL(None)) -> None:
        self._library, self._lock, self._count = library, Lock(), 0

    def keep_memory_for(self, user: object) -> None:
        """Reuse freed memory as long as an object exists, if the process would not do so."""
        if VARIABLE not in os.environ:
            return
        try:
            library = self._library()
            library.mallopt, library.malloc_trim  # noqa: B018, other C libraries lack them
        except (AttributeError, OSError, TypeError):
            return
        with self._lock:
            self._count += 1
            if self._count == 1:
                library.mallopt(M_MMAP_THRESHOLD, MOST_MMAP_BYTES)
                library.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        weakref.finalize(user, self._restore, library, int(os.environ[VARIABLE]))

    def trim_after(self, n_bytes: int) -> None:
        """Return freed memory to the system after a large result: it took several times as much.

        Pages in the middle of the heap are returned, too. Faults of the next pass take far less
        time than such a result.
        """
        if n_bytes >= LARGE_BYTES:
            with suppress(AttributeError, OSError, TypeError):  # other C libraries lack it
                self._library().malloc_trim(0)

    def _restore(self, library: Any, trim_bytes: int) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                library.mallopt(M_MMAP_THRESHOLD, DEFAULT_MMAP_BYTES)
                library.mallopt(M_TRIM_THRESHOLD, trim_bytes)
                library.malloc_trim(0)


allocator = Allocator()
