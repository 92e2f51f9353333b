"""Pairs of adjacent classes, and the prototypes needed to separate them."""

import textwrap
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display, inches
from dkmeans.plots.inputs import unwrap_pipeline
from dkmeans.plots.style import MIN_FONT_PT, SMALL_PT, class_names, plural, wrapped
from dkmeans.results.answers import ClassBorders

CMAPS = ("Blues", "Oranges")  # of the lower and of the upper triangle


@dataclass(repr=False, eq=False)
class ClassBordersDisplay(Display):
    """Pairs of classes: prototypes needed to separate them, and prototypes that face each other.

    Build it with `from_estimator`, or call `model.class_borders().plot()`. The lower triangle shows
    the number of prototypes that a pair of classes cost, the upper triangle the number of pairs of
    prototypes that face each other. A dot marks pairs whose only contact is that rows of one class
    lie in cells of the other. Pairs without contact are white. The costliest pairs are framed and
    named.

    Parameters
    ----------
    borders : ClassBorders
        The pairs.
    classes : ndarray of shape (n_classes,)
        Class labels, in drawing order.
    display_labels : list of str, optional
        Names of the classes to display; by default the labels.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    borders: ClassBorders
    classes: npt.NDArray[Any]
    display_labels: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        ax: Any = None,
        display_labels: Any = None,
        most: int = 5,
        cmaps: tuple[Any, Any] = CMAPS,
    ) -> Self:
        """Compare the classes of a fitted estimator, and draw the matrix.

        Parameters
        ----------
        estimator : DiscriminativeKMeans
            Fitted; also at the end of a pipeline.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        most : int
            Number of pairs to frame and name.
        cmaps : pair of str or matplotlib colour maps
            Colours of the lower and of the upper triangle.

        Returns
        -------
        display : ClassBordersDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=6).fit(X, y)
        >>> display = ClassBordersDisplay.from_estimator(model)
        >>> display.matrix("prototypes").tolist()
        [[0, 0, 0], [0, 0, 3], [0, 3, 0]]
        """
        model = unwrap_pipeline(estimator).model
        display = cls(model.class_borders(), model.classes_, display_labels)
        return display.plot(ax, most=most, cmaps=cmaps)

    def _summary(self) -> str:
        return f"{len(self.classes)} classes, {plural(len(self.borders), 'pair')} that meet"

    def matrix(self, column: str) -> npt.NDArray[Any]:
        """Turn a column of the table into a symmetric matrix of classes by classes.

        Parameters
        ----------
        column : {"prototypes", "facing"}
            Name of the column.

        Returns
        -------
        matrix : ndarray of shape (n_classes, n_classes)
            Zero for pairs that are not in the table.
        """
        values = getattr(self.borders, column)
        result = np.zeros((len(self.classes),) * 2, dtype=values.dtype)
        a, b = self._places()
        result[a, b] = result[b, a] = values
        return result

    def plot(self, ax: Any = None, *, most: int = 5, cmaps: tuple[Any, Any] = CMAPS) -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        most : int
            Number of pairs to frame and name.
        cmaps : pair of str or matplotlib colour maps
            Colours of the lower and of the upper triangle.

        Returns
        -------
        self : ClassBordersDisplay
            With `figure_` and `ax_` set.
        """
        n, texts = len(self.classes), class_names(self.classes, self.display_labels, 14)
        label = 0.075 * max(map(len, texts))  # inches, at the largest font
        side = float(np.clip(2.4 + 0.19 * n, 3.0, 10.5))
        ax = self._begin(ax, (side + label + 1.8, side + label + 0.9))
        wide, tall = inches(ax)
        cell = 72 * max(min(wide / 0.775 - 1.8, tall / 0.77 - 0.9) - label, 0.5) / n
        self._fill(ax, cell, cmaps)
        a, b = np.sort(self._places(), axis=0)[:, self._strays_only()]
        ax.plot(b, a, ".", color="0.35", ms=float(np.clip(0.25 * cell, 1.5, 5)))
        self._frame(ax, texts, most, int(n * cell / 4.2))
        font = float(np.clip(0.8 * cell, 4, 9))
        step = max(1, int(np.ceil(MIN_FONT_PT / cell)))
        places = np.arange(0, n, step)
        shown = [texts[i] for i in places]
        turn = 90 if max(map(len, shown)) * 0.6 * font > cell * step else 0
        ax.set_xticks(places, shown, rotation=turn, fontsize=font)
        ax.set_yticks(places, shown, fontsize=font)
        ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
        return self

    def _places(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        order = np.argsort(self.classes)
        a, b = (
            order[np.searchsorted(self.classes, labels, sorter=order)]
            for labels in (self.borders.a, self.borders.b)
        )
        return a, b

    def _strays_only(self) -> npt.NDArray[np.bool_]:
        return np.asarray((self.borders.facing == 0) & (self.borders.prototypes == 0))

    def _fill(self, ax: Any, cell: float, cmaps: tuple[Any, Any]) -> None:
        """Colour the two triangles, each with its own scale, and write the numbers."""
        from matplotlib.ticker import MaxNLocator

        n = len(self.classes)
        above = np.triu(np.ones((n, n), dtype=bool), 1)
        ax.imshow(np.where(np.eye(n), 0.85, np.nan), cmap="gray", vmin=0, vmax=1)
        for column, hidden, scale, words in (
            ("facing", ~above, cmaps[1], "above: pairs of facing prototypes"),
            ("prototypes", ~above.T, cmaps[0], "below: prototypes that it cost"),
        ):
            values = self.matrix(column)
            # The upper third of a colour map is too dark for black text.
            top = 1.5 * max(int(values.max(initial=0)), 1)
            seen = np.ma.masked_array(values, hidden | (values == 0))
            image = ax.imshow(seen, cmap=scale, vmin=0, vmax=top, aspect="equal")
            bar = ax.figure.colorbar(image, ax=ax, fraction=0.04, shrink=0.85, aspect=28, pad=0.02)
            bar.ax.set_ylim(0, max(int(values.max(initial=0)), 1))
            bar.ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
            bar.ax.tick_params(labelsize=SMALL_PT)
            bar.set_label(words, fontsize=SMALL_PT)
            font = min(9.0, 0.6 * cell, 1.5 * cell / len(str(values.max(initial=0))))
            if font < MIN_FONT_PT:
                continue
            for i, j in np.argwhere(~np.ma.getmaskarray(seen)):
                ax.text(j, i, str(values[i, j]), ha="center", va="center", fontsize=font)

    def _frame(self, ax: Any, texts: list[str], most: int, wide: int) -> None:
        """Frame and name the costliest pairs, in lines of `wide` characters."""
        from matplotlib.patches import Rectangle

        costs = self.borders.prototypes
        title = f"Classes meet in {plural(len(self.borders), 'pair')}"
        title += f"; telling them apart cost {plural(int(costs.sum()), 'prototype')}"
        ax.set_title(textwrap.fill(title, max(wide, 30)), fontsize=9)
        # Also leave out pairs that tie with the first one left out, unless all tie.
        least = int(costs[most]) if most < len(costs) else 0
        least = 0 if len(costs) and least == costs[0] else least
        told = []
        for row, (a, b) in enumerate(zip(*self._places(), strict=True)):
            if row >= most or costs[row] <= least:
                break
            low, high = sorted((int(a), int(b)))
            frame: dict[str, Any] = {"fill": False, "ec": "black", "lw": 1.3}
            ax.add_patch(Rectangle((low - 0.5, high - 0.5), 1, 1, **frame))
            told.append(f"{texts[low]}\N{EN DASH}{texts[high]} ({costs[row]})")
        if told:
            # No line breaks within a pair.
            listed = ", ".join(text.replace(" ", "\u00a0") for text in told)
            lines = wrapped(f"costliest: {listed}", max(wide, 24))
            ax.set_xlabel(f"class\n{lines}", fontsize=SMALL_PT + 1)
        ax.set_ylabel("class", fontsize=SMALL_PT + 1)
