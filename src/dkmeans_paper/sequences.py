"""Report on image sequences: train on one film of each of two people, classify a third film."""

from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from dkmeans_paper import figures, films
from dkmeans_paper.effort import FULL, Effort
from dkmeans_paper.faces import Faces
from dkmeans_paper.films import METHODS, REPULSIONS, SEEDS, FilmResult, Films, K, Rows
from dkmeans_paper.processes import Arrays
from dkmeans_paper.sections import Claim, Picture, ReportTable, Section, verdict
from dkmeans_paper.study import Study


def run_sequences(study: Study, faces: Faces | None, data: str, effort: Effort = FULL) -> Section:
    """Classify the third film with both algorithms.

    Parameters
    ----------
    study : Study
        Runs the work and stores results.
    faces : Faces or None
        Pictures to order by light into films, in addition to the rendered films.
    data : str
        Description of the pictures, for the report.
    effort : Effort
        How many films to make.

    Returns
    -------
    section : Section
        The report.
    """
    settings = [{"seed": seed} for seed in range(effort.films)]
    made = study.compute("sequences: moving heads", films.rendered_job, settings, {})
    shown = Films(tuple(made[0]["frames"]), tuple(made[0]["titles"].tolist()))
    sources = [("sequences", "Moving heads", f"{len(made)} pairs of rendered people", shown, made)]
    about = "Rendered films of two moving heads; the paper's films are not public."
    if faces is not None:
        inputs: Arrays = {
            "images": faces.images,
            "person": faces.person,
            "azimuth": faces.azimuth,
            "elevation": faces.elevation,
        }
        settings = [{"first": p, "partners": effort.partners} for p in range(len(faces.names))]
        made = study.compute("sequences: lights by azimuth", films.lights_job, settings, inputs)
        many = f"{sum(len(m['k-means']) for m in made)} pairs of people"
        shown = films.lit_films(faces, 0, 1)
        sources.append(("lights", "Lights by azimuth", many, shown, made))
        about += (
            f" {data}: pictures in the order of the light's azimuth as films; trained under lamps "
            "at or below the height of the eyes, asked about pictures under lamps above it."
        )
    claims, parts, numbers = [], [], {}
    for source in sources:
        more_claims, more_parts, numbers[source[1]] = _report(study, *source)
        claims += more_claims
        parts += more_parts
    return Section(
        title="Image sequences (Figures 1 and 2)",
        data=f"{about} Trained on the first two films, asked about the third. Pixels as they are.",
        claims=claims,
        parts=parts,
        numbers=numbers,
    )


def _report(
    study: Study, name: str, title: str, many: str, shown: Films, made: list[Arrays]
) -> tuple[list[Claim], list[ReportTable | Picture], dict[str, Any]]:
    """Report on one kind of film."""
    over = films.concatenate_errors([{method: part[method] for method in METHODS} for part in made])
    mean = {method: over[method].mean(axis=0) for method in METHODS}
    X = shown.rows(films.REPRESENTATION)
    k_means = [films.learn_k_means(X, seed) for seed in SEEDS]
    ours = {w: films.learn(X, 2 * K, w) for w in REPULSIONS}
    converged = {w: films.learn(X, None, w) for w in REPULSIONS}
    default = ours[REPULSIONS[-1]]
    study.save_figure(f"{name}-frames", _frames(shown))
    study.save_figure(f"{name}-components", _components(shown, X, k_means[0], default))
    study.save_figure(f"{name}-distances", _distances(k_means[0], default))
    here = float(np.mean([answer.error for answer in k_means]))
    lines = [
        [
            f"k-means, {K} per film, mean of {len(SEEDS)} random starts",
            str(2 * K),
            f"{here:.1%}",
            f"{mean['k-means']:.1%}",
        ]
    ]
    for text, answers, method in (
        (f"discriminative, at most {2 * K} clusters", ours, "ours"),
        ("discriminative, converged", converged, "converged"),
    ):
        lines += [
            [f"{text}, w = {w}", str(a.clusters), f"{a.error:.1%}", f"{error:.1%}"]
            for (w, a), error in zip(answers.items(), mean[method], strict=True)
        ]
    least = min(mean["ours"].min(), mean["converged"].min())
    claims = [
        Claim(
            f"{title}: k-means with 5 centres per film takes about a third (32 %) of the new "
            "frames for the other person.",
            f"{mean['k-means']:.1%} over {many}; {here:.1%} in the instance shown.",
            verdict(abs(mean["k-means"] - 0.32), 0.05, 0.15),
        ),
        Claim(
            f"{title}: with the discriminative algorithm no frame is misclassified.",
            f"Over {many}: {mean['ours'][-1]:.1%} with at most {2 * K} clusters and the default w, "
            f"{least:.1%} in the best row of the table; {default.error:.1%} with "
            f"{default.clusters} clusters in the instance shown. The algorithm ends as soon as its "
            "cells are pure, which on films that are easy to separate takes few clusters.",
            verdict(least, 0.0, 0.9 * float(mean["k-means"])),
        ),
    ]
    parts: list[ReportTable | Picture] = [
        Picture(
            f"{name}-frames",
            f"{title}: sample frames (paper: Figure 1a)",
            "Ten frames of each film, from the first to the last.",
        ),
        ReportTable(
            f"{title}: error on the third film",
            ["method", "clusters", "instance shown", f"mean over {many}"],
            lines,
        ),
        Picture(
            f"{name}-components",
            f"{title}: on the first three principal components (paper: Figure 1b, c)",
            "Left: the sets. Middle and right: frames of the third film that are taken for the "
            "first person are marked by a cross.",
        ),
        Picture(
            f"{name}-distances",
            f"{title}: distance to the nearest centre of either person (paper: Figure 2)",
            "Frame by frame of the third film. A frame is misclassified where the distance to the "
            "wrong person is the smaller.",
        ),
    ]
    numbers = {
        "instances": len(over["k-means"]),
        "k-means": float(mean["k-means"]),
        **{
            f"{method}, w = {w}": float(error)
            for method in ("ours", "converged")
            for w, error in zip(REPULSIONS, mean[method], strict=True)
        },
        "instance shown": {
            "k-means": here,
            **{f"ours, w = {w}": a.error for w, a in ours.items()},
            **{f"converged, w = {w}": a.error for w, a in converged.items()},
        },
    }
    return claims, parts, numbers


def _frames(shown: Films) -> Any:
    lines = [f[np.linspace(0, len(f) - 1, 10).astype(int)] for f in shown.frames]
    return figures.sheet(lines, list(shown.titles))


def _components(shown: Films, X: list[Rows], k_means: FilmResult, ours: FilmResult) -> Any:
    planes = PCA(3).fit(np.concatenate(X))
    points = [planes.transform(rows) for rows in X]
    panels = [
        ("all three", None),
        (f"k-means: {k_means.error:.0%} wrong", k_means.wrong),
        (f"discriminative: {ours.error:.0%} wrong", ours.wrong),
    ]
    return figures.components(points, shown.titles, panels)


def _distances(k_means: FilmResult, ours: FilmResult) -> Any:
    panels = [
        (f"k-means, {K} centres per sequence", k_means.distance, k_means.wrong),
        (f"discriminative k-means, {ours.clusters} centres", ours.distance, ours.wrong),
    ]
    return figures.frame_distances(panels)
