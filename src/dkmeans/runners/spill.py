"""Spill parts and their states to a shelf between passes."""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from dkmeans.kernels.block import Matrix
from dkmeans.passes.part import Part, Setting
from dkmeans.passes.row_state import Lazy, RowState
from dkmeans.runners.shelf import Array, Shelf, Ticket

R = TypeVar("R")
Action: TypeAlias = Callable[[Part, RowState], tuple[RowState, R]]
_Place: TypeAlias = tuple[str, int]  # kind, and position among those of its kind


@dataclass(frozen=True)
class _Stored:
    """A pickled value, with tickets instead of arrays."""

    pickled: bytes
    tickets: list[Ticket]
    lazy: list["_Stored"]  # values that are loaded when they are needed

    def all_tickets(self) -> list[Ticket]:
        """List the tickets of this value and of those in it."""
        return [*self.tickets, *(t for inner in self.lazy for t in inner.all_tickets())]


@dataclass(frozen=True)
class _Known:
    """Objects already on the shelf, by identity; they are kept alive here."""

    arrays: dict[int, tuple[Array, Ticket]] = field(default_factory=dict)
    lazy: dict[int, tuple[Lazy[object], _Stored]] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget everything."""
        self.arrays.clear()
        self.lazy.clear()


class SpilledPart:
    """A part and its state, whose arrays are on a shelf except during a visit.

    Both are pickled as one value, so no array of `Part` or `RowState` can be left out.

    Parameters
    ----------
    part : Part
        Without rows, or with rows of its own.
    state : RowState
    shelf : Shelf
    """

    def __init__(self, part: Part, state: RowState, shelf: Shelf) -> None:
        self._shelf = shelf
        self._rows: tuple[Ticket, tuple[int, ...]] | None = None
        if isinstance(part.raw, np.ndarray):  # arrays of CSR matrices are stored like all others
            self._rows = shelf.put(part.raw.reshape(-1)), part.raw.shape
            part = part.with_rows(None)
        self._stored = _Pickler(shelf, _Known()).store((part.configured(Setting()), state))

    @property
    def tickets(self) -> list[Ticket]:
        """Tickets of all arrays."""
        rows = [] if self._rows is None else [self._rows[0]]
        return [*self._stored.all_tickets(), *rows]

    def visit(self, action: Action[R], setting: Setting, X: Matrix) -> R:
        """Load the arrays for one action, and store the state that it returns.

        Parameters
        ----------
        action : callable
        setting : Setting
            Of the part during the visit.
        X : array, CSR matrix or None
            Its rows; None if it holds them, or if they are not needed.
        """
        known = _Known()
        part, state = _Unpickler(self._stored, self._shelf, known).load()
        try:
            if X is None and self._rows is not None:
                X = self._shelf.get(self._rows[0]).reshape(self._rows[1])
            visited = part.configured(setting)
            state, result = action(visited if X is None else visited.with_rows(X), state)
            stored = _Pickler(self._shelf, known).store((part, state))
        finally:
            known.clear()  # lazy values refer to it: a cycle would keep arrays in memory
        before, self._stored = self.tickets, stored
        kept = {id(ticket) for ticket in self.tickets}
        self._free([ticket for ticket in before if id(ticket) not in kept])
        return result

    def close(self) -> None:
        """Free all arrays."""
        self._free(self.tickets)

    def _free(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            self._shelf.free(ticket)


class _Pickler(pickle.Pickler):
    """Puts new arrays on a shelf, and lazy values into separate pickles."""

    def __init__(self, shelf: Shelf, known: _Known) -> None:
        self._buffer = io.BytesIO()
        super().__init__(self._buffer, pickle.HIGHEST_PROTOCOL)
        self._shelf, self._known = shelf, known
        self._tickets: list[Ticket] = []
        self._lazy: list[_Stored] = []
        self._places: dict[int, _Place] = {}  # by the identity of objects

    def store(self, value: object) -> _Stored:
        """Store a value."""
        self.dump(value)
        return _Stored(self._buffer.getvalue(), self._tickets, self._lazy)

    def persistent_id(self, obj: object) -> _Place | None:
        """Return the place of an array or lazy value; None for anything else."""
        if not isinstance(obj, np.ndarray | Lazy):
            return None
        if id(obj) not in self._places:
            self._places[id(obj)] = (
                self._store_lazy(obj) if isinstance(obj, Lazy) else self._store_array(obj)
            )
        return self._places[id(obj)]

    def _store_array(self, array: Array) -> _Place:
        known = self._known.arrays.get(id(array))
        self._tickets.append(self._shelf.put(array) if known is None else known[1])
        return "array", len(self._tickets) - 1

    def _store_lazy(self, value: Lazy[object]) -> _Place:
        known = self._known.lazy.get(id(value))
        inner = _Pickler(self._shelf, self._known)
        self._lazy.append(inner.store(value.get()) if known is None else known[1])
        return "lazy", len(self._lazy) - 1


class _Unpickler(pickle.Unpickler):
    """Gets arrays from a shelf, and lazy values when they are needed."""

    def __init__(self, stored: _Stored, shelf: Shelf, known: _Known) -> None:
        super().__init__(io.BytesIO(stored.pickled))
        self._arrays = [shelf.get(ticket) for ticket in stored.tickets]
        self._lazy = [Lazy(partial(_load, inner, shelf, known)) for inner in stored.lazy]
        for array, ticket in zip(self._arrays, stored.tickets, strict=True):
            known.arrays[id(array)] = array, ticket
        for value, inner in zip(self._lazy, stored.lazy, strict=True):
            known.lazy[id(value)] = value, inner

    def persistent_load(self, pid: _Place) -> Array | Lazy[object]:
        """Return the array or lazy value at a place."""
        kind, at = pid
        return self._arrays[at] if kind == "array" else self._lazy[at]


def _load(stored: _Stored, shelf: Shelf, known: _Known) -> object:
    return _Unpickler(stored, shelf, known).load()
