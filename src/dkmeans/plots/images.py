"""Prototypes as images, for data whose rows are images."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import PanelsDisplay
from dkmeans.plots.inputs import unwrap_pipeline
from dkmeans.plots.style import SMALL_PT, names, weight

LARGE_IMAGE_IN, SMALL_IMAGE_IN = 0.95, 0.6  # image width for few and for many classes


@dataclass
class PrototypeImagesDisplay(PanelsDisplay):
    """Prototypes drawn as images, a line for each class, the largest clusters first.

    Build it with `from_estimator`.

    Parameters
    ----------
    images : ndarray of shape (n_clusters, height, width) or (n_clusters, height, width, 3)
        Prototypes, in shades of grey or in colour.
    labels : ndarray of shape (n_clusters,)
        Class label of each.
    sizes : ndarray of shape (n_clusters,)
        Weight of each cluster.
    ids : ndarray of shape (n_clusters,), optional
        Persistent id of each.

    Attributes
    ----------
    figure_, axes_ : matplotlib figure and array of axes
        Where it is drawn.
    """

    images: npt.NDArray[np.floating]
    labels: npt.NDArray[Any]
    sizes: npt.NDArray[np.floating]
    ids: npt.NDArray[np.int64] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, image_shape: tuple[int, ...]) -> Self:
        """Take the prototypes of a fitted estimator.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline.
        image_shape : (height, width) or (height, width, 3)
            Shape of an image; features are its pixels, line by line.

        Returns
        -------
        display : PrototypeImagesDisplay
            Call `plot()` on it.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMeans
        >>> model = DiscriminativeKMeans(max_clusters=20).fit(*load_digits(return_X_y=True))
        >>> display = PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8))
        >>> display.images.shape
        (20, 8, 8)
        """
        model = unwrap_pipeline(estimator).model
        centers = model.cluster_centers_
        images = as_images(centers, image_shape)
        return cls(images, model.cluster_classes_, model.cluster_sizes_, model.cluster_ids_)

    def plot(self, ax: Any = None, *, columns: int = 10) -> Self:
        """Draw the images.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.
        columns : int
            Maximum number of images per class; the class label gives the total.

        Returns
        -------
        self : PrototypeImagesDisplay
            With `figure_` and `axes_` set.
        """
        classes, counts = np.unique(self.labels, return_counts=True)
        columns = min(columns, int(counts.max()))
        inches = LARGE_IMAGE_IN if len(classes) <= 12 else SMALL_IMAGE_IN
        titles = [
            f"class {name}" + f"\n{columns} of {count}" * bool(count > columns)
            for name, count in zip(names(classes), counts, strict=True)
        ]
        longest = max(len(line) for title in titles for line in title.split("\n"))
        # At least 3.2 inches, so that the title fits.
        width = max(inches * columns + 0.075 * longest + 0.3, 3.2)
        tall = inches * float(np.clip(np.divide(*self.images.shape[1:3]), 0.25, 4)) + 0.22
        panels = self._begin_panels(ax, len(classes), columns, (width, tall * len(classes) + 0.55))
        for axes in panels.flat:
            axes.set(xticks=[], yticks=[], frame_on=False)
        shown = rescale_images(self.images)
        for line, label, about in zip(panels, classes, titles, strict=True):
            line[0].set_ylabel(about, rotation=0, ha="right", va="center", fontsize=SMALL_PT + 1)
            mine = np.flatnonzero(self.labels == label)
            largest_first = mine[np.argsort(-self.sizes[mine], kind="stable")]
            for axes, i in zip(line, largest_first, strict=False):
                axes.imshow(shown[i], vmin=0, vmax=1, cmap="gray_r")
                axes.set_frame_on(True)
                size = weight(self.sizes[i])
                title = size if self.ids is None else f"#{self.ids[i]}: {size}"
                axes.set_title(title, fontsize=SMALL_PT if inches == LARGE_IMAGE_IN else 5.5, pad=2)
        what = "weight" if self.ids is None else "#id: weight"
        if self._owns_figure:
            self._figure.suptitle(f"Prototypes, {what} of their rows", fontsize=10)
        return self


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
    low, high = np.percentile(images if like is None else like, [1, 99])
    return np.clip((images - low) / ((high - low) or 1.0), 0, 1)
