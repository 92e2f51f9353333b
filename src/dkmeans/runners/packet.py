"""Values as they are sent to other processes: arrays of floats without zeros, where these are many.

Centres and sums of sparse rows are such arrays.
"""

import io
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dkmeans.exact.packed import MIN_PACKED, Array, Packed, unpacked


class Packet:
    """Pickles to a value: what `pickle` restores is the value itself.

    It is pickled once, however many workers it is sent to. Large arrays are kept apart, so that
    they can be sent without further copies.
    """

    def __init__(self, value: object) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restored, self._contents

    @cached_property
    def _contents(self) -> tuple[bytes, list[Packed | Array]]:
        pickler = _Pickler()
        pickler.dump(self._value)
        return pickler.buffer.getvalue(), [Packed.of(array) for array in pickler.arrays]


def _restored(pickled: bytes, arrays: list[Packed | Array]) -> Any:
    return _Unpickler(pickled, [unpacked(array) for array in arrays]).load()


class _Pickler(pickle.Pickler):
    """Collects large arrays."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()
        super().__init__(self.buffer, pickle.HIGHEST_PROTOCOL)
        self.arrays: list[Array] = []
        self._places: dict[int, int] = {}  # by the identity of arrays

    def persistent_id(self, obj: object) -> int | None:
        """Return the place of a large array; None for anything else."""
        if type(obj) is not np.ndarray or obj.size < MIN_PACKED or obj.dtype.hasobject:
            return None
        if id(obj) not in self._places:
            self._places[id(obj)] = len(self.arrays)
            self.arrays.append(obj)
        return self._places[id(obj)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, arrays: list[Array]) -> None:
        super().__init__(io.BytesIO(pickled))
        self._arrays = arrays

    def persistent_load(self, pid: int) -> Array:
        """Return the array at a place."""
        return self._arrays[pid]
