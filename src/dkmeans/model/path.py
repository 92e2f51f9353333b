"""The numbers of clusters that a fit passed through, and how well each does."""

from typing import Any

from dkmeans.model.table import Table


class Path(Table):
    """One row per number of clusters on the way; `model.at(k)` gives the model.

    With `max_clusters="auto"` the models on the way were fitted without the held-out rows; only
    that of the number chosen was fitted on all.

    Attributes
    ----------
    clusters : int
        Number of prototypes.
    training_error : float
        Weighted share of the rows that lie in a cell of another class.
    heldout_error : float
        The same of held-out rows, with `max_clusters="auto"`; nan elsewhere.
    cost : float
        Mean margin cost of the rows, with `growth="best"` or after refinement; nan elsewhere.
    inertia : float
        Weighted sum of squared distances to the assigned centres.
    """

    def plot(self, ax: Any = None) -> Any:
        """Draw the errors against the number of clusters (matplotlib must be installed).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        display : PathDisplay
            It has the attributes `figure_` and `ax_`.
        """
        from dkmeans.plots.path import PathDisplay

        return PathDisplay(self).plot(ax)

    def _headline(self) -> str:
        return f"Path through {len(self)} numbers of clusters"
