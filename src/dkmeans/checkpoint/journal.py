"""A team that keeps a journal, so that a fit that was ended by force can be taken up again.

All that a fit decides follows from what its passes return, and these are small. So a journal of the
results is enough: a fit that starts again is given the results from the journal, without a look at
the rows, until it is where the journal ends. Then the rows are brought to the state they were in
(`engine.log`), and passes go on as usual. Nothing of the algorithm has to know of it.
"""

import logging
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import ReferenceType, ref

from dkmeans.checkpoint.encode import Arrays, decode, encode
from dkmeans.checkpoint.file import (
    Call,
    CheckpointError,
    CheckpointPlaceError,
    check_place,
    read,
    write,
)
from dkmeans.engine.log import Log
from dkmeans.engine.team import Team

EVERY = 30.0  # seconds between two writings, at least
_SHARE = 20  # and so many times as long as the last writing took
_logger = logging.getLogger("dkmeans")


class Journal:
    """What passes returned, in memory and on disk.

    As a context, it removes the file at the end of a fit, or writes it once more after Ctrl-C.

    Parameters
    ----------
    path : path
        Of a file, which may be there from an earlier try; a place that will not do is refused.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_place(path)
        self._path = Path(path).absolute()  # whoever listens to the fit may change the folder
        self._about: dict[str, str] = {}
        self._before: dict[str, str] | None = None
        self._calls: list[Call] = []
        self._arrays: Arrays = {}
        self._next, self._last, self._took = 0, time.monotonic(), 0.0
        self._teams: list[ReferenceType[JournalTeam]] = []  # those that are still in use
        if self._path.exists():
            self._before, self._calls, self._arrays = read(self._path)

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
                _logger.warning("%s", problem)  # what goes on is Ctrl-C

    def expect(self, name: str, value: str) -> None:
        """Say what tells this fit from others; the checkpoint of another one is refused."""
        if self._before is not None and self._before.get(name) != value:
            raise CheckpointError(
                f"The checkpoint {str(self._path)!r} was written for other {name}: delete it to "
                "start afresh, or name another."
            )
        self._about[name] = value

    def is_replaying(self) -> bool:
        """Tell whether results are still taken from the journal."""
        return self._next < len(self._calls)

    def replay(self, method: str) -> Any:
        """Give the next result from the journal."""
        recorded, result = self._calls[self._next]
        if recorded != method:
            raise CheckpointError(
                f"The checkpoint {str(self._path)!r} was written by another version: delete it to "
                "start afresh."
            )
        self._next += 1
        return decode(result, self._arrays)

    def note(self, method: str, result: Any) -> None:
        """Add a result, and write the journal if it is time."""
        self._calls.append((method, encode(result, self._arrays)))
        self._next += 1
        if time.monotonic() - self._last >= max(EVERY, _SHARE * self._took):
            self.write()

    def write(self) -> None:
        """Write the journal, unless there is nothing new."""
        if self.is_replaying() or not self._calls:
            return
        now = time.monotonic()
        write(self._path, self._about, self._calls, self._arrays)
        self._last = time.monotonic()
        self._took = self._last - now

    def add(self, team: "JournalTeam") -> None:
        """Take a team in, after those that it may have been derived from."""
        self._teams.append(ref(team))

    def catch_up(self) -> None:
        """Bring the rows of all teams to the state that they were in where the journal ends."""
        for reference in self._teams:
            team = reference()
            if team is not None:
                team.catch_up()


class JournalTeam:
    """A team whose results go into a journal, or come from it.

    Parameters
    ----------
    team : Team
    """

    def __init__(self, team: Team) -> None:
        self._team: Team | None = team
        self._journal: Journal | None = None
        self._log = Log()
        self._origin: Any = None  # the team it was derived from, with method and arguments

    def start(self, journal: Journal) -> None:
        """Begin with the journal; until then passes are as usual."""
        self._journal = journal
        journal.add(self)

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every part, or take what it returned from the journal."""
        journal = self._journal
        if journal is None:
            return self._there().each(method, *arguments)
        if journal.is_replaying():
            result = journal.replay(method)
            self._log.add(method, arguments)
            if not journal.is_replaying():
                journal.catch_up()
            return result
        result = self._there().each(method, *arguments)
        self._log.add(method, arguments)
        journal.note(method, result)
        return result

    def derive(self, method: str, *arguments: Any) -> "JournalTeam":
        """Make a team of the parts that a method of every part returns."""
        journal = self._journal
        if journal is None or not journal.is_replaying():
            other = JournalTeam(self._there().derive(method, *arguments))
        else:
            other = JournalTeam.__new__(JournalTeam)
            other._team, other._log = None, Log()
        other._journal, other._origin = journal, (self, method, arguments)
        if journal is not None:
            journal.add(other)
        return other

    def catch_up(self) -> None:
        """Bring the rows to the state that they were in where the journal ends."""
        if self._team is None:
            parent, method, arguments = self._origin
            self._team = parent._there().derive(method, *arguments)
        for method, arguments in self._log.calls():
            self._there().each(method, *arguments)

    def _there(self) -> Team:
        assert self._team is not None
        return self._team
