"""Search for the nearest prototypes by class, with the help of sketches of the rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dkmeans.kernels.block import Indices
from dkmeans.kernels.sketch import SketchedCenters, Sketches, nearest_by_sketches
from dkmeans.passes.class_order import runs_of_classes
from dkmeans.passes.part import Part
from dkmeans.prototypes import Prototypes

MIN_COMPARED = 8  # prototypes per row from which sketches save time
MIN_COMPARED_ONCE = 64  # the same if the sketches serve only one pass


@dataclass(frozen=True)
class SketchSearch:
    """Search for the nearest prototypes of the rows of a part."""

    X: Any
    sketches: Sketches
    centers: SketchedCenters
    columns: Mapping[int, Indices]

    @classmethod
    def of(
        cls, part: Part, prototypes: Prototypes, n_compared: float, *, fine: bool = False
    ) -> Self | None:
        """Prepare a search; None if it would save no time.

        Parameters
        ----------
        part : Part
        prototypes : Prototypes
        n_compared : float
            Number of prototypes that each row is compared with.
        fine : bool
            Whether to use fine sketches too: many passes follow, with prototypes that are not at
            means of rows.
        """
        if n_compared < (MIN_COMPARED if part.is_resident else MIN_COMPARED_ONCE):
            return None
        fine = fine and part.is_resident
        sketches, loops = part.fine_sketches if fine else part.sketches, part.loops
        if sketches is None or loops is None:
            return None
        centers = SketchedCenters.along(prototypes.centers, sketches, loops)
        return cls(part.X, sketches, centers, class_columns(prototypes))

    def __call__(
        self, rows: Indices, classes: Indices, own: Indices, rival: Indices | None = None
    ) -> Indices:
        """Write the nearest prototypes of rows, and return the positions that are left.

        Parameters
        ----------
        rows : array of shape (m,)
            IN. Indices of rows, in runs of the same class.
        classes : array of shape (m,)
            IN. Their classes, which must have prototypes.
        own : array of shape (m,)
            OUT. The nearest prototypes of their class.
        rival : array of shape (m,), optional
            OUT. The nearest prototypes of other classes.
        """
        left = [np.empty(0, dtype=np.intp)]
        for c, run in runs_of_classes(classes):
            mine = slice(int(self.columns[c][0]), int(self.columns[c][-1]) + 1)
            what = self.X, self.sketches, self.centers, rows[run], mine, own[run]
            rest = nearest_by_sketches(*what, None if rival is None else rival[run])
            left.append(run.start + rest)
        return np.concatenate(left)


def class_columns(prototypes: Prototypes) -> dict[int, Indices]:
    """Return the indices of the prototypes of each class; they are consecutive."""
    return {c: np.arange(run.start, run.stop) for c, run in runs_of_classes(prototypes.classes)}
