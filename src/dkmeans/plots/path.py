"""Errors against the number of clusters during a fit."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.inputs import unwrap_pipeline
from dkmeans.plots.style import color, marker, plural
from dkmeans.results.fit_record import Path


@dataclass
class PathDisplay(Display):
    """Training error and, if rows were held out, held-out error during a fit.

    If some of the models were refined, those that were not have hollow markers.

    Build it with `from_estimator`, or call `model.path_.plot()`.

    Parameters
    ----------
    path : Path
        Number of clusters and errors along the fit.
    chosen : int, optional
        Number of clusters to mark.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    path: Path
    chosen: int | None = None

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Take the path of a fitted estimator, and mark its number of clusters.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline.

        Returns
        -------
        display : PathDisplay
            Call `plot()` on it.
        """
        model = unwrap_pipeline(estimator).model
        if not hasattr(model, "path_"):
            raise ValueError("The model was edited by hand, so it has no path: fit it again.")
        return cls(model.path_, model.n_clusters_)

    def plot(self, ax: Any = None) -> Self:
        """Draw the errors.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        self : PathDisplay
            With `figure_` and `ax_` set.
        """
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        ax = self._begin(ax, (6.0, 3.8))
        # Leave out one cluster: its error depends on the class sizes only, and sets the scale.
        path = self.path.take(self.path.clusters > 1) if len(self.path) > 1 else self.path
        lines = {"training rows": path.training_error, "held-out rows": path.heldout_error}
        hollow = _only_grown(path)
        for number, (name, errors) in enumerate(lines.items()):
            if not np.isnan(errors).all():
                style = {"ms": 4.5, "lw": 1.4, "color": color(number)}
                ax.plot(path.clusters, 100 * errors, "-" + marker(number), **style, label=name)
        for number, errors in enumerate(lines.values()):
            style = {"ms": 4.5, "color": color(number), "mfc": "w"}
            ax.plot(path.clusters[hollow], 100 * errors[hollow], marker(number), **style)
        if hollow.any():
            ax.plot([], [], marker(0), ms=4.5, color="0.3", mfc="w", label="not refined")
        if self.chosen is not None:
            label = f"{plural(self.chosen, 'cluster')} in the model"
            ax.axvline(self.chosen, color="0.3", lw=1.2, ls="--", label=label)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:g}"))
        ax.yaxis.set_major_locator(MaxNLocator(6))
        ax.set(xlabel="clusters (each step doubles)", ylabel="error (%)")
        ax.set_ylim(bottom=0)
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
        ax.legend(framealpha=0.9, edgecolor="none")
        return self


def _only_grown(path: Path) -> npt.NDArray[np.bool_]:
    """Return which models were not refined, if others were."""
    refined = getattr(path, "refined", np.zeros(len(path), dtype=bool))
    return ~refined if refined.any() else np.zeros(len(path), dtype=bool)
