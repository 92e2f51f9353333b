"""Two people, three image sequences: learn from one of each, recognise the third."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from dkmeans.apps.experiments import figures
from dkmeans.apps.experiments.faces import Faces
from dkmeans.apps.experiments.gram import Repulsion
from dkmeans.apps.experiments.rendered import motion_sequences
from dkmeans.apps.experiments.representations import REPRESENTATIONS
from dkmeans.apps.experiments.sections import Claim, Picture, Section, Table, verdict
from dkmeans.apps.experiments.study import Arrays, Study
from dkmeans.estimator import DiscriminativeKMeans, OverfittingWarning

K = 5  # centres per sequence, as in the paper
SEEDS = range(10)  # of the random starts of k-means
FILMS = range(8)  # seeds of the rendered films
REPULSIONS: tuple[Repulsion, ...] = (0.0, 0.25, 0.5, "size")
BESIDE = 5  # people beside whom each is put, where there are many
METHODS = ("k-means", "ours", "converged")
REPRESENTATION = "raw"
Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Films:
    """Three sequences: one of the first person, two of the second."""

    frames: tuple[npt.NDArray[np.uint8], ...]
    titles: tuple[str, ...]

    def rows(self, representation: str) -> list[Rows]:
        """Frames as rows of numbers."""
        return [REPRESENTATIONS[representation](frames) for frames in self.frames]


@dataclass(frozen=True)
class Answer:
    """How the third sequence fares: distances to the first and to the second person's centres."""

    distance: npt.NDArray[np.float64]  # two lines
    clusters: int

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Frames of the second person that are nearer to the first."""
        return self.distance[0] <= self.distance[1]

    @property
    def error(self) -> float:
        """Share of wrong frames."""
        return float(self.wrong.mean())


def run_sequences(study: Study, faces: Faces | None, data: str) -> Section:
    """Classify the third sequence with both algorithms.

    Parameters
    ----------
    study : Study
        Where figures go.
    faces : Faces or None
        Pictures to order by their lights; None takes rendered films.
    data : str
        What the pictures are, for the report.

    Returns
    -------
    section : Section
        The report.
    """
    if faces is None:
        settings = [{"seed": seed} for seed in FILMS]
        made = study.compute("sequences: moving heads", rendered_job, settings, {})
        films = Films(tuple(made[0].pop("frames")), tuple(made[0].pop("titles").tolist()))
        source = "Rendered films of two moving heads (the paper's films are not public)"
        many = f"{len(made)} pairs of rendered people"
    else:
        inputs: Arrays = {
            "images": faces.images,
            "person": faces.person,
            "azimuth": faces.azimuth,
            "elevation": faces.elevation,
        }
        n = len(faces.names)
        settings = [{"first": p} for p in range(n)]
        made = study.compute("sequences: lights by azimuth", lights_job, settings, inputs)
        films = lit_films(faces, 0, 1)
        source = f"{data}: one person's pictures in the order of the light's azimuth as a film"
        many = f"{n * min(BESIDE, n - 1)} pairs of people"
    over = _together([{name: part[name] for name in METHODS} for part in made])
    spread = {name: over[name].mean(axis=0) for name in METHODS}
    X = films.rows(REPRESENTATION)
    k_means = [learn_k_means(X, seed) for seed in SEEDS]
    ours = {w: learn(X, 2 * K, w) for w in REPULSIONS}
    converged = {w: learn(X, None, w) for w in REPULSIONS}
    best = ours[REPULSIONS[-1]]  # the default

    study.save_figure("sequences-frames", _frames(films))
    study.save_figure("sequences-components", _components(films, X, k_means[0], best))
    study.save_figure("sequences-distances", _distances(k_means[0], best))
    mean = float(np.mean([a.error for a in k_means]))
    lines = [
        [
            f"k-means, {K} per sequence, mean of {len(SEEDS)} random starts",
            str(2 * K),
            f"{mean:.1%}",
            f"{spread['k-means']:.1%}",
        ]
    ]
    for title, answers, key in (
        (f"discriminative, {2 * K} clusters", ours, "ours"),
        ("discriminative, converged", converged, "converged"),
    ):
        lines += [
            [f"{title}, w = {w}", str(a.clusters), f"{a.error:.1%}", f"{mean_error:.1%}"]
            for (w, a), mean_error in zip(answers.items(), spread[key], strict=True)
        ]
    return Section(
        title="Image sequences (Figures 1 and 2)",
        data=f"{source}. Trained on the first two sequences ({', '.join(films.titles[:2])}), "
        f"asked about the third ({films.titles[2]}). Pixels as they are.",
        claims=[
            Claim(
                "K-means with 5 centres per sequence takes about a third (32 %) of the new frames "
                "for the other person.",
                f"{mean:.1%} in the instance shown; {spread['k-means']:.1%} over {many}.",
                verdict(abs(mean - 0.32), 0.05, 0.15),
            ),
            Claim(
                "With the discriminative algorithm no frame is misclassified.",
                f"{best.error:.1%} with {best.clusters} clusters (budget {2 * K}), "
                f"{min(a.error for a in converged.values()):.1%} at best when converged, in the "
                f"instance shown; {spread['ours'][-1]:.1%} and "
                f"{spread['converged'].min():.1%} over {many}.",
                verdict(best.error, 0.0, 0.9 * mean),
            ),
        ],
        parts=[
            Picture(
                "sequences-frames",
                "Sample frames (paper: Figure 1a)",
                "Ten frames of each sequence, from the first to the last.",
            ),
            Table(
                "Error on the third sequence",
                ["method", "clusters", "instance shown", f"mean over {many}"],
                lines,
            ),
            Picture(
                "sequences-components",
                "The three sets on their first three principal components (paper: Figure 1b, c)",
                "Left: the sets. Middle and right: frames of the third sequence that are taken for "
                "the first person are marked by a cross.",
            ),
            Picture(
                "sequences-distances",
                "Distance to the nearest centre of either person (paper: Figure 2)",
                "Frame by frame of the third sequence. A frame is misclassified where the distance "
                "to the wrong person is the smaller.",
            ),
        ],
        numbers={
            "k-means": mean,
            **{f"{2 * K} clusters, w = {w}": a.error for w, a in ours.items()},
            **{f"converged, w = {w}": a.error for w, a in converged.items()},
            "instances": len(over["k-means"]),
            "mean over instances": {
                "k-means": float(spread["k-means"]),
                **{
                    f"{name}, w = {w}": float(error)
                    for name in ("ours", "converged")
                    for w, error in zip(REPULSIONS, spread[name], strict=True)
                },
            },
        },
    )


def lit_films(faces: Faces, first: int, second: int) -> Films:
    """Order pictures by azimuth: all of the first person, those of the second in two parts.

    The second person's film under lamps at or below the height of the eyes is for training, the one
    under lamps above it for the question.
    """
    low = faces.elevation <= 0
    whose = (
        faces.person == first,
        (faces.person == second) & low,
        (faces.person == second) & ~low,
    )
    parts = []
    for which in whose:
        rows = np.flatnonzero(which)
        order = np.lexsort((faces.elevation[rows], faces.azimuth[rows]))
        parts.append(faces.images[rows[order]])
    names = faces.names[first], faces.names[second]
    titles = (names[0], f"{names[1]}, low lamps", f"{names[1]}, high lamps")
    return Films(tuple(parts), titles)


def learn_k_means(X: list[Rows], seed: int) -> Answer:
    """Run k-means on each of the first two sequences, and ask about the third."""
    distance = []
    for rows in X[:2]:
        model = KMeans(K, init="random", n_init=1, random_state=seed).fit(rows)
        distance.append(cdist(model.cluster_centers_, X[2]).min(axis=0))
    return Answer(np.array(distance), 2 * K)


def learn(X: list[Rows], budget: int | None, repulsion: Repulsion) -> Answer:
    """Run the discriminative algorithm on the first two sequences, and ask about the third."""
    y = np.repeat([0, 1], [len(rows) for rows in X[:2]])
    model = DiscriminativeKMeans(budget, repulsion=repulsion)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfittingWarning)
        model.fit(np.concatenate(X[:2]), y)
    distance = cdist(model.cluster_centers_, X[2])
    own = np.array([distance[model.cluster_classes_ == c].min(axis=0) for c in (0, 1)])
    return Answer(own, model.n_clusters_)


def errors(films: Films) -> Arrays:
    """Errors of all methods on one instance."""
    X = films.rows(REPRESENTATION)
    return {
        "k-means": np.array([learn_k_means(X, 0).error]),
        "ours": np.array([[learn(X, 2 * K, w).error for w in REPULSIONS]]),
        "converged": np.array([[learn(X, None, w).error for w in REPULSIONS]]),
    }


def rendered_job(seed: int) -> Arrays:
    """Render films of two moving heads, and find the errors on them."""
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
) -> Arrays:
    """Find the errors for one person beside some that follow, the first after the last."""
    n = int(person.max()) + 1
    faces = Faces(images, person, azimuth, elevation, [""] * n)
    others = [(first + i) % n for i in range(1, min(BESIDE, n - 1) + 1)]
    return _together([errors(lit_films(faces, first, other)) for other in others])


def _together(parts: list[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _frames(films: Films) -> Any:
    shown = [f[np.linspace(0, len(f) - 1, 10).astype(int)] for f in films.frames]
    return figures.sheet(shown, list(films.titles))


def _components(films: Films, X: list[Rows], k_means: Answer, ours: Answer) -> Any:
    planes = PCA(3).fit(np.concatenate(X))
    points = [planes.transform(rows) for rows in X]
    panels = [
        ("all three", None),
        (f"k-means: {k_means.error:.0%} wrong", k_means.wrong),
        (f"discriminative: {ours.error:.0%} wrong", ours.wrong),
    ]
    return figures.components(points, films.titles, panels)


def _distances(k_means: Answer, ours: Answer) -> Any:
    panels = [
        (f"k-means, {K} centres per sequence", k_means.distance, k_means.wrong),
        (f"discriminative k-means, {ours.clusters} centres", ours.distance, ours.wrong),
    ]
    return figures.frame_distances(panels)
