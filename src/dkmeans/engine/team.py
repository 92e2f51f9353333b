"""Who holds the parts of the rows, and does the passes over them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self

from dkmeans.engine.margin_part import Part
from dkmeans.engine.merging import merge
from dkmeans.engine.prefetch import ahead
from dkmeans.engine.shelf import Shelf
from dkmeans.engine.threads import calm_blas
from dkmeans.engine.waiting import WaitingPart
from dkmeans.kernels.block import Matrix

_MANY = 16  # results that are put together before there are more of them
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
    """Parts whose rows are read anew in every pass; what is kept of each row is on a shelf.

    Parameters
    ----------
    parts : iterable of Part
        Without rows.
    read : callable
        Starts to read: gives the rows of one part after the other, the same every time.
    shelf : Shelf
    """

    def __init__(
        self, parts: Iterable[Part], read: Callable[[], Iterable[Matrix]], shelf: Shelf
    ) -> None:
        self._parts = [WaitingPart(part, shelf) for part in parts]
        self._read, self._shelf = read, shelf

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every part; what belongs together is put together on the way."""
        found: list[Any] = []
        with calm_blas:
            for result in self._visit(method, arguments):
                found.append(result)
                if len(found) == _MANY:
                    found = merge(method, found)
        return merge(method, found)

    def derive(self, method: str, *arguments: Any) -> "SweepTeam":
        """Make a team of the parts that a method of every part returns."""
        return SweepTeam(self._visit(method, arguments), self._read, self._shelf)

    def _visit(self, method: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        if method in WITHOUT_ROWS:
            for waiting in self._parts:
                with waiting.awake() as part:
                    yield getattr(part, method)(*arguments)
            return
        with ahead(self._read()) as blocks:
            for waiting, block in zip(self._parts, blocks, strict=True):
                with waiting.awake() as part:
                    part.X = block
                    try:
                        yield getattr(part, method)(*arguments)
                    finally:
                        part.X = None
