"""Reliability of probabilities: how often predictions of some confidence are right."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.inputs import check_labels
from dkmeans.plots.style import color, marker, plural

_LARGEST_MARKER = 180.0  # area, in points squared


@dataclass(repr=False, eq=False)
class ReliabilityDisplay(Display):
    """Accuracy of predictions against their probability, in bins of equal width.

    Build it with `from_estimator`. Points on the diagonal are calibrated, points below it are
    overconfident. The area of a point is the share of rows in its bin.

    Parameters
    ----------
    confidence : ndarray of shape (n_samples,)
        Probability of each row's predicted class.
    right : ndarray of shape (n_samples,)
        Whether this class is the true one.
    n_bins : int
        Number of bins between 0 and 1.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    confidence: npt.NDArray[np.floating]
    right: npt.NDArray[np.bool_]
    n_bins: int = 10

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        label: str = "model",
        number: int = 0,
        ax: Any = None,
    ) -> Self:
        """Predict labelled rows, and draw the curve.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `predict_proba`; a pipeline or any classifier of scikit-learn, too.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows that neither the fit nor the calibration has seen.
        y : array-like of shape (n_samples,)
            Their class labels.
        n_bins : int, default=10
            Number of bins between 0 and 1.
        label : str
            Name of the curve in the legend, where the expected calibration error follows it.
        number : int
            Index of its colour, for several curves on the same axes.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : ReliabilityDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(6, refine=None, metric="euclidean")
        >>> model = model.fit(X[::3], y[::3]).calibrate(X[1::3], y[1::3])
        >>> display = ReliabilityDisplay.from_estimator(model, X[2::3], y[2::3])
        >>> round(display.calibration_error, 2)
        0.1
        """
        labels = check_labels(X, y, estimator.classes_)
        shares = estimator.predict_proba(X)
        predicted = estimator.classes_[shares.argmax(axis=1)]
        display = cls(shares.max(axis=1), predicted == labels, n_bins)
        return display.plot(ax, label=label, number=number)

    def _summary(self) -> str:
        error = f"expected calibration error {self.calibration_error:.1%}"
        return f"{plural(len(self.right), 'row')}, {error}"

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: mean distance of the bins from the diagonal, by rows."""
        confidence, accuracy, share = self.bins()
        return float((np.abs(confidence - accuracy) * share).sum())

    def bins(self) -> tuple[npt.NDArray[np.float64], ...]:
        """Return mean confidence, accuracy and share of rows of each bin that has rows."""
        scaled = self.confidence.astype(np.float64) * self.n_bins
        which = np.minimum(scaled.astype(np.intp), self.n_bins - 1)
        counts = np.bincount(which, minlength=self.n_bins)
        there = np.flatnonzero(counts)
        confidence = np.bincount(which, self.confidence, self.n_bins)[there] / counts[there]
        accuracy = np.bincount(which, self.right, self.n_bins)[there] / counts[there]
        return confidence, accuracy, counts[there] / max(len(self.right), 1)

    def plot(self, ax: Any = None, *, label: str = "model", number: int = 0) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        label : str
            Name of the curve in the legend, where the expected calibration error follows it.
        number : int
            Index of its colour, for several curves on the same axes.

        Returns
        -------
        self : ReliabilityDisplay
            With `figure_` and `ax_` set.
        """
        ax = self._begin(ax, (4.6, 4.6))
        if not ax.lines:
            ax.plot([0, 100], [0, 100], color="0.6", lw=1, ls="--", label="calibrated")
        confidence, accuracy, share = self.bins()
        named = f"{label}, error {100 * self.calibration_error:.1f} %"
        style = {"color": color(number), "marker": marker(number)}
        ax.plot(100 * confidence, 100 * accuracy, **style, ms=4, lw=1.4, label=named)
        areas = _LARGEST_MARKER * share
        ax.scatter(100 * confidence, 100 * accuracy, areas, **style, alpha=0.35, lw=0)
        ax.set(xlim=(0, 101), ylim=(0, 101), aspect="equal")
        ax.set(xlabel="probability of the predicted class (%)", ylabel="predictions right (%)")
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
        if self._owns_figure:
            ax.set_title(f"Reliability on {plural(len(self.right), 'row')}", fontsize=10)
        ax.legend(framealpha=0.9, edgecolor="none", loc="upper left")
        return self
