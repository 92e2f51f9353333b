"""How a fit is coming along: a bar in a terminal, a line now and then elsewhere."""

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column

from dkmeans.cli.console import say
from dkmeans.progress import Step

_NARROW = 66  # columns; with fewer, fewer words
_SILENCE = 10.0  # seconds from line to line where there is no terminal
_GROWTH = 0.5  # share of the work that is growth, if there is refinement


class FitProgress:
    """Shows rounds, clusters, impurity and the time that is left.

    Parameters
    ----------
    console : Console
        Where to.
    refine : str or None
        Whether passes of refinement follow.
    quiet : bool
        Whether to show nothing.
    """

    def __init__(self, console: Console, refine: str | None, *, quiet: bool = False) -> None:
        self._console, self._quiet, self._refine = console, quiet, refine is not None
        self._spoken = time.monotonic()
        self._first_impurity = 0.0
        self._grown = 0
        self._bar: Progress | None = None
        if console.is_terminal and not quiet:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", table_column=Column(no_wrap=True)),
                BarColumn(bar_width=None),
                TimeRemainingColumn(compact=True),
                console=console,
                transient=True,
                expand=True,
            )
            self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def announce(self, text: str) -> None:
        """Show what comes next."""
        self._show(text, {"refresh": True})  # also if it is soon over

    def __call__(self, step: Step) -> None:
        """Take note of a round."""
        text = describe(step, short=self._console.width < _NARROW)
        self._show(text, {} if step.is_trial else {"completed": self._done(step), "total": 1.0})

    def _show(self, text: str, settings: dict[str, Any]) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=text, **settings)
        elif not self._quiet and time.monotonic() - self._spoken > _SILENCE:
            self._spoken = time.monotonic()
            say(self._console, text)

    def _done(self, step: Step) -> float:
        """Estimate the share of the work that is done, between 0 and 1."""
        record = step.record
        if record["phase"] == "refine":
            if step.most_passes is None:  # the result
                return 1.0
            passes = record["round"] - self._grown
            return _GROWTH + (1 - _GROWTH) * passes / step.most_passes
        self._grown = record["round"]
        self._first_impurity = self._first_impurity or record["impurity"]
        if step.budget is not None:
            share = record["clusters"] / step.budget
        elif self._first_impurity:
            share = 1 - record["impurity"] / self._first_impurity
        else:
            share = 0.0
        return min(1.0, max(0.0, share)) * (_GROWTH if self._refine else 1)


def describe(step: Step, *, short: bool = False) -> str:
    """Put a round in a few words."""
    record = step.record
    verb = "trying" if step.is_trial else "refining" if record["phase"] == "refine" else "growing"
    if short:
        return f"{verb}: {record['clusters']} clusters, {record['impurity']:.2%}"
    return (
        f"{verb}: round {record['round']}, {record['clusters']} clusters, "
        f"impurity {record['impurity']:.2%}"
    )
