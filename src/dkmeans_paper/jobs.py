"""Pieces of the face experiment: models fitted without some faces, and how those faces fare.

Every job gets the inner products of all faces (`gram`), who each face shows (`y`) and a plan:
`fold` tells for each face in which turn it is left out (-1: never). Leave-one-out has one face per
turn, cross-validation a tenth of them. In each turn a model is fitted to the faces that are not
left out, and those that are left out are compared with its centres: what counts for a face and a
person is the squared distance to the person's nearest centre.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans_paper.gram import (
    Centers,
    Floats,
    Indices,
    Outcome,
    Repulsion,
    Sums,
    k_means,
)
from dkmeans_paper.gram import grow as grow_rounds
from dkmeans_paper.study import Arrays

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
        training = np.flatnonzero(outcome.labels >= 0)
        to_own = _by_class(outcome.centers, gram, training, n_people)[
            y[training], range(len(training))
        ]
        result.arrays["person_ssd"][queries] = to_own.sum()
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


def refined(
    X: npt.NDArray[np.float32],
    y: Indices,
    fold: Indices,
    *,
    turn: int,
    repulsion: Repulsion,
    growth: Literal["paper", "best"],
    budget: int,
) -> Arrays:
    """Grow all people at once and refine, by the estimator; for one turn."""
    queries, training = np.flatnonzero(fold == turn), np.flatnonzero(fold != turn)
    model = DiscriminativeKMeans(
        budget, repulsion=repulsion, growth=growth, refine="margin", n_threads=1
    ).fit(X[training], y[training])
    distance = np.full((int(y.max()) + 1, len(y)), np.nan)
    distance[:, queries] = np.inf
    to_centers = model.transform(X[queries]).T.astype(np.float64) ** 2
    for c, own in zip(model.cluster_classes_, to_centers, strict=True):
        distance[c, queries] = np.minimum(distance[c, queries], own)
    clusters = np.full(len(y), np.nan)
    clusters[queries] = model.n_clusters_
    return {"distance": distance, "clusters": clusters}


def whole_k_means(
    gram: Floats, y: Indices, fold: Indices, *, turns: list[int], k: int, seed: int
) -> Arrays:
    """K-means with k centres on the faces of everybody, from a random start; for some turns."""
    order = np.random.default_rng(seed).permutation(len(y))
    sums = Sums(gram)
    result = _Turns(len(y))
    for left_out, queries in _turns(np.where(np.isin(fold, turns), fold, -1)):
        start = order[~np.isin(order, left_out)][:k]
        result.add(queries, k_means(sums, start, left_out), gram)
    return result.arrays


class _Turns:
    """What is noted in each turn, under the faces that it leaves out."""

    def __init__(self, n: int) -> None:
        names = ("distance", "ssd", "person_ssd", "clusters", "own_clusters", "rounds", "work")
        self.arrays: Arrays = {name: np.full(n, np.nan) for name in (*names, "converged")}

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
            "converged": outcome.converged,
        }
        if person_rows is not None:
            mine = centers.take(own)
            noted["person_ssd"] = (
                mine.distances(gram, person_rows).min(axis=0, initial=np.inf).sum()
            )
            noted["distance"] = mine.distances(gram, queries).min(axis=0, initial=np.inf)
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
    gram: Floats,
    y: Indices,
    *,
    person: int,
    query: int,
    k: int,
    clusters: int,
    repulsion: Repulsion,
) -> Arrays:
    """Time both algorithms without one face, on one thread, one after the other.

    Four times over: on the faces of everybody with k centres, the person against the rest, by the
    libraries and by the code of this package that works on inner products; on the faces of this
    person and the next with k centres; and per person, where k-means sees the person's faces only,
    and the other grows `clusters` clusters on all faces, of which about k are the person's.
    """
    keep = np.arange(len(y)) != query
    own = y[keep] == person
    both = own | (y[keep] == (person + 1) % (int(y.max()) + 1))
    rows = X[keep]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {
            "whole": _race(rows, rows, own, k, k, repulsion, query),
            "alike": _race_alike(gram, (y == person).astype(np.intp), query, k, repulsion),
            "pair": _race(rows[both], rows[both], own[both], k, k, repulsion, query),
            "person": _race(rows[own], rows, own, k, clusters, repulsion, query),
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
    """Seconds of k-means and of the discriminative algorithm, best of three; then their rounds."""
    theirs = KMeans(k, init="random", n_init=1, tol=0, random_state=seed)
    ours = DiscriminativeKMeans(clusters, growth="paper", repulsion=repulsion, n_threads=1)
    times = [
        (_seconds(lambda: theirs.fit(X_k_means)), _seconds(lambda: ours.fit(X, y)))
        for _ in range(3)
    ]
    return np.array([*np.min(times, axis=0), theirs.n_iter_, ours.n_iter_])


def _race_alike(
    gram: Floats, y: Indices, query: int, k: int, repulsion: Repulsion
) -> npt.NDArray[np.float64]:
    """Time both from inner products, with nothing taken over from another fit; distances last."""
    left_out = np.array([query])
    order = np.random.default_rng(query).permutation(len(y))
    start = order[order != query][:k]
    found: list[Outcome] = []
    times = [
        (
            _seconds(lambda: found.append(k_means(Sums(gram), start, left_out))),
            _seconds(
                lambda: found.append(grow_rounds(Sums(gram), y, left_out, repulsion, budget=k))
            ),
        )
        for _ in range(3)
    ]
    facts = [(o.rounds, o.distances) for o in found[-2:]]
    return np.array([*np.min(times, axis=0), *(f[0] for f in facts), *(f[1] for f in facts)])


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
