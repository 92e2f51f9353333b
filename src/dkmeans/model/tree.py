"""Who split from whom: the family tree of the prototypes."""

from typing import Self

import numpy as np
import numpy.typing as npt

from dkmeans.model.table import Table

NONE = -1


class Tree(Table):
    """Every prototype that ever lived, one row each, in the order of their ids.

    Attributes
    ----------
    id : int
        Lasting identity, never reused.
    parent : int
        Id of the prototype it came from, -1 for the first.
    label : class label
        Its class, for life.
    call, born : int
        The call of `fit`, `partial_fit` or an edit, from 1, and the round of it, in which it
        appeared.
    ended_call, ended : int
        The same for its end; -1 for those still alive.
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

    def until(self, call: int, round: int) -> Self:
        """Go back to what the tree was after a round of a call."""
        early = self.take(_not_after(self.call, self.born, call, round))
        over = (early.ended != NONE) & _not_after(early.ended_call, early.ended, call, round)
        columns = {name: getattr(early, name) for name in early.columns}
        for name in ("ended_call", "ended"):
            columns[name] = np.where(over, columns[name], NONE)
        return type(self)(**columns)


def _not_after(
    calls: npt.NDArray[np.int64], rounds: npt.NDArray[np.int64], call: int, round: int
) -> npt.NDArray[np.bool_]:
    return (calls < call) | ((calls == call) & (rounds <= round))


class TreeLog:
    """Collects births and ends while fits run."""

    def __init__(self, tree: Tree | None = None, codes: npt.NDArray[np.intp] | None = None) -> None:
        """Begin a new log, or go on from a tree, whose labels are classes with these numbers."""
        self._born: list[tuple[int, int, int, int]] = []  # parent, class, call and round, by id
        self._ended: dict[int, tuple[int, int]] = {}  # call and round
        self.call = 1
        if tree is not None and codes is not None:
            columns = (tree.parent, codes, tree.call, tree.born)
            self._born = list(zip(*(c.tolist() for c in columns), strict=True))
            gone = np.flatnonzero(tree.ended != NONE)
            self._ended = {int(i): (int(tree.ended_call[i]), int(tree.ended[i])) for i in gone}
            self.call = 1 + max(int(tree.call.max()), int(tree.ended_call.max()))

    def __len__(self) -> int:
        return len(self._born)

    def birth(
        self, parents: npt.NDArray[np.int64], classes: npt.NDArray[np.intp], round: int
    ) -> npt.NDArray[np.int64]:
        """Give out new ids."""
        first = len(self._born)
        self._born += [
            (int(p), int(c), self.call, round) for p, c in zip(parents, classes, strict=True)
        ]
        return np.arange(first, len(self._born), dtype=np.int64)

    def end(self, ids: npt.NDArray[np.int64], round: int) -> None:
        """Note that prototypes are no more."""
        self._ended.update((int(i), (self.call, round)) for i in ids)

    def rewind(self, round: int) -> None:
        """Forget all that happened after a round of this call."""
        now = (self.call, round)
        self._born = [entry for entry in self._born if entry[2:] <= now]
        self._ended = {i: when for i, when in self._ended.items() if when <= now}

    def to_tree(self, class_labels: npt.NDArray[np.generic]) -> Tree:
        """Make the table, with classes by their labels."""
        parent, code, call, born = np.array(self._born, dtype=np.int64).reshape(-1, 4).T
        ended = np.full((2, len(born)), NONE)
        for i, when in self._ended.items():
            ended[:, i] = when
        return Tree(
            id=np.arange(len(born)),
            parent=parent,
            label=class_labels[code],
            call=call,
            born=born,
            ended_call=ended[0],
            ended=ended[1],
        )
