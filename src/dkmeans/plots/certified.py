"""Certified accuracy: share of correctly classified rows under small perturbations."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.inputs import check_labels, unwrap_any
from dkmeans.plots.style import color, marker, plural

LABEL = "right and certified"


@dataclass(repr=False, eq=False)
class CertifiedAccuracyDisplay(Display):
    """Share of rows that are classified correctly, by certified radius.

    Build it with `from_estimator`. The curve starts at the accuracy. At radius r, it is a lower
    bound on the accuracy if every row may be changed by up to r.

    Parameters
    ----------
    radii : ndarray of shape (n_samples,)
        Certified radius of each row.
    right : ndarray of shape (n_samples,)
        Whether its class is predicted correctly.
    steps : str
        Pipeline steps before the model; radii are distances after these steps.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    radii: npt.NDArray[np.floating]
    right: npt.NDArray[np.bool_]
    steps: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, label: str = LABEL, number: int = 0
    ) -> Self:
        """Explain labelled rows, and draw the curve.

        Parameters
        ----------
        estimator : DiscriminativeKMeans or DiscriminativeKMedoids
            Fitted; also at the end of a pipeline, whose earlier steps are then applied to X. Radii
            are distances after these steps.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, preferably held out.
        y : array-like of shape (n_samples,)
            Their class labels.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        label : str
            Name of the curve in the legend.
        number : int
            Index of its colour, for several curves on the same axes.

        Returns
        -------
        display : CertifiedAccuracyDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=6, refine=None, metric="euclidean").fit(X, y)
        >>> display = CertifiedAccuracyDisplay.from_estimator(model, X, y)
        >>> display.at([0.0, 0.1, 0.5]).round(2).tolist()
        [0.97, 0.91, 0.69]
        """
        opened = unwrap_any(estimator)
        labels = check_labels(X, y, opened.model.classes_)
        why = opened.model.explain(opened.rows(X))
        if np.isnan(why.radius).any():
            raise ValueError(
                "The metric is not known to satisfy the triangle inequality, so there are no "
                "certified radii: declare it with is_metric=True, if it does."
            )
        display = cls(why.radius, why.label == labels, opened.steps)
        return display.plot(ax, label=label, number=number)

    def _summary(self) -> str:
        return f"{plural(len(self.right), 'row')}, {self.right.mean():.1%} right"

    def at(self, radii: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Compute the certified accuracy at some radii.

        Parameters
        ----------
        radii : array-like
            Largest changes of a row, as distances.

        Returns
        -------
        accuracy : ndarray of the same shape
            Share of rows that are correct under any change up to each radius.
        """
        safe = np.sort(self.radii[self.right])
        return (len(safe) - np.searchsorted(safe, radii, side="left")) / max(len(self.right), 1)

    def plot(self, ax: Any = None, *, label: str = LABEL, number: int = 0) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        label : str
            Name of the curve in the legend.
        number : int
            Index of its colour, for several curves on the same axes.

        Returns
        -------
        self : CertifiedAccuracyDisplay
            With `figure_` and `ax_` set.
        """
        ax = self._begin(ax, (6.0, 3.8))
        finite = self.radii[np.isfinite(self.radii)]
        end = 1.03 * float(finite.max(initial=0.0)) or 1.0
        radii = np.unique(np.concatenate([[0.0], finite, [end]]))
        # The share drops just after the radius of a row.
        ax.step(radii, 100 * self.at(radii), where="pre", color=color(number), lw=1.6, label=label)
        start = 100 * float(self.right.mean())
        dot = {"color": color(number), "ms": 5, "clip_on": False, "zorder": 3, "ls": ""}
        ax.plot(0, start, marker(number), **dot, label=f"accuracy, {start:.1f} %")
        where = f" ({self.steps})" if self.steps else ""
        ax.set(xlabel=f"radius: distance that a row may be moved{where}", ylabel="rows right (%)")
        ax.set(ylim=(0, 101), xlim=(0, max(end, ax.get_xlim()[1])))
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
        if self._owns_figure:
            ax.set_title(f"Certified accuracy of {plural(len(self.right), 'row')}", fontsize=10)
        ax.legend(framealpha=0.9, edgecolor="none")
        return self
