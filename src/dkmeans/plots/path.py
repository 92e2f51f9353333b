"""Errors against the number of clusters during a fit."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.inputs import unwrap_any
from dkmeans.plots.style import color, marker, plural
from dkmeans.results.fit_record import Path


@dataclass(repr=False, eq=False)
class PathDisplay(Display):
    """Training error and, if rows were held out, held-out error during a fit.

    Build it with `from_estimator`, or call `model.path_.plot()`. Points of refined models are
    filled, those of models as growth left them are hollow.

    Parameters
    ----------
    path : Path
        Number of clusters and errors along the fit.
    chosen : int, optional
        Number of clusters to mark.
    noun : str, default="cluster"
        What a prototype is called.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    path: Path
    chosen: int | None = None
    noun: str = "cluster"

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the path of a fitted estimator, and mark its number of clusters.

        Parameters
        ----------
        estimator : DiscriminativeKMeans or DiscriminativeKMedoids
            Fitted; also at the end of a pipeline.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : PathDisplay
            With `figure_` and `ax_` set.
        """
        opened = unwrap_any(estimator)
        model = opened.model
        if not hasattr(model, "path_"):
            raise ValueError("The model was edited by hand, so it has no path: fit it again.")
        noun = "medoid" if hasattr(model, "medoid_indices_") else "cluster"
        return cls(model.path_, len(opened.prototype_classes), noun).plot(ax)

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
        for number, (name, errors) in enumerate(lines.items()):
            if not np.isnan(errors).all():
                self._draw(ax, path, 100 * errors, number, name)
        if self.chosen is not None:
            label = f"{plural(self.chosen, self.noun)} in the model"
            ax.axvline(self.chosen, color="0.3", lw=1.2, ls="--", label=label)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:g}"))
        ax.yaxis.set_major_locator(MaxNLocator(6))
        ax.set(xlabel=f"{self.noun}s (each step doubles)", ylabel="error (%)")
        ax.set_ylim(bottom=0)
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
        ax.legend(framealpha=0.9, edgecolor="none")
        return self

    def _draw(
        self, ax: Any, path: Path, errors: npt.NDArray[np.floating], number: int, name: str
    ) -> None:
        """Draw a line through the models as growth left them, and one through refined models."""
        # Files of earlier versions do not tell.
        refined = path.refined if "refined" in path.columns else np.zeros(len(path), dtype=bool)
        for is_refined in np.unique(refined):
            mine = refined == is_refined
            style = {"ms": 5, "lw": 1.4, "color": color(number), "clip_on": False, "zorder": 3}
            label = f"{name}, refined" if is_refined else name
            if not is_refined:
                style |= {"mfc": "white", "mew": 1.3}
                label += ", as grown" if refined.any() else ""
            ax.plot(path.clusters[mine], errors[mine], "-" + marker(number), **style, label=label)

    def _summary(self) -> str:
        return f"{plural(len(self.path), 'number')} of {self.noun}s"
