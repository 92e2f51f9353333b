"""Rows with suspicious labels as images, for data whose rows are images."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import PanelsDisplay
from dkmeans.plots.images import as_images
from dkmeans.plots.inputs import dense, take_rows
from dkmeans.plots.style import SMALL_PT, plural, short
from dkmeans.results.answers import Suspects

MAX_COLUMNS = 8
IMAGE_WIDTH_IN = 1.15


@dataclass
class SuspectImagesDisplay(PanelsDisplay):
    """The most suspicious rows as images, with their label and the suggested one.

    Build it with `from_suspects`, or call `plot` on the result of `suspects`.

    Parameters
    ----------
    images : ndarray of shape (n, height, width) or (n, height, width, 3)
        Rows, in shades of grey or in colour.
    suspects : Suspects
        The suspects drawn, one per image.
    n_listed : int
        Number of suspects in the whole list.

    Attributes
    ----------
    figure_, axes_ : matplotlib figure and array of axes
        Where it is drawn.
    """

    images: npt.NDArray[np.floating]
    suspects: Suspects
    n_listed: int

    @classmethod
    def from_suspects(
        cls, suspects: Suspects, X: Any, *, image_shape: tuple[int, ...], n: int = 24
    ) -> Self:
        """Take the first suspects of a list.

        Parameters
        ----------
        suspects : Suspects
            Result of `DiscriminativeKMeans.suspects`.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The training rows.
        image_shape : (height, width) or (height, width, 3)
            Shape of an image; features are its pixels, line by line.
        n : int
            Maximum number of images.

        Returns
        -------
        display : SuspectImagesDisplay
            Call `plot()` on it.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_digits(return_X_y=True)
        >>> suspects = DiscriminativeKMeans(40).fit(X, y).suspects(X, y)
        >>> SuspectImagesDisplay.from_suspects(suspects, X, image_shape=(8, 8), n=6).images.shape
        (6, 8, 8)
        """
        first = suspects.take(np.arange(min(n, len(suspects))))
        rows = dense(take_rows(X, first.row))
        return cls(as_images(rows, image_shape), first, len(suspects))

    def plot(self, ax: Any = None) -> Self:
        """Draw the images.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.

        Returns
        -------
        self : SuspectImagesDisplay
            With `figure_` and `axes_` set.
        """
        columns = max(1, min(MAX_COLUMNS, len(self.images)))
        lines = max(1, -(-len(self.images) // columns))
        tall = IMAGE_WIDTH_IN * float(np.clip(np.divide(*self.images.shape[1:3]), 0.25, 4)) + 0.45
        size = (max(IMAGE_WIDTH_IN * columns + 0.3, 4.2), tall * lines + 0.5)
        panels = self._begin_panels(ax, lines, columns, size)
        for axes in panels.flat:
            axes.set(xticks=[], yticks=[], frame_on=False)
        low, high = (self.images.min(), self.images.max()) if len(self.images) else (0.0, 1.0)
        shown = (self.images - low) / ((high - low) or 1.0)
        for axes, image, about in zip(panels.flat, shown, self.suspects, strict=False):
            axes.imshow(image, vmin=0, vmax=1, cmap="gray_r")
            axes.set_frame_on(True)
            labels = f"{short(about['label'], 9)} → {short(about['suggested'], 9)}?"
            axes.set_title(f"row {about['row']}: {about['score']:.2f}\n{labels}", fontsize=SMALL_PT)
        if self._owns_figure:
            first = "" if len(self.images) == self.n_listed else f"the first {len(self.images)} of "
            title = f"{first}{plural(self.n_listed, 'suspect')}; row: score, label → suggested"
            self._figure.suptitle(title[0].upper() + title[1:], fontsize=10)
        return self
