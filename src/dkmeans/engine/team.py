"""Who holds the parts of the rows, and does the passes over them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self

from dkmeans.engine.margin_part import Part
from dkmeans.engine.prefetch import ahead
from dkmeans.engine.threads import calm_blas
from dkmeans.kernels.block import Matrix

# Passes over what is kept of each row: they do not need the rows themselves.
WITHOUT_ROWS = frozenset(
    {
        "cells",
        "come_back",
        "costs",
        "error_weights",
        "inertia",
        "inherit",
        "keep",
        "labelled",
        "largest_least",
        "losers",
        "moved_between",
        "on_others",
        "paid",
        "pull_bounds",
        "relabel",
        "rename",
        "rows_on_others",
        "set_grids",
        "set_scale",
        "spread_sum",
        "square_sums",
        "strays",
        "weight_facts",
        "weight_sum",
        "without",
        "won_weights",
        "wrongly_held",
    }
)


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


class SweepTeam:
    """Parts whose rows are read anew in every pass; only what is kept per row stays in memory.

    Parameters
    ----------
    parts : sequence of Part
        Without rows.
    read : callable
        Starts to read: gives the rows of one part after the other, the same every time.
    """

    def __init__(self, parts: Sequence[Part], read: Callable[[], Iterable[Matrix]]) -> None:
        self._parts, self._read = list(parts), read

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every part, and return what they return, in the order of the rows."""
        with calm_blas:
            if method in WITHOUT_ROWS:
                return [self._call(part, method, arguments) for part in self._parts]
            found = []
            with ahead(self._read()) as blocks:
                for part, block in zip(self._parts, blocks, strict=True):
                    part.X = block
                    try:
                        found.append(self._call(part, method, arguments))
                    finally:
                        part.X = None
        return found

    @staticmethod
    def _call(part: Part, method: str, arguments: tuple[Any, ...]) -> Any:
        part.wake()
        try:
            return getattr(part, method)(*arguments)
        finally:
            part.rest()

    def derive(self, method: str, *arguments: Any) -> "SweepTeam":
        """Make a team of the parts that a method of every part returns."""
        return SweepTeam(self.each(method, *arguments), self._read)
