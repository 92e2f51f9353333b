"""What a pass over one part of the rows brings back, and how parts are put together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dkmeans.engine.tally import Tally
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.exact import total


@dataclass(frozen=True)
class Sums:
    """Exact weights and sums of groups of rows, by an ascending key.

    Slices along axis 0, as `kernels.exact` explains: parts add up without a single rounding.
    """

    keys: Indices  # shape (g,)
    weights: Floats  # shape (s, g)
    sums: Floats  # shape (s, g, d)
    squares: Floats  # shape (s, g): weighted squared distances to the centre

    def take(self, which: Indices) -> Self:
        """Select groups."""
        return type(self)(
            self.keys[which], self.weights[:, which], self.sums[:, which], self.squares[:, which]
        )

    def there(self) -> Self:
        """Drop groups whose rows have all been taken away."""
        there = total(self.weights)[0] > 0
        return self if there.all() else self.take(np.flatnonzero(there))

    def negative(self) -> Self:
        """Turn all signs, so that adding it takes the groups away."""
        return replace(self, weights=-self.weights, sums=-self.sums, squares=-self.squares)

    def keyed(self, keys: Indices) -> Self:
        """Give groups other keys, and drop those below 0; groups of one key are added up."""
        there = np.flatnonzero(keys >= 0)
        there = there[np.argsort(keys[there], kind="stable")]
        return replace(self.take(there), keys=keys[there])._fused()

    def tally(self, n_classes: int, named: Indices | None = None) -> Tally:
        """Read keys as codes of cell and class, or `named` as the list of them."""
        codes = self.keys if named is None else named[self.keys]
        return Tally(codes // n_classes, codes % n_classes, self.weights, self.sums, self.squares)

    def _fused(self) -> Self:
        keys = self.keys
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else keys
        if len(starts) == len(keys):
            return self
        return type(self)(
            keys[starts],
            np.add.reduceat(self.weights, starts, axis=1),
            np.add.reduceat(self.sums, starts, axis=1),
            np.add.reduceat(self.squares, starts, axis=1),
        )


def add_up(parts: Sequence[Sums]) -> Sums:
    """Put the sums of several parts together."""
    if len(parts) == 1:
        return parts[0]
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    first, g = parts[0], len(keys)
    s, d = len(first.weights), first.sums.shape[2]
    squares = np.zeros((len(first.squares), g))
    whole = Sums(keys, np.zeros((s, g)), np.zeros((s, g, d)), squares)
    for part in parts:
        at = np.searchsorted(keys, part.keys)
        whole.weights[:, at] += part.weights
        whole.sums[:, at] += part.sums
        whole.squares[:, at] += part.squares
    return whole
