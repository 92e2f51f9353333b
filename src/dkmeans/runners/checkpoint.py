"""Checkpoints: a journal of the results of all passes, from which a fit can be resumed.

The results of passes are small and determine all decisions of a fit. A resumed fit takes results
from the journal, without reading the rows, until the journal ends. Then the row state is rebuilt
(`runners.replay`), and passes run as usual. The algorithm is not aware of it.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, cast

from dkmeans.passes.contract import AnyPass, Derivation, Exchange, Pass, Runner
from dkmeans.passes.part import Setting
from dkmeans.results.fit_record import Clock
from dkmeans.runners.checkpoint_file import (
    CheckpointError,
    CheckpointPlaceError,
    Entry,
    check_place,
    read,
    write,
)
from dkmeans.runners.encoding import Arrays, decode, encode
from dkmeans.runners.replay import ReplayLog

R = TypeVar("R")
MIN_INTERVAL_S = 30.0  # between two writes
MIN_INTERVAL_WRITES = 20  # the interval is also at least this multiple of the last write's time
_logger = logging.getLogger("dkmeans")


class Journal:
    """Results of passes, in memory and on disk.

    As a context, it removes the file at the end of a fit, or writes it once more after Ctrl-C.

    Parameters
    ----------
    path : path
        Of the checkpoint, which may exist from an earlier attempt.
    clock : Clock
        That of the fit. Each result from the journal sets it forward by the time that an earlier
        attempt took for it.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock) -> None:
        check_place(path)
        self._clock = clock
        self._path = Path(path).absolute()  # a callback may change the working directory
        self._about: dict[str, str] = {}
        self._before: dict[str, str] | None = None
        self._entries: list[Entry] = []
        self._seconds: list[float] = []  # when each entry was made, since the start of the fit
        self._arrays: Arrays = {}
        self._next, self._written, self._duration = 0, time.monotonic(), 0.0
        self._runners: list[JournalRunner] = []  # runners in use, each after its origin
        if self._path.exists():
            self._before, self._entries, self._seconds, self._arrays = read(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self._path.unlink(missing_ok=True)
        elif issubclass(kind, KeyboardInterrupt):
            try:
                self.write()
            except CheckpointPlaceError as problem:
                _logger.warning("%s", problem)  # log only, so that KeyboardInterrupt propagates

    def expect(self, name: str, value: str) -> None:
        """Note a property of the fit; a checkpoint in which it differs is refused."""
        if self._before is not None and self._before.get(name) != value:
            raise CheckpointError(
                f"The checkpoint {str(self._path)!r} was written for other {name}: delete it to "
                "start afresh, or name another."
            )
        self._about[name] = value

    def is_replaying(self) -> bool:
        """Return whether results still come from the journal."""
        return self._next < len(self._entries)

    def result(self, task: Pass[R] | Exchange[R]) -> R:
        """Return the next result from the journal."""
        name, result = self._entries[self._next]
        if name != type(task).__name__:
            raise CheckpointError(
                f"The checkpoint {str(self._path)!r} was written by another version: delete it to "
                "start afresh."
            )
        since = self._seconds[self._next - 1] if self._next else 0.0
        self._clock.set_forward(self._seconds[self._next] - since)
        self._next += 1
        return cast(R, decode(result, self._arrays))

    def note(self, task: Pass[R] | Exchange[R], result: R) -> None:
        """Add a result, and write the journal if the interval has passed."""
        self._entries.append((type(task).__name__, encode(result, self._arrays)))
        self._seconds.append(self._clock.now())
        self._next += 1
        interval = max(MIN_INTERVAL_S, MIN_INTERVAL_WRITES * self._duration)
        if time.monotonic() - self._written >= interval:
            self.write()

    def write(self) -> None:
        """Write the journal, unless there is nothing new."""
        if self.is_replaying() or not self._entries:
            return
        start = time.monotonic()
        write(self._path, self._about, self._entries, self._seconds, self._arrays)
        self._written = time.monotonic()
        self._duration = self._written - start

    def add(self, runner: "JournalRunner") -> None:
        """Note that a runner is in use."""
        self._runners.append(runner)

    def remove(self, runner: "JournalRunner") -> None:
        """Note that a runner is no longer in use."""
        self._runners.remove(runner)

    def catch_up(self) -> None:
        """Rebuild the row state of all runners as of the end of the journal."""
        for runner in self._runners:
            runner.catch_up()


class JournalRunner:
    """A runner whose results go to a journal, or come from it.

    Parameters
    ----------
    runner : Runner or None
        None while results come from the journal, for a runner that is yet to be derived.
    origin : (JournalRunner, Derivation), optional
        What it is derived from.
    """

    def __init__(
        self,
        runner: Runner | None,
        origin: tuple["JournalRunner", Derivation] | None = None,
    ) -> None:
        self._runner, self._origin = runner, origin
        self._journal: Journal | None = None
        self._log = ReplayLog()
        self._setting = Setting()

    def start(self, journal: Journal) -> None:
        """Begin to use the journal; until then passes run as usual."""
        self._journal = journal
        journal.add(self)

    def run(self, task: Pass[R]) -> R:
        """Run a pass, or take its result from the journal."""
        return self._result(task, lambda runner: runner.run(task))

    def exchange(self, task: Exchange[R]) -> R:
        """Compare the rows of all parts, or take the result from the journal."""
        return self._result(task, lambda runner: runner.exchange(task))

    def _result(self, task: Pass[R] | Exchange[R], compute: Callable[[Runner], R]) -> R:
        journal = self._journal
        if journal is None:
            return compute(self._present())
        if journal.is_replaying():
            result = journal.result(task)
            self._log.add(task)
            if not journal.is_replaying():
                journal.catch_up()
            return result
        result = compute(self._present())
        self._log.add(task)
        journal.note(task, result)
        return result

    def configure(self, setting: Setting) -> None:
        """Set the setting of all parts."""
        self._setting = setting
        if self._runner is not None:
            self._runner.configure(setting)

    def replay(self, tasks: Sequence[AnyPass]) -> None:
        """Repeat the effects of passes."""
        self._present().replay(tasks)

    def derive(self, derivation: Derivation) -> "JournalRunner":
        """Make a runner of other parts of the same rows; deferred while replaying."""
        journal = self._journal
        replaying = journal is not None and journal.is_replaying()
        runner = None if replaying else self._present().derive(derivation)
        derived = JournalRunner(runner, (self, derivation))
        if journal is not None:
            derived.start(journal)
        return derived

    def close(self) -> None:
        """Drop the parts."""
        if self._journal is not None:
            self._journal.remove(self)
        if self._runner is not None:
            self._runner.close()

    def catch_up(self) -> None:
        """Rebuild the row state as of the end of the journal."""
        if self._runner is None:
            assert self._origin is not None
            parent, derivation = self._origin
            self._runner = parent._present().derive(derivation)
            self._runner.configure(self._setting)
        self._runner.replay(self._log.tasks())

    def _present(self) -> Runner:
        assert self._runner is not None
        return self._runner
