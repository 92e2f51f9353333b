"""Decision regions: cells of the prototypes and borders between classes, in a plane."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.ndimage import distance_transform_edt

from dkmeans.geometry import Learned
from dkmeans.plots.borders import borders
from dkmeans.plots.display import Display, inches
from dkmeans.plots.inputs import (
    FittedModel,
    check_labels,
    evenly_spaced,
    take_rows,
    unwrap_pipeline,
)
from dkmeans.plots.projection import Floats, Method, Plane
from dkmeans.plots.style import (
    HATCHES,
    SMALL_PT,
    class_colors,
    class_names,
    hatch,
    marker,
    plural,
    short,
)
from dkmeans.questions.nearest_prototype import nearest

GRID_POINTS = 240  # per side
MAX_LEGEND_CLASSES = 12  # with more classes, labels are written into the regions, too
MAX_LEGEND_LINES = 20
MAX_AXIS_LABEL = 45  # characters
TEXT_IN_REGION = 0.6  # smallest width of a region that gets a label, relative to the label
MAX_MARKER_AREA, MIN_MARKER_AREA = 220.0, 22.0  # square points


@dataclass(repr=False, eq=False)
class CellsDisplay(Display):
    """Cells coloured by class, the border between classes, prototypes, and rows on top.

    Build it with `from_estimator`. With two features, the plot shows the feature space. With more,
    it shows a plane. A cut (plane="pca") goes along the plane in which the prototypes vary most:
    colours and borders are the predictions on that plane; prototypes and rows are projected onto
    it, and may therefore lie on the colour of another class. A projection (plane="classes") shows
    the plane in which the class means vary most: colours and borders are those of the nearest
    prototype in that plane. The title tells for how many rows the colour is the prediction.

    Parameters
    ----------
    plane : Plane
        The plane shown.
    xs, ys : ndarray
        Coordinates of the grid.
    regions : ndarray of shape (len(ys), len(xs))
        Class index of each grid point.
    centers : ndarray of shape (n_clusters, 2)
        Prototypes in the plane.
    heights : ndarray of shape (n_clusters,)
        Distances of the prototypes from the plane; 0 in a projection.
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
    n_hidden : int
        Number of classes that a cut along the PCA plane would hide, if another plane is shown.
    display_labels : list of str, optional
        Names of the classes to display; by default the labels.

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
    n_hidden: int = 0
    display_labels: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        plane: Literal["auto", "pca", "classes"] = "auto",
        max_rows: int = 3000,
        display_labels: Any = None,
        cmap: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the cells of a fitted estimator in a plane.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline, whose earlier steps are then applied to X.
        X : array-like or CSR matrix of shape (n_samples, n_features), optional
            Rows to draw.
        y : array-like of shape (n_samples,), optional
            Their class labels; the predicted ones if not given.
        plane : {"auto", "pca", "classes"}
            Plane shown if there are more than two features. "pca" is a cut along the first two
            principal directions of the prototypes, "classes" a projection onto those of the class
            means. "auto" is "pca", unless some class would have no prototype on its own colour.
        max_rows : int
            Maximum number of rows to draw, evenly spaced.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        cmap : str or matplotlib colour map, optional
            Colours of the classes are taken from it at equal distances; by default they are those
            of a palette for all kinds of colour vision.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : CellsDisplay
            With `figure_` and `ax_` set.

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
        prototypes, sizes = model._fitted.prototypes.centers, model.cluster_sizes_
        rows, labels, notes = _rows_to_draw(opened, X, y, max_rows)
        shown, hidden = _choose_plane(plane, prototypes, sizes, model.cluster_classes_)
        centers, points = shown.project(prototypes), shown.project(rows)
        classes = np.union1d(model.classes_, labels)
        xs, ys = _grid_around(np.concatenate([centers, points]))
        grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
        codes = np.searchsorted(classes, model.cluster_classes_)
        if len(points) and shown.method is not Method.FEATURES:
            below = model.cluster_classes_[shown.owners(points, prototypes)]
            own = nearest(rows.astype(prototypes.dtype), prototypes, 1)[0]
            share = np.mean(below == model.cluster_classes_[own])
            notes.insert(
                0, f"the colour below a row is its predicted class for {share:.0%} of rows"
            )
        display = cls(
            shown,
            xs,
            ys,
            codes[shown.owners(grid, prototypes)].reshape(len(ys), len(xs)),
            centers,
            shown.heights(prototypes),
            codes,
            sizes.astype(np.float64),
            classes,
            _axis_labels(opened, shown),
            points,
            np.searchsorted(classes, labels),
            notes,
            hidden if shown.is_projection else 0,
            display_labels,
        )
        return display.plot(ax, cmap=cmap)

    def plot(self, ax: Any = None, *, cmap: Any = None) -> Self:
        """Draw the cells.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        cmap : str or matplotlib colour map, optional
            Colours of the classes are taken from it at equal distances.

        Returns
        -------
        self : CellsDisplay
            With `figure_` and `ax_` set.
        """
        texts = class_names(self.classes, self.display_labels)
        colors = class_colors(len(self.classes), cmap)
        # About the same scale for both axes, unless the plot would become a narrow strip.
        tall = 4.6 * float(np.clip(np.ptp(self.ys) / np.ptp(self.xs), 0.6, 1.1))
        many = len(self.classes) > MAX_LEGEND_CLASSES
        n_legend_columns = -(-len(self.classes) // MAX_LEGEND_LINES)
        beside = n_legend_columns * (0.065 * max(map(len, texts)) + 0.45) + 0.4 * (not many)
        ax = self._begin(ax, (5.2 + beside, tall + 0.9))
        self._draw_regions(ax, colors)
        for c in np.unique(self.point_classes):
            style = {"ms": 2.6, "mew": 0, "color": colors[c], "alpha": 0.75, "rasterized": True}
            ax.plot(*self.points[self.point_classes == c].T, marker(c), **style)
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
                color=colors[c],
                edgecolors="black",
                linewidths=0.9,
                label=texts[c] if many else f"class {texts[c]}",
                zorder=3,
            )
        across, up = (short(name, MAX_AXIS_LABEL) for name in self.axis_labels)
        ax.set(xlabel=across, ylabel=up)
        ax.set(xlim=self.xs[[0, -1]], ylim=self.ys[[0, -1]])
        self._write_title(ax)
        if many:
            self._name_regions(ax, class_names(self.classes, self.display_labels, 12))
        legend = ax.legend(
            fontsize=SMALL_PT,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            ncols=n_legend_columns,
            columnspacing=1.0,
            handletextpad=0.3,
        )
        for handle in legend.legend_handles:
            handle.set_sizes([36])
        return self

    def _draw_regions(self, ax: Any, colors: list[Any]) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.colors import ListedColormap

        n_classes = len(self.classes)
        ax.pcolormesh(
            self.xs,
            self.ys,
            self.regions,
            cmap=ListedColormap(colors),
            vmin=-0.5,
            vmax=n_classes - 0.5,
            alpha=0.22,
            shading="nearest",
            rasterized=True,
        )
        hatches = np.array([HATCHES.index(hatch(c)) for c in range(n_classes)])[self.regions]
        for number in np.unique(hatches[hatches > 0]):  # many colours are hard to tell apart
            style = {"levels": [0.5, 1.5], "colors": "none", "hatches": [HATCHES[number]]}
            hatched = ax.contourf(self.xs, self.ys, hatches == number, **style)
            hatched.set(edgecolor="0.75", linewidth=0)
        box = np.array([[self.xs[0], self.ys[0]], [self.xs[-1], self.ys[-1]]])
        segments, pairs = borders(self.centers, box, self.heights)
        between = self.center_classes[pairs[:, 0]] != self.center_classes[pairs[:, 1]]
        ax.add_collection(LineCollection(list(segments[~between]), colors="0.5", lw=0.5))
        ax.add_collection(LineCollection(list(segments[between]), colors="black", lw=1.4))

    def _summary(self) -> str:
        what = f"{plural(len(self.centers), 'prototype')} of {len(self.classes)} classes"
        return f"{what}, {plural(len(self.points), 'row')}"

    def _write_title(self, ax: Any) -> None:
        lines = [f"{plural(len(self.centers), 'prototype')}, larger for more rows"]
        share = f"{self.plane.share:.0%} of their variance"
        if self.plane.is_cut and self.plane.n_principal:
            lines.append(f"plane by {self.plane.method.value}, {share}")
        if self.plane.is_cut:
            lines.append("regions: the model on this plane; markers: projected onto it")
        elif self.plane.is_projection:
            n_classes = len(np.unique(self.center_classes))
            why = f" (that of PCA hides {self.n_hidden} of {n_classes} classes)"
            lines.append(f"plane of the class means{why * (self.n_hidden > 0)}")
            lines.append(f"regions: the nearest prototype in this plane, with {share}")
        ax.set_title("\n".join(lines + self.notes), fontsize=SMALL_PT)

    def _name_regions(self, ax: Any, texts: list[str]) -> None:
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
        wide = 72 * inches(ax)[0]
        for c in np.unique(self.regions):
            inside = distance_transform_edt(np.pad(self.regions == c, 1))[1:-1, 1:-1]
            line, column = np.unravel_index(np.argmax(inside), inside.shape)
            room = 2 * inside[line, column] * wide / len(self.xs)
            if room >= TEXT_IN_REGION * 0.6 * SMALL_PT * len(texts[c]):
                place = (self.xs[column], self.ys[line])
                ax.annotate(texts[c], place, path_effects=halo, **style)


