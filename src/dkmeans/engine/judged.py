"""One part of the rows, and what can be said of its labels: errors, conflicts, rows held out."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dkmeans.engine.grids import Facts
from dkmeans.engine.part import CellPart
from dkmeans.engine.summable import NOBODY, present
from dkmeans.engine.threads import tiles
from dkmeans.kernels.assign import assign
from dkmeans.kernels.block import Floats, Indices, dense_rows
from dkmeans.kernels.exact import most_bits
from dkmeans.kernels.pack import pack
from dkmeans.kernels.rowhash import Hashes
from dkmeans.kernels.tally import group_totals
from dkmeans.model.prototypes import Prototypes

_SCORES = 1 << 17  # distances that are looked at together


class JudgedPart(CellPart):
    """Rows whose labels can be judged and changed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.given = self.y  # classes as they were given
        self.held: npt.NDArray[np.bool_] | None = None  # rows that are held out
        self._full_weights = self.weights  # those of rows that are held out included
        self._heirs: tuple[Indices, Indices] | None = None

    def facts(self, compiled: bool) -> Facts:
        """Tell what must be known of all rows, the weights of those held out included."""
        facts, full = super().facts(compiled), self._full_weights
        if self.held is None or full is None:
            return facts
        full = full[full > 0]
        heaviest, lightest = full.max(initial=0.0), full.min(initial=np.inf)
        return replace(
            facts,
            heaviest=float(heaviest),
            lightest=float(lightest),
            weight_bits=most_bits(full),
        )

    def labelled(self) -> tuple[Indices, Indices, Floats | None]:
        """Cells, classes and weights of all rows."""
        return self.labels, self.y, self.weights

    def cells(self) -> npt.NDArray[np.int32]:
        """Cells of all rows, as short numbers."""
        return self.labels.astype(np.int32)

    def values_of(self, rows: Indices) -> npt.NDArray[np.floating]:
        """Those of some rows, by number among all rows, that are in this part."""
        return dense_rows(self.X, self._here(rows))

    def relabel(self, rows: Indices, classes: Indices) -> None:
        """Give some rows, by number among all rows, other classes."""
        here = (rows >= self.start) & (rows < self.start + len(self.y))
        if here.any():
            self.y = self.y.copy()
            self.y[rows[here] - self.start] = classes[here]
            self._by_class = None

    def _here(self, rows: Indices) -> Indices:
        rows = rows - self.start
        return rows[(rows >= 0) & (rows < len(self.y))]

    def without(self, hashes: Hashes, lowest: Hashes, highest: Hashes) -> Self:
        """Make a part of the same rows, but those with hashes in a range of their class held out.

        Parameters
        ----------
        hashes : array of shape (n,)
            Of all rows, those of other parts included.
        lowest, highest : arrays of shape (n_classes,)
            Range of the hashes of each class.
        """
        mine = hashes[self.start : self.start + len(self.y)]
        held = (mine >= lowest[self.y]) & (mine <= highest[self.y])
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        part = type(self)(
            self.X,
            self.y,
            np.where(held, 0.0, weights),
            n_classes=self.n_classes,
            n_threads=self.n_threads,
            memory_mb=self._memory_mb,
            start=self.start,
        )
        part.given, part._full_weights = self.given, self.weights
        part.held = held if self.active is None else held & self.active
        return part

    def error_weights(self, classes: Indices, units: Floats) -> Floats:
        """Weight of training rows that are in a wrong cell, of all, and the same of held-out rows.

        Shape (4, n_slices).
        """
        wrong = classes[self.labels] != self.given
        found = np.zeros((4, len(units)))
        n, full = len(self.y), self._full_weights
        held = np.zeros(n, dtype=bool) if self.held is None else self.held
        if full is None:
            found[:, 0] = (wrong & ~held).sum(), (~held).sum(), (wrong & held).sum(), held.sum()
            return found
        active = full > 0
        for at, some in enumerate((active & ~held, held)):
            for with_all in (False, True):
                rows = np.flatnonzero(some if with_all else some & wrong)
                if len(rows):
                    zero = np.zeros(1, dtype=np.intp)
                    found[2 * at + with_all] = group_totals(full, units, rows, zero)[:, 0]
        return found

    def wrongly_held(self, classes: Indices) -> tuple[Indices, Floats]:
        """Held-out rows in a wrong cell, by number among all rows, and their weights."""
        assert self.held is not None
        rows = np.flatnonzero(self.held & (classes[self.labels] != self.given))
        full = np.ones(len(self.y)) if self._full_weights is None else self._full_weights
        return rows + self.start, full[rows]

    def on_others(self, prototypes: Prototypes) -> tuple[Indices, Floats]:
        """Weight, by cell and class, of rows that equal a prototype of another class."""
        codes = self._on_others(prototypes)
        keys = present(codes)
        order = np.flatnonzero(codes >= 0)
        order = order[np.argsort(codes[order], kind="stable")]
        starts = np.searchsorted(codes[order], keys)
        weights = np.ones(len(codes)) if self.weights is None else self.weights
        if not len(keys):
            return keys, np.empty((self._n_slices, 0))
        return keys, group_totals(weights, self._weight_units, order, starts)

    def rows_on_others(self, prototypes: Prototypes, codes: Indices) -> list[Indices]:
        """List those rows of some groups, by group, with their numbers among all rows."""
        own = self._on_others(prototypes)
        return [np.flatnonzero(own == code) + self.start for code in codes.tolist()]

    def _on_others(self, prototypes: Prototypes) -> Indices:
        on_it = (self.squares == 0) & (self.y != prototypes.classes[self.labels])
        return np.where(on_it, self.group_codes(), NOBODY)

    def try_without(self, prototypes: Prototypes, p: int, others: Indices, first: bool) -> bool:
        """Tell whether all rows of its class that a prototype owns could go to one of their class.

        `first` tells that none has gone yet.
        """
        if first:
            self._owners = self.labels.copy()
        mine = np.flatnonzero(self._owners == p)
        packed = pack(prototypes.centers[others], sparse=sp.issparse(self.X))
        nearest = np.empty(len(mine), dtype=np.intp)
        for part in tiles(len(nearest), max(1, _SCORES // len(others))):
            assign(self.X[mine[part]], packed, nearest[part])
        heirs = others[nearest]
        self._heirs = mine, heirs
        own = self.y[mine] == prototypes.classes[p]
        if self.active is not None:
            own &= self.active[mine]
        return bool((prototypes.classes[heirs[own]] == prototypes.classes[p]).all())

    def inherit(self) -> None:
        """Let the rows of the prototype that was tried last go to their heirs."""
        if self._heirs is not None:
            rows, heirs = self._heirs
            self._owners[rows] = heirs
