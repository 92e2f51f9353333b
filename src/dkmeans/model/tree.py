"""Who split from whom: the family tree of the prototypes."""

import numpy as np
import numpy.typing as npt

from dkmeans.model.table import Table

NONE = -1


class Tree(Table):
    """Every prototype that ever lived during a fit, one row each, in the order of their ids.

    Columns
    -------
    id : int
        Lasting identity, never reused.
    parent : int
        Id of the prototype it came from, -1 for the first.
    label : class label
        Its class, for life.
    born, ended : int
        Rounds in which it appeared and disappeared; `ended` is -1 for those still alive.
    """

    def _headline(self) -> str:
        return f"Tree of {len(self)} prototypes, {int(np.sum(self.ended == NONE))} alive"

    def children(self, id: int) -> list[int]:
        """Ids of the prototypes that split from this one."""
        return [int(child) for child in self.id[self.parent == id]]

    def ancestors(self, id: int) -> list[int]:
        """Ids from the parent of a prototype back to the first one."""
        if not 0 <= id < len(self):
            raise KeyError(f"there is no prototype with id {id}; ids run from 0 to {len(self) - 1}")
        line = []
        while (id := int(self.parent[id])) != NONE:
            line.append(id)
        return line


class TreeLog:
    """Collects births and ends while a fit runs."""

    def __init__(self) -> None:
        self._born: list[list[int]] = []  # parent, class and round, by id
        self._ended: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._born)

    def birth(
        self, parents: npt.NDArray[np.int64], classes: npt.NDArray[np.intp], round: int
    ) -> npt.NDArray[np.int64]:
        """Give out new ids."""
        first = len(self._born)
        self._born += [[int(p), int(c), round] for p, c in zip(parents, classes, strict=True)]
        return np.arange(first, len(self._born), dtype=np.int64)

    def end(self, ids: npt.NDArray[np.int64], round: int) -> None:
        """Note that prototypes are no more."""
        self._ended.update((int(i), round) for i in ids)

    def rewind(self, round: int) -> None:
        """Forget all that happened after a round."""
        self._born = [entry for entry in self._born if entry[2] <= round]
        self._ended = {i: when for i, when in self._ended.items() if when <= round}

    def to_tree(self, class_labels: npt.NDArray[np.generic]) -> Tree:
        """Make the table, with classes by their labels."""
        parent, code, born = np.array(self._born, dtype=np.int64).reshape(-1, 3).T
        ended = np.full(len(born), NONE)
        ended[list(self._ended)] = list(self._ended.values())
        return Tree(
            id=np.arange(len(born)), parent=parent, label=class_labels[code], born=born, ended=ended
        )
