"""Support for scikit-learn's callbacks (`sklearn.callback`), if its version has them."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Placeholder for scikit-learn's class of this name."""

    _with_callbacks = None

__all__ = ["CallbackSupportMixin", "Callbacks", "with_callbacks"]


def with_callbacks(method: _Method) -> _Method:
    """Call the teardown of callbacks when a method ends, also after an error."""
    return method if _with_callbacks is None else cast(_Method, _with_callbacks(method))


class Callbacks:
    """Calls the callbacks of an estimator during one fit.

    Each round is a task named "round", and each round of the search for the number of clusters a
    task named "trial".

    Parameters
    ----------
    estimator : DiscriminativeKMeans
    X, y, sample_weight
        Arguments of `fit`.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self._estimator = estimator
        self._context: Any = None
        self._task: Any = None
        if not hasattr(estimator, "_init_callback_context"):
            return
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._given = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        # The number of rounds is not known in advance.
        self._context = estimator._init_callback_context(max_subtasks=None)
        self._context.call_on_fit_task_begin(**self._given)

    def begin(self, name: str) -> None:
        """Begin the first task with a name."""
        if self._context is not None:
            self._end_unfinished()
            self._name = name
            self._task = self._new_task()

    def hear(self, fitted: Callable[[], dict[str, Any]]) -> bool:
        """End a task and begin the next one; return whether a callback ends the fit."""
        if self._context is None:
            return False
        stop = self._task.call_on_fit_task_end(**self._given, reconstruction_attributes=fitted)
        self._task = self._new_task()
        return bool(stop)

    def end(self, fitted: dict[str, Any]) -> None:
        """End the fit."""
        if self._context is not None:
            self._end_unfinished()
            self._context.call_on_fit_task_end(**self._given, reconstruction_attributes=fitted)

    def _new_task(self) -> Any:
        task = self._context.subcontext(task_name=self._name)
        return task.call_on_fit_task_begin(**self._given)

    def _end_unfinished(self) -> None:
        """End a task that was begun but not run."""
        if self._task is not None:
            self._task.call_on_fit_task_end(estimator=self._estimator)
            self._task = None
