"""Confusion matrix with totals."""

import textwrap
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import Display, inches
from dkmeans.plots.inputs import check_labels
from dkmeans.plots.style import MIN_FONT_PT, SMALL_PT, class_names, color, weight, wrapped

Shares = Literal["true", "pred", "all"]
TOTALS_SHARE, GAP_SHARE = 0.16, 0.02  # size of the totals and of the gap, relative to the matrix
ERRORS_CMAP = "Oranges"


@dataclass(repr=False, eq=False)
class ConfusionDisplay(Display):
    """Confusion matrix: true classes against predicted classes.

    Build it with `from_estimator` or `from_predictions`. Errors have their own colour scale, so
    that rare ones are visible; the most frequent ones are framed and named. Totals of the true
    classes are on the right, those of the predicted classes on top, with the misclassified part
    hatched.

    Parameters
    ----------
    matrix : ndarray of shape (n_classes, n_classes)
        Weight of the rows of each class (line) that are predicted as each class (column).
    classes : ndarray of shape (n_classes,)
        Class labels.
    normalize : {"true", "pred", "all"} or None
        Write shares of each line, of each column or of all rows instead of weights.
    display_labels : list of str, optional
        Names of the classes to display; by default the labels.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it is drawn.
    """

    matrix: npt.NDArray[Any]
    classes: npt.NDArray[Any]
    normalize: Shares | None = None
    display_labels: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        normalize: Shares | None = None,
        display_labels: Any = None,
        ax: Any = None,
        most: int = 5,
        cmap: Any = ERRORS_CMAP,
    ) -> Self:
        """Predict labelled rows, and draw how often each class is predicted as each class.

        Parameters
        ----------
        estimator : classifier
            Any fitted classifier or pipeline.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, preferably held out.
        y : array-like of shape (n_samples,)
            Their class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights.
        normalize : {"true", "pred", "all"} or None
            Write shares of each line, of each column or of all rows instead of weights.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        most : int
            Number of pairs to frame and name.
        cmap : str or matplotlib colour map
            Colours of the errors.

        Returns
        -------
        display : ConfusionDisplay
            With `figure_` and `ax_` set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=6).fit(X, y)
        >>> display = ConfusionDisplay.from_estimator(model, X, y)
        >>> display.matrix.sum(axis=1).tolist()
        [50, 50, 50]
        """
        labels = check_labels(X, y, np.asarray(estimator.classes_))
        return cls.from_predictions(
            labels,
            estimator.predict(X),
            sample_weight=sample_weight,
            normalize=normalize,
            display_labels=display_labels,
            ax=ax,
            most=most,
            cmap=cmap,
        )

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        y_pred: Any,
        *,
        sample_weight: Any = None,
        normalize: Shares | None = None,
        display_labels: Any = None,
        ax: Any = None,
        most: int = 5,
        cmap: Any = ERRORS_CMAP,
    ) -> Self:
        """Draw how often each class is predicted as each class.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Class labels.
        y_pred : array-like of shape (n_samples,)
            Predicted class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.
        normalize : {"true", "pred", "all"} or None
            Write shares of each line, of each column or of all rows instead of weights.
        display_labels : list of str, optional
            Names of the classes, in the order of the sorted class labels; by default the labels.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        most : int
            Number of pairs to frame and name.
        cmap : str or matplotlib colour map
            Colours of the errors.

        Returns
        -------
        display : ConfusionDisplay
            With `figure_` and `ax_` set.
        """
        if normalize not in (None, "true", "pred", "all"):
            raise ValueError(f"normalize={normalize!r} must be 'true', 'pred', 'all' or None.")
        y, y_pred = np.asarray(y), np.asarray(y_pred)
        if y.ndim != 1 or y.shape != y_pred.shape or not len(y):
            raise ValueError(
                f"y has shape {y.shape} and y_pred {y_pred.shape}: pass one label for each row."
            )
        if sample_weight is not None and np.shape(sample_weight) != y.shape:
            raise ValueError(
                f"sample_weight has shape {np.shape(sample_weight)}, but there are {len(y)} rows: "
                "pass one weight for each."
            )
        classes = np.union1d(y, y_pred)
        n = len(classes)
        cell = np.searchsorted(classes, y) * n + np.searchsorted(classes, y_pred)
        matrix = np.bincount(cell, sample_weight, n * n).reshape(n, n)
        return cls(matrix, classes, normalize, display_labels).plot(ax, most=most, cmap=cmap)

    def _summary(self) -> str:
        wrong = self.matrix.sum() - np.trace(self.matrix)
        return f"{len(self.classes)} classes, {wrong / (self.matrix.sum() or 1):.1%} wrong"

    def most_confused(self, most: int = 5) -> list[tuple[Any, Any, float]]:
        """List the pairs of classes that are confused most often.

        Parameters
        ----------
        most : int
            Maximum number of pairs.

        Returns
        -------
        pairs : list of (true label, predicted label, weight of rows)
            Heaviest first. Pairs that tie with the first one left out are left out too.
        """
        return [
            (self.classes[i], self.classes[j], self.matrix[i, j].item())
            for i, j in self._most_confused_pairs(most)
        ]

    def plot(self, ax: Any = None, *, most: int = 5, cmap: Any = ERRORS_CMAP) -> Self:
        """Draw the matrix and its totals.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        most : int
            Number of pairs to frame and name.
        cmap : str or matplotlib colour map
            Colours of the errors.

        Returns
        -------
        self : ConfusionDisplay
            With `figure_` and `ax_` set.
        """
        from matplotlib.patches import Rectangle

        n, texts = len(self.classes), class_names(self.classes, self.display_labels, 14)
        label = 0.075 * max(map(len, texts))  # inches, at the largest font
        side = float(np.clip(2.6 + 0.21 * n, 3.2, 11.5))
        ax = self._begin(ax, (side + label + 1.1, side + label + 1.0))
        cell = _cell_points(ax, n, label)
        shares = self.matrix / np.maximum(self.matrix.sum(axis=1, keepdims=True), 1e-300)
        right = np.eye(n, dtype=bool)
        worst = float(shares[~right].max(initial=0)) or 1.0
        look = {"aspect": "equal", "vmin": 0}
        errors = np.ma.masked_array(shares, right | (shares == 0))
        ax.imshow(np.ma.masked_array(shares, ~right), cmap="Blues", vmax=1.6, **look)
        ax.imshow(errors, cmap=cmap, vmax=1.8 * worst, **look)
        pairs = self._most_confused_pairs(most)
        for i, j in pairs:
            frame: dict[str, Any] = {"fill": False, "ec": "black", "lw": 1.3}
            ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **frame))
        self._write_cells(ax, cell)
        font = float(np.clip(0.8 * cell, 4, 9))
        step = max(1, int(np.ceil(MIN_FONT_PT / cell)))
        places = np.arange(0, n, step)
        shown = [texts[i] for i in places]
        turn = 90 if max(map(len, shown)) * 0.6 * font > cell * step else 0
        ax.set_xticks(places, shown, rotation=turn, fontsize=font)
        ax.set_yticks(places, shown, fontsize=font)
        ax.set(ylabel="true class", xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
        above = self._totals(ax, cell)
        self._describe(ax, pairs, texts, above, int(n * cell / 4))
        if self._owns_figure:  # the size of the bars depends on a first layout
            self.figure_.draw_without_rendering()
        return self

    def _most_confused_pairs(self, most: int) -> list[tuple[int, int]]:
        errors = self.matrix * ~np.eye(len(self.classes), dtype=bool)
        order = np.argsort(-errors, axis=None, kind="stable")
        least = errors.flat[order[most]] if most < len(order) else 0
        # Also leave out pairs that tie with the first one left out, unless all tie.
        if least == errors.flat[order[0]]:
            least = 0
        pairs = (np.unravel_index(place, errors.shape) for place in order[:most])
        return [(int(i), int(j)) for i, j in pairs if errors[i, j] > least]

    def _cell_texts(self) -> list[list[str]]:
        matrix = self.matrix
        totals = {"true": matrix.sum(axis=1, keepdims=True), "pred": matrix.sum(axis=0)}
        if self.normalize is None:
            return [[weight(value) if value else "" for value in line] for line in matrix]
        shares = 100 * matrix / np.maximum(totals.get(self.normalize, matrix.sum()), 1e-300)
        return [[f"{value:.3g}" if value else "" for value in line] for line in shares]

    def _write_cells(self, ax: Any, cell: float) -> None:
        written = self._cell_texts()
        longest = max(len(text) for line in written for text in line)
        font = min(9.0, 0.5 * cell, 1.3 * cell / longest)
        if font < MIN_FONT_PT:
            return
        for i, line in enumerate(written):
            for j, text in enumerate(line):
                if text:
                    ax.text(j, i, text, ha="center", va="center", fontsize=font)

    def _describe(
        self, ax: Any, pairs: list[tuple[int, int]], texts: list[str], above: float, wide: int
    ) -> None:
        """Write the title, `above` points over the matrix, and labels `wide` characters wide."""
        total = self.matrix.sum()
        wrong = total - np.trace(self.matrix)
        title = f"{wrong / (total or 1):.1%} of {weight(total)} rows misclassified"
        if self.normalize is not None:
            whole = {"true": "true class", "pred": "predicted class", "all": "all rows"}
            title += f", cells in % of {whole[self.normalize]}"
        title = textwrap.fill(title, max(wide, 30))
        ax.set_title(title, fontsize=9, y=1 + TOTALS_SHARE + GAP_SHARE, pad=above)
        label = "predicted class"
        if pairs:
            told = [f"{texts[i]} → {texts[j]} ({weight(self.matrix[i, j])})" for i, j in pairs]
            # No line breaks within a pair.
            listed = ", ".join(text.replace(" ", "\u00a0") for text in told)
            label += "\n" + wrapped(f"most\u00a0confused: {listed}", max(wide, 24))
        ax.set_xlabel(label, fontsize=SMALL_PT + 1)

    def _totals(self, ax: Any, cell: float) -> float:
        """Draw totals beside and above the matrix; return the height of the text above, in pt."""
        right, n = np.diag(self.matrix), len(self.classes)
        beside = ax.inset_axes([1 + GAP_SHARE, 0, TOTALS_SHARE, 1])
        above = ax.inset_axes([0, 1 + GAP_SHARE, 1, TOTALS_SHARE])
        of_true, of_predicted = self.matrix.sum(axis=1), self.matrix.sum(axis=0)
        bars = {"ec": "white", "lw": 0.3}
        wrong = bars | {"color": color(4), "hatch": "////" if cell > 6 else None}
        numbers = np.arange(n)
        beside.barh(numbers, right, 0.85, color=color(0), label="right", **bars)
        beside.barh(numbers, of_true - right, 0.85, left=right, label="wrong", **wrong)
        above.bar(numbers, right, 0.85, color=color(0), **bars)
        above.bar(numbers, of_predicted - right, 0.85, bottom=right, **wrong)
        high = 1.02 * max(of_true.max(), of_predicted.max(), 1e-300)
        beside.set(ylim=(n - 0.5, -0.5), xlim=(0, high))
        above.set(xlim=(-0.5, n - 0.5), ylim=(0, high))
        for axes, name in ((beside, "true rows"), (above, "predicted rows")):
            axes.set(xticks=[], yticks=[])
            axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
            axes.set_label(name)
        ax.legend(
            *beside.get_legend_handles_labels(),
            loc="lower left",
            bbox_to_anchor=(1, 1),
            frameon=False,
            fontsize=SMALL_PT - 1,
            handlelength=1,
        )
        font = min(float(SMALL_PT), 0.6 * cell)
        if font < MIN_FONT_PT:
            return 4.0
        longest = max(len(weight(total)) for total in of_predicted)
        turn = 90 if 0.65 * font * longest > cell else 0
        near = {"textcoords": "offset points", "fontsize": font, "annotation_clip": False}
        for i in range(n):
            text, place = weight(of_true[i]), (of_true[i], i)
            beside.annotate(text, place, xytext=(2, 0), ha="left", va="center", **near)
            text, place = weight(of_predicted[i]), (i, of_predicted[i])
            above.annotate(
                text, place, xytext=(0, 2), ha="center", va="bottom", rotation=turn, **near
            )
        return 5 + font * (0.65 * longest if turn else 1.2)


def _cell_points(ax: Any, n: int, label: float) -> float:
    """Estimate the points per cell before the layout is known."""
    wide, tall = inches(ax)
    # Default axes reserve margins for labels, which the constrained layout reclaims.
    side = min(wide / 0.775 - 0.8, tall / 0.77 - 1.2) - label
    return 72 * max(side, 0.5) / (1 + TOTALS_SHARE) / n
