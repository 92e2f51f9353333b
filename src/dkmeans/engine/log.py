"""What has to be done again where rows have to be brought back to the state they were in."""

from typing import Any

Call = tuple[str, tuple[Any, ...]]
_SETUP = frozenset({"facts", "set_grids", "set_scale", "spread_bound", "relabel"})
_KEPT = _SETUP | {
    "keep",
    "margins",
    "try_without",
    "inherit",
    "gather",
    "assign",
    "rename",
    "label_all",
}
_PASSING = frozenset({"assign_own", "tally_won"})  # until cells are those of before again


class Log:
    """Calls that changed what is kept of the rows, without those that no longer matter.

    Cells depend on the last pass that assigned all rows, and what they were before on the one
    before that; so of all such passes the last two are enough.
    """

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def add(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Note a call."""
        if method == "assign_as_seen":
            prototypes, came_from, *_ = arguments
            method, arguments = "assign", (prototypes, came_from, False, None)
        if method == "assign":
            prototypes, came_from, _, found = arguments
            arguments = (prototypes, came_from, False, found)
        if method == "come_back":
            mark = max(i for i, call in enumerate(self._calls) if call[0] == "keep")
            since = [call for call in self._calls[mark:] if call[0] in _SETUP | {"margins"}]
            self._calls[mark:] = since
        elif method == "spread_sum":  # needs what the other has found, once
            self._calls = [call for call in self._calls if call[0] != "spread_bound"]
        elif method in _KEPT or (method in _PASSING and self._is_passing()):
            if method == "margins":
                self._forget(set(arguments[2]))
            self._calls.append((method, arguments))
            if method in ("assign", "gather") and not self._is_passing():
                self._shorten()

    def calls(self) -> list[Call]:
        """List what to do, in order."""
        return list(self._calls)

    def _is_passing(self) -> bool:
        """Tell whether cells have been kept, to come back to."""
        return any(call[0] == "keep" for call in self._calls)

    def _forget(self, numbers: set[int]) -> None:
        """Leave out margins that are no longer kept."""
        self._calls = [c for c in self._calls if c[0] != "margins" or c[1][1] not in numbers]

    def _shorten(self) -> None:
        """Leave out what came before the last pass but one that assigned all rows."""
        passes = [i for i, call in enumerate(self._calls) if call[0] in ("assign", "gather")]
        if len(passes) < 3:
            return
        first = passes[-2]
        before = [call for call in self._calls[:first] if call[0] in _SETUP | {"margins"}]
        self._calls = before + self._calls[first:]
