"""Progress of a fit: listeners, which are called after every round, and the log.

A listener can end the fit. It never changes the result in any other way. If it has a method
`announce`, that is called with a few words before parts of a fit that may take long before their
first round: the search for the number of clusters, and the choice of the metric.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dkmeans.geometry import Euclidean, Geometry

logger = logging.getLogger("dkmeans")

_REFINE_INTERVAL = 10  # with verbose=1, log every tenth pass of refinement


@dataclass(frozen=True)
class Step:
    """The state after a round, as listeners receive it."""

    record: dict[str, Any]  # row of the history
    prototypes: Any  # `Prototypes`; rows (an array of indices) in a fit of medoids
    budget: int | None = None  # of clusters; None if there is none, or it is not yet chosen
    is_trial: bool = False  # whether the round belongs to the search for the number of clusters
    geometry: Geometry = field(default_factory=Euclidean)  # the space of the prototypes
    most_passes: int | None = None  # of refinement, in the steps of its passes


# True ends the fit here. In a trial it ends the search, unless the fit has a checkpoint.
Listener: TypeAlias = Callable[[Step], bool | None]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function after every round of every fit in the block, including fits in pipelines.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dkmeans import DiscriminativeKMeans
    >>> from dkmeans.progress import listening
    >>> X, y = load_iris(return_X_y=True)
    >>> with listening(lambda step: step.record["clusters"] >= 5):
    ...     model = DiscriminativeKMeans.paper().fit(X, y)
    >>> model.n_clusters_ >= 5, model.converged_
    (True, False)
    """
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def listeners(verbose: int) -> list[Listener]:
    """Return the listeners of a fit that starts now."""
    return [*([RoundLog(verbose)] if verbose else []), *_listeners.get()]


def tell(audience: Sequence[Listener], step: Step) -> bool:
    """Call all listeners, and return whether any of them ends the fit."""
    answers = [listener(step) for listener in audience]
    return any(answers)


def announce(audience: Sequence[Listener], text: str) -> None:
    """Tell all listeners that want to know it what the fit does next."""
    for listener in audience:
        hear = getattr(listener, "announce", None)
        if hear is not None:
            hear(text)


class RoundLog:
    """Listener that logs a line per round to the logger "dkmeans", with the seconds so far.

    Parameters
    ----------
    verbose : int
        1 logs every tenth pass of refinement; 2 logs everything.
    """

    def __init__(self, verbose: int) -> None:
        self._verbose = verbose
        self._start = time.perf_counter()
        self._has_title = False
        # verbose asks for messages, so ignore the level of the root logger.
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)

    def __call__(self, step: Step) -> None:
        """Log a round."""
        record = step.record
        if self._verbose < 2 and record["phase"] == "refine" and record["round"] % _REFINE_INTERVAL:
            return
        if not self._has_title:
            self._has_title = True
            _log(f"{'round':>5}  {'phase':<7} {'clusters':>8} {'impurity':>9} {'seconds':>8}")
        phase = "try" if step.is_trial else record["phase"]
        _log(
            f"{record['round']:>5}  {phase:<7} {record['clusters']:>8} "
            f"{record['impurity']:>9.3%} {time.perf_counter() - self._start:>8.2f}"
        )

    def announce(self, text: str) -> None:
        """Log what comes next."""
        _log(text)


def _log(message: str) -> None:
    """Log as information, or write to stderr if logging is not set up."""
    if logger.hasHandlers():
        logger.info("%s", message)
    elif logger.isEnabledFor(logging.INFO):
        sys.stderr.write(message + "\n")
