"""A part and its state between passes: their arrays are on a shelf."""

import io
import pickle
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np

from dkmeans.kernels.block import Matrix
from dkmeans.passes.part import Part, Setting
from dkmeans.passes.row_state import RowState
from dkmeans.runners.shelf import Array, Shelf, Ticket

R = TypeVar("R")
Action: TypeAlias = Callable[[Part, RowState], tuple[RowState, R]]


class SpilledPart:
    """A part and its state, whose arrays are on a shelf except during a visit.

    Both are pickled as one value in which tickets take the place of arrays. So no array of `Part`
    or `RowState` can be left out.

    Parameters
    ----------
    part : Part
        Without rows.
    state : RowState
    shelf : Shelf
    """

    def __init__(self, part: Part, state: RowState, shelf: Shelf) -> None:
        self._shelf = shelf
        self._tickets: list[Ticket] = []
        self._value = b""
        self._save(part.configured(Setting()), state, {})

    def visit(self, action: Action[R], setting: Setting, X: Matrix) -> R:
        """Bring the arrays back for one action, and store the state that it returns.

        Parameters
        ----------
        action : callable
        setting : Setting
            Of the part during the visit.
        X : array, CSR matrix or None
            Its rows.
        """
        arrays = [self._shelf.get(ticket) for ticket in self._tickets]
        part, state = _Unpickler(io.BytesIO(self._value), arrays).load()
        state, result = action(part.configured(setting).with_rows(X), state)
        stored = zip(arrays, self._tickets, strict=True)
        self._save(part, state, {id(array): ticket for array, ticket in stored})
        return result

    def close(self) -> None:
        """Give up all arrays."""
        for ticket in self._tickets:
            self._shelf.free(ticket)
        self._tickets = []

    def _save(self, part: Part, state: RowState, stored: dict[int, Ticket]) -> None:
        """Store a part and its state.

        Parameters
        ----------
        part : Part
        state : RowState
        stored : dict
            Tickets of arrays that are on the shelf already, by the identity of the array.
        """
        tickets: list[Ticket] = []
        positions: dict[int, int] = {}  # of arrays among the tickets, by identity

        def store(array: Array) -> int:
            key = id(array)
            if key not in positions:
                positions[key] = len(tickets)
                tickets.append(stored[key] if key in stored else self._shelf.put(array))
            return positions[key]

        buffer = io.BytesIO()
        _Pickler(buffer, store).dump((part, state))
        kept = {id(ticket) for ticket in tickets}
        for ticket in self._tickets:
            if id(ticket) not in kept:
                self._shelf.free(ticket)
        self._value, self._tickets = buffer.getvalue(), tickets


class _Pickler(pickle.Pickler):
    """Stores arrays by position in a list."""

    def __init__(self, file: io.BytesIO, store: Callable[[Array], int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._store = store

    def persistent_id(self, obj: object) -> int | None:
        """Return the position of an array; None for anything else."""
        return self._store(obj) if isinstance(obj, np.ndarray) else None


class _Unpickler(pickle.Unpickler):
    """Finds arrays by position in a list."""

    def __init__(self, file: io.BytesIO, arrays: list[Array]) -> None:
        super().__init__(file)
        self._arrays = arrays

    def persistent_load(self, pid: int) -> Array:
        """Return the array at a position."""
        return self._arrays[pid]
