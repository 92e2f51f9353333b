"""Arrays with many zeros, as they are sent to other processes."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
MIN_PACKED = 1 << 16  # smaller arrays are sent as they are
MAX_FILLED = 0.25  # share of values that are not zero up to which only these are sent


@dataclass(frozen=True)
class Packed:
    """An array of floats with few values that are not zero."""

    shape: tuple[int, ...]
    places: npt.NDArray[np.integer]
    values: Array

    @classmethod
    def of(cls, array: Array) -> "Packed | Array":
        """Pack an array, unless it is small or has many values."""
        if array.size < MIN_PACKED or array.dtype.kind != "f" or not array.flags.c_contiguous:
            return array
        flat = array.reshape(-1)
        bits = flat.view(f"u{array.itemsize}")  # so that -0.0 is a value
        if np.count_nonzero(bits) > MAX_FILLED * bits.size:
            return array
        places = np.flatnonzero(bits)
        few = array.size <= np.iinfo(np.int32).max
        return cls(array.shape, places.astype(np.int32) if few else places, flat[places])

    def unpacked(self) -> Array:
        """Return the array."""
        array = np.zeros(self.shape, dtype=self.values.dtype)
        array.reshape(-1)[self.places] = self.values
        return array


def unpacked(array: Packed | Array) -> Array:
    """Return an array that may be packed."""
    return array.unpacked() if isinstance(array, Packed) else array
