"""Passes that test whether a prototype is needed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from dkmeans.kernels.assign import assign
from dkmeans.kernels.block import Indices
from dkmeans.kernels.pack import pack
from dkmeans.kernels.threads import tiles
from dkmeans.passes.contract import Effect, Pass
from dkmeans.passes.part import Part
from dkmeans.passes.results import EffectPass
from dkmeans.passes.row_state import PruneState, RowState
from dkmeans.prototypes import Prototypes

TILE_DISTANCES = 1 << 17  # distances per tile


@dataclass(frozen=True)
class TryWithout(Pass[bool]):
    """Test whether, without a prototype, all its rows would still go to their own class.

    Parameters
    ----------
    prototypes : Prototypes
    prototype : int
        Index of the prototype to remove.
    others : array
        Indices of the remaining prototypes.
    """

    effect = Effect.AMENDS_CELLS

    prototypes: Prototypes
    prototype: int
    others: Indices

    def visit(self, part: Part, state: RowState) -> tuple[RowState, bool]:
        """Visit one part."""
        classes, pruning = self.prototypes.classes, state.pruning
        owners = state.cells.labels if pruning is None else pruning.owners
        mine = np.flatnonzero(owners == self.prototype)
        packed = pack(self.prototypes.centers[self.others], sparse=sp.issparse(part.X))
        nearest = np.empty(len(mine), dtype=np.intp)
        for tile in tiles(len(nearest), max(1, TILE_DISTANCES // len(self.others))):
            assign(part.X[mine[tile]], packed, nearest[tile])
        heirs = self.others[nearest]
        own = state.classes[mine] == classes[self.prototype]
        if part.active is not None:
            own &= part.active[mine]
        possible = bool((classes[heirs[own]] == classes[self.prototype]).all())
        return replace(state, pruning=PruneState(owners, mine, heirs)), possible

    def merge(self, results: Sequence[bool]) -> bool:
        """Return whether all parts can do without the prototype."""
        return all(results)


@dataclass(frozen=True)
class Inherit(EffectPass):
    """Reassign the rows of the prototype tested last to their next owners."""

    needs_rows = False
    effect = Effect.AMENDS_CELLS

    def visit(self, part: Part, state: RowState) -> tuple[RowState, None]:
        """Visit one part."""
        pruning = state.pruning
        assert pruning is not None, "a prototype must be tried first"
        owners = pruning.owners.copy()
        owners[pruning.rows] = pruning.heirs
        nobody = np.empty(0, dtype=np.intp)
        return replace(state, pruning=PruneState(owners, nobody, nobody)), None
