"""Rejection curve: what each rate of false alarms gains."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.inputs import check_labels, unwrap_any
from dkmeans.plots.style import color, marker, plural

_Shares = npt.NDArray[np.float64]


@dataclass(repr=False, eq=False)
class RejectionDisplay(Display):
    """Share of unknown rows rejected, or error of the rows kept, against false alarms.

    Build it with `from_estimator`. All thresholds of `set_rejection` are scaled by the same factor,
    from one that rejects nothing to one that rejects all. The marker is where they are set.

    Parameters
    ----------
    known : ndarray of shape (n_known,)
        Scores of rows of known classes, as `unknown_score` returns them.
    promised : float
        Highest rate of false alarms that the thresholds stand for.
    unknown : ndarray of shape (n_unknown,), optional
        Scores of rows of other classes; the curve is their share that is rejected.
    wrong : ndarray of shape (n_known,), optional
        Whether each row of a known class is predicted wrongly; the curve is the error of the rows
        that are not rejected. Either this or `unknown` is given.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    known: npt.NDArray[np.floating]
    promised: float
    unknown: npt.NDArray[np.floating] | None = None
    wrong: npt.NDArray[np.bool_] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        unknown: Any = None,
        label: str = "model",
        number: int = 0,
        ax: Any = None,
    ) -> Self:
        """Score rows, and draw the curve.

        Parameters
        ----------
        estimator : DiscriminativeKMeans or DiscriminativeKMedoids
            After `set_rejection`; also at the end of a pipeline, whose earlier steps are then
            applied to the rows.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of the known classes that neither the fit nor `set_rejection` has seen.
        y : array-like of shape (n_samples,), optional
            Their class labels, to draw the error of the rows that are not rejected.
        unknown : array-like or CSR matrix of shape (n_unknown, n_features), optional
            Rows of other classes, to draw the share of them that is rejected. Pass either this or
            `y`.
        label : str
            Name of the curve in the legend.
        number : int
            Index of its colour, for several curves on the same axes.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : RejectionDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_digits(return_X_y=True)
        >>> sevens, X, y = X[y == 7], X[y != 7], y[y != 7]
        >>> model = DiscriminativeKMeans(40, refine=None, metric="euclidean")
        >>> model = model.fit(X[:800], y[:800]).set_rejection(X[800:1200])
        >>> display = RejectionDisplay.from_estimator(model, X[1200:], unknown=sevens)
        >>> bool(display.area > 0.9)
        True
        """
        if (y is None) == (unknown is None):
            raise ValueError(
                "Pass either y, the labels of X, or unknown, rows of other classes; "
                f"{'neither' if y is None else 'both'} of them given."
            )
        opened = unwrap_any(estimator)
        rows = opened.rows(X)
        scores, promised = opened.model.unknown_score(rows), opened.model.rejection_.rate.max()
        if y is None:
            others = opened.model.unknown_score(opened.rows(unknown))
            display = cls(scores, float(promised), unknown=others)
        else:
            labels = check_labels(X, y, opened.model.classes_)
            wrong = opened.model.predict(rows) != labels
            display = cls(scores, float(promised), wrong=wrong)
        return display.plot(ax, label=label, number=number)

    def _summary(self) -> str:
        false_alarms, gain = self.at(1.0)
        return f"{false_alarms:.1%} of known rows rejected, {gain:.1%} {self._gain}"

    @property
    def _gain(self) -> str:
        return "of unknown rows" if self.wrong is None else "of the others wrong"

    def at(self, factor: npt.ArrayLike) -> tuple[_Shares, _Shares]:
        """Compute the curve where all thresholds are scaled by some factors.

        Parameters
        ----------
        factor : array-like
            1 stands for the thresholds as they are set; larger ones reject fewer rows.

        Returns
        -------
        false_alarms : ndarray of the same shape
            Share of the rows of known classes that is rejected.
        gain : ndarray of the same shape
            Share of the unknown rows that is rejected; or, with labels, share of the known rows
            that are not rejected and are predicted wrongly, NaN where all are rejected.
        """
        kept = _count_up_to(self.known, factor)
        false_alarms = 1 - kept / len(self.known)
        if self.unknown is not None:
            return false_alarms, 1 - _count_up_to(self.unknown, factor) / len(self.unknown)
        errors = np.asarray(_count_up_to(self.known[self.wrong], factor), dtype=np.float64)
        rest = np.full(kept.shape, np.nan)
        return false_alarms, np.divide(errors, kept, out=rest, where=kept > 0)

    def curve(self) -> tuple[_Shares, _Shares]:
        """Compute the whole curve, from where nothing is rejected to where all is.

        Returns
        -------
        false_alarms, gain : ndarray
            As `at` returns them, without points where no known row is left to be wrong.
        """
        scores = self.known if self.unknown is None else np.append(self.known, self.unknown)
        false_alarms, gain = self.at(np.append(np.unique(scores)[::-1], -1.0))
        there = ~np.isnan(gain)
        return false_alarms[there], gain[there]

    @property
    def area(self) -> float:
        """Area under the curve; with unknown rows, that of the ROC curve."""
        false_alarms, gain = self.curve()
        return float((np.diff(false_alarms) * (gain[1:] + gain[:-1]) / 2).sum())

    def plot(self, ax: Any = None, *, label: str = "model", number: int = 0) -> Self:
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
        self : RejectionDisplay
            With `figure_` and `ax_` set.
        """
        ax = self._begin(ax, (5.0, 4.6))
        false_alarms, gain = (100 * shares for shares in self.curve())
        named = label if self.unknown is None else f"{label}, area {100 * self.area:.1f} %"
        ax.plot(false_alarms, gain, color=color(number), lw=1.6, label=named)
        x, y = (100 * float(share) for share in self.at(1.0))
        style = {"color": color(number), "marker": marker(number), "ms": 7, "ls": "", "zorder": 3}
        set_here = f"as set: rejects {x:.1f} % of known, {y:.1f} % {self._gain}"
        ax.plot(x, y, **style, clip_on=False, label=set_here)
        promise = f"promised: at most {100 * self.promised:.1f} % of known"
        ax.axvline(100 * self.promised, color=color(number), lw=1, ls=":", label=promise)
        ax.set(xlim=(0, 100), xlabel="rows of known classes rejected (%)")
        self._finish(ax)
        return self

    def _finish(self, ax: Any) -> None:
        """Draw what is common to all curves of the axes."""
        rows = plural(len(self.known), "known row")
        if self.unknown is not None:
            rows += f" and {len(self.unknown)} unknown"
            ax.set(ylim=(0, 101), ylabel="rows of unknown classes rejected (%)")
        else:
            ax.set_ylim(0, None)
            ax.set_ylabel("rows not rejected that are wrong (%)")
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
        if self._owns_figure:
            ax.set_title(f"Rejection of {rows}", fontsize=10)
        ax.legend(framealpha=0.9, edgecolor="none", loc="best", fontsize=8)


def _count_up_to(scores: npt.NDArray[np.floating], factor: npt.ArrayLike) -> npt.NDArray[np.intp]:
    return np.asarray(np.searchsorted(np.sort(scores), factor, side="right"))
