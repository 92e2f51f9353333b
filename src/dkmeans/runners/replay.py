"""Replay log: the passes that rebuild the row state after a worker is lost or a fit is resumed."""

from dkmeans.passes.contract import AnyPass, Effect
from dkmeans.runners.shelf import on_disk


class ReplayLog:
    """Passes that changed the row state, without those that no longer matter.

    Cells depend on the last pass that assigned all rows, and previous cells on the one before, so
    the last two such passes suffice. Of passes in a row that set new labels, each with its
    prototypes, the last one suffices.
    """

    def __init__(self) -> None:
        self._tasks: list[AnyPass] = []

    def add(self, task: AnyPass) -> None:
        """Note that a pass has run."""
        self._tasks = [earlier for earlier in self._tasks if not task.supersedes(earlier)]
        if task.effect is Effect.RESTORES_CELLS:
            kept = self._last_kept()
            assert kept is not None, "no cells were kept"
            self._tasks[kept:] = _lasting(self._tasks[kept:])
        elif task.effect is not Effect.NONE:
            if task.effect is Effect.RELABELS:
                self._drop_labels()
            self._tasks.append(task.archived(on_disk))
            if task.effect is Effect.ASSIGNS_ALL and self._last_kept() is None:
                self._shorten()

    def tasks(self) -> list[AnyPass]:
        """List the passes to replay, in order."""
        return list(self._tasks)

    def _last_kept(self) -> int | None:
        """Return the position of the pass that kept the cells, unless they were restored."""
        found = [i for i, task in enumerate(self._tasks) if task.effect is Effect.KEEPS_CELLS]
        return found[-1] if found else None

    def _drop_labels(self) -> None:
        """Remove the last pass that changed the cells if it only set labels."""
        for at in reversed(range(len(self._tasks))):
            effect = self._tasks[at].effect
            if effect is Effect.RELABELS:
                del self._tasks[at]
            if effect is not Effect.LASTING:
                return

    def _shorten(self) -> None:
        """Remove all passes before the second to last one that assigned all rows."""
        passes = [i for i, task in enumerate(self._tasks) if task.effect is Effect.ASSIGNS_ALL]
        if len(passes) > 2:
            self._tasks[: passes[-2]] = _lasting(self._tasks[: passes[-2]])


def _lasting(tasks: list[AnyPass]) -> list[AnyPass]:
    return [task for task in tasks if task.effect is Effect.LASTING]
