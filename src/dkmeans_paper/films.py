"""Films of two people: create them, train on two, and classify the third."""

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from dkmeans.estimator import DiscriminativeKMeans, OverfittingWarning
from dkmeans_paper.faces import DataError, Faces
from dkmeans_paper.processes import Arrays
from dkmeans_paper.rendered import motion_sequences
from dkmeans_paper.representations import REPRESENTATIONS
from dkmeans_paper.rounds import Repulsion

K = 5  # centres per sequence, as in the paper
SEEDS = range(10)  # random starts of k-means
REPULSIONS: tuple[Repulsion, ...] = (0.0, 0.25, 0.5, "size")
METHODS = ("k-means", "ours", "converged")
REPRESENTATION = "raw"
Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Films:
    """Three sequences: one of the first person, two of the second."""

    frames: tuple[npt.NDArray[np.uint8], ...]
    titles: tuple[str, ...]

    def rows(self, representation: str) -> list[Rows]:
        """Convert frames to rows of features."""
        return [REPRESENTATIONS[representation](frames) for frames in self.frames]


@dataclass(frozen=True)
class FilmResult:
    """Result for the third sequence: distances of its frames to the centres of both people."""

    distance: npt.NDArray[np.float64]  # shape (2, n_frames)
    clusters: int

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Frames of the second person that are nearer to the first."""
        return self.distance[0] <= self.distance[1]

    @property
    def error(self) -> float:
        """Share of wrong frames."""
        return float(self.wrong.mean())


def lit_films(faces: Faces, first: int, second: int) -> Films:
    """Order pictures by azimuth into films.

    Films of both people under lamps at or below eye level are for training, that of the second
    person under higher lamps is for testing.
    """
    low = faces.elevation <= 0
    whose = (
        (faces.person == first) & low,
        (faces.person == second) & low,
        (faces.person == second) & ~low,
    )
    parts = []
    for which in whose:
        rows = np.flatnonzero(which)
        if len(rows) < K:
            raise DataError(
                f"Films need {K} pictures of a person under low and {K} under high lamps; "
                f"{faces.names[first]} or {faces.names[second]} has fewer."
            )
        order = np.lexsort((faces.elevation[rows], faces.azimuth[rows]))
        parts.append(faces.images[rows[order]])
    names = faces.names[first], faces.names[second]
    titles = (f"{names[0]}, low lamps", f"{names[1]}, low lamps", f"{names[1]}, high lamps")
    return Films(tuple(parts), titles)


def learn_k_means(X: list[Rows], seed: int) -> FilmResult:
    """Run k-means on each of the first two sequences, and classify the third."""
    distance = []
    for rows in X[:2]:
        model = KMeans(K, init="random", n_init=1, random_state=seed).fit(rows)
        distance.append(cdist(model.cluster_centers_, X[2]).min(axis=0))
    return FilmResult(np.array(distance), 2 * K)


def learn(X: list[Rows], budget: int | None, repulsion: Repulsion) -> FilmResult:
    """Run the discriminative algorithm on the first two sequences, and classify the third."""
    y = np.repeat([0, 1], [len(rows) for rows in X[:2]])
    model = DiscriminativeKMeans.paper(budget, repulsion=repulsion)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfittingWarning)
        model.fit(np.concatenate(X[:2]), y)
    distance = cdist(model.cluster_centers_, X[2])
    own = np.array([distance[model.cluster_classes_ == c].min(axis=0) for c in (0, 1)])
    return FilmResult(own, model.n_clusters_)


def errors(films: Films) -> Arrays:
    """Compute the errors of all methods on one instance."""
    X = films.rows(REPRESENTATION)
    return {
        "k-means": np.array([np.mean([learn_k_means(X, seed).error for seed in SEEDS])]),
        "ours": np.array([[learn(X, 2 * K, w).error for w in REPULSIONS]]),
        "converged": np.array([[learn(X, None, w).error for w in REPULSIONS]]),
    }


def rendered_job(seed: int) -> Arrays:
    """Render films of two moving heads, and compute the errors."""
    made = motion_sequences(seed=seed)
    films = Films(tuple(made.frames), made.titles)
    return errors(films) | {"frames": made.frames, "titles": np.array(made.titles)}


def lights_job(
    images: npt.NDArray[np.uint8],
    person: npt.NDArray[np.intp],
    azimuth: npt.NDArray[np.int_],
    elevation: npt.NDArray[np.int_],
    *,
    first: int,
    partners: int,
) -> Arrays:
    """Compute the errors for one person paired with the next people, cyclically."""
    n = int(person.max()) + 1
    faces = Faces(images, person, azimuth, elevation, [""] * n)
    others = [(first + i) % n for i in range(1, min(partners, n - 1) + 1)]
    return concatenate_errors([errors(lit_films(faces, first, other)) for other in others])


def concatenate_errors(parts: list[Arrays]) -> Arrays:
    """Concatenate the errors of several instances."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
