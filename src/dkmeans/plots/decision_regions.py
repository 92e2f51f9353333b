"""Decision regions: cells of the prototypes and borders between classes, in a plane."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.ndimage import distance_transform_edt

from dkmeans.geometry import Learned
from dkmeans.plots.borders import borders
from dkmeans.plots.display import Display
from dkmeans.plots.inputs import (
    FittedModel,
    check_labels,
    evenly_spaced,
    take_rows,
    unwrap_pipeline,
)
from dkmeans.plots.projection import Floats, Plane
from dkmeans.plots.style import COLORS, HATCHES, SMALL_PT, color, marker, names, plural, short
from dkmeans.questions.nearest_prototype import nearest

GRID_POINTS = 240  # per side
MAX_LEGEND_CLASSES = 12  # with more classes, labels are written into the regions
MAX_AXIS_LABEL = 45  # characters
MIN_REGION_SHARE = 0.035  # of the width: smaller regions get no label
MAX_MARKER_AREA, MIN_MARKER_AREA = 220.0, 22.0  # square points


@dataclass
class CellsDisplay(Display):
    """Cells coloured by class, the border between classes, prototypes, and rows on top.

    Build it with `from_estimator`. With two features, the plot shows the feature space. With more,
    it shows a cut along the plane in which the prototypes vary most: colours and borders are the
    predictions on that plane; prototypes and rows are projected onto it, and may therefore lie on
    the colour of another class.

    Parameters
    ----------
    plane : Plane
        The plane shown.
    xs, ys : ndarray
        Coordinates of the grid.
    regions : ndarray of shape (len(ys), len(xs))
        Index of the predicted class at each grid point.
    centers : ndarray of shape (n_clusters, 2)
        Prototypes in the plane.
    heights : ndarray of shape (n_clusters,)
        Distances of the prototypes from the plane.
    center_classes : ndarray of shape (n_clusters,)
        Class indices of the prototypes.
    sizes : ndarray of shape (n_clusters,)
        Their weights.
    classes : ndarray
        Class labels.
    axis_labels : pair of str
        Labels of the axes.
    points : ndarray of shape (n, 2)
        Rows projected onto the plane; may be empty.
    point_classes : ndarray of shape (n,)
        Class indices of the rows.
    notes : list of str
        Further lines of the title.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    plane: Plane
    xs: Floats
    ys: Floats
    regions: npt.NDArray[np.intp]
    centers: Floats
    heights: Floats
    center_classes: npt.NDArray[np.intp]
    sizes: Floats
    classes: npt.NDArray[Any]
    axis_labels: tuple[str, str]
    points: Floats
    point_classes: npt.NDArray[np.intp]
    notes: list[str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, max_rows: int = 3000
    ) -> Self:
        """Predict the class at each point of a plane.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline, whose earlier steps are then applied to X.
        X : array-like or CSR matrix of shape (n_samples, n_features), optional
            Rows to draw.
        y : array-like of shape (n_samples,), optional
            Their class labels; the predicted ones if not given.
        max_rows : int
            Maximum number of rows to draw, evenly spaced.

        Returns
        -------
        display : CellsDisplay
            Call `plot()` on it.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=6).fit(X, y)
        >>> display = CellsDisplay.from_estimator(model, X, y)
        >>> display.centers.shape, display.plane.is_cut
        ((6, 2), True)
        """
        opened = unwrap_pipeline(estimator)
        model = opened.model
        space, prototypes = model._fitted.geometry, model._fitted.prototypes.centers
        plane = Plane.through(prototypes, model.cluster_sizes_)
        centers = plane.project(prototypes)
        notes = [opened.steps] if opened.steps else []
        if isinstance(space, Learned):
            notes.append("in the space of the learned metric")
        points, labels = np.empty((0, 2)), np.empty(0, dtype=model.classes_.dtype)
        if X is not None:
            if y is not None:
                y = check_labels(X, y, model.classes_)
            n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
            which = evenly_spaced(n_rows, max_rows)
            if len(which) < n_rows:
                notes.append(f"{len(which)} of {n_rows} rows shown")
            rows = opened.rows(take_rows(X, which))
            labels = model.predict(rows) if y is None else y[which]
            values = rows if sp.issparse(rows) else np.asarray(rows, dtype=np.float64)
            points = plane.project(space.rows(values))
        elif y is not None:
            raise ValueError("y was given without X: pass the rows that it labels.")
        classes = np.union1d(model.classes_, labels)
        xs, ys = _grid_around(np.concatenate([centers, points]))
        regions = _predict_grid(model, plane, xs, ys)
        return cls(
            plane,
            xs,
            ys,
            np.searchsorted(classes, regions),
            centers,
            plane.heights(prototypes),
            np.searchsorted(classes, model.cluster_classes_),
            model.cluster_sizes_.astype(np.float64),
            classes,
            _axis_labels(opened, plane),
            points,
            np.searchsorted(classes, labels),
            notes,
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw the cells.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        self : CellsDisplay
            With `figure_` and `ax_` set.
        """
        # About the same scale for both axes, unless the plot would become a narrow strip.
        tall = 4.6 * float(np.clip(np.ptp(self.ys) / np.ptp(self.xs), 0.6, 1.1))
        ax = self._begin(ax, (6.4, tall + 0.9))
        self._draw_regions(ax)
        many = len(self.classes) > MAX_LEGEND_CLASSES
        for c in np.unique(self.point_classes):
            style = {"ms": 2.6, "mew": 0, "color": color(c), "alpha": 0.75, "rasterized": True}
            ax.plot(*self.points[self.point_classes == c].T, marker(c), **style)
        texts = names(self.classes)
        areas = np.maximum(
            MAX_MARKER_AREA * self.sizes / (self.sizes.max() or 1.0), MIN_MARKER_AREA
        )
        if len(areas) > 60:
            areas = areas / 4
        for c in np.unique(self.center_classes):
            mine = self.center_classes == c
            ax.scatter(
                *self.centers[mine].T,
                s=areas[mine],
                marker=marker(c),
                color=color(c),
                edgecolors="black",
                linewidths=0.9,
                label=f"class {texts[c]}",
                zorder=3,
            )
        across, up = (short(name, MAX_AXIS_LABEL) for name in self.axis_labels)
        ax.set(xlabel=across, ylabel=up)
        ax.set(xlim=self.xs[[0, -1]], ylim=self.ys[[0, -1]])
        self._write_title(ax)
        if many:
            self._name_regions(ax)
        else:
            self._legend(ax)
        return self

    def _draw_regions(self, ax: Any) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.colors import ListedColormap

        n_classes = len(self.classes)
        ax.pcolormesh(
            self.xs,
            self.ys,
            self.regions,
            cmap=ListedColormap([color(c) for c in range(n_classes)]),
            vmin=-0.5,
            vmax=n_classes - 0.5,
            alpha=0.22,
            shading="nearest",
            rasterized=True,
        )
        for cycle in range(1, -(-n_classes // len(COLORS))):
            again = self.regions // len(COLORS) == cycle
            if again.any():  # colours repeat, so hatching distinguishes the classes
                hatch = HATCHES[cycle % len(HATCHES)]
                style = {"levels": [0.5, 1.5], "colors": "none", "hatches": [hatch]}
                hatched = ax.contourf(self.xs, self.ys, again, **style)
                hatched.set(edgecolor="0.65", linewidth=0)
        box = np.array([[self.xs[0], self.ys[0]], [self.xs[-1], self.ys[-1]]])
        segments, pairs = borders(self.centers, box, self.heights)
        between = self.center_classes[pairs[:, 0]] != self.center_classes[pairs[:, 1]]
        ax.add_collection(LineCollection(list(segments[~between]), colors="0.5", lw=0.5))
        ax.add_collection(LineCollection(list(segments[between]), colors="black", lw=1.4))

    def _write_title(self, ax: Any) -> None:
        lines = [f"{plural(len(self.centers), 'prototype')}, larger for more rows"]
        if self.plane.n_principal:
            share = f"{self.plane.share:.0%} of their variance"
            lines.append(f"plane by PCA of the prototypes, {share}")
        if self.plane.is_cut:
            lines.append("regions: the model on this plane; markers: projected onto it")
        ax.set_title("\n".join(lines + self.notes), fontsize=SMALL_PT)

    def _legend(self, ax: Any) -> None:
        legend = ax.legend(fontsize=SMALL_PT, loc="center left", bbox_to_anchor=(1.0, 0.5))
        for handle in legend.legend_handles:
            handle.set_sizes([36])

    def _name_regions(self, ax: Any) -> None:
        """Write the class into each region that is large enough, as far inside as possible."""
        from matplotlib import patheffects

        halo = [patheffects.withStroke(linewidth=2.2, foreground="white")]
        style = {
            "ha": "center",
            "va": "center",
            "fontsize": SMALL_PT,
            "weight": "bold",
            "zorder": 4,
        }
        texts = names(self.classes, 12)
        for c in np.unique(self.regions):
            inside = distance_transform_edt(np.pad(self.regions == c, 1))[1:-1, 1:-1]
            line, column = np.unravel_index(np.argmax(inside), inside.shape)
            if inside[line, column] >= MIN_REGION_SHARE * len(self.xs):
                place = (self.xs[column], self.ys[line])
                ax.annotate(texts[c], place, path_effects=halo, **style)


def _grid_around(points: Floats) -> tuple[Floats, Floats]:
    low, high = points.min(axis=0), points.max(axis=0)
    widest = (high - low).max() or 1.0
    margin = 0.07 * np.maximum(high - low, 0.2 * widest)
    xs, ys = np.linspace(low - margin, high + margin, GRID_POINTS).T
    return xs, ys


def _predict_grid(model: Any, plane: Plane, xs: Floats, ys: Floats) -> npt.NDArray[Any]:
    """Predict the class on a grid of the plane, line by line to save memory."""
    centers = model._fitted.prototypes.centers
    lines = []
    for y in ys:
        points = plane.lift(np.column_stack([xs, np.full_like(xs, y)])).astype(centers.dtype)
        lines.append(model.cluster_classes_[nearest(points, centers, 1)[0]])
    return np.stack(lines)


def _axis_labels(opened: FittedModel, plane: Plane) -> tuple[str, str]:
    if plane.n_principal == 2:
        return "first principal direction", "second principal direction"
    if plane.n_principal == 1:
        return "direction from one prototype to the other", "a direction at right angles"
    if isinstance(opened.model._fitted.geometry, Learned):
        return "first learned component", "second learned component"
    second = opened.feature(1) if opened.model.n_features_in_ > 1 else ""
    return opened.feature(0), second
