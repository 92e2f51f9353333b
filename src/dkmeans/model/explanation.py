"""Why rows are predicted as they are, and how far they are from another answer."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dkmeans.model.table import Table


class Explanation(Table):
    """One row per row that was asked about; `model.explain(X)` makes it.

    Attributes
    ----------
    label : class label
        Predicted class: that of the nearest prototype.
    prototype : int
        Index of this prototype.
    id : int
        Its lasting identity, as in `cluster_ids_`.
    size : float
        Sum of `sample_weight` over its training rows.
    exemplar : int
        Index of the training row that is nearest to it, of its cell and class; -1 if not known.
    distance : float
        Distance to it.
    rival : int
        Index of the nearest prototype of any other class; -1 if there is none.
    rival_id : int
        Its identity; -1 if there is none.
    rival_label : class label
        Its class; None if there is none.
    rival_distance : float
        Distance to it; infinite if there is none.
    margin : float
        With D the distance and R that of the rival, (R^2 - D^2) / (R^2 + D^2): 0 on the border, 1
        on a prototype. It is what `decision_function` says of the predicted class.
    radius : float
        Certified radius: no change of the row that is shorter, as a vector in the space of X,
        changes the predicted class. Rounding is allowed for. It is a lower bound: the nearest
        place of another class may be farther off. Infinite if all prototypes are of one class.
    """

    def __init__(
        self,
        *,
        rows: Any = None,
        centers: Any = None,
        is_unit: bool = False,
        **columns: npt.ArrayLike,
    ) -> None:
        super().__init__(**columns)
        # What pictures need: rows as the model sees them, all prototypes, and of what length.
        self.rows, self.centers, self.is_unit = rows, centers, is_unit

    def take(self, rows: npt.NDArray[Any]) -> Self:
        """Select rows by index or mask."""
        columns = {name: getattr(self, name)[rows] for name in self.columns}
        mine = None if self.rows is None else self.rows[rows]
        return type(self)(rows=mine, centers=self.centers, is_unit=self.is_unit, **columns)

    def plot(
        self,
        ax: Any = None,
        *,
        image_shape: tuple[int, ...],
        X_train: Any = None,
        max_rows: int = 8,
    ) -> Any:
        """Draw rows that are images beside what decided about them (matplotlib must be installed).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Its place is divided into panels; a new figure if not given.
        image_shape : (height, width) or (height, width, 3)
            How the features make up an image, line by line.
        X_train : array-like or CSR matrix, optional
            The rows that the model was fitted on; without them exemplars are left out, as a model
            keeps their indices only.
        max_rows : int
            Most rows to draw, the first ones; use `take` for others.

        Returns
        -------
        display : ExplanationDisplay
            It has the attributes `figure_` and `axes_`.
        """
        from dkmeans.plots.explanation import ExplanationDisplay

        display = ExplanationDisplay.from_explanation(
            self, image_shape=image_shape, X_train=X_train, max_rows=max_rows
        )
        return display.plot(ax)

    def _headline(self) -> str:
        return f"Explanation of {len(self)} predictions"


def no_labels(n: int) -> npt.NDArray[np.object_]:
    """Make a column that says of no row what class it is."""
    return np.full(n, None, dtype=object)
