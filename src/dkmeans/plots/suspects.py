"""Rows with suspicious labels as images, for data whose rows are images."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.images import CMAP, as_images
from dkmeans.plots.inputs import dense, take_rows
from dkmeans.plots.mosaic import Mosaic, aspect_of, font_size, longest_line, set_limits
from dkmeans.plots.style import displayed, plural
from dkmeans.results.answers import Suspects

MAX_COLUMNS = 8
IMAGE_WIDTH_IN = 0.95
MAX_NAME = 14  # characters of a class label


@dataclass(repr=False, eq=False)
class SuspectImagesDisplay(Display):
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
    display_labels : mapping from class label to str, optional
        Names of classes to display; by default the labels.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    images: npt.NDArray[np.floating]
    suspects: Suspects
    n_listed: int
    display_labels: Mapping[Any, str] | None = None

    @classmethod
    def from_suspects(
        cls,
        suspects: Suspects,
        X: Any,
        *,
        image_shape: tuple[int, ...],
        n: int = 24,
        display_labels: Mapping[Any, str] | None = None,
        cmap: Any = CMAP,
        ax: Any = None,
    ) -> Self:
        """Draw the first suspects of a list.

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
        display_labels : mapping from class label to str, optional
            Names of classes to display; by default the labels.
        cmap : str or matplotlib colour map
            Shades of images that are not in colour.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : SuspectImagesDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_digits(return_X_y=True)
        >>> suspects = DiscriminativeKMeans(40).fit(X, y).suspects(X, y)
        >>> SuspectImagesDisplay.from_suspects(suspects, X, image_shape=(8, 8), n=3).images.shape
        (3, 8, 8)
        """
        first = suspects.take(np.arange(min(n, len(suspects))))
        rows = dense(take_rows(X, first.row))
        display = cls(as_images(rows, image_shape), first, len(suspects), display_labels)
        return display.plot(ax, cmap=cmap)

    def plot(self, ax: Any = None, *, cmap: Any = CMAP) -> Self:
        """Draw the images.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        cmap : str or matplotlib colour map
            Shades of images that are not in colour.

        Returns
        -------
        self : SuspectImagesDisplay
            With `figure_` and `ax_` set.
        """
        columns = max(1, min(MAX_COLUMNS, len(self.images)))
        lines = max(1, -(-len(self.images) // columns))
        index = self.suspects.index  # of a frame, as in the table of suspects
        rows = self.suspects.row if index is None else index
        captions = [self._caption(*pair) for pair in zip(rows, self.suspects, strict=True)]
        aspect = float(np.clip(aspect_of(self.images), 0.25, 4))
        n_lines = max((text.count("\n") + 1 for text in captions), default=1)
        mosaic = Mosaic(columns, lines, IMAGE_WIDTH_IN, aspect, longest_line(captions), n_lines)
        size = (max(mosaic.size[0], 4.2), mosaic.size[1])
        ax = self._begin(ax, (size[0] + 0.1, size[1] + 0.45))
        font = font_size(ax, size)
        low, high = (self.images.min(), self.images.max()) if len(self.images) else (0.0, 1.0)
        shown = (self.images - low) / ((high - low) or 1.0)
        for i, (image, caption) in enumerate(zip(shown, captions, strict=True)):
            where = mosaic.place(i // columns, i % columns)
            mosaic.write(ax, where, caption, font)
            mosaic.draw(ax, where, image, vmin=0, vmax=1, cmap=cmap)
        set_limits(ax, size)
        first = "" if len(self.images) == self.n_listed else f"the first {len(self.images)} of "
        title = f"{first}{plural(self.n_listed, 'suspect')}; row: score, label → suggested"
        ax.set_title(title[0].upper() + title[1:], fontsize=10)
        return self

    def _caption(self, row: Any, about: dict[str, Any]) -> str:
        label, other = (
            displayed(about[name], self.display_labels, MAX_NAME) for name in ("label", "suggested")
        )
        # Long names get a line each.
        between = " → " if len(label) + len(other) <= MAX_NAME else "\n→ "
        return f"row {row}: {about['score']:.2f}\n{label}{between}{other}?"

    def _summary(self) -> str:
        return f"{len(self.images)} of {plural(self.n_listed, 'suspect')}"
