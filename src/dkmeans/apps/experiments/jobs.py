"""Pieces of the face experiment: models fitted without some faces, and how those faces fare.

Every job gets the inner products of all faces (`gram`), who each face shows (`y`) and a plan:
`fold` tells for each face in which turn it is left out (-1: never). Leave-one-out has one face per
turn, cross-validation a tenth of them. In each turn a model is fitted to the faces that are not
left out, and those that are left out are compared with its centres: what counts for a face and a
person is the squared distance to the person's nearest centre.
"""

import time
import warnings
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from dkmeans.apps.experiments.gram import (
    Centers,
    Floats,
    Indices,
    Outcome,
    Repulsion,
    Sums,
    k_means,
)
from dkmeans.apps.experiments.gram import grow as grow_rounds
from dkmeans.apps.experiments.study import Arrays
from dkmeans.estimator import DiscriminativeKMeans

_NOBODY = np.empty(0, dtype=np.intp)


def classwise(gram: Floats, y: Indices, fold: Indices, *, person: int, k: int, seed: int) -> Arrays:
    """K-means with k centres on one person's faces, from a random start.

    The start is the first k of a random order of the person's faces that are not left out. Only
    the turns that leave out a face of this person need a model of their own.
    """
    own = np.flatnonzero(y == person)
    order = np.random.default_rng([seed, person]).permutation(own)
    others = np.flatnonzero(y != person)
    sums = Sums(gram)
    result = _Turns(len(y))
    for left_out, queries in _turns(fold, own):
        start = order[~np.isin(order, left_out)][:k]
        outcome = k_means(sums, start, np.union1d(others, left_out))
        training = np.setdiff1d(own, left_out)
        result.add(queries, outcome, gram, person_rows=training)
    return result.arrays


def one_vs_rest(
    gram: Floats,
    y: Indices,
    fold: Indices,
    *,
    person: int,
    repulsion: Repulsion,
    positive: int | None = None,
    budget: int | None = None,
) -> Arrays:
    """Grow one person (class 1) against all others (class 0)."""
    is_person = (y == person).astype(np.intp)
    own = np.flatnonzero(is_person)
    sums = Sums(gram)
    result = _Turns(len(y))
    for left_out, queries in _turns(fold):
        outcome = grow_rounds(
            sums, is_person, left_out, repulsion, positive=positive, budget=budget
        )
        training = np.setdiff1d(own, left_out)
        result.add(queries, outcome, gram, person_rows=training, label=1)
    return result.arrays


def joint(
    gram: Floats,
    y: Indices,
    fold: Indices,
    *,
    turns: list[int],
    repulsion: Repulsion,
    budget: int | None = None,
) -> Arrays:
    """Grow all people at once; for some of the turns."""
    sums = Sums(gram)
    if len(turns) > 1:
        # The model on all faces, from which the others differ little, is the one to remember.
        grow_rounds(sums, y, _NOBODY, repulsion, budget=budget)
    n_people = int(y.max()) + 1
    distance = np.full((n_people, len(y)), np.nan)
    result = _Turns(len(y))
    for left_out, queries in _turns(np.where(np.isin(fold, turns), fold, -1)):
        outcome = grow_rounds(sums, y, left_out, repulsion, budget=budget)
        result.add(queries, outcome, gram)
        distance[:, queries] = _by_class(outcome.centers, gram, queries, n_people)
    return result.arrays | {"distance": distance}


def pairs(
    gram: Floats, y: Indices, fold: Indices, *, person: int, repulsion: Repulsion, budget: int
) -> Arrays:
    """Grow one person against each of those that follow, two at a time."""
    rivals = np.arange(person + 1, int(y.max()) + 1)
    distance = np.full((len(rivals), 2, len(y)), np.nan)
    for i, rival in enumerate(rivals):
        others = np.flatnonzero((y != person) & (y != rival))
        sums = Sums(gram)
        for left_out, queries in _turns(fold):
            outcome = grow_rounds(
                sums,
                (y == rival).astype(np.intp),
                np.union1d(others, left_out),
                repulsion,
                budget=budget,
            )
            distance[i, :, queries] = _by_class(outcome.centers, gram, queries, 2).T
    return {"distance": distance, "rivals": rivals}


