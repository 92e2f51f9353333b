"""Batches of rows, drawn by a hash of their values."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dkmeans.kernels.block import Indices
from dkmeans.kernels.rowhash import salted
from dkmeans.passes.part import Part
from dkmeans.passes.row_state import RowState


@dataclass(frozen=True)
class Batch:
    """Rows that are drawn by a hash of their values.

    The batches of the same salt are a partition of the rows, which does not depend on their order.
    """

    number: int
    count: int  # of batches with this salt
    salt: int

    def members(self, state: RowState) -> npt.NDArray[np.bool_] | None:
        """Return which rows are in the batch; None for all."""
        if self.count == 1:
            return None
        assert state.hashes is not None, "the rows must be hashed first"
        drawn: npt.NDArray[np.bool_]
        drawn = salted(state.hashes, self.salt) % np.uint64(self.count) == self.number
        return drawn

    def rows(self, part: Part, state: RowState) -> Indices:
        """Return the indices of the rows in the batch that have a positive weight."""
        chosen = np.ones(len(part), dtype=bool) if part.active is None else part.active
        members = self.members(state)
        return np.flatnonzero(chosen if members is None else chosen & members)

    def later(self) -> list["Batch"]:
        """Return the batches of the same salt that come after this one."""
        return [replace(self, number=number) for number in range(self.number + 1, self.count)]


ALL_ROWS = Batch(0, 1, 0)
