"""Pairs of classes that meet, and what it costs to tell them apart."""

from typing import Any

import numpy as np

from dkmeans.model.table import Table


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
        Least distance between a prototype of one class and one of the other.
    a_in_b, b_in_a : float
        Share of the training weight of one class that lies in cells of the other.
    """

    def plot(self, ax: Any = None) -> Any:
        """Draw who meets whom (matplotlib must be installed).

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
