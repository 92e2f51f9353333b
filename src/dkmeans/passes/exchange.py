"""Comparisons of the rows of all parts by a hash."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes
from dkmeans.passes.contract import Exchange, HashedRows
from dkmeans.passes.part import Part
from dkmeans.passes.row_labels import hash_part
from dkmeans.passes.row_state import RowState
from dkmeans.passes.sampling import DistinctHashes, row_hashes


@dataclass(frozen=True)
class FindMixedHashes(Exchange[Hashes]):
    """Find the hashes that rows of different classes share; identical rows share their hash."""

    def split(self, part: Part, state: RowState) -> HashedRows:
        """Hash the rows of one part."""
        return HashedRows.of(part, hash_part(part), state.classes)

    def settle(self, rows: HashedRows) -> Hashes:
        """Return the hashes in a range, ascending."""
        ordered = np.sort(rows.hashes)
        repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(repeated):
            return repeated  # the usual case
        some = np.flatnonzero(np.isin(rows.hashes, repeated))
        item = np.searchsorted(repeated, rows.hashes[some])
        classes = rows.classes[some].astype(np.intp)
        low, high = np.full(len(repeated), classes.max()), np.zeros(len(repeated), dtype=np.intp)
        np.minimum.at(low, item, classes)
        np.maximum.at(high, item, classes)
        return repeated[low != high]

    def merge(self, results: Sequence[Hashes]) -> Hashes:
        """Put the hashes in order."""
        return np.sort(np.concatenate(results))


@dataclass(frozen=True)
class CountDistinct(Exchange[int]):
    """Count the distinct rows with a positive weight."""

    def split(self, part: Part, state: RowState) -> HashedRows:
        """Hash the rows of one part."""
        return HashedRows.of(part, hash_part(part), state.classes)

    def settle(self, rows: HashedRows) -> int:
        """Count those in a range."""
        return len(np.unique(rows.hashes))

    def merge(self, results: Sequence[int]) -> int:
        """Add up."""
        return sum(results)


@dataclass(frozen=True)
class CountItems(Exchange[Indices]):
    """Count the distinct rows with a positive weight of each class, by their sampling hashes."""

    largest: Floats  # magnitude of each column
    n_classes: int

    def split(self, part: Part, state: RowState) -> HashedRows:
        """Hash the rows of one part."""
        return HashedRows.of(part, row_hashes(part, self.largest), state.classes)

    def settle(self, rows: HashedRows) -> Indices:
        """Count those in a range."""
        distinct = DistinctHashes.of(rows.classes.astype(np.intp), rows.hashes)
        return np.bincount(distinct.classes, minlength=self.n_classes)

    def merge(self, results: Sequence[Indices]) -> Indices:
        """Add up."""
        return np.sum(results, axis=0)