def whole_k_means(gram: Floats, y: Indices, fold: Indices, *, k: int, seed: int) -> Arrays:
    """K-means with k centres on the faces of everybody, from a random start."""
    order = np.random.default_rng(seed).permutation(len(y))
    sums = Sums(gram)
    result = _Turns(len(y))
    for left_out, queries in _turns(fold):
        start = order[~np.isin(order, left_out)][:k]
        result.add(queries, k_means(sums, start, left_out), gram)
    return result.arrays


class _Turns:
    """What is noted in each turn, under the faces that it leaves out."""

    def __init__(self, n: int) -> None:
        names = ("distance", "ssd", "person_ssd", "clusters", "own_clusters", "rounds", "work")
        self.arrays: Arrays = {name: np.full(n, np.nan) for name in (*names, "stalled")}

    def add(
        self,
        queries: Indices,
        outcome: Outcome,
        gram: Floats,
        person_rows: Indices | None = None,
        label: int = 0,
    ) -> None:
        """Note what a turn came to; if rows of one person are given, their distances too."""
        centers = outcome.centers
        own = centers.classes == label
        training = np.flatnonzero(outcome.labels >= 0)
        noted = {
            "ssd": centers.distances(gram, training).min(axis=0).sum(),
            "clusters": len(centers),
            "own_clusters": own.sum(),
            "rounds": outcome.rounds,
            "work": outcome.distances,
            "stalled": outcome.stalled,
        }
        if person_rows is not None:
            mine = centers.take(own)
            noted["person_ssd"] = mine.distances(gram, person_rows).min(axis=0).sum()
            noted["distance"] = mine.distances(gram, queries).min(axis=0)
        for name, value in noted.items():
            self.arrays[name][queries] = value


def _turns(fold: Indices, among: Indices | None = None) -> Iterator[tuple[Indices, Indices]]:
    """Yield the faces left out in each turn, and those to compare then.

    If a model looks at some faces only, turns that leave out none of them are all the same to it,
    and come as one.
    """
    asked = np.unique(fold[fold >= 0])
    if among is not None:
        touching = np.unique(fold[among])
        same = np.setdiff1d(asked, touching)
        asked = np.intersect1d(asked, touching)
        if len(same):
            yield _NOBODY, np.flatnonzero(np.isin(fold, same))
    for turn in asked:
        left_out = np.flatnonzero(fold == turn)
        yield left_out, left_out


def _by_class(
    centers: Centers, gram: Floats, queries: Indices, n_classes: int
) -> npt.NDArray[np.float64]:
    """Squared distance of each query to the nearest centre of each class; inf if it has none."""
    distances = centers.distances(gram, queries)
    nearest = np.full((n_classes, len(queries)), np.inf)
    np.minimum.at(nearest, centers.classes, distances)
    return nearest


def timing(
    X: npt.NDArray[np.float32],
    y: Indices,
    *,
    person: int,
    query: int,
    k: int,
    clusters: int,
    repulsion: Repulsion,
) -> Arrays:
    """Time both algorithms without one face, on one thread, one after the other.

    Three times over: on the faces of everybody with k centres; on those of this person and the
    next with k centres; and per person, where k-means sees the person's faces only, and the other
    grows `clusters` clusters on all faces, of which about k are the person's.
    """
    keep = np.arange(len(y)) != query
    X, y = X[keep], y[keep]
    both = (y == person) | (y == (person + 1) % (int(y.max()) + 1))
    own = y == person
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {
            "whole": _race(X, X, own, k, k, repulsion, query),
            "pair": _race(X[both], X[both], own[both], k, k, repulsion, query),
            "person": _race(X[own], X, own, k, clusters, repulsion, query),
        }


def _race(
    X_k_means: npt.NDArray[np.float32],
    X: npt.NDArray[np.float32],
    y: npt.NDArray[np.bool_],
    k: int,
    clusters: int,
    repulsion: Repulsion,
    seed: int,
) -> npt.NDArray[np.float64]:
    """Seconds and rounds of k-means, then of the discriminative algorithm; the best of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        k_means = KMeans(k, init="random", n_init=1, tol=0, random_state=seed).fit(X_k_means)
        middle = time.perf_counter()
        ours = DiscriminativeKMeans(clusters, repulsion=repulsion, n_threads=1).fit(X, y)
        times.append((middle - start, time.perf_counter() - middle))
    best = np.min(times, axis=0)
    return np.array([best[0], best[1], k_means.n_iter_, ours.n_iter_])
