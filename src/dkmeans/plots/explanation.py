"""Predictions explained by images: row, winning prototype, its exemplar and nearest rival."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import PanelsDisplay
from dkmeans.plots.images import as_images, rescale_images
from dkmeans.plots.inputs import dense, take_rows, unwrap_pipeline
from dkmeans.plots.style import SMALL_PT, plural, short, weight
from dkmeans.results.answers import Explanation

IMAGE_WIDTH_IN = 1.65  # leaves room for the caption


@dataclass
class ExplanationDisplay(PanelsDisplay):
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

    Attributes
    ----------
    figure_, axes_ : matplotlib figure and array of axes
        Where it is drawn.
    """

    explanation: Explanation
    queries: npt.NDArray[np.floating]
    prototypes: npt.NDArray[np.floating]
    rivals: npt.NDArray[np.floating] | None = None
    exemplars: npt.NDArray[np.floating] | None = None
    parts: npt.NDArray[np.floating] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        image_shape: tuple[int, ...],
        X_train: Any = None,
        max_rows: int = 8,
    ) -> Self:
        """Explain rows.

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

        Returns
        -------
        display : ExplanationDisplay
            Call `plot()` on it.

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
            found, image_shape=image_shape, X_train=X_train, max_rows=max_rows
        )

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        *,
        image_shape: tuple[int, ...],
        X_train: Any = None,
        max_rows: int = 8,
    ) -> Self:
        """Collect the images of an explanation.

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

        Returns
        -------
        display : ExplanationDisplay
            Call `plot()` on it.
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
        return cls(
            shown,
            as_images(dense(shown.rows), image_shape),
            as_images(centers[shown.prototype], image_shape),
            rivals,
            exemplars,
            None if rivals is None else _parts(shown, image_shape),
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw a line of images per row.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.

        Returns
        -------
        self : ExplanationDisplay
            With `figure_` and `axes_` set.
        """
        images = {
            "row": self.queries,
            "winning prototype": self.prototypes,
            "its exemplar": self.exemplars,
            "nearest rival": self.rivals,
        }
        # Scale by the rows: refined prototypes exceed the data range and would make rows pale.
        shades = {
            name: rescale_images(values, self.queries)
            for name, values in images.items()
            if values is not None
        }
        n = len(self.queries)
        tall = (
            0.75 * IMAGE_WIDTH_IN * float(np.clip(np.divide(*self.queries.shape[1:3]), 0.25, 4))
            + 0.5
        )
        n_columns = len(shades) + (self.parts is not None)
        panels = self._begin_panels(ax, n, n_columns, (IMAGE_WIDTH_IN * n_columns, tall * n + 0.5))
        if self.parts is not None:
            self._draw_parts(panels[:, -1], self.parts)
        for (name, shown), line in zip(shades.items(), panels.T, strict=False):
            for i, axes in enumerate(line):
                axes.set(xticks=[], yticks=[])
                if np.isnan(shown[i]).any():
                    axes.set_frame_on(False)
                else:
                    axes.imshow(shown[i], vmin=0, vmax=1, cmap="gray_r")
                head = f"{name}\n" if i == 0 else ""
                axes.set_title(head + self._caption(name, i), fontsize=SMALL_PT, pad=3)
        if self._owns_figure:
            what = "Predictions explained: no change shorter than the radius gives another class"
            self._figure.suptitle(what, fontsize=SMALL_PT + 1)
        return self

    def _draw_parts(self, line: Any, parts: npt.NDArray[np.floating]) -> None:
        """Draw what each pixel adds to the margin, on the same scale for all rows."""
        most = float(np.abs(parts).max()) or 1.0
        for i, axes in enumerate(line):
            axes.set(xticks=[], yticks=[])
            axes.imshow(parts[i], vmin=-most, vmax=most, cmap="RdBu")
            head = "parts of the margin\n" if i == 0 else ""
            told = self.explanation
            sides = f"blue: for {short(told.label[i])}\nred: for {short(told.rival_label[i])}"
            axes.set_title(head + sides, fontsize=SMALL_PT, pad=3)

    def _caption(self, name: str, i: int) -> str:
        told = self.explanation
        if name == "row":
            radius = f"radius {told.radius[i]:.3g}"
            return f"taken for {short(told.label[i])}\nmargin {told.margin[i]:.2f}, {radius}"
        if name == "winning prototype":
            about = f"#{told.id[i]}, weight {weight(told.size[i])}"
            return f"class {short(told.label[i])}, {told.distance[i]:.3g} away\n{about}"
        if name == "its exemplar":
            row = told.exemplar[i]
            return "not known\n" if row < 0 else f"training row {row}\n"
        about = f"class {short(told.rival_label[i])}, {told.rival_distance[i]:.3g} away"
        return f"{about}\n#{told.rival_id[i]}"


def _parts(shown: Explanation, image_shape: tuple[int, ...]) -> npt.NDArray[np.floating] | None:
    """Return the parts of the margin as images; colours of a pixel are added."""
    if shown.parts is None:
        return None
    images = as_images(shown.parts, image_shape)
    return images if images.ndim == 3 else images.sum(axis=3)


def _exemplars(shown: Explanation, X_train: Any) -> npt.NDArray[np.float64]:
    """Take the exemplars from the training rows; NaN where unknown."""
    n_rows = X_train.shape[0] if hasattr(X_train, "shape") else len(X_train)
    known = np.flatnonzero(shown.exemplar >= 0)
    if len(known) and shown.exemplar.max() >= n_rows:
        raise ValueError(
            f"X_train has {plural(n_rows, 'row')}, but the exemplar of a prototype is row "
            f"{shown.exemplar.max()}: pass the rows that the model was fitted on."
        )
    found = np.full((len(shown), shown.centers.shape[1]), np.nan)
    if len(known):
        rows = dense(take_rows(X_train, shown.exemplar[known]))
        if rows.shape[1] != found.shape[1]:
            raise ValueError(
                f"X_train has {rows.shape[1]} features, but the prototypes have {found.shape[1]}."
            )
        rows = rows.astype(np.float64)
        found[known] = rows if shown.geometry is None else shown.geometry.displayed(rows)
    return found
