"""Tree of splits, over the rounds of all calls to fit."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display, inches
from dkmeans.plots.inputs import unwrap_pipeline
from dkmeans.plots.style import (
    MIN_FONT_PT,
    SMALL_PT,
    class_names,
    color,
    marker,
    plural,
    weight,
)
from dkmeans.results.fit_record import NONE, Tree

LANE_HEIGHT_IN = 0.17


@dataclass(repr=False, eq=False)
class TreeDisplay(Display):
    """Lifetime of each prototype as a line, starting when it splits from its parent.

    Build it with `from_estimator`. A cross marks the end of a prototype that was removed.

    Parameters
    ----------
    tree : Tree
        The tree of splits.
    ids : ndarray
        The prototypes to draw, from top to bottom.
    sizes : dict
        Weight of each prototype of the model, by id.
    classes : ndarray
        Class labels.
    note : str
        Note on what is not shown; may be empty.
    display_labels : list of str, optional
        Names of the classes to display; by default the labels.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    tree: Tree
    ids: npt.NDArray[np.int64]
    sizes: dict[int, float]
    classes: npt.NDArray[Any]
    note: str = ""
    display_labels: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        root: int | None = None,
        max_prototypes: int = 60,
        display_labels: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the tree of a fitted estimator.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline.
        root : int, optional
            Id of a prototype: show only it and its descendants.
        max_prototypes : int
            Maximum number of lines. With more prototypes, only the heaviest and their ancestors
            are drawn, and the title says so.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : TreeDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> model = DiscriminativeKMeans(max_clusters=6).fit(*load_iris(return_X_y=True))
        >>> TreeDisplay.from_estimator(model).ids.tolist()
        [0, 1, 4, 2, 3, 5]
        """
        model = unwrap_pipeline(estimator).model
        if max_prototypes < 1:
            raise ValueError(f"max_prototypes={max_prototypes} must be 1 or more.")
        tree = model.tree_
        sizes = dict(zip(model.cluster_ids_.tolist(), model.cluster_sizes_.tolist(), strict=True))
        family = tree.id.tolist()
        note = ""
        if root is not None:
            if not 0 <= root < len(tree):
                raise ValueError(f"root={root} is no id; ids run from 0 to {len(tree) - 1}.")
            family = [i for i in family if i == root or root in tree.ancestors(i)]
            note = f"#{root} and all that came from it"
        kept = _heaviest(tree, family, sizes, max_prototypes)
        if len(kept) < len(family):
            part = f"{len(kept)} of {len(family)} shown: the heaviest and their ancestors"
            note = f"{note}\n{part}" if note else part
        order = np.array(_lane_order(tree, kept), dtype=np.int64)
        return cls(tree, order, sizes, model.classes_, note, display_labels).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the tree.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        self : TreeDisplay
            With `figure_` and `ax_` set.
        """
        ax = self._begin(ax, (7.0, max(2.2, LANE_HEIGHT_IN * len(self.ids) + 1.1)))
        time_axis = _TimeAxis(self.tree)
        lane = {int(i): n for n, i in enumerate(self.ids)}
        codes = np.searchsorted(self.classes, self.tree.label)
        texts = class_names(self.classes, self.display_labels, 14)
        heaviest = max(self.sizes.values(), default=1.0) or 1.0
        height = _lane_height(ax, len(lane))
        font = min(0.7 * height, SMALL_PT)
        for i, y in lane.items():
            c = int(codes[i])
            x, end = time_axis.born(i), time_axis.ended(i)
            if self.tree.parent[i] in lane:
                above = lane[int(self.tree.parent[i])]
                ax.plot([x, x], [above, y], "-", color="0.6", lw=0.9, zorder=1)
            ax.plot([x, end], [y, y], "-", color=color(c), lw=1.6, zorder=2)
            label = f"#{i} {texts[c]}"
            if i in self.sizes:
                area = min(12 + 60 * self.sizes[i] / heaviest, height**2)
                label += f" ({weight(self.sizes[i])})"
                style = {"edgecolors": "black", "linewidths": 0.6, "zorder": 3, "clip_on": False}
                ax.scatter(end, y, s=area, marker=marker(c), color=color(c), **style)
            else:
                ax.plot(end, y, "x", color="black", ms=4, zorder=3)
                label += " (ended)"
            offset = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
            if font >= MIN_FONT_PT:
                ax.annotate(label, (end, y), fontsize=font, **offset, annotation_clip=False)
        time_axis.label(ax)
        ax.set(yticks=[], ylim=(len(lane) - 0.3, -0.7))
        ax.spines[["left", "right", "top"]].set_visible(False)
        ax.set_title(self._title(named=font >= MIN_FONT_PT), fontsize=9)
        return self

    def _summary(self) -> str:
        return f"{len(self.ids)} of {plural(len(self.tree), 'prototype')}"

    def _title(self, *, named: bool) -> str:
        lived, alive = len(self.tree), int(np.sum(self.tree.ended == NONE))
        key = "#id class (weight)" if named else "a taller figure has room for names"
        title = f"{plural(lived, 'prototype')}, {alive} alive: {key}"
        return f"{title}\n{self.note}" if self.note else title


