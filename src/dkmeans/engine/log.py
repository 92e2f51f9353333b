"""What has to be done again where rows have to be brought back to the state they were in."""

from typing import Any

Call = tuple[str, tuple[Any, ...]]
_LASTING = frozenset({"facts", "set_grids", "set_scale", "relabel", "margins"})
_KEPT = _LASTING | {"try_without", "inherit", "gather", "assign", "rename", "label_all"}
_PASSING = frozenset({"assign_own", "tally_won"})  # until cells are those of before again
_KEEP: Call = ("keep", ())


class Log:
    """Calls that changed what is kept of the rows, without those that no longer matter.

    Cells depend on the last pass that assigned all rows, and what they were before on the one
    before that; so of all such passes the last two are enough.
    """

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def add(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Note a call."""
        if method in ("assign", "assign_as_seen"):
            # In full, as what changed since the last pass does not say where rows are.
            method, arguments = "assign", (*arguments[:2], False, None)
        if method == "come_back":
            mark = max(i for i, call in enumerate(self._calls) if call[0] == "keep")
            since = [call for call in self._calls[mark:] if call[0] in _LASTING]
            self._calls[mark:] = since
        elif method == "keep":
            self._calls.append(_KEEP)
        elif method == "spread_bound":
            self._calls.append((method, arguments))
        elif method == "spread_sum":
            self._calls = [call for call in self._calls if call[0] != "spread_bound"]
        elif method in _KEPT or (method in _PASSING and _KEEP in self._calls):
            if method == "margins":
                self._forget(set(arguments[2]))
            self._calls.append((method, arguments))
            if method in ("assign", "gather") and _KEEP not in self._calls:
                self._shorten()

    def calls(self) -> list[Call]:
        """List what to do, in order."""
        return list(self._calls)

    def _forget(self, numbers: set[int]) -> None:
        """Leave out margins that are not kept any longer."""
        calls = self._calls
        self._calls = [c for c in calls if c[0] != "margins" or c[1][1] not in numbers]

    def _shorten(self) -> None:
        """Leave out what came before the last pass but one that assigned all rows."""
        passes = [i for i, call in enumerate(self._calls) if call[0] in ("assign", "gather")]
        if len(passes) < 3:
            return
        first = passes[-2]
        before = [call for call in self._calls[:first] if call[0] in _LASTING]
        self._calls = before + self._calls[first:]
