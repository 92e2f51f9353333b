"""Predictions explained by images: row, winning prototype, its exemplar and nearest rival."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display
from dkmeans.plots.images import CMAP, as_images, exemplar_rows, rescale_images
from dkmeans.plots.inputs import dense, take_rows, unwrap_pipeline
from dkmeans.plots.mosaic import Mosaic, aspect_of, font_size, longest_line, set_limits
from dkmeans.plots.style import displayed, label_mapping, length, plural, weight
from dkmeans.results.answers import Explanation

IMAGE_WIDTH_IN = 1.25
PARTS = "parts of the margin"
PARTS_CMAP = "RdBu"


@dataclass(repr=False, eq=False)
class ExplanationDisplay(Display):
    """Rows as images beside the winning prototype, its exemplar and the nearest rival.

    Build it with `from_estimator`, or call `model.explain(X).plot(image_shape=...)`.

    Parameters
    ----------
    explanation : Explanation
        Explanation of each row drawn.
    queries : ndarray of shape (n_rows, height, width) or (n_rows, height, width, 3)
        The rows.
    prototypes : ndarray of the same shape
        The winning prototype of each row.
    rivals : ndarray of the same shape, or None
        The nearest prototype of another class; None if there is only one class.
    exemplars : ndarray of the same shape, or None
        Exemplars (training rows), NaN where unknown; None to leave them out.
    parts : ndarray of shape (n_rows, height, width), or None
        What pixels add to the margin, their colours together; None to leave them out.
    display_labels : mapping from class label to str, optional
        Names of classes to display; by default the labels.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    explanation: Explanation
    queries: npt.NDArray[np.floating]
    prototypes: npt.NDArray[np.floating]
    rivals: npt.NDArray[np.floating] | None = None
    exemplars: npt.NDArray[np.floating] | None = None
    parts: npt.NDArray[np.floating] | None = None
    display_labels: Mapping[Any, str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        image_shape: tuple[int, ...],
        X_train: Any = None,
        max_rows: int = 8,
        display_labels: Any = None,
        cmap: Any = CMAP,
        ax: Any = None,
    ) -> Self:
        """Explain rows, and draw the explanation.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline, whose earlier steps are then applied to rows.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows to explain.
        image_shape : (height, width) or (height, width, 3)
            Shape of an image; features are its pixels, line by line.
        X_train : array-like or CSR matrix, optional
            Training rows of the model; without them, exemplars are left out.
        max_rows : int
            Maximum number of rows to draw, from the first.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        cmap : str or matplotlib colour map
            Shades of images that are not in colour.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : ExplanationDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_digits(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=20).fit(X[5:], y[5:])
        >>> display = ExplanationDisplay.from_estimator(
        ...     model, X[:5], image_shape=(8, 8), X_train=X[5:]
        ... )
        >>> display.exemplars.shape
        (5, 8, 8)
        """
        opened = unwrap_pipeline(estimator)
        rows = take_rows(X, np.arange(min(max_rows, X.shape[0] if hasattr(X, "shape") else len(X))))
        found = opened.model.explain(opened.rows(rows))
        if X_train is not None and opened.before is not None:
            X_train = opened.rows(X_train)
        return cls.from_explanation(
            found,
            image_shape=image_shape,
            X_train=X_train,
            max_rows=max_rows,
            display_labels=label_mapping(opened.model.classes_, display_labels),
            cmap=cmap,
            ax=ax,
        )

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        *,
        image_shape: tuple[int, ...],
        X_train: Any = None,
        max_rows: int = 8,
        display_labels: Mapping[Any, str] | None = None,
        cmap: Any = CMAP,
        ax: Any = None,
    ) -> Self:
        """Draw an explanation.

        Parameters
        ----------
        explanation : Explanation
            Result of `model.explain`.
        image_shape : (height, width) or (height, width, 3)
            Shape of an image; features are its pixels, line by line.
        X_train : array-like or CSR matrix, optional
            Training rows of the model; without them, exemplars are left out.
        max_rows : int
            Maximum number of rows to draw, from the first.
        display_labels : mapping from class label to str, optional
            Names of classes to display; by default the labels.
        cmap : str or matplotlib colour map
            Shades of images that are not in colour.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : ExplanationDisplay
            With `figure_` and `ax_` set.
        """
        if not len(explanation) or max_rows < 1:
            raise ValueError(
                f"There is nothing to draw: max_rows={max_rows} of {len(explanation)}."
            )
        shown = explanation.take(np.arange(min(max_rows, len(explanation))))
        centers = shown.centers
        rivals = None if (shown.rival < 0).any() else as_images(centers[shown.rival], image_shape)
        exemplars = None
        if X_train is not None:
            exemplars = as_images(_exemplars(shown, X_train), image_shape)
        display = cls(
            shown,
            as_images(dense(shown.rows), image_shape),
            as_images(centers[shown.prototype], image_shape),
            rivals,
            exemplars,
            None if rivals is None else _parts(shown, image_shape),
            display_labels,
        )
        return display.plot(ax, cmap=cmap)

    def plot(self, ax: Any = None, *, cmap: Any = CMAP) -> Self:
        """Draw a line of images per row.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        cmap : str or matplotlib colour map
            Shades of images that are not in colour.

        Returns
        -------
        self : ExplanationDisplay
            With `figure_` and `ax_` set.
        """
        n, columns = len(self.queries), self._columns()
        captions = {(name, i): self._caption(name, i) for name in columns for i in range(n)}
        # The first line names the columns, too.
        texts = [f"{name}\n{captions[name, 0]}" for name in columns] + list(captions.values())
        aspect = float(np.clip(aspect_of(self.queries), 0.25, 4))
        mosaic = Mosaic(len(columns), n, IMAGE_WIDTH_IN, aspect, longest_line(texts), 2)
        head = mosaic.caption_height / 2
        size = (mosaic.size[0], mosaic.size[1] + head)
        ax = self._begin(ax, (size[0] + 0.1, size[1] + 0.45))
        font = font_size(ax, size)
        for column, (name, images) in enumerate(columns.items()):
            style = {"vmin": 0, "vmax": 1, "cmap": cmap}
            if name == PARTS:
                most = float(np.abs(images).max()) or 1.0  # on the same scale for all rows
                style = {"vmin": -most, "vmax": most, "cmap": PARTS_CMAP}
            for i in range(n):
                x, y = mosaic.place(i, column)
                where = (x, y + head)
                if i == 0:
                    text = ax.text(x, 0, name, fontsize=font, ha="center", va="top")
                    text.set_weight("bold")
                mosaic.write(ax, where, captions[name, i], font)
                if not np.isnan(images[i]).any():
                    mosaic.draw(ax, where, images[i], **style)
        set_limits(ax, size)
        what = "Predictions explained: no change shorter than the radius gives another class"
        ax.set_title(what, fontsize=font + 1)
        return self

    def _columns(self) -> dict[str, npt.NDArray[np.floating]]:
        """Return the images of each column; in shades from 0 to 1, but for parts of the margin."""
        images = {
            "row": self.queries,
            "winning prototype": self.prototypes,
            "its exemplar": self.exemplars,
            "nearest rival": self.rivals,
        }
        # Scale by the rows: refined prototypes exceed the data range and would make rows pale.
        columns: dict[str, npt.NDArray[np.floating]] = {
            name: rescale_images(values, self.queries)
            for name, values in images.items()
            if values is not None
        }
        return columns if self.parts is None else columns | {PARTS: self.parts}

    def _caption(self, name: str, i: int) -> str:
        told = self.explanation
        label, rival = (
            displayed(value, self.display_labels, 14)
            for value in (told.label[i], told.rival_label[i])
        )
        if name == "row":
            return (
                f"taken for {label}\nmargin {told.margin[i]:.2f}, radius {length(told.radius[i])}"
            )
        if name == "winning prototype":
            about = f"#{told.id[i]}, weight {weight(told.size[i])}"
            return f"class {label}, {length(told.distance[i])} away\n{about}"
        if name == "its exemplar":
            row = told.exemplar[i]
            return "not known" if row < 0 else f"training row {row}"
        if name == PARTS:
            return f"blue: for {label}\nred: for {rival}"
        return f"class {rival}, {length(told.rival_distance[i])} away\n#{told.rival_id[i]}"

    def _summary(self) -> str:
        return plural(len(self.queries), "row")


def _parts(shown: Explanation, image_shape: tuple[int, ...]) -> npt.NDArray[np.floating] | None:
    """Return the parts of the margin as images; colours of a pixel are added."""
    if shown.parts is None:
        return None
    images = as_images(shown.parts, image_shape)
    return images if images.ndim == 3 else images.sum(axis=3)


def _exemplars(shown: Explanation, X_train: Any) -> npt.NDArray[np.float64]:
    """Take the exemplars from the training rows, as they are shown; NaN where unknown."""
    rows = exemplar_rows(shown.exemplar, X_train)
    if rows.shape[1] != shown.centers.shape[1]:
        raise ValueError(
            f"X_train has {rows.shape[1]} features, but the prototypes have "
            f"{shown.centers.shape[1]}."
        )
    known = shown.exemplar >= 0
    if shown.geometry is not None and known.any():
        rows[known] = shown.geometry.displayed(rows[known])
    return rows
