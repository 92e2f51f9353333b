"""Predictions explained by features: what each one adds to the margin, as bars."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dkmeans.plots.display import PanelsDisplay
from dkmeans.plots.inputs import take_rows, unwrap_pipeline
from dkmeans.plots.style import COLORS, SMALL_PT, displayed, label_mapping, length, plural, short
from dkmeans.results.answers import Explanation

FOR_COLOR, AGAINST_COLOR = COLORS[0], COLORS[1]
BAR_IN, PANEL_WIDTH_IN = 0.2, 3.6
MAX_NAME = 24  # characters of a feature's name


@dataclass(repr=False, eq=False)
class FeaturePartsDisplay(PanelsDisplay):
    """Bars of what features add to the margin of each row, the largest first.

    Build it with `from_estimator`, or call `model.explain(X, features=True).plot()`.

    Parameters
    ----------
    explanation : Explanation
        Explanation of each row drawn, with parts.
    max_features : int
        Maximum number of bars per row; the other features share one more.
    display_labels : mapping from class label to str, optional
        Names of classes to display; by default the labels.

    Attributes
    ----------
    figure_, axes_ : matplotlib figure and array of axes
        Where it is drawn.
    """

    explanation: Explanation
    max_features: int = 8
    display_labels: Mapping[Any, str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        max_rows: int = 8,
        max_features: int = 8,
        columns: int = 3,
        display_labels: Any = None,
        ax: Any = None,
    ) -> Self:
        """Explain rows, and draw the parts of their margins.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline, whose earlier steps are then applied to rows.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows to explain.
        max_rows : int
            Maximum number of rows to draw, from the first.
        max_features : int
            Maximum number of bars per row; the other features share one more.
        columns : int
            Panels per line.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.

        Returns
        -------
        display : FeaturePartsDisplay
            With `figure_` and `axes_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=6).fit(X, y)
        >>> display = FeaturePartsDisplay.from_estimator(model, X[:3])
        >>> display.explanation.parts.shape
        (3, 4)
        """
        opened = unwrap_pipeline(estimator)
        rows = take_rows(X, np.arange(min(max_rows, X.shape[0] if hasattr(X, "shape") else len(X))))
        found = opened.model.explain(opened.rows(rows), features=True)
        if opened.before is not None:
            found.features = np.array([opened.feature(j) for j in range(found.parts.shape[1])])
        return cls.from_explanation(
            found,
            max_rows=max_rows,
            max_features=max_features,
            columns=columns,
            display_labels=label_mapping(opened.model.classes_, display_labels),
            ax=ax,
        )

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        *,
        max_rows: int = 8,
        max_features: int = 8,
        columns: int = 3,
        display_labels: Mapping[Any, str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the parts of an explanation.

        Parameters
        ----------
        explanation : Explanation
            Result of `model.explain(X, features=True)`.
        max_rows : int
            Maximum number of rows to draw, from the first.
        max_features : int
            Maximum number of bars per row; the other features share one more.
        columns : int
            Panels per line.
        display_labels : mapping from class label to str, optional
            Names of classes to display; by default the labels.
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.

        Returns
        -------
        display : FeaturePartsDisplay
            With `figure_` and `axes_` set.
        """
        if explanation.parts is None:
            raise ValueError(
                "There are no parts to draw: use explain(X, features=True), or pass image_shape to "
                "draw rows that are images."
            )
        if not len(explanation) or max_rows < 1 or max_features < 1:
            raise ValueError(
                f"There is nothing to draw: max_rows={max_rows} of {len(explanation)}, "
                f"max_features={max_features}."
            )
        if (explanation.rival < 0).any():
            raise ValueError(
                f"All prototypes are of class {explanation.label[0]!s}, so there is no margin to "
                "split: parts need prototypes of two classes or more."
            )
        shown = explanation.take(np.arange(min(max_rows, len(explanation))))
        return cls(shown, max_features, display_labels).plot(ax, columns=columns)

    def plot(self, ax: Any = None, *, columns: int = 3) -> Self:
        """Draw a panel of bars per row.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.
        columns : int
            Panels per line.

        Returns
        -------
        self : FeaturePartsDisplay
            With `figure_` and `axes_` set.
        """
        n = len(self.explanation)
        columns = min(columns, n)
        lines = -(-n // columns)
        n_bars = min(self.max_features + 1, self._parts.shape[1])
        size = (PANEL_WIDTH_IN * columns, (BAR_IN * n_bars + 0.75) * lines + 0.3)
        panels = self._begin_panels(ax, lines, columns, size)
        for i, axes in enumerate(panels.flat):
            if i < n:
                self._draw(axes, i)
            else:
                axes.set_visible(False)
        if self._owns_figure:
            what = (
                "What each feature adds to the margin: right of 0 for the class, left for its rival"
            )
            self.figure_.suptitle(
                what if columns > 1 else "Parts of the margin", fontsize=SMALL_PT + 1
            )
        return self

    def _summary(self) -> str:
        return plural(len(self.explanation), "row")

    @property
    def _parts(self) -> Any:
        return self.explanation.parts

    def _draw(self, axes: Any, i: int) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        told, parts = self.explanation, self._parts[i]
        assert told.features is not None
        order = np.argsort(-np.abs(parts), kind="stable")
        first, rest = order[: self.max_features], order[self.max_features :]
        values = parts[first].tolist()
        names = [short(told.features[j], MAX_NAME) for j in first]
        if len(rest):
            values.append(float(parts[rest].sum()))
            names.append(plural(len(rest), "other"))
        places = np.arange(len(values))
        colors = [FOR_COLOR if value >= 0 else AGAINST_COLOR for value in values]
        axes.barh(places, values, color=colors, height=0.7)
        axes.axvline(0, color="black", lw=0.8)
        axes.set_yticks(places, names, fontsize=SMALL_PT)
        axes.tick_params(axis="x", labelsize=SMALL_PT)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.invert_yaxis()
        label, rival = (
            displayed(value, self.display_labels) for value in (told.label[i], told.rival_label[i])
        )
        axes.set_title(
            f"{label} rather than {rival}: {length(told.squared_margin[i])}",
            fontsize=SMALL_PT,
        )
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
