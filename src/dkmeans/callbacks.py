"""scikit-learn's callbacks (`sklearn.callback`), where its version has them."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's; there is nothing to support."""

    _with_callbacks = None

__all__ = ["CallbackSupportMixin", "Callbacks", "with_callbacks"]


def with_callbacks(method: _Method) -> _Method:
    """Make sure that callbacks are told when a method has ended, whichever way."""
    return method if _with_callbacks is None else cast(_Method, _with_callbacks(method))


class Callbacks:
    """Tells the callbacks of an estimator about one fit, a task per round.

    Parameters
    ----------
    estimator : DiscriminativeKMeans
    X, y, sample_weight
        What is fitted, as the user gave it.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self._estimator = estimator
        self._context: Any = None
        if not hasattr(estimator, "_init_callback_context"):
            return
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._given = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        # How many rounds there will be is not known.
        self._context = estimator._init_callback_context(max_subtasks=None)
        self._context.call_on_fit_task_begin(**self._given)
        self._round = self._begin()

    def hear(self, fitted: Callable[[], dict[str, Any]]) -> bool:
        """End a round, begin the next, and say whether a callback ends the fit."""
        if self._context is None:
            return False
        stop = self._round.call_on_fit_task_end(**self._given, reconstruction_attributes=fitted)
        self._round = self._begin()
        return bool(stop)

    def end(self, fitted: dict[str, Any]) -> None:
        """End the fit, and the round that was begun but not run."""
        if self._context is not None:
            self._round.call_on_fit_task_end(estimator=self._estimator)
            self._context.call_on_fit_task_end(**self._given, reconstruction_attributes=fitted)

    def _begin(self) -> Any:
        task = self._context.subcontext(task_name="round")
        return task.call_on_fit_task_begin(**self._given)
