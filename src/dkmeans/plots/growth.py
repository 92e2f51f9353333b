"""Growth of a model in the plane, round by round."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.fit import start_run
from dkmeans.geometry import AUTO, LEARNED
from dkmeans.growth.grow import grow
from dkmeans.plots.borders import borders
from dkmeans.plots.display import PanelsDisplay, inches
from dkmeans.plots.style import class_names, color, marker, plural
from dkmeans.prepare import prepare
from dkmeans.prototypes import Prototypes
from dkmeans.questions.nearest_prototype import nearest

GRID_POINTS = 300  # per side
PANEL_WIDTH_IN = 3.2
MAX_ROW_ENTRIES = 6  # with more classes, the legend lists prototypes only


@dataclass(frozen=True)
class Panel:
    """The prototypes after one round."""

    round: int
    prototypes: Prototypes
    n_mixed: int


@dataclass(repr=False, eq=False)
class GrowthDisplay(PanelsDisplay):
    """Points, centres and cells after each round of a fit in two dimensions.

    Build it with `from_estimator`.

    Parameters
    ----------
    X : ndarray of shape (n_samples, 2)
        Rows.
    y : ndarray of shape (n_samples,)
        Class indices.
    classes : ndarray
        Class labels.
    panels : list of Panel
        States to draw.
    display_labels : list of str, optional
        Names of the classes to display; by default the labels.

    Attributes
    ----------
    figure_, axes_ : matplotlib figure and array of axes
        Where it is drawn.
    """

    X: npt.NDArray[np.floating]
    y: npt.NDArray[np.intp]
    classes: npt.NDArray[Any]
    panels: list[Panel]
    display_labels: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: DiscriminativeKMeans,
        X: Any,
        y: Any,
        *,
        max_panels: int = 12,
        columns: int = 4,
        display_labels: Any = None,
        ax: Any = None,
    ) -> Self:
        """Fit a copy of an estimator, and draw its prototypes after each round.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Its parameters are used; it is not changed. `metric="auto"` is drawn with Euclidean
            distances.
        X : array-like of shape (n_samples, 2)
            Rows with two features.
        y : array-like of shape (n_samples,)
            Class labels.
        max_panels : int
            Maximum number of panels; with more rounds, some in the middle are left out.
        columns : int
            Panels per line.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.

        Returns
        -------
        display : GrowthDisplay
            With `figure_` and `axes_` set.
        """
        if estimator.metric == AUTO:
            estimator = clone(estimator).set_params(metric="euclidean")
        if estimator.metric == LEARNED:
            raise ValueError(
                "metric='learned' compares rows in a space of its own, and growth is drawn in that "
                "of X: use metric='euclidean', or draw the fitted model by CellsDisplay."
            )
        with prepare(clone(estimator), X, y, None) as prepared:
            training = prepared.training
            if training.X.shape[1] != 2:
                raise ValueError(
                    f"X has {training.X.shape[1]} features; growth is drawn for 2. CellsDisplay "
                    "draws a fitted model with more."
                )
            run, _ = start_run(prepared)
            states = [Panel(s.round, s.prototypes, s.n_mixed) for s in grow(run)]
        kept = _choose_rounds(len(states), max_panels)
        panels = [states[i] for i in kept]
        display = cls(training.X, training.y, training.classes, panels, display_labels)
        return display.plot(ax, columns=columns)

    def plot(self, ax: Any = None, *, columns: int = 4) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.
        columns : int
            Panels per line.

        Returns
        -------
        self : GrowthDisplay
            With `figure_` and `axes_` set.
        """
        columns = min(columns, len(self.panels))
        lines = -(-len(self.panels) // columns)
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        margin = 0.08 * (high - low).max() or 1.0
        box = np.stack([low - margin, high + margin])
        width, height = box[1] - box[0]
        tall = PANEL_WIDTH_IN * float(np.clip(height / width, 0.3, 2)) + 0.35
        wide = PANEL_WIDTH_IN * columns if ax is None else ax.figure.bbox.width / ax.figure.dpi
        n_entries, n_columns = self._entries(wide)
        size = (wide, tall * lines + 0.3 + 0.22 * -(-n_entries // n_columns))
        panels = self._begin_panels(ax, lines, columns, size, sharex=True, sharey=True)
        for axes, panel in zip(panels.flat, self.panels, strict=False):
            self._draw(axes, panel, box)
        for axes in panels.flat[len(self.panels) :]:
            axes.set_visible(False)
        handles, labels = panels.flat[0].get_legend_handles_labels()
        self.figure_.legend(
            handles[-n_entries:],
            labels[-n_entries:],
            loc="outside lower center",
            ncols=n_columns,
            markerscale=1.6 if n_entries == len(labels) else 1.0,
        )
        return self

    def _names(self) -> list[str]:
        return class_names(self.classes, self.display_labels)

    def _summary(self) -> str:
        return f"{len(self.classes)} classes, {plural(len(self.panels), 'panel')}"

    def _entries(self, wide: float) -> tuple[int, int]:
        """Return the number of legend entries, and of legend columns that fit in `wide` inches."""
        n_classes = len(self.classes)
        # Rows have the colour and marker of their prototypes, which suffice with many classes.
        n_entries = 2 * n_classes if n_classes <= MAX_ROW_ENTRIES else n_classes
        longest = len("prototype of class ") + max(map(len, self._names()))
        return n_entries, min(n_entries, max(1, int(wide / (0.09 * longest + 0.45))))

    def _draw(self, axes: Any, panel: Panel, box: npt.NDArray[np.floating]) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.colors import ListedColormap

        prototypes = panel.prototypes
        xs, ys = (np.linspace(box[0, j], box[1, j], GRID_POINTS) for j in (0, 1))
        plane = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2).astype(self.X.dtype)
        owner = nearest(plane, prototypes.centers, 1)[0].reshape(GRID_POINTS, GRID_POINTS)
        n_classes = len(self.classes)
        axes.pcolormesh(
            xs,
            ys,
            prototypes.classes[owner],
            cmap=ListedColormap([color(c) for c in range(n_classes)]),
            vmin=-0.5,
            vmax=n_classes - 0.5,
            alpha=0.18,
            rasterized=True,
        )
        segments, _ = borders(prototypes.centers, box)
        axes.add_collection(LineCollection(list(segments), colors="0.45", lw=0.6))
        for c, label in enumerate(self._names()):
            rows = self.X[self.y == c]
            small = {"ms": 2.2, "mew": 0, "color": color(c), "alpha": 0.7}
            axes.plot(*rows.T, marker(c), **small, label=f"class {label}")
        for c, label in enumerate(self._names()):
            centers = prototypes.centers[prototypes.classes == c]
            style = {"ms": 7, "mec": "black", "mew": 0.9, "color": color(c)}
            axes.plot(*centers.T, marker(c), **style, label=f"prototype of class {label}")
        title = "start" if panel.round == 0 else f"round {panel.round}"
        clusters = plural(len(prototypes), "cluster")
        between, font = (" ", 9) if inches(axes)[0] > 2 else ("\n", 7)
        text = f"{title}:{between}{clusters}, {panel.n_mixed} mixed"
        axes.set_title(text, fontsize=font)
        axes.set(xlim=box[:, 0], ylim=box[:, 1], aspect="equal", xticks=[], yticks=[])


def _choose_rounds(n_states: int, max_panels: int) -> list[int]:
    """Choose the rounds to show: all if they fit, else the last and mostly early ones."""
    if n_states <= max_panels:
        return list(range(n_states))
    wanted = np.geomspace(1, n_states, max_panels) - 1
    # Where rounding makes neighbours equal, use the next round instead.
    return [max(round(w), i) for i, w in enumerate(wanted)]
