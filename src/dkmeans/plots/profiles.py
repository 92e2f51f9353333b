"""Profiles of prototypes: their values in each column, as a heat map or as lines."""

from dataclasses import dataclass
from textwrap import fill
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.columns import Column, cell_means, prototype_columns
from dkmeans.plots.display import Display, inches
from dkmeans.plots.inputs import unwrap_pipeline
from dkmeans.plots.style import (
    MIN_FONT_PT,
    SMALL_PT,
    class_colors,
    class_names,
    marker,
    plural,
    short,
    weight,
)

LINE_IN, COLUMN_IN = 0.19, 0.52  # size of a cell of the heat map
CHARACTER_IN = 0.065  # width of a character of annotations
MIN_WIDTH_IN = 4.8  # with room for the scale of colours
MAX_NAME = 22  # characters of the name of a column
MAX_DEVIATIONS = 2.5  # where the colours of the heat map end
LIGHT = 0.62  # of the range of colours: cells farther out are too dark for black text
HEATMAP_CMAP = "RdBu_r"
MAX_CLASSES_TOGETHER = 8  # with more, each class has a lane of parallel coordinates
LANE_IN, LANE_PITCH = 0.62, 1.25  # height of a lane, and distance from one to the next in lanes

Kind = Literal["heatmap", "parallel"]


