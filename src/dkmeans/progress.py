"""Who hears how a fit goes on: the log, and anyone who listens.

A listener is called after every round, and may end the fit there. It never changes a result in any
other way.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

from dkmeans.model.prototypes import Prototypes

logger = logging.getLogger("dkmeans")


@dataclass(frozen=True)
class Step:
    """What there is to tell after a round."""

    record: dict[str, Any]  # of the history
    prototypes: Prototypes
    budget: int | None = None  # of clusters; None has none, or has yet to choose it
    is_trial: bool = False  # whether it serves to choose the number of clusters


Listener: TypeAlias = Callable[[Step], bool | None]  # True ends the fit here

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hear of every fit in the block, those inside pipelines included.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dkmeans import DiscriminativeKMeans
    >>> from dkmeans.progress import listening
    >>> X, y = load_iris(return_X_y=True)
    >>> with listening(lambda step: step.record["clusters"] >= 5):
    ...     model = DiscriminativeKMeans().fit(X, y)
    >>> model.n_clusters_ >= 5, model.converged_
    (True, False)
    """
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def listeners(verbose: int) -> list[Listener]:
    """Gather those who want to hear of a fit that starts now."""
    return [*([Log(verbose)] if verbose else []), *_listeners.get()]


def tell(audience: Sequence[Listener], step: Step) -> bool:
    """Tell everyone, and say whether any of them ends the fit."""
    answers = [listener(step) for listener in audience]
    return any(answers)


class Log:
    """Writes a line per round to the logger `dkmeans`.

    Parameters
    ----------
    verbose : int
        1 has one in ten passes of refinement and no rounds on trial; 2 has all.
    """

    def __init__(self, verbose: int) -> None:
        self._verbose = verbose
        self._seconds = 0.0
        self._heard: set[str] = set()

    def __call__(self, step: Step) -> None:
        """Write about a step."""
        record = step.record
        self._seconds += record["seconds"]
        if step.is_trial and self._is_new("trial"):
            _say("choosing the number of clusters on held-out rows")
        if self._verbose < 2:
            if step.is_trial:
                return
            if record["phase"] == "refine" and record["round"] % _SOME:
                return
        if self._is_new("round"):
            _say(f"{'round':>5}  {'phase':<7} {'clusters':>8} {'impurity':>9} {'seconds':>8}")
        phase = "try" if step.is_trial else record["phase"]
        _say(
            f"{record['round']:>5}  {phase:<7} {record['clusters']:>8} "
            f"{record['impurity']:>9.3%} {self._seconds:>8.2f}"
        )

    def _is_new(self, what: str) -> bool:
        is_new = what not in self._heard
        self._heard.add(what)
        return is_new


_SOME = 10  # passes of refinement from line to line


def _say(message: str) -> None:
    """Log as information, by way of stderr where logging is not set up.

    Asking for it is enough: the level of the root logger, which would keep it back, was not meant.
    """
    if logger.level > logging.INFO or logging.root.manager.disable >= logging.INFO:
        return
    record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, message, (), None)
    if logger.hasHandlers():
        logger.handle(record)
    else:
        logging.StreamHandler(sys.stderr).handle(record)
