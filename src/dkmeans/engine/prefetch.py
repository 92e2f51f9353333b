"""Reading ahead: the next block is fetched while the last one is worked on."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

_T = TypeVar("_T")
_PATIENCE = 0.1  # seconds between looks at whether anyone is still waiting
_END = object()


@contextmanager
def ahead(blocks: Iterable[_T]) -> Iterator[Iterator[_T]]:
    """Iterate in a thread of its own, one block ahead; what goes wrong there is raised here."""
    line: Queue[Any] = Queue(maxsize=1)
    stop = Event()

    def put(item: Any) -> bool:
        while not stop.is_set():
            try:
                line.put(item, timeout=_PATIENCE)
                return True
            except Full:
                continue
        return False

    def fetch() -> None:
        try:
            for block in blocks:
                if not put((block, None)):
                    return
            put((_END, None))
        except BaseException as error:
            put((_END, error))

    def arrive() -> Iterator[_T]:
        while True:
            try:
                block, error = line.get(timeout=_PATIENCE)
            except Empty:
                continue
            if error is not None:
                raise error
            if block is _END:
                return
            yield block
            del block  # so that no more than two are there at a time

    reader = Thread(target=fetch, name="dkmeans-reader", daemon=True)
    reader.start()
    try:
        yield arrive()
    finally:
        stop.set()
        reader.join()
