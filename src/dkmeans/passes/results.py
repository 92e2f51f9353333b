"""Results shared by several passes, each with its merge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import GroupSums, KeyedSums
from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats
from dkmeans.passes.contract import Pass
from dkmeans.passes.part import Part

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class Pieces(Record, Generic[Scalar]):
    """An array with entries for all rows, in pieces of consecutive rows."""

    starts: list[int]  # number of the first row of each piece, ascending
    arrays: list[npt.NDArray[Scalar]]

    @classmethod
    def of(cls, part: Part, values: npt.NDArray[Scalar]) -> Self:
        """Cut an array with an entry for every row of a part into pieces."""
        return cls(list(part.numbering.numbers), part.numbering.split(values))

    def joined(self) -> npt.NDArray[Scalar]:
        """Return one array."""
        return np.concatenate(self.arrays)


class PiecesPass(Pass[Pieces[Scalar]]):
    """A pass that returns an entry for every row, or for some rows in ascending order."""

    def merge(self, results: Sequence[Pieces[Scalar]]) -> Pieces[Scalar]:
        """Sort the pieces by row."""
        pairs = [pair for one in results for pair in zip(one.starts, one.arrays, strict=True)]
        pairs.sort(key=lambda pair: pair[0])
        return Pieces([start for start, _ in pairs], [array for _, array in pairs])


class GroupSumsPass(Pass[GroupSums]):
    """A pass that sums rows by group."""

    def merge(self, results: Sequence[GroupSums]) -> GroupSums:
        """Add up."""
        return GroupSums.merge(results)


class KeyedSumsPass(Pass[KeyedSums]):
    """A pass that sums a value per row by group."""

    def merge(self, results: Sequence[KeyedSums]) -> KeyedSums:
        """Add up."""
        return KeyedSums.merge(results)


class SlicesPass(Pass[Floats]):
    """A pass that returns exact sums as slices in one array."""

    def merge(self, results: Sequence[Floats]) -> Floats:
        """Add up."""
        return np.sum(results, axis=0)


class MaximumPass(Pass[float]):
    """A pass that returns a bound."""

    def merge(self, results: Sequence[float]) -> float:
        """Return the largest."""
        return max(results)


class CountPass(Pass[int]):
    """A pass that counts rows."""

    def merge(self, results: Sequence[int]) -> int:
        """Add up."""
        return sum(results)


class EffectPass(Pass[None]):
    """A pass that changes the state and returns nothing."""

    def merge(self, results: Sequence[None]) -> None:
        """Return nothing."""
