"""Possible interpretations ("readings") of the paper, and their results."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dkmeans_paper.processes import Arrays
from dkmeans_paper.rounds import Floats, Indices, Repulsion

if TYPE_CHECKING:
    from dkmeans_paper.recognition import Recognition

K = 8  # clusters per person, as in the paper
SEEDS = tuple(range(10))  # random starts of k-means
Repulsions: TypeAlias = tuple[Repulsion, ...]
REPULSIONS: Repulsions = (0.0, 0.25, 0.5, 1.0, "size")
FEW_WEIGHTS: Repulsions = (0.0, 0.25, 0.5)  # for slow readings
REFINED_FOLDS = 3  # of the cross-validation, at most: refinement is slowest, and not the paper's


@dataclass(frozen=True)
class Trial:
    """Results for the left-out faces.

    Attributes
    ----------
    distance : array of shape (n_people, n_faces)
        Squared distance to the nearest centre of each person, NaN for faces never left out.
    ssd : array of shape (n_faces,)
        Sum of squared distances that the reading compares, in the turn of each face.
    notes : dict
        Further measurements of the models.
    """

    distance: Floats
    ssd: Floats
    notes: Arrays

    def prediction(self) -> Indices:
        """Return the person with the nearest centre, -1 for faces never left out."""
        asked = ~np.isnan(self.distance).all(axis=0)
        return np.where(asked, np.nan_to_num(self.distance, nan=np.inf).argmin(axis=0), -1)

    def error(self, y: Indices) -> float:
        """Compute the share of misclassified faces."""
        prediction = self.prediction()
        return float((prediction != y)[prediction >= 0].mean())

    def margin(self, y: Indices) -> Floats:
        """Compute the relative margin between the nearest other person and the right person."""
        distance = np.sqrt(self.distance)
        at = np.arange(len(y))
        own = distance[y, at]
        distance[y, at] = np.inf
        rival = distance.min(axis=0)
        return (rival - own) / (rival + own)


@dataclass(frozen=True)
class Reading:
    """One interpretation of the paper.

    Attributes
    ----------
    key, title : str
        Short name, and description.
    method : str
        The method of `Recognition` that runs it.
    limit : dict
        Where growth stops: at a `budget` of clusters in all, or at a number of `positive` ones.
    repulsions : tuple
        Values of w to try.
    sums : str
        Which sums of squared distances are compared with those of k-means: those of the "person",
        of the "whole" set with k centres in all, of "everybody" to their own centres, or none.
    growth : str
        As in the estimator.
    """

    key: str
    title: str
    method: str
    limit: dict[str, int]
    repulsions: Repulsions
    sums: str = ""
    growth: str = "paper"

    def run(
        self,
        recognition: "Recognition",
        representation: str,
        fold: Indices,
        repulsions: Repulsions | None = None,
    ) -> list[Trial]:
        """Run the reading; return one trial per repulsion."""
        run = getattr(recognition, self.method)
        return run(self, representation, fold, repulsions or self.repulsions)


READINGS = {
    reading.key: reading
    for reading in (
        Reading(
            "a",
            "(a) one person against the rest, 8 clusters of the person",
            "one_vs_rest",
            {"positive": K},
            REPULSIONS,
            "person",
        ),
        Reading(
            "b",
            "(b) one person against the rest, 8 clusters in all",
            "one_vs_rest",
            {"budget": K},
            REPULSIONS,
            "whole",
        ),
        Reading(
            "c",
            "(c) all people together, 8 clusters per person on average",
            "joint",
            {"budget": K},
            REPULSIONS,
            "everybody",
        ),
        Reading(
            "d1", "(d) one person against the rest, until converged", "one_vs_rest", {}, FEW_WEIGHTS
        ),
        Reading("d2", "(d) all people together, until converged", "joint", {}, FEW_WEIGHTS),
        Reading(
            "p1",
            "pairs of people, 8 clusters for the two, nearest centre of all pairs",
            "nearest_of_pairs",
            {},
            FEW_WEIGHTS,
        ),
        Reading(
            "p2",
            "pairs of people, 8 clusters for the two, most pairs won",
            "most_pairs_won",
            {},
            FEW_WEIGHTS,
        ),
        Reading(
            "e1",
            f"(e) beyond the paper: as (c), then margin refinement; at most {REFINED_FOLDS} folds",
            "refined",
            {"budget": K},
            (0.25,),
        ),
        Reading(
            "e2",
            "(e) beyond the paper: best growth, 8 per person on average, margin refinement; "
            f"at most {REFINED_FOLDS} folds",
            "refined",
            {"budget": K},
            (0.0,),  # not used
            growth="best",
        ),
    )
}
EQUAL_COUNT_READINGS = ("a", "b", "c")  # readings with as many clusters as k-means
