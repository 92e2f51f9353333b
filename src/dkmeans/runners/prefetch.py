"""Read ahead: fetch the next block while the current one is processed."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def prefetched(blocks: Iterable[T]) -> Iterator[Iterator[T]]:
    """Iterate in another thread, one block ahead; errors there are raised here."""
    source = iter(blocks)
    context = copy_context()  # has the Dask client that is active here

    def fetch() -> list[T]:
        for block in source:
            return [block]
        return []  # the end

    def arrive(executor: ThreadPoolExecutor) -> Iterator[T]:
        following = executor.submit(context.run, fetch)
        while block := following.result():
            following = executor.submit(context.run, fetch)
            yield block.pop()

    with ThreadPoolExecutor(1, thread_name_prefix="dkmeans-reader") as executor:
        yield arrive(executor)
