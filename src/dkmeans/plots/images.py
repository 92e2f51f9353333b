"""Prototypes as images, for data whose rows are images."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.inputs import dense, take_rows, unwrap_pipeline
from dkmeans.plots.mosaic import (
    CHARACTER_EM,
    Mosaic,
    aspect_of,
    font_size,
    longest_line,
    set_limits,
)
from dkmeans.plots.style import MIN_FONT_PT, SMALL_PT, class_names, plural, weight

IMAGE_WIDTH_IN = 0.75
MAX_LINES = 12  # with more classes, they are drawn in blocks side by side
CMAP = "gray_r"


@dataclass(repr=False, eq=False)
class PrototypeImagesDisplay(Display):
    """Prototypes drawn as images, a line for each class, the largest clusters first.

    Build it with `from_estimator`.

    Parameters
    ----------
    images : ndarray of shape (n_clusters, height, width) or (n_clusters, height, width, 3)
        Prototypes, in shades of grey or in colour; NaN to leave one out.
    labels : ndarray of shape (n_clusters,)
        Class label of each.
    sizes : ndarray of shape (n_clusters,)
        Weight of each cluster.
    ids : ndarray of shape (n_clusters,), optional
        Persistent id of each.
    what : str
        What the images are, for the title.
    display_labels : list of str, optional
        Names of the classes to display; by default the labels.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    images: npt.NDArray[np.floating]
    labels: npt.NDArray[Any]
    sizes: npt.NDArray[np.floating]
    ids: npt.NDArray[np.int64] | None = None
    what: str = "Prototypes"
    display_labels: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        image_shape: tuple[int, ...],
        X_train: Any = None,
        columns: int = 10,
        display_labels: Any = None,
        cmap: Any = CMAP,
        ax: Any = None,
    ) -> Self:
        """Draw the prototypes of a fitted estimator, or their exemplars.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline. Its earlier steps are undone if they can be.
        image_shape : (height, width) or (height, width, 3)
            Shape of an image; features are its pixels, line by line.
        X_train : array-like or CSR matrix of shape (n_samples, n_features), optional
            Training rows of the model: draw exemplars, the training row nearest to each prototype,
            instead of prototypes.
        columns : int
            Maximum number of images per class; the class label gives the total.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        cmap : str or matplotlib colour map
            Shades of images that are not in colour.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : PrototypeImagesDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMeans
        >>> model = DiscriminativeKMeans(max_clusters=20).fit(*load_digits(return_X_y=True))
        >>> display = PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8))
        >>> display.images.shape
        (20, 8, 8)
        """
        opened = unwrap_pipeline(estimator)
        model = opened.model
        if X_train is None:
            rows, what = opened.undone(model.cluster_centers_), "Prototypes"
        else:
            rows, what = exemplar_rows(model.exemplars_, X_train), "Exemplars"
        display = cls(
            as_images(rows, image_shape),
            model.cluster_classes_,
            model.cluster_sizes_,
            model.cluster_ids_,
            what,
            display_labels,
        )
        return display.plot(ax, columns=columns, cmap=cmap)

    def plot(self, ax: Any = None, *, columns: int = 10, cmap: Any = CMAP) -> Self:
        """Draw the images.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        columns : int
            Maximum number of images per class; the class label gives the total.
        cmap : str or matplotlib colour map
            Shades of images that are not in colour.

        Returns
        -------
        self : PrototypeImagesDisplay
            With `figure_` and `ax_` set.
        """
        classes, counts = np.unique(self.labels, return_counts=True)
        columns = min(columns, int(counts.max()))
        titles = [
            f"class {name}" + f"\n{columns} of {count}" * bool(count > columns)
            for name, count in zip(class_names(classes, self.display_labels), counts, strict=True)
        ]
        captions = [self._caption(i) for i in range(len(self.labels))]
        aspect = float(np.clip(aspect_of(self.images), 0.25, 4))
        n_blocks = -(-len(classes) // MAX_LINES)
        lines = -(-len(classes) // n_blocks)
        mosaic = Mosaic(columns, lines, IMAGE_WIDTH_IN, aspect, longest_line(captions), 1)
        margin = CHARACTER_EM * (SMALL_PT + 1) / 72 * longest_line(titles) + 0.25
        block = margin + mosaic.size[0]
        # At least 3.2 inches, so that the title fits.
        size = (max(n_blocks * block, 3.2), mosaic.size[1])
        ax = self._begin(ax, (size[0] + 0.1, size[1] + 0.45))
        font = font_size(ax, size)
        shown = rescale_images(self.images)
        for at, (label, title) in enumerate(zip(classes, titles, strict=True)):
            left, line = at // lines * block + margin, at % lines
            top = mosaic.place(line, 0, left)[1]
            middle = (left - 0.05, top + mosaic.image_width * aspect / 2)
            if font >= MIN_FONT_PT:
                ax.text(*middle, title, ha="right", va="center", fontsize=font + 1)
            mine = np.flatnonzero(self.labels == label)
            largest_first = mine[np.argsort(-self.sizes[mine], kind="stable")][:columns]
            for column, i in enumerate(largest_first):
                where = mosaic.place(line, column, left)
                mosaic.write(ax, where, captions[i], font)
                if not np.isnan(shown[i]).any():
                    mosaic.draw(ax, where, shown[i], vmin=0, vmax=1, cmap=cmap)
        set_limits(ax, size)
        kind = "weight" if self.ids is None else "#id: weight"
        ax.set_title(f"{self.what}, {kind} of their rows", fontsize=10)
        return self

    def _caption(self, i: int) -> str:
        size = weight(self.sizes[i])
        return size if self.ids is None else f"#{self.ids[i]}: {size}"

    def _summary(self) -> str:
        n_classes = len(np.unique(self.labels))
        return f"{len(self.images)} {self.what.lower()} of {n_classes} classes"


def exemplar_rows(exemplars: npt.NDArray[np.intp], X_train: Any) -> npt.NDArray[np.float64]:
    """Take exemplars from the training rows; NaN where unknown.

    Parameters
    ----------
    exemplars : ndarray of shape (n,)
        Indices of training rows; negative where unknown.
    X_train : array-like or CSR matrix of shape (n_samples, n_features)
        The training rows.

    Returns
    -------
    rows : ndarray of shape (n, n_features)
        The exemplars.
    """
    n_rows = X_train.shape[0] if hasattr(X_train, "shape") else len(X_train)
    if len(exemplars) and exemplars.max() >= n_rows:
        raise ValueError(
            f"X_train has {plural(n_rows, 'row')}, but the exemplar of a prototype is row "
            f"{exemplars.max()}: pass the rows that the model was fitted on."
        )
    rows = dense(take_rows(X_train, np.maximum(exemplars, 0)))
    return np.where(exemplars[:, None] < 0, np.nan, rows)


def as_images(
    rows: npt.NDArray[np.floating], image_shape: tuple[int, ...]
) -> npt.NDArray[np.floating]:
    """Reshape rows or prototypes into images."""
    if len(image_shape) not in (2, 3) or (len(image_shape) == 3 and image_shape[2] != 3):
        raise ValueError(
            f"image_shape={image_shape} must be (height, width), or (height, width, 3) for "
            "images in colour."
        )
    if np.prod(image_shape) != rows.shape[1]:
        raise ValueError(
            f"image_shape={image_shape} has {np.prod(image_shape)} pixels, but there are "
            f"{rows.shape[1]} features."
        )
    return rows.reshape(-1, *image_shape)


def rescale_images(
    images: npt.NDArray[np.floating], like: npt.NDArray[np.floating] | None = None
) -> npt.NDArray[np.float64]:
    """Rescale images to values between 0 and 1, by their own range or by that of `like`."""
    # Percentiles: a few repelled prototypes far outside the data must not grey out the others.
    values = images if like is None else like
    low, high = np.nanpercentile(values, [5, 95]) if np.isfinite(values).any() else (0.0, 1.0)
    return np.clip((images - low) / ((high - low) or 1.0), 0, 1)