class _TimeAxis:
    """Maps the rounds of all calls to positions on one axis."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        calls = range(1, 1 + max(int(tree.call.max()), int(tree.ended_call.max())))
        lengths = [
            max(
                tree.born[tree.call == call].max(initial=0),
                tree.ended[tree.ended_call == call].max(initial=0),
            )
            for call in calls
        ]
        # A gap of one separates the last round of a call from the first of the next.
        self.starts = np.concatenate([[0], np.cumsum(np.array(lengths) + 1)])
        self.now = int(self.starts[-1])

    def born(self, i: int) -> int:
        return int(self.starts[self.tree.call[i] - 1] + self.tree.born[i])

    def ended(self, i: int) -> int:
        if self.tree.ended[i] == NONE:
            return self.now
        return int(self.starts[self.tree.ended_call[i] - 1] + self.tree.ended[i])

    def label(self, ax: Any) -> None:
        """Label the rounds, or the calls if there are several."""
        from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

        n_calls = len(self.starts) - 1
        # Names of prototypes are written to the right of the axes.
        ax.set_xlim(-0.02 * self.now - 0.1, self.now + 0.02)
        if n_calls == 1:
            ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, prune="upper"))
            ax.set_xlabel("round")
            return
        ax.xaxis.set_major_locator(FixedLocator(self.starts[:-1].tolist()))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda _, n: f"call {n + 1}"))
        for start in self.starts[1:-1]:
            ax.axvline(start - 0.5, color="0.8", lw=0.8, ls=":", zorder=0)
        ax.set_xlabel("rounds of each call")


def _heaviest(tree: Tree, family: list[int], sizes: dict[int, float], most: int) -> set[int]:
    """Choose the heaviest prototypes of a family with their ancestors, at most `most` in all."""
    if len(family) <= most:
        return set(family)
    mine = set(family)
    kept: set[int] = set()
    for i in sorted(mine & set(sizes), key=lambda i: (-sizes[i], i)):
        line = {i, *tree.ancestors(i)} & mine
        if len(kept | line) <= most:
            kept |= line
    return kept


def _lane_order(tree: Tree, kept: set[int]) -> list[int]:
    """Order lanes so that no two lines cross: later children are nearer to their parent."""
    children: dict[int, list[int]] = {i: [] for i in kept}
    roots: list[int] = []
    for i in sorted(kept, key=lambda i: (-tree.call[i], -tree.born[i], i)):
        parent = int(tree.parent[i])
        (children[parent] if parent in kept else roots).append(i)
    order, waiting = [], roots[::-1]
    while waiting:
        i = waiting.pop()
        order.append(i)
        waiting += reversed(children[i])
    return order


def _lane_height(ax: Any, n_lanes: int) -> float:
    """Estimate the points per lane before the layout is known."""
    return 72 * inches(ax)[1] / (n_lanes + 1)