def _grid_around(points: Floats) -> tuple[Floats, Floats]:
    low, high = points.min(axis=0), points.max(axis=0)
    widest = (high - low).max() or 1.0
    margin = 0.07 * np.maximum(high - low, 0.2 * widest)
    xs, ys = np.linspace(low - margin, high + margin, GRID_POINTS).T
    return xs, ys


def _rows_to_draw(
    opened: FittedModel, X: Any, y: Any, max_rows: int
) -> tuple[Any, npt.NDArray[Any], list[str]]:
    """Return rows in the space of the prototypes, their labels, and notes."""
    model = opened.model
    space, d = model._fitted.geometry, model._fitted.prototypes.centers.shape[1]
    notes = [opened.steps] if opened.steps else []
    if isinstance(space, Learned):
        notes.append("in the space of the learned metric")
    if X is None:
        if y is not None:
            raise ValueError("y was given without X: pass the rows that it labels.")
        return np.empty((0, d)), np.empty(0, dtype=model.classes_.dtype), notes
    labels = None if y is None else check_labels(X, y, model.classes_)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    which = evenly_spaced(n_rows, max_rows)
    if len(which) < n_rows:
        notes.append(f"{len(which)} of {n_rows} rows shown")
    inputs = opened.rows(take_rows(X, which))
    values = inputs if sp.issparse(inputs) else np.asarray(inputs, dtype=np.float64)
    found = model.predict(inputs) if labels is None else labels[which]
    return space.rows(values), found, notes


