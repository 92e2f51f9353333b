"""How much of the evaluation to run: all of it, or enough for a complete report in minutes."""

from dataclasses import dataclass, replace

FOLDS = 10  # of the cross-validation


@dataclass(frozen=True)
class Effort:
    """Numbers of repetitions.

    Attributes
    ----------
    queries : int or None
        Faces to leave out one by one; None for all.
    folds : int
        How many of the ten folds of the cross-validation to leave out.
    timed_people : int or None
        People for whom both algorithms are timed; None for all.
    redrawings : int
        Redrawings of the synthetic data.
    films : int
        Pairs of people in rendered films.
    partners : int
        People with whom each person is paired in films of real pictures.
    """

    queries: int | None = None
    folds: int = FOLDS
    timed_people: int | None = None
    redrawings: int = 20
    films: int = 8
    partners: int = 5

    @property
    def cross_validation(self) -> str:
        """Describe the cross-validation."""
        return "10-fold" if self.folds == FOLDS else f"{self.folds} of 10 folds"


FULL = Effort()
QUICK = Effort(queries=100, folds=1, timed_people=5, redrawings=4, films=2, partners=1)


def choose_effort(quick: bool, queries: int | None, faces: int, people: int) -> Effort:
    """Choose the numbers of repetitions for the options of the command.

    If few faces are left out one by one, the rest is cut to about the same share: a fold is a tenth
    of the faces, so the folds are as many as hold that many faces, and a tenth of the people is
    timed for each. A quick run has few of them anyway.

    Parameters
    ----------
    quick : bool
    queries : int or None
        Faces to leave out one by one.
    faces, people : int
        How many there are.

    Returns
    -------
    effort : Effort
    """
    if quick or queries is None:
        effort = QUICK if quick else FULL
        return effort if queries is None else replace(effort, queries=queries)
    folds = -(-queries * FOLDS // faces)
    timed = -(-people * folds // FOLDS)
    return replace(FULL, queries=queries, folds=folds, timed_people=timed)
