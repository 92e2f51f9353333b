"""Tables that questions asked of a fitted model return."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.geometry import Geometry
from dkmeans.results.table import Table


class Explanation(Table):
    """One row per row of X; `model.explain(X)` returns it.

    Attributes
    ----------
    label : class label
        Predicted class: that of the nearest prototype.
    true : class label
        True class, if labels are given.
    right : bool
        Whether the two are the same, if labels are given.
    prototype : int
        Index of this prototype.
    id : int
        Its permanent id, as in `cluster_ids_`.
    size : float
        Sum of `sample_weight` over its training rows.
    exemplar : int
        Index of the training row that is nearest to it, of its cell and class; -1 if not known.
    distance : float
        Distance to it.
    rival : int
        Index of the nearest prototype of any other class; -1 if there is none.
    rival_id : int
        Its id; -1 if there is none.
    rival_label : class label
        Its class; None if there is none.
    rival_distance : float
        Distance to it; infinite if there is none.
    margin : float
        With D the distance and R that of the rival, (R^2 - D^2) / (R^2 + D^2): 0 on the border, 1
        on a prototype. It equals `decision_function` of the predicted class.
    radius : float
        Certified radius: no change of the row that is shorter, as a vector in the space of X,
        changes the predicted class. It accounts for rounding. It is a lower bound: the nearest
        point of another class may be farther away. Infinite if all prototypes are of one class.
    squared_margin : float
        R^2 - D^2, only with `features=True`: the exact sum of the row's parts. Infinite if all
        prototypes are of one class.
    parts : ndarray of shape (n_rows, n_features), or None
        What each feature adds to `squared_margin`, only with `features=True`: positive where it
        speaks for the nearest prototype, negative where it speaks for the rival. They add up
        exactly, in any order. NaN if all prototypes are of one class.
    features : ndarray of shape (n_features,), or None
        Names of the features, only with `features=True`.
    """

    def __init__(
        self,
        *,
        rows: Any = None,
        centers: Any = None,
        geometry: Geometry | None = None,
        parts: npt.NDArray[np.float64] | None = None,
        features: npt.NDArray[Any] | None = None,
        **columns: npt.ArrayLike,
    ) -> None:
        super().__init__(**columns)
        # For plots: rows and all centres as they are shown, and the space that compares them.
        self.rows, self.centers, self.geometry = rows, centers, geometry
        self.parts, self.features = parts, features

    def _taken(self, rows: npt.NDArray[Any]) -> Self:
        columns = {name: getattr(self, name)[rows] for name in self.columns}
        return type(self)(
            rows=None if self.rows is None else self.rows[rows],
            centers=self.centers,
            geometry=self.geometry,
            parts=None if self.parts is None else self.parts[rows],
            features=self.features,
            **columns,
        )

    def to_pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame`, with a column `part_...` per feature."""
        table = super().to_pandas()
        if self.parts is None or self.features is None:
            return table
        import pandas as pd

        names = [f"part_{name}" for name in self.features]
        parts = pd.DataFrame(self.parts, columns=names, index=table.index)
        return pd.concat([table, parts], axis=1)

    def plot(
        self,
        ax: Any = None,
        *,
        image_shape: tuple[int, ...] | None = None,
        X_train: Any = None,
        max_rows: int = 8,
    ) -> Any:
        """Plot what decided each row (matplotlib must be installed).

        Rows that are images are drawn beside the prototypes and, with `features=True`, a picture of
        the parts. Without an `image_shape` the parts are drawn as bars.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.
        image_shape : (height, width) or (height, width, 3), optional
            Shape of the image that the features make up, line by line.
        X_train : array-like or CSR matrix, optional
            The rows that the model was fitted on; without them exemplars are not drawn, as a model
            keeps only their indices.
        max_rows : int
            Largest number of rows to draw, the first ones; use `take` for others.

        Returns
        -------
        display : ExplanationDisplay or FeaturePartsDisplay
            It has the attributes `figure_` and `ax_`.
        """
        if image_shape is None:
            from dkmeans.plots.feature_parts import FeaturePartsDisplay

            return FeaturePartsDisplay.from_explanation(self, max_rows=max_rows, ax=ax)
        from dkmeans.plots.explanation import ExplanationDisplay

        return ExplanationDisplay.from_explanation(
            self, image_shape=image_shape, X_train=X_train, max_rows=max_rows, ax=ax
        )

    def by_column(self, columns: Sequence[str]) -> Self:
        """Add up the parts of features that come from the same column of a table.

        Parameters
        ----------
        columns : sequence of str, of length n_features
            Name of the column that each feature comes from.

        Returns
        -------
        explanation : Explanation
            The same, with one part per column. Parts still add up exactly.
        """
        if self.parts is None:
            return self
        names = list(dict.fromkeys(columns))
        codes = np.array([names.index(name) for name in columns], dtype=np.intp)
        parts = np.zeros((len(self), len(names)))
        np.add.at(parts.T, codes, self.parts.T)
        other = copy.copy(self)
        other.parts, other.features = parts, np.array(names, dtype=object)
        return other

    def _headline(self) -> str:
        if "right" in self.columns:
            right = int(self.right.sum())
            return f"Explanation of {len(self)} predictions, {right} of them right"
        return f"Explanation of {len(self)} predictions"