def _choose_plane(
    wanted: str,
    prototypes: npt.NDArray[Any],
    sizes: npt.NDArray[np.floating],
    classes: npt.NDArray[Any],
) -> tuple[Plane, int]:
    """Choose a plane; also count the classes that have no prototype on their colour in a cut."""
    if wanted not in ("auto", "pca", "classes"):
        raise ValueError(f"plane={wanted!r} must be 'auto', 'pca' or 'classes'.")
    plane = Plane.through(prototypes, sizes)
    owners = plane.owners(plane.project(prototypes), prototypes)
    hidden = len(np.setdiff1d(classes, classes[classes[owners] == classes]))
    several = plane.is_cut and len(np.unique(classes)) > 1
    if several and (wanted == "classes" or (wanted == "auto" and hidden)):
        plane = Plane.of_class_means(prototypes, sizes, classes)
    return plane, hidden


def _axis_labels(opened: FittedModel, plane: Plane) -> tuple[str, str]:
    if plane.is_projection:
        return "first direction of the class means", "second direction"
    if plane.n_principal == 2:
        return "first principal direction", "second principal direction"
    if plane.n_principal == 1:
        return "direction from one prototype to the other", "a direction at right angles"
    if isinstance(opened.model._fitted.geometry, Learned):
        return "first learned component", "second learned component"
    second = opened.feature(1) if opened.model.n_features_in_ > 1 else ""
    return opened.feature(0), second
