"""The memory of the machine, or of the container that the process runs in."""

import os
from pathlib import Path

_UNKNOWN_BYTES = 8 * 2**30  # assumed where the system does not tell
_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def total_memory() -> int:
    """Tell how many bytes of memory processes may use in all."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        found = _UNKNOWN_BYTES
    for path in _CONTAINER_LIMITS:
        try:
            found = min(found, int(Path(path).read_text()))
        except (OSError, ValueError):
            continue  # no such limit
    return found
