"""Numbers of the rows of a part among all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Indices

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class Numbering:
    """Numbers of rows in runs of consecutive ones, such as those of a partition.

    Attributes
    ----------
    places : tuple of int
        Index in the part of the first row of each run, ascending.
    numbers : tuple of int
        Number of that row among all rows, ascending.
    """

    places: tuple[int, ...]
    numbers: tuple[int, ...]

    @classmethod
    def starting_at(cls, number: int) -> Self:
        """Return consecutive numbers."""
        return cls((0,), (number,))

    @classmethod
    def joined(cls, several: Sequence[Self], sizes: Sequence[int]) -> Self:
        """Put the rows of several parts, of given sizes, one after the other."""
        ends = accumulate(sizes, initial=0)
        places = [at + end for one, end in zip(several, ends, strict=False) for at in one.places]
        return cls(tuple(places), tuple(number for one in several for number in one.numbers))

    def of(self, rows: Indices) -> Indices:
        """Return the numbers of rows of the part."""
        run = np.searchsorted(self.places, rows, side="right") - 1
        return rows + (np.array(self.numbers) - np.array(self.places))[run]

    def find(self, numbers: Indices, n_rows: int) -> tuple[Indices, npt.NDArray[np.bool_]]:
        """Return indices in a part of `n_rows` rows, and which of the numbers are there."""
        run = np.searchsorted(self.numbers, numbers, side="right") - 1
        rows = numbers + (np.array(self.places) - np.array(self.numbers))[run]
        return rows, (run >= 0) & (rows < np.array([*self.places[1:], n_rows])[run])

    def taken(self, rows: Indices) -> Self:
        """Return numbers of some rows that are laid together, from the start of each run."""
        places = np.searchsorted(rows, self.places)
        return type(self)(tuple(places.tolist()), self.numbers)

    def split(self, values: npt.NDArray[Scalar]) -> list[npt.NDArray[Scalar]]:
        """Cut an array with an entry for every row into runs."""
        return np.split(values, self.places[1:])
