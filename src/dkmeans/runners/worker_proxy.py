"""Calls to the workers of a Dask cluster, and how they fail."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

from dkmeans.runners.dask_worker import Holdings, Peer, Pending, Request

R = TypeVar("R")
POLL_S = 5.0  # seconds after which to check whether an answer can still come


class ClusterError(RuntimeError):
    """The cluster cannot continue a fit.

    Its workers keep dying, there are none, or it was closed or restarted during the fit.
    """


class LostError(Exception):
    """A worker is lost, with all its parts."""


class AnyFuture(Protocol):
    """Protocol: the methods used of Dask's futures."""

    key: str
    status: str

    def result(self) -> Peer:
        """Wait for the result."""

    def exception(self) -> Exception:
        """Return what went wrong."""


class Letter(Request[R]):
    """A request on its way: what the worker gets is the request itself.

    Dask's calls of actors are in reference cycles, which hold their arguments until the next
    garbage collection: a letter is emptied once it is answered.
    """

    def __init__(self, request: Request[R]) -> None:
        self._request: Request[R] | None = request

    def execute(self, holdings: Holdings) -> R:
        """Execute the request."""
        assert self._request is not None, "it has been answered"
        return self._request.execute(holdings)

    def empty(self) -> None:
        """Drop the request."""
        self._request = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._request,)


def _opened(request: Request[R]) -> Request[R]:
    return request


class WorkerProxy:
    """Partitions that one worker holds.

    Parameters
    ----------
    numbers : list of int
        Of the partitions.
    future : Future
        Of an actor that runs a `Holder`.
    n_threads : int
        Threads of the worker.
    """

    def __init__(self, numbers: list[int], future: AnyFuture, n_threads: int = 1) -> None:
        self.numbers, self.future, self.n_threads = numbers, future, n_threads
        self._actor: Peer | None = None

    def ask(self, request: Request[R]) -> Callable[[], R]:
        """Start a call, and return a function that waits for its result."""
        letter = Letter(request)
        try:
            pending = self.peer.answer(letter)
        except Exception as problem:
            return partial(raise_lost, problem)
        return partial(self._result, letter, pending)

    @property
    def peer(self) -> Peer:
        """Proxy by which another worker can call this one."""
        if self._actor is None:
            self._actor = self.future.result()
        return self._actor

    def settle(self) -> None:
        """Wait until the scheduler knows of the loss, so that it does not use the worker."""
        end = time.monotonic() + POLL_S
        while self.future.status == "finished" and time.monotonic() < end:
            time.sleep(0.01)

    def _result(self, letter: Letter[R], pending: Pending[R]) -> R:
        while True:
            try:
                answer = pending.result(timeout=POLL_S)
                break
            except TimeoutError as problem:
                # There may never be an answer if a whole machine is lost.
                if self.future.status != "finished":
                    raise LostError("no answer") from problem
            except Exception as problem:
                raise LostError(str(problem)) from problem
        letter.empty()
        if answer.error is not None:
            raise answer.error
        return answer.results[0]


def raise_lost(problem: Exception) -> NoReturn:
    """Raise an error that says why a worker is lost."""
    raise LostError(str(problem)) from problem
