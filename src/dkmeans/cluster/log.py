"""What has to be done again where rows have to be brought back to the state they were in."""

from typing import Any

Call = tuple[str, tuple[Any, ...]]
_SETUP = frozenset({"facts", "set_grids", "set_scale", "relabel", "give_way"})
_KEPT = _SETUP | {"margins", "try_without", "inherit", "gather", "assign", "rename", "label_all"}
_PASSING = frozenset({"assign_own", "tally_won"})  # until cells are those of before again


class Log:
    """Calls that changed what is kept of the rows, without those that no longer matter.

    Cells depend on the last pass that assigned all rows, and what they were before on the one
    before that; so of all such passes the last two are enough.
    """

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._marks: list[int] = []  # where cells have been kept

    def add(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Note a call."""
        if method == "assign_as_seen":
            prototypes, came_from, *_ = arguments
            method, arguments = "assign", (prototypes, came_from, False, None)
        if method == "assign":
            prototypes, came_from, _, found = arguments
            arguments = (prototypes, came_from, False, found)
        if method == "keep":
            self._marks.append(len(self._calls))
        elif method == "come_back":
            mark = self._marks.pop()
            since = [call for call in self._calls[mark:] if call[0] in _SETUP | {"margins"}]
            self._calls[mark:] = since
        elif method in _KEPT or (method in _PASSING and self._marks):
            if method == "margins":
                forgotten = set(arguments[2])
                self._calls = [
                    call
                    for call in self._calls
                    if call[0] != "margins" or call[1][1] not in forgotten
                ]
            self._calls.append((method, arguments))
            if method in ("assign", "gather") and not self._marks:
                self._shorten()

    def calls(self) -> list[Call]:
        """List what to do, in order."""
        calls = list(self._calls)
        for mark in reversed(self._marks):
            calls.insert(mark, ("keep", ()))
        return calls

    def _shorten(self) -> None:
        """Leave out what came before the last pass but one that assigned all rows."""
        passes = [i for i, call in enumerate(self._calls) if call[0] in ("assign", "gather")]
        if len(passes) < 3:
            return
        first = passes[-2]
        before = [call for call in self._calls[:first] if call[0] in _SETUP | {"margins"}]
        self._calls = before + self._calls[first:]
