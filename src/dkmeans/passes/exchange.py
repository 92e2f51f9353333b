"""Comparisons of the rows of all parts by a hash."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dkmeans.exact.record import Record
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.rowhash import Hashes
from dkmeans.passes.contract import Exchange, HashedRows
from dkmeans.passes.part import Part
from dkmeans.passes.row_labels import hash_part
from dkmeans.passes.row_state import RowState
from dkmeans.passes.sampling import DistinctHashes, row_hashes

SHIFT = 48  # the leading 16 bits of a hash are its bucket
LARGEST_HASH = 2**64 - 1


@dataclass(frozen=True)
class MixedCounts(Record):
    """Numbers of rows by bucket, which is given by the leading bits of their hashes."""

    buckets: Indices  # ascending
    counts: Indices

    def slices(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Return ranges of hashes, bounds included, each with so many rows or a single bucket."""
        first, size = 0, 0
        for bucket, count in zip(self.buckets.tolist(), self.counts.tolist(), strict=True):
            if size and size + count > n_rows:
                yield first << SHIFT, (bucket << SHIFT) - 1
                first, size = bucket, 0
            size += count
        if size:
            yield first << SHIFT, LARGEST_HASH


@dataclass(frozen=True)
class CountMixedHashes(Exchange[MixedCounts]):
    """Count the rows whose hash is also that of a row of another class."""

    def split(self, part: Part, state: RowState) -> HashedRows:
        """Hash the rows of one part."""
        return HashedRows.of(part, hash_part(part), state.classes)

    def settle(self, rows: HashedRows) -> MixedCounts:
        """Count those in a range."""
        mixed = _mixed(rows)
        some = rows.hashes[np.isin(rows.hashes, mixed)] if len(mixed) else mixed
        buckets, counts = np.unique(some >> np.uint64(SHIFT), return_counts=True)
        return MixedCounts(buckets.astype(np.intp), counts)

    def merge(self, results: Sequence[MixedCounts]) -> MixedCounts:
        """Add up: a bucket may be in two ranges."""
        every = np.concatenate([result.buckets for result in results])
        buckets, at = np.unique(every, return_inverse=True)
        counts = np.zeros(len(buckets), dtype=np.intp)
        np.add.at(counts, at, np.concatenate([result.counts for result in results]))
        return MixedCounts(buckets, counts)


@dataclass(frozen=True)
class FindMixedHashes(Exchange[Hashes]):
    """Find the hashes that rows of different classes share; identical rows share their hash."""

    low: int = 0  # of the hashes, bounds included
    high: int = LARGEST_HASH

    def split(self, part: Part, state: RowState) -> HashedRows:
        """Hash the rows of one part."""
        rows = HashedRows.of(part, hash_part(part), state.classes)
        if (self.low, self.high) == (0, LARGEST_HASH):
            return rows
        some = (rows.hashes >= np.uint64(self.low)) & (rows.hashes <= np.uint64(self.high))
        return HashedRows(rows.hashes[some], rows.classes[some])

    def settle(self, rows: HashedRows) -> Hashes:
        """Return the hashes in a range, ascending."""
        return _mixed(rows)

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


def _mixed(rows: HashedRows) -> Hashes:
    """Return the hashes that rows of different classes share, ascending."""
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
