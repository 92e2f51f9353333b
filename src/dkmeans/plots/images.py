"""Prototypes as pictures, for data whose rows are images."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from dkmeans.estimator import DiscriminativeKMeans


@dataclass
class PrototypeImagesDisplay:
    """Prototypes drawn as images, a line for each class, the largest clusters first.

    Build it with `from_estimator`.

    Parameters
    ----------
    images : ndarray of shape (n_clusters, height, width)
        Prototypes.
    labels : ndarray of shape (n_clusters,)
        Class label of each.
    sizes : ndarray of shape (n_clusters,)
        Weight of each cluster.

    Attributes
    ----------
    figure_, axes_ : matplotlib figure and array of axes
        Set by `plot`.
    """

    images: npt.NDArray[np.floating]
    labels: npt.NDArray[Any]
    sizes: npt.NDArray[np.floating]
    figure_: Any = field(default=None, repr=False)
    axes_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls, estimator: DiscriminativeKMeans, *, image_shape: tuple[int, int]
    ) -> Self:
        """Take the prototypes of a fitted estimator.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            A fitted estimator.
        image_shape : (height, width)
            How the features make up an image, line by line.

        Returns
        -------
        display : PrototypeImagesDisplay
            Call `plot()` on it.
        """
        check_is_fitted(estimator)
        centers = estimator.cluster_centers_
        if np.prod(image_shape) != centers.shape[1]:
            raise ValueError(
                f"image_shape={image_shape} has {np.prod(image_shape)} pixels, but the prototypes "
                f"have {centers.shape[1]} features."
            )
        images = centers.reshape(-1, *image_shape)
        return cls(images, estimator.cluster_classes_, estimator.cluster_sizes_)

    def plot(self) -> Self:
        """Draw the images.

        Returns
        -------
        self : PrototypeImagesDisplay
            With `figure_` and `axes_` set.
        """
        from matplotlib.figure import Figure

        classes, counts = np.unique(self.labels, return_counts=True)
        columns = int(counts.max())
        size = (0.95 * columns + 1.0, 1.12 * len(classes) + 0.6)
        self.figure_ = Figure(figsize=size, layout="constrained")
        self.axes_ = self.figure_.subplots(len(classes), columns, squeeze=False)
        for axes in self.axes_.flat:
            axes.set(xticks=[], yticks=[], frame_on=False)
        # A few repelled prototypes reach far beyond the data; they must not grey out the others.
        low, high = np.percentile(self.images, [1, 99])
        span = {"vmin": low, "vmax": high, "cmap": "gray_r"}
        for line, label in zip(self.axes_, classes, strict=True):
            line[0].set_ylabel(f"class {label}", rotation=0, ha="right", va="center")
            mine = np.flatnonzero(self.labels == label)
            largest_first = mine[np.argsort(-self.sizes[mine], kind="stable")]
            for axes, i in zip(line, largest_first, strict=False):
                axes.imshow(self.images[i], **span)
                axes.set_frame_on(True)
                axes.set_xlabel(f"{self.sizes[i]:g}", fontsize=8, labelpad=2)
        self.figure_.suptitle(
            "Prototypes, with the weight of the rows that they stand for", fontsize=10
        )
        return self
