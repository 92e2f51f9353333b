"""Tables that describe a fit: rounds, numbers of clusters, the tree of prototypes, changes."""

import time
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.prototypes import Prototypes
from dkmeans.results.table import Table

NONE = -1  # in place of an id, a call or a round


class Clock:
    """Measures the time of a fit.

    A fit that is resumed passes over what an earlier attempt has done. Its clock is set forward by
    the time that this took.
    """

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def now(self) -> float:
        """Return the seconds since the start of the fit."""
        return time.perf_counter() - self._start

    def set_forward(self, seconds: float) -> None:
        """Count seconds that have not passed now."""
        self._start -= seconds


class Laps:
    """Measures the time from one record to the next."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._last = clock, clock.now()

    def lap(self) -> float:
        """Return the seconds since the last call, or since this was made."""
        now = self._clock.now()
        seconds, self._last = now - self._last, now
        return seconds


class History(Table):
    """One row per round of a fit. Each row describes the state at the end of the round.

    Attributes
    ----------
    round : int
        Number of the round, from 1; 0 for what comes before: "search", "metric" and "start".
    phase : str
        "grow" for the paper's rounds; "sample" for rounds on a sample of the rows, where sums are
        estimates; "freeze", "fill" and "settle" belong to the guaranteed ending (see the guide),
        "restore" to bringing back classes that have lost their last prototype, "prune" to
        pruning, "refine" to margin refinement. "search" is the search of `max_clusters="auto"`:
        its state with the chosen number of clusters, and the time that all of it took. The passes
        that refined a model of the search are in the history of `at(k)`. "metric" is
        the choice of the metric that growth starts in, with the state that growth starts from.
        "start" is the model that `at(k, X, y)` starts from, if it refined nothing.
    clusters : int
        Prototypes that own at least one row.
    mixed : int
        Cells that hold more than one class.
    impurity : float
        Share of the weight that is not of its cell's heaviest class.
    moved : int
        Rows that changed their prototype.
    inertia : float
        Weighted sum of squared distances to the assigned centres.
    cost : float
        Mean margin cost of the rows: averaged over noise in refinement, without noise in
        growth="best", nan elsewhere.
    seconds : float
        Time since the row before. The first row includes the time of reading the data. After a
        fit that was resumed from a checkpoint, it includes the time before the stop, up to the
        last pass that the checkpoint has. The last row includes the time of a refinement that a
        listener ended.
    """

    @classmethod
    def from_records(cls, records: list[dict[str, Any]]) -> Self:
        """Build a table from records with the same keys."""
        return cls(**{name: [record[name] for record in records] for name in records[0]})

    def after(self, record: dict[str, Any]) -> Self:
        """Return the table with a record before all others."""
        return type(self)(**{n: [record[n], *getattr(self, n).tolist()] for n in self.columns})

    def _headline(self) -> str:
        return f"History of {np.count_nonzero(self.round)} rounds"


class Path(Table):
    """One row per number of clusters during growth; `model.at(k)` returns the model.

    With `max_clusters="auto"` the models on the path were fitted without the held-out rows; only
    the model with the chosen number of clusters was fitted on all rows. Where `refined` is False,
    the model is as growth left it; `model.at(k, X, y)` refines it.

    Attributes
    ----------
    clusters : int
        Number of prototypes.
    training_error : float
        Weighted share of the rows that lie in a cell of another class.
    heldout_error : float
        The same for held-out rows, with `max_clusters="auto"`; nan elsewhere.
    cost : float
        Mean margin cost of the rows, with `growth="best"` or after refinement; nan elsewhere.
    inertia : float
        Weighted sum of squared distances to the assigned centres.
    refined : bool
        Whether the prototypes were refined after growth: those of the result, and with
        `max_clusters="auto"` those that were tried, in a few passes. A learned metric is learned
        together with the prototypes, which refines these even with `refine=None`.
    """

    def plot(self, ax: Any = None) -> Any:
        """Plot the errors against the number of clusters (matplotlib must be installed).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : PathDisplay
            It has the attributes `figure_` and `ax_`.
        """
        from dkmeans.plots.path import PathDisplay

        return PathDisplay(self).plot(ax)

    def _headline(self) -> str:
        text = f"Path through {len(self)} number{'' if len(self) == 1 else 's'} of clusters"
        if "refined" not in self.columns:  # from a file of an earlier version
            return text
        return f"{text}, {int(np.sum(self.refined)) or 'none'} of them refined"


class Tree(Table):
    """Every prototype that has ever existed, one row each, in the order of their ids.

    Attributes
    ----------
    id : int
        Permanent id, never reused.
    parent : int
        Id of the prototype it split from, -1 for the first.
    label : class label
        Its class, which never changes.
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
        """Return the tree as it was after a round of a call."""
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
    """Record of births and ends during a fit.

    Parameters
    ----------
    tree : Tree, optional
        Tree to continue; a new log if not given.
    codes : array, optional
        Class of each row of the tree, by number.
    """

    def __init__(self, tree: Tree | None = None, codes: npt.NDArray[np.intp] | None = None) -> None:
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
        """Assign new ids."""
        first = len(self._born)
        self._born += [
            (int(p), int(c), self.call, round) for p, c in zip(parents, classes, strict=True)
        ]
        return np.arange(first, len(self._born), dtype=np.int64)

    def end(self, ids: npt.NDArray[np.int64], round: int) -> None:
        """Record that prototypes were removed."""
        self._ended.update((int(i), (self.call, round)) for i in ids)

    def rewind(self, round: int) -> None:
        """Discard everything after a round of this call."""
        now = (self.call, round)
        self._born = [entry for entry in self._born if entry[2:] <= now]
        self._ended = {i: when for i, when in self._ended.items() if when <= now}

    def to_tree(self, class_labels: npt.NDArray[np.generic]) -> Tree:
        """Build the table, with class labels in place of class numbers."""
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


class Changes(Table):
    """One row per change that a call made; unchanged prototypes are not listed.

    Attributes
    ----------
    id : int
        Id of the prototype.
    label : class label
        Its class.
    change : str
        "added", "moved", "split" (it has new children) or "removed". One that split and moved has
        two rows.
    distance : float
        Distance it moved, else NaN.
    """

    def _headline(self) -> str:
        kinds, counts = np.unique(self.change, return_counts=True)
        listed = ", ".join(f"{n} {kind}" for kind, n in zip(kinds, counts, strict=True))
        return f"Changes: {listed or 'none'}"


def describe_changes(
    before: Prototypes | None, after: Prototypes, tree: Tree, call: int
) -> Changes:
    """Compare prototypes before and after a call."""
    old = {} if before is None else dict(zip(before.ids.tolist(), before.centers, strict=True))
    new = dict(zip(after.ids.tolist(), after.centers, strict=True))
    rows: list[tuple[int, str, float]] = []
    for i, center in new.items():
        if i not in old:
            rows.append((i, "added", np.nan))
        elif not np.array_equal(center, old[i]):
            rows.append((i, "moved", float(np.linalg.norm(center.astype(float) - old[i]))))
    parents = set(tree.parent[(tree.call == call) & np.isin(tree.id, after.ids)].tolist())
    rows += [(i, "split", np.nan) for i in old if i in parents]
    rows += [(i, "removed", np.nan) for i in old if i not in new]
    rows.sort(key=lambda row: row[:2])
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    return Changes(
        id=ids,
        label=tree.label[ids],
        change=np.array([row[1] for row in rows], dtype="U7"),
        distance=np.array([row[2] for row in rows], dtype=np.float64),
    )
