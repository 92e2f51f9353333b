"""Who holds the parts of the rows, and does the passes over them."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

from dkmeans.engine.margin_part import Part


class Team(Protocol):
    """Parts of rows, wherever they are."""

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every part, and return what they return, in the order of the rows."""

    def derive(self, method: str, *arguments: Any) -> Self:
        """Make a team of the parts that a method of every part returns."""


class LocalTeam:
    """Parts in the memory of this process, one after the other; each has threads of its own."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = list(parts)

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every part, and return what they return, in the order of the rows."""
        return [getattr(part, method)(*arguments) for part in self._parts]

    def derive(self, method: str, *arguments: Any) -> "LocalTeam":
        """Make a team of the parts that a method of every part returns."""
        return LocalTeam(self.each(method, *arguments))