@dataclass(repr=False, eq=False)
class PrototypeProfilesDisplay(Display):
    """Values of the prototypes in each column, in the units of the table.

    Build it with `from_estimator`. The heat map has a line per prototype, coloured by how far it is
    from the mean of all prototypes; parallel coordinates have a line per prototype through one axis
    per column, from the lowest to the highest value of the prototypes shown.

    Parameters
    ----------
    columns : list of Column
        Names and values.
    labels : ndarray of shape (n_clusters,)
        Class label of each prototype.
    sizes : ndarray of shape (n_clusters,)
        Weight of each.
    ids : ndarray of shape (n_clusters,)
        Persistent id of each.
    display_labels : list of str, optional
        Names of the classes to display; by default the labels.
    what : str
        What the values are, for the title.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    columns: list[Column]
    labels: npt.NDArray[Any]
    sizes: npt.NDArray[np.floating]
    ids: npt.NDArray[np.int64]
    display_labels: Any = None
    what: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        kind: Kind = "heatmap",
        max_prototypes: int = 40,
        max_columns: int = 24,
        display_labels: Any = None,
        cmap: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the prototypes of a fitted estimator.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline. Values are in the units of the table for a
            pipeline of `table_pipeline`, and for others whose steps can be undone.
        X : array-like, CSR matrix or table of shape (n_samples, n_features), optional
            Rows: draw the mean of those in each cell instead of the prototype. Refined prototypes
            and those of a learned metric may lie outside of the data, means do not.
        kind : {"heatmap", "parallel"}
            Heat map, or parallel coordinates.
        max_prototypes : int
            Maximum number of prototypes, the heaviest of each class.
        max_columns : int
            Maximum number of columns, those in which the classes differ most.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        cmap : str or matplotlib colour map, optional
            Colours of the heat map, or of the classes in parallel coordinates.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : PrototypeProfilesDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = DiscriminativeKMeans(max_clusters=6).fit(X, y)
        >>> display = PrototypeProfilesDisplay.from_estimator(model)
        >>> display
        PrototypeProfilesDisplay(6 prototypes, 4 columns)
        """
        opened = unwrap_pipeline(estimator)
        model = opened.model
        centers = model.cluster_centers_ if X is None else cell_means(opened, X)
        display = cls(
            prototype_columns(opened, estimator, centers),
            model.cluster_classes_,
            model.cluster_sizes_,
            model.cluster_ids_,
            display_labels,
            _what_is_drawn(model, X),
        )
        return display.plot(
            ax, kind=kind, max_prototypes=max_prototypes, max_columns=max_columns, cmap=cmap
        )

    def plot(
        self,
        ax: Any = None,
        *,
        kind: Kind = "heatmap",
        max_prototypes: int = 40,
        max_columns: int = 24,
        cmap: Any = None,
    ) -> Self:
        """Draw the profiles.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        kind : {"heatmap", "parallel"}
            Heat map, or parallel coordinates.
        max_prototypes : int
            Maximum number of prototypes, the heaviest of each class.
        max_columns : int
            Maximum number of columns, those in which the classes differ most.
        cmap : str or matplotlib colour map, optional
            Colours of the heat map, or of the classes in parallel coordinates.

        Returns
        -------
        self : PrototypeProfilesDisplay
            With `figure_` and `ax_` set.
        """
        if kind not in ("heatmap", "parallel"):
            raise ValueError(f"kind={kind!r} must be 'heatmap' or 'parallel'.")
        for name, most in (("max_prototypes", max_prototypes), ("max_columns", max_columns)):
            if most < 1:
                raise ValueError(f"{name}={most} must be 1 or more.")
        prototypes, columns = self._choose(max_prototypes, max_columns)
        names = class_names(np.unique(self.labels), self.display_labels)
        if kind == "heatmap":
            self._heatmap(ax, prototypes, columns, names, cmap or HEATMAP_CMAP)
        else:
            self._parallel(ax, prototypes, columns, names, cmap)
        self.ax_.set_title(self._title(len(prototypes), len(columns)), fontsize=SMALL_PT + 1)
        return self

    def _choose(
        self, max_prototypes: int, max_columns: int
    ) -> tuple[npt.NDArray[np.intp], list[Column]]:
        """Choose the heaviest prototypes of each class, and the most different columns."""
        _, codes = np.unique(self.labels, return_inverse=True)
        heaviest = np.lexsort((-self.sizes, codes))
        rank = np.empty(len(codes), dtype=np.intp)  # by weight within the class
        starts = np.searchsorted(codes[heaviest], codes[heaviest])
        rank[heaviest] = np.arange(len(codes)) - starts
        chosen = np.lexsort((-self.sizes, rank))[:max_prototypes]
        prototypes = chosen[np.lexsort((-self.sizes[chosen], codes[chosen]))]
        scores = [_between_classes(column.values, codes, self.sizes) for column in self.columns]
        best = np.sort(np.argsort(-np.array(scores), kind="stable")[:max_columns])
        return prototypes, [self.columns[j] for j in best]

    def _title(self, n_prototypes: int, n_columns: int) -> str:
        title = plural(len(self.ids), "prototype")
        if n_prototypes < len(self.ids):
            title = f"{n_prototypes} of {title}: the heaviest of each class"
        title += self.what
        if n_columns < len(self.columns):
            title += f"\n{n_columns} of {len(self.columns)} columns: where classes differ most"
        return title

    def _heatmap(
        self,
        ax: Any,
        prototypes: npt.NDArray[np.intp],
        columns: list[Column],
        names: list[str],
        cmap: Any,
    ) -> None:
        codes = np.unique(self.labels, return_inverse=True)[1]
        lines = [f"#{self.ids[i]} {names[codes[i]]} ({weight(self.sizes[i])})" for i in prototypes]
        widest = max(len(column.texts[i]) for column in columns for i in prototypes)
        column_in = max(COLUMN_IN, CHARACTER_IN * widest + 0.1)
        size = (
            max(column_in * len(columns) + 0.07 * max(map(len, lines)) + 1.2, MIN_WIDTH_IN),
            LINE_IN * len(lines) + 1.9,
        )
        ax = self._begin(ax, size)
        # Cells of axes that a caller has given may be smaller than those of a new figure.
        scale = 1.0
        if not self._owns_figure:
            wide, tall = inches(ax)
            scale = min(1.0, wide / (column_in * len(columns)), tall / (LINE_IN * len(lines)))
        deviations = np.column_stack([_standardise(c.values, self.sizes) for c in columns])
        shown = deviations[prototypes]
        limits = {"vmin": -MAX_DEVIATIONS, "vmax": MAX_DEVIATIONS}
        image = ax.imshow(shown, cmap=cmap, aspect="auto", **limits)
        font = SMALL_PT * scale - 0.5
        if font >= MIN_FONT_PT:
            for line, i in enumerate(prototypes):
                for at, column in enumerate(columns):
                    dark = abs(shown[line, at]) > LIGHT * MAX_DEVIATIONS
                    style = {"ha": "center", "va": "center", "fontsize": font}
                    ax.text(at, line, column.texts[i], color="white" if dark else "black", **style)
        between = np.flatnonzero(np.diff(codes[prototypes])) + 0.5
        ax.hlines(between, -0.5, len(columns) - 0.5, color="black", lw=1.0)
        ax.set_xticks(
            range(len(columns)),
            [short(column.name, MAX_NAME) for column in columns],
            rotation=90 if max(len(c.name) for c in columns) * CHARACTER_IN > column_in else 0,
            fontsize=max(SMALL_PT * scale, MIN_FONT_PT),
        )
        ax.set_yticks(range(len(lines)), lines, fontsize=max(SMALL_PT * scale, MIN_FONT_PT))
        ax.tick_params(length=0)
        ax.set_ylabel("#id class (weight)", fontsize=SMALL_PT)
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.03, pad=0.01, aspect=25, extend="both")
        room = int(LINE_IN * len(lines) / CHARACTER_IN)
        label = fill("standard deviations from the mean", max(room, len("deviations")))
        bar.set_label(label, fontsize=SMALL_PT)
        bar.ax.tick_params(labelsize=SMALL_PT)

    def _parallel(
        self,
        ax: Any,
        prototypes: npt.NDArray[np.intp],
        columns: list[Column],
        names: list[str],
        cmap: Any,
    ) -> None:
        """Draw lines; with many classes, each in a lane of its own above the others in grey."""
        from matplotlib.collections import LineCollection

        codes = np.unique(self.labels, return_inverse=True)[1][prototypes]
        shown = np.unique(codes)
        lanes = shown if len(names) > MAX_CLASSES_TOGETHER else np.array([-1])  # -1: all classes
        beside = 0.075 * max(map(len, names)) + 0.6
        lane_in = 3.2 if len(lanes) == 1 else LANE_IN
        size = (max(0.85 * len(columns), 4.0) + beside, lane_in * len(lanes) + 1.2)
        ax = self._begin(ax, size)
        lane_in = lane_in if self._owns_figure else inches(ax)[1] / len(lanes)
        column_in = 0.85 if self._owns_figure else inches(ax)[0] / len(columns)
        colors = class_colors(len(names), cmap)
        heights = np.column_stack([_rescale(column.values[prototypes]) for column in columns])
        widths = 0.7 + 2.3 * self.sizes[prototypes] / (float(self.sizes.max()) or 1.0)
        places = np.arange(len(columns))
        for lane, only in enumerate(lanes):
            bottom = -LANE_PITCH * lane
            mine = codes == only if only >= 0 else np.ones(len(codes), dtype=bool)
            others = [np.column_stack([places, line + bottom]) for line in heights[~mine]]
            ax.add_collection(LineCollection(others, colors="0.88", lw=0.5, zorder=0))
            ax.vlines(places, bottom, bottom + 1, color="0.6", lw=0.8, zorder=1)
            for i in np.flatnonzero(mine)[::-1]:
                c = int(codes[i])
                style = {"color": colors[c], "lw": widths[i], "ms": 4, "alpha": 0.85}
                ax.plot(places, heights[i] + bottom, "-" + marker(c), **style)
            if only >= 0:
                near = {"va": "center", "ha": "left", "fontsize": SMALL_PT, "color": "black"}
                ax.text(len(columns) - 0.8, bottom + 0.5, names[only], **near)
        bottom = -LANE_PITCH * (len(lanes) - 1)
        pad = 0.08 / lane_in
        note = {"ha": "center", "fontsize": SMALL_PT - 1, "color": "0.25"}
        for at, column in enumerate(columns):
            order = prototypes[np.argsort(column.values[prototypes], kind="stable")]
            ax.text(at, bottom - pad, column.texts[order[0]], va="top", **note)
            ax.text(at, 1 + pad, column.texts[order[-1]], va="bottom", **note)
        texts = [short(column.name, MAX_NAME) for column in columns]
        turn = 90 if max(map(len, texts)) * 0.075 > column_in else 0
        ax.set_xticks(places, texts, rotation=turn, fontsize=SMALL_PT)
        ax.set(xlim=(-0.4, len(columns) - 0.6), yticks=[])
        ax.set_ylim(bottom - 0.36 / lane_in, 1 + 0.3 / lane_in)
        ax.spines[["left", "right", "top", "bottom"]].set_visible(False)
        ax.tick_params(length=0)
        if len(lanes) == 1:
            self._legend(ax, [(names[c], colors[c], marker(c)) for c in shown])

    def _legend(self, ax: Any, entries: list[tuple[str, Any, str]]) -> None:
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], color=c, marker=m, ms=5, label=name) for name, c, m in entries]
        ax.legend(
            handles=handles,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            fontsize=SMALL_PT,
            title="class",
            title_fontsize=SMALL_PT,
            frameon=False,
        )

    def _summary(self) -> str:
        return f"{plural(len(self.ids), 'prototype')}, {plural(len(self.columns), 'column')}"


def _what_is_drawn(model: Any, X: Any) -> str:
    """Say for the title what the values are, if they are not simply those of prototypes."""
    if X is not None:
        return ", means of their rows"
    if model.metric_ != "learned":
        return ""
    return "\npoints of the learned space: values may lie outside of the data"


def _rescale(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Map values to the range from 0 to 1; equal ones to its middle."""
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else np.full(len(values), 0.5)


def _standardise(
    values: npt.NDArray[np.float64], weights: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Return the deviations from the weighted mean, in standard deviations."""
    shares = np.maximum(weights, np.finfo(float).tiny)
    steps = values - np.average(values, weights=shares)
    deviation = float(np.sqrt(np.average(np.square(steps), weights=shares)))
    return steps / (deviation or 1.0)


def _between_classes(
    values: npt.NDArray[np.float64], codes: npt.NDArray[np.intp], weights: npt.NDArray[np.floating]
) -> float:
    """Return the share of the variance of a column that is between classes."""
    steps = _standardise(values, weights)
    totals = np.maximum(np.bincount(codes, weights), np.finfo(float).tiny)
    means = np.bincount(codes, weights * steps) / totals
    return float(np.average(np.square(means), weights=totals))
