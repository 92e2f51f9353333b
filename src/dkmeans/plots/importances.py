"""Weights of the features in a learned metric."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.images import as_images
from dkmeans.plots.inputs import unwrap_pipeline
from dkmeans.plots.style import COLORS, SMALL_PT, plural, short

BAR_IN = 0.22
MAX_NAME = 24  # characters of a feature's name
CMAP = "cividis"


@dataclass(repr=False, eq=False)
class FeatureImportancesDisplay(Display):
    """Feature importances of a learned metric: bars, or a picture if features are pixels.

    Build it with `from_estimator`.

    Parameters
    ----------
    importances : ndarray of shape (n_features,)
        Share of each feature in the metric.
    names : list of str
        Names of the features.
    image : ndarray of shape (height, width), or None
        Importances of the pixels; those of its colours are added. None to draw bars.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    importances: npt.NDArray[np.float64]
    names: list[str]
    image: npt.NDArray[np.float64] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        image_shape: tuple[int, ...] | None = None,
        max_features: int = 20,
        cmap: Any = CMAP,
        ax: Any = None,
    ) -> Self:
        """Draw the importances of a fitted model.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted with `metric="learned"`; also at the end of a pipeline.
        image_shape : (height, width) or (height, width, 3), optional
            Shape of an image, to draw a picture; features are its pixels, line by line.
        max_features : int
            Maximum number of bars, the largest first.
        cmap : str or matplotlib colour map
            Colours of the picture.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : FeatureImportancesDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=6, metric="learned").fit(X, y)
        >>> display = FeatureImportancesDisplay.from_estimator(model)
        >>> display.names
        ['x0', 'x1', 'x2', 'x3']
        """
        opened = unwrap_pipeline(estimator)
        importances = opened.model.feature_importances_
        names = [opened.feature(j) for j in range(len(importances))]
        image = None
        if image_shape is not None:
            image = as_images(importances[None], image_shape)[0].astype(np.float64)
            image = image if image.ndim == 2 else image.sum(axis=2)
        return cls(importances, names, image).plot(ax, max_features=max_features, cmap=cmap)

    def plot(self, ax: Any = None, *, max_features: int = 20, cmap: Any = CMAP) -> Self:
        """Draw the importances.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        max_features : int
            Maximum number of bars, the largest first.
        cmap : str or matplotlib colour map
            Colours of the picture.

        Returns
        -------
        self : FeatureImportancesDisplay
            With `figure_` and `ax_` set.
        """
        if self.image is not None:
            return self._plot_image(ax, self.image, cmap)
        shown = np.argsort(-self.importances, kind="stable")[:max_features]
        ax = self._begin(ax, (5.0, BAR_IN * len(shown) + 0.9))
        places = np.arange(len(shown))
        ax.barh(places, self.importances[shown], color=COLORS[0], height=0.7)
        ax.set_yticks(places, [short(self.names[j], MAX_NAME) for j in shown], fontsize=SMALL_PT)
        ax.invert_yaxis()
        # Where all features count alike.
        ax.axvline(1 / len(self.importances), color="0.4", lw=0.9, ls="--")
        ax.set(xlabel="share in the learned metric (dashed: all alike)")
        ax.set_title(self._title(len(shown)), fontsize=SMALL_PT + 1)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        return self

    def _summary(self) -> str:
        return plural(len(self.importances), "feature")

    def _title(self, n_shown: int) -> str:
        n = len(self.importances)
        if n_shown == n:
            return "Feature importances"
        return f"Feature importances: the largest {n_shown} of {plural(n, 'feature')}"

    def _plot_image(self, ax: Any, image: npt.NDArray[np.float64], cmap: Any) -> Self:
        ax = self._begin(ax, (4.2, 3.6))
        drawn = ax.imshow(image, vmin=0, cmap=cmap)
        ax.set(xticks=[], yticks=[])
        bar = ax.figure.colorbar(drawn, ax=ax)
        bar.set_label("share in the learned metric", fontsize=SMALL_PT)
        bar.ax.tick_params(labelsize=SMALL_PT)
        ax.set_title("Feature importances", fontsize=SMALL_PT + 1)
        return self