class Rejection(Table):
    """Thresholds of rejection: one row per prototype, in the order of `cluster_centers_`.

    Attributes
    ----------
    id : int
        Id of the prototype.
    label : class label
        Its class.
    threshold : float
        Rows whose nearest prototype it is are rejected if their strangeness is above this.
    rows : int
        Number of held-out rows that the threshold is based on.
    rate : float
        Upper bound on the expected share of rows of known classes that it rejects; at most the
        rate that was asked for.
    per : str
        Source of the rows: this "prototype" alone, several of its "class", or several classes
        ("all").
    references : ndarray of shape (n_references, n_features), or None
        Held-out rows that rows are compared with, in the space of the prototypes. None for
        medoids, and in files of earlier versions.
    """

    references: npt.NDArray[np.floating] | None = None

    def with_references(self, references: npt.NDArray[np.floating] | None) -> Self:
        """Return the table with references.

        Parameters
        ----------
        references : array of shape (n_references, n_features), or None
            Rows in the space of the prototypes.
        """
        other = self.take(np.arange(len(self)))
        other.references = references
        return other

    def _taken(self, rows: npt.NDArray[Any]) -> Self:
        other = super()._taken(rows)
        other.references = self.references
        return other

    def _headline(self) -> str:
        return f"Rejection: at most {self.rate.max():.2%} of rows of known classes"


class LabelNoise(Table):
    """Estimate of the number of wrong labels, one row per class.

    Attributes
    ----------
    label : class label
        The class.
    rows : int
        Number of rows with this label.
    wrong : float
        How many of them should have another label, by estimate.
    """

    def _headline(self) -> str:
        wrong, whole = float(self.wrong.sum()), int(self.rows.sum())
        return f"About {wrong:.0f} of {whole} labels are wrong ({wrong / max(whole, 1):.1%})"


class Suspects(Table):
    """Rows whose label disagrees with their neighbourhood, the most suspicious first.

    Attributes
    ----------
    row : int
        Position of the row; `index` has its label in a frame.
    label : class label
        Its label.
    suggested : class label
        The heaviest of the other classes nearby.
    cluster : int
        Id of its cluster, an entry of `cluster_ids_`.
    score : float
        From 0, amid rows of its class, to 1, amid rows of other classes.
    reason : str
        "conflict": identical rows have other labels. "only one of its class". "cell of another
        class". "small foreign cell": its cluster has a weight of up to three rows. "nearer to
        others": none of these. "none": the score is 0.5 or less.
    noise : LabelNoise
        How many labels of each class are wrong, by estimate: of all rows, whether listed or not.
    """

    def __init__(self, *, noise: LabelNoise | None = None, **columns: npt.ArrayLike) -> None:
        super().__init__(**columns)
        self.noise = LabelNoise(label=[], rows=[], wrong=[]) if noise is None else noise

    def _taken(self, rows: npt.NDArray[Any]) -> Self:
        columns = {name: getattr(self, name)[rows] for name in self.columns}
        return type(self)(noise=self.noise, **columns)

    def plot(self, X: Any, *, image_shape: tuple[int, ...], n: int = 24, ax: Any = None) -> Any:
        """Plot the first of them as images (matplotlib must be installed).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The training rows.
        image_shape : (height, width) or (height, width, 3)
            Shape of the image that the features make up, line by line.
        n : int
            Largest number of images.
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : SuspectImagesDisplay
            It has the attributes `figure_` and `ax_`.
        """
        from dkmeans.plots.suspects import SuspectImagesDisplay

        return SuspectImagesDisplay.from_suspects(self, X, image_shape=image_shape, n=n, ax=ax)

    def _headline(self) -> str:
        listed = f"{len(self)} suspect{'s' * (len(self) != 1)}"
        if not len(self.noise):
            return listed
        wrong, whole = float(self.noise.wrong.sum()), int(self.noise.rows.sum())
        return f"{listed}; about {wrong:.0f} of {whole} labels are wrong"


class ClassBorders(Table):
    """One row per pair of classes that meet, the pair that cost the most prototypes first.

    Attributes
    ----------
    a, b : class label
        The classes, in their order.
    prototypes : int
        Prototypes that the pair cost. Each class needs one; every further prototype counts once.
    facing : int
        Pairs of prototypes, one of each class, with no third one between them.
    gap : float
        Smallest distance between a prototype of one class and one of the other.
    a_in_b, b_in_a : float
        Share of the training weight of one class that lies in cells of the other.
    """

    def plot(self, ax: Any = None) -> Any:
        """Plot which classes meet (matplotlib must be installed).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : ClassBordersDisplay
            It has the attributes `figure_` and `ax_`.
        """
        from dkmeans.plots.class_borders import ClassBordersDisplay

        return ClassBordersDisplay(self, np.union1d(self.a, self.b)).plot(ax)

    def _headline(self) -> str:
        return f"Borders between {len(self)} pairs of classes"
