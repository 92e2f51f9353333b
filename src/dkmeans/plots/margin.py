"""Distances of rows to their own class and to the nearest rival class."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.inputs import check_labels, evenly_spaced, take_rows, unwrap_any
from dkmeans.plots.style import SMALL_PT, color, plural

TILE_DISTANCES = 1 << 22  # distances in memory at a time
MAX_ROWS = 10_000


@dataclass(repr=False, eq=False)
class MarginDisplay(Display):
    """Distance to the nearest prototype of the own class against that to the nearest rival.

    Build it with `from_estimator`. Rows above the diagonal are nearer to their own class; the
    farther above, the safer.

    Parameters
    ----------
    own : ndarray of shape (n_samples,)
        Distance of each row to the nearest prototype of its class; infinite if there is none.
    rival : ndarray of shape (n_samples,)
        Distance to the nearest prototype of any other class.
    wrong : ndarray of shape (n_samples,)
        Whether the model predicts another class.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    own: npt.NDArray[np.floating]
    rival: npt.NDArray[np.floating]
    wrong: npt.NDArray[np.bool_]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, max_rows: int = MAX_ROWS
    ) -> Self:
        """Compute the distances of labelled rows, and draw them.

        Parameters
        ----------
        estimator : DiscriminativeKMeans or DiscriminativeKMedoids
            Fitted; also at the end of a pipeline, whose earlier steps are then applied to X.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, preferably held out.
        y : array-like of shape (n_samples,)
            Their class labels.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        max_rows : int
            Maximum number of rows to draw, evenly spaced; the title counts all.

        Returns
        -------
        display : MarginDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=6).fit(X, y)
        >>> display = MarginDisplay.from_estimator(model, X, y)
        >>> bool((display.wrong == (model.predict(X) != y)).all())
        True
        """
        opened = unwrap_any(estimator)
        model = opened.model
        labels = check_labels(X, y, model.classes_)
        classes = opened.prototype_classes
        if (classes == classes[0]).all():
            raise ValueError(
                f"All prototypes are of class {classes[0]!s}, so there is no rival "
                "class: distances need prototypes of two classes or more."
            )
        tile = max(1, TILE_DISTANCES // len(classes))
        parts = [_distances(opened, X, labels, i, i + tile) for i in range(0, len(labels), tile)]
        display = cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        return display.plot(ax, max_rows=max_rows)

    def plot(self, ax: Any = None, *, max_rows: int = MAX_ROWS) -> Self:
        """Draw a point per row.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        max_rows : int
            Maximum number of rows to draw, evenly spaced; the title counts all.

        Returns
        -------
        self : MarginDisplay
            With `figure_` and `ax_` set.
        """
        ax = self._begin(ax, (5.0, 4.8))
        shown = evenly_spaced(len(self.own), max_rows)
        shown = shown[np.isfinite(self.own[shown])]
        own, rival, wrong = self.own[shown], self.rival[shown], self.wrong[shown]
        top = 1.05 * float(max(own.max(initial=0.0), rival.max(initial=0.0)) or 1.0)
        # In high dimensions all distances are large; starting at zero would waste space.
        bottom = min(own.min(initial=top), rival.min(initial=top))
        bottom = float(0.95 * bottom) if bottom > 0.3 * top else 0.0
        ends = [bottom, top]
        ax.fill_between(ends, bottom, ends, color="0.93", lw=0, label="nearer to a rival")
        ax.plot(ends, ends, "--", color="0.3", lw=1.2, label="border")
        kinds = (("right", ~wrong, "o", color(0), 3.2), ("wrong", wrong, "X", color(1), 6.0))
        for name, mine, shape, paint, size in kinds:
            style = {"ms": size, "color": paint, "mec": "white", "mew": 0.3, "rasterized": True}
            faint = 0.55 if name == "right" else 1.0
            label = f"{name} ({int(np.sum(self.wrong == (name == 'wrong')))})"
            ax.plot(own[mine], rival[mine], shape, **style, alpha=faint, label=label)
        ax.set(xlim=(bottom, top), ylim=(bottom, top), aspect="equal")
        ax.set(xlabel="distance to own class", ylabel="distance to nearest rival class")
        ax.set_title(self._title(len(shown)), fontsize=9)
        ax.legend(fontsize=SMALL_PT, loc="lower right", framealpha=0.85)
        return self

    def _summary(self) -> str:
        return f"{plural(len(self.own), 'row')}, {self.wrong.mean():.1%} wrong"

    def _title(self, n_shown: int) -> str:
        n_rows, n_skipped = len(self.own), int(np.isinf(self.own).sum())
        title = f"{self.wrong.mean():.1%} of {plural(n_rows, 'row')} misclassified"
        if n_shown < n_rows - n_skipped:
            title += f", {n_shown} shown"
        if n_skipped:
            title += f"\n{plural(n_skipped, 'row')} of classes without a prototype not shown"
        return title


def _distances(
    opened: Any, X: Any, labels: npt.NDArray[Any], start: int, stop: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Compute the distances of some rows, and whether they are misclassified."""
    which = np.arange(start, min(stop, len(labels)))
    classes = opened.prototype_classes
    distances = np.asarray(opened.model.transform(opened.rows(take_rows(X, which))))
    mine = classes == labels[which][:, None]
    own = np.where(mine, distances, np.inf).min(axis=1)
    rival = np.where(mine, np.inf, distances).min(axis=1)
    return own, rival, classes[distances.argmin(axis=1)] != labels[which]
