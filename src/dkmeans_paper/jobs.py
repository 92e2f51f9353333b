"""Jobs of the face experiment: fit models without some faces, and classify those faces.

Every job takes the inner products of all faces (`gram`), the person of each face (`y`) and the turn
in which each face is left out (`fold`; -1: never). Leave-one-out leaves out one face per turn,
cross-validation a tenth of them. In each turn, a model is fitted to the remaining faces, and the
left-out faces are compared with its centres: the distance between a face and a person is the
squared distance to the person's nearest centre.
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
from dkmeans_paper.gram import Centers, RunResult, k_means
from dkmeans_paper.gram import grow as grow_rounds
from dkmeans_paper.processes import Arrays
from dkmeans_paper.representations import REPRESENTATIONS, Images
from dkmeans_paper.rounds import Floats, Indices, Repulsion, Sums

NO_ROWS = np.empty(0, dtype=np.intp)


def classwise(gram: Floats, y: Indices, fold: Indices, *, person: int, k: int, seed: int) -> Arrays:
    """Run k-means with k centres on one person's faces, from a random start.

    The initial centres are the first k faces, in random order, that are not left out. Only turns
    that leave out a face of this person need a separate model.
    """
    own = np.flatnonzero(y == person)
    order = np.random.default_rng([seed, person]).permutation(own)
    result = _TurnResults(len(y))
    for left_out, queries in _iterate_turns(fold, own):
        start = order[~np.isin(order, left_out)][:k]
        training = np.setdiff1d(own, left_out)
        part = _Part(gram, np.union1d(own, queries))
        others = np.setdiff1d(part.rows, training)
        outcome = k_means(Sums(part.gram), part.at(start), part.at(others))
        result.add(queries, outcome, part, person_rows=training)
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
    sums, everyone = Sums(gram), _Part(gram)
    result = _TurnResults(len(y))
    for left_out, queries in _iterate_turns(fold):
        outcome = grow_rounds(
            sums, is_person, left_out, repulsion, positive=positive, budget=budget
        )
        training = np.setdiff1d(own, left_out)
        result.add(queries, outcome, everyone, person_rows=training, label=1)
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
    """Grow all people at once, in some of the turns."""
    sums, everyone = Sums(gram), _Part(gram)
    if len(turns) > 1:
        # Cache the sums of the model on all faces first: the others differ little from it.
        grow_rounds(sums, y, NO_ROWS, repulsion, budget=budget)
    n_people = int(y.max()) + 1
    distance = np.full((n_people, len(y)), np.nan)
    result = _TurnResults(len(y))
    for left_out, queries in _iterate_turns(np.where(np.isin(fold, turns), fold, -1)):
        outcome = grow_rounds(sums, y, left_out, repulsion, budget=budget)
        result.add(queries, outcome, everyone)
        distance[:, queries] = _nearest_by_class(outcome.centers, gram, queries, n_people)
        training = np.flatnonzero(outcome.labels >= 0)
        to_own = _nearest_by_class(outcome.centers, gram, training, n_people)[
            y[training], range(len(training))
        ]
        result.arrays["person_ssd"][queries] = to_own.sum()
    return result.arrays | {"distance": distance}


def pairs(
    gram: Floats, y: Indices, fold: Indices, *, person: int, repulsion: Repulsion, budget: int
) -> Arrays:
    """Grow one person against each of the following people, one pair at a time."""
    rivals = np.arange(person + 1, int(y.max()) + 1)
    distance = np.full((len(rivals), 2, len(y)), np.nan)
    for i, rival in enumerate(rivals):
        both = np.flatnonzero((y == person) | (y == rival))
        for left_out, queries in _iterate_turns(fold):
            part = _Part(gram, np.union1d(both, queries))
            is_rival = (y[part.rows] == rival).astype(np.intp)
            others = np.setdiff1d(part.rows, np.setdiff1d(both, left_out))
            outcome = grow_rounds(
                Sums(part.gram), is_rival, part.at(others), repulsion, budget=budget
            )
            nearest = _nearest_by_class(outcome.centers, part.gram, part.at(queries), 2)
            distance[i, :, queries] = nearest.T
    return {"distance": distance, "rivals": rivals}


def refined(
    images: Images,
    y: Indices,
    fold: Indices,
    *,
    representation: str,
    turn: int,
    repulsion: Repulsion,
    growth: Literal["paper", "best"],
    budget: int,
) -> Arrays:
    """Grow all people at once and refine, with the estimator, in one turn."""
    X = REPRESENTATIONS[representation](images).astype(np.float32)
    queries, training = np.flatnonzero(fold == turn), np.flatnonzero(fold != turn)
    model = DiscriminativeKMeans(
        budget, growth=growth, refine="margin", metric="euclidean", n_threads=1
    )
    if growth == "paper":
        model.set_params(repulsion=repulsion)
    model.fit(X[training], y[training])
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
    """Run k-means with k centres on all faces, from a random start, in some of the turns."""
    order = np.random.default_rng(seed).permutation(len(y))
    sums, everyone = Sums(gram), _Part(gram)
    result = _TurnResults(len(y))
    for left_out, queries in _iterate_turns(np.where(np.isin(fold, turns), fold, -1)):
        start = order[~np.isin(order, left_out)][:k]
        result.add(queries, k_means(sums, start, left_out), everyone)
    return result.arrays


class _Part:
    """Inner products of some rows: all that a fit needs of them."""

    def __init__(self, gram: Floats, rows: Indices | None = None) -> None:
        everything = rows is None or len(rows) == len(gram)
        self.rows = np.arange(len(gram)) if rows is None else rows
        self.gram = gram if everything else gram[np.ix_(self.rows, self.rows)]

    def at(self, rows: Indices) -> Indices:
        """Return the positions of rows."""
        return np.searchsorted(self.rows, rows)


class _TurnResults:
    """Results of each turn, stored at the indices of its left-out faces."""

    def __init__(self, n: int) -> None:
        names = ("distance", "ssd", "person_ssd", "clusters", "own_clusters", "rounds", "work")
        self.arrays: Arrays = {name: np.full(n, np.nan) for name in (*names, "converged")}

    def add(
        self,
        queries: Indices,
        outcome: RunResult,
        part: _Part,
        person_rows: Indices | None = None,
        label: int = 0,
    ) -> None:
        """Store the results of a turn; with the rows of one person, also their distances."""
        centers, gram = outcome.centers, part.gram
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
                mine.distances(gram, part.at(person_rows)).min(axis=0, initial=np.inf).sum()
            )
            noted["distance"] = mine.distances(gram, part.at(queries)).min(axis=0, initial=np.inf)
        for name, value in noted.items():
            self.arrays[name][queries] = value


def _iterate_turns(
    fold: Indices, among: Indices | None = None
) -> Iterator[tuple[Indices, Indices]]:
    """Yield the faces left out in each turn, and the faces to classify.

    If a model uses only the faces `among`, turns that leave out none of them give the same model
    and are merged.
    """
    asked = np.unique(fold[fold >= 0])
    if among is not None:
        touching = np.unique(fold[among])
        same = np.setdiff1d(asked, touching)
        asked = np.intersect1d(asked, touching)
        if len(same):
            yield NO_ROWS, np.flatnonzero(np.isin(fold, same))
    for turn in asked:
        left_out = np.flatnonzero(fold == turn)
        yield left_out, left_out


def _nearest_by_class(
    centers: Centers, gram: Floats, queries: Indices, n_classes: int
) -> npt.NDArray[np.float64]:
    """Compute squared distances of queries to the nearest centre of each class; inf if none."""
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
    """Time both algorithms without one face, in one thread.

    There are four comparisons: k centres on all faces, the person against the rest, by the
    libraries; the same by this package's code on inner products; k centres on the faces of this
    person and the next; and per person, where k-means uses the person's faces only and the other
    algorithm grows `clusters` clusters on all faces, about k of them for the person.
    """
    keep = np.arange(len(y)) != query
    own = y[keep] == person
    both = own | (y[keep] == (person + 1) % (int(y.max()) + 1))
    rows = X[keep]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {
            "whole": _time_fits(rows, rows, own, k, k, repulsion, query),
            "alike": _time_from_products(gram, (y == person).astype(np.intp), query, k, repulsion),
            "pair": _time_fits(rows[both], rows[both], own[both], k, k, repulsion, query),
            "person": _time_fits(rows[own], rows, own, k, clusters, repulsion, query),
        }


def _time_fits(
    X_k_means: npt.NDArray[np.float32],
    X: npt.NDArray[np.float32],
    y: npt.NDArray[np.bool_],
    k: int,
    clusters: int,
    repulsion: Repulsion,
    seed: int,
) -> npt.NDArray[np.float64]:
    """Return the seconds of both algorithms, best of three, then their numbers of rounds."""
    theirs = KMeans(k, init="random", n_init=1, tol=0, random_state=seed)
    ours = DiscriminativeKMeans.paper(clusters, repulsion=repulsion, n_threads=1)
    times = [
        (_seconds(lambda: theirs.fit(X_k_means)), _seconds(lambda: ours.fit(X, y)))
        for _ in range(3)
    ]
    return np.array([*np.min(times, axis=0), theirs.n_iter_, ours.n_iter_])


def _time_from_products(
    gram: Floats, y: Indices, query: int, k: int, repulsion: Repulsion
) -> npt.NDArray[np.float64]:
    """Do the same from inner products, without cached sums; also return numbers of distances."""
    left_out = np.array([query])
    order = np.random.default_rng(query).permutation(len(y))
    start = order[order != query][:k]
    found: list[RunResult] = []
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
