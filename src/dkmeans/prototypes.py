"""The state of the algorithm: labelled centres with permanent ids."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Prototypes:
    """Centres, the class (by number) of each, and ids that are never reused.

    They are kept in the order (class, id), so that a tie, which goes to the lowest index, goes to
    the lowest class.
    """

    centers: npt.NDArray[np.floating]  # shape (k, d), in the type of X
    classes: npt.NDArray[np.intp]  # shape (k,)
    ids: npt.NDArray[np.int64]  # shape (k,)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, which: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Self:
        """Select prototypes by index or mask; their order must stay (class, id)."""
        return type(self)(self.centers[which], self.classes[which], self.ids[which])

    def in_order(self) -> Self:
        """Sort the prototypes by (class, id)."""
        order = np.lexsort((self.ids, self.classes))
        return self if np.array_equal(order, np.arange(len(self))) else self.take(order)
