"""Parts that wait for the next pass: what they keep of each row is on a shelf meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from dkmeans.engine.margin_part import Part
from dkmeans.engine.shelf import Shelf, Ticket

# What parts keep of each row. Passes replace these arrays, they do not write into them.
PER_ROW = (
    "_by_class",
    "_full_weights",
    "_kept",
    "_spread",
    "active",
    "given",
    "held",
    "labels",
    "previous",
    "squares",
    "weights",
    "y",
)


class WaitingPart:
    """A part that is asleep but for its passes.

    Parameters
    ----------
    part : Part
    shelf : Shelf
    """

    def __init__(self, part: Part, shelf: Shelf) -> None:
        self._part, self._shelf = part, shelf
        self._sleep({})

    @contextmanager
    def awake(self) -> Iterator[Part]:
        """Get the arrays back for one pass; what it does not replace stays on the shelf."""
        got: dict[int, tuple[Ticket, Any]] = {}

        def get(value: Any) -> Any:
            if not isinstance(value, Ticket):
                return value
            if id(value) not in got:
                got[id(value)] = value, self._shelf.get(value)
            return got[id(value)][1]

        self._replace(lambda value: _changed(value, get), lambda sets: _Sets(sets, get))
        try:
            yield self._part
        finally:
            # By the arrays themselves: those that are one array become one again.
            self._sleep({id(array): (ticket, array) for ticket, array in got.values()})

    def _sleep(self, known: dict[int, tuple[Ticket, Any]]) -> None:
        def put(value: Any) -> Any:
            if not isinstance(value, np.ndarray) or value.ndim != 1:
                return value
            if id(value) not in known:
                if value.base is not None:
                    return value  # a piece of something that stays in memory anyway
                known[id(value)] = self._shelf.put(value), value
            return known[id(value)][0]

        self._replace(lambda value: _changed(value, put), lambda sets: _changed(sets, put))

    def _replace(self, change: Callable[[Any], Any], change_sets: Callable[[Any], Any]) -> None:
        state = vars(self._part)
        for name in PER_ROW:
            if name in state:
                state[name] = change(state[name])
        state["_margins"] = change_sets(state["_margins"])


class _Sets(dict[int, Any]):
    """Sets of margins, each got back when it is asked for: a pass needs one or two of several."""

    def __init__(self, sets: dict[int, Any], get: Callable[[Any], Any]) -> None:
        super().__init__(sets)
        self._get = get

    def __getitem__(self, number: int) -> Any:
        found = _changed(super().__getitem__(number), self._get)
        self[number] = found
        return found


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change what is inside of lists, tuples, dictionaries and margins."""
    if isinstance(value, list | tuple):
        return type(value)(_changed(inner, change) for inner in value)
    if isinstance(value, dict):
        return {key: _changed(inner, change) for key, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type | Ticket):
        inner = {f.name: change(getattr(value, f.name)) for f in fields(value)}
        return replace(value, **inner)
    return change(value)
