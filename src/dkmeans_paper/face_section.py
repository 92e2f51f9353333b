"""The report on face recognition."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from dkmeans_paper import figures, jobs
from dkmeans_paper.effort import FULL, Effort
from dkmeans_paper.face_claims import (
    MAIN,
    W,
    face_claims,
    face_tables,
    relative,
)
from dkmeans_paper.faces import Faces
from dkmeans_paper.processes import Arrays
from dkmeans_paper.readings import EQUAL_COUNT_READINGS, READINGS, K, Reading, Trial
from dkmeans_paper.recognition import Recognition, pair_errors
from dkmeans_paper.representations import REPRESENTATIONS
from dkmeans_paper.rounds import Floats, Indices
from dkmeans_paper.sections import Picture, ReportTable, Section
from dkmeans_paper.study import Study

MIN_QUERIES = 20  # for a correlation


def run_faces(study: Study, faces: Faces, data: str, effort: Effort = FULL) -> Section:
    """Recognise faces under every reading, and compare the paper's claims with the results.

    Parameters
    ----------
    study : Study
        Runs the work and stores results.
    faces : Faces
        Pictures.
    data : str
        Description of the pictures, for the report.
    effort : Effort
        How many faces to leave out, and whom to time.

    Returns
    -------
    section : Section
        The report.
    """
    recognition = Recognition(study, faces)
    study.save_figure("faces-lights", figures.extreme_lights(faces))
    loo = _leave_one_out(recognition, effort.queries)
    seconds = {
        title: round(spent, 1) for title, spent in study.seconds.items() if "leave-one" in title
    }
    times = _measure_times(recognition, loo, effort.timed_people)
    table = _run_ten_folds(recognition, effort.folds)
    y = faces.person
    shown = {
        "k-means": loo["k-means"][0].prediction(),
        f"(a), w = {W}": loo["a"].prediction(),
        f"(c), w = {W}": loo["c"].prediction(),
    }
    study.save_figure("faces-confusion", figures.confusion(y, shown))
    scatter = _scatter(loo, y)
    study.save_figure("faces-ssd", figures.ssd_scatter(scatter))
    study.save_figure("faces-time", figures.plot_times(times))

    asked = int((loo["fold"] >= 0).sum())
    left_out = f"each of the {asked} faces" if asked == len(y) else f"{asked} of the faces"
    numbers = _numbers(loo, y, scatter, times, table) | {
        "faces": len(y),
        "people": recognition.n_people,
        "left out one by one": asked,
        "cross-validation": effort.cross_validation,
        "seconds of leave-one-out, over all processes": seconds,
    }
    return Section(
        title="Face recognition (Figures 5 to 8)",
        data=f"{data}: {len(y)} faces of {recognition.n_people} people. Leave-one-out: {left_out} "
        "in turn, out of every model that it is compared with. Cross-validation: "
        f"{effort.cross_validation}."
        + (f" Skipped: {len(faces.skipped)} files that are no lit faces." if faces.skipped else ""),
        claims=face_claims(numbers, table),
        parts=[
            Picture(
                "faces-lights",
                "Faces under extreme lights (paper: Figure 5)",
                "The first people of the set, lit from one side to the other; azimuth and "
                "elevation of the light below.",
            ),
            *face_tables(table, numbers),
            ReportTable(
                "Time of the leave-one-out runs",
                ["work", "seconds of all processes together"],
                [[title, f"{spent:.0f}"] for title, spent in seconds.items()],
            ),
            Picture(
                "faces-confusion",
                "Who is taken for whom (paper: Figure 6)",
                f"Leave-one-out over {left_out}, {MAIN}. Left: k-means, 8 centres on each person's "
                f"faces, one random start. Middle: reading (a). Right: reading (c). Below: share "
                "of each person's faces taken for anyone else.",
            ),
            Picture(
                "faces-ssd",
                "Sums of squared distances (paper: Figure 7)",
                "One circle per left-out face. Left: the faces of the query's person without the "
                "query, to the nearest of the person's 8 centres. Middle: all faces without the "
                "query, to the nearest of 8 centres in all, the person against the rest; k-means "
                "from one random start per person. Right: all faces, each to the nearest centre "
                f"of its own person, {K} centres per person on average, reading (c). The line is "
                "the least-squares fit through the origin. Benefit: how much the relative margin "
                "between the nearest centre of another person and the nearest of the own grows "
                "over k-means.",
            ),
            Picture(
                "faces-time",
                "Time (paper: Figure 8)",
                f"One run for each of {len(times[0]['ours'])} people, the first of the person's "
                "faces left out, one thread, best of three; from the left: 8 centres on all faces, "
                "the person against the rest, by the estimator and by scikit-learn's k-means from "
                "one random start, float32; the same "
                "fits by this report's own code for both, from inner products; 8 centres on the "
                "faces of two people; and per person, which is not a comparison on the same rows: "
                "k-means with 8 centres on the person's faces alone, the estimator on all faces "
                "with as many clusters in all as reading (a) needs for 8 of the person.",
            ),
        ],
        numbers=numbers,
    )


def _leave_one_out(recognition: Recognition, queries: int | None) -> dict[str, Any]:
    """Leave out faces one by one: k-means, and readings (a), (b) and (c)."""
    fold = recognition.one_by_one(queries)
    found: dict[str, Any] = {"fold": fold, "k-means": recognition.k_means(MAIN, fold)}
    for key in EQUAL_COUNT_READINGS:
        found[key] = READINGS[key].run(recognition, MAIN, fold, (W,))[0]
    found["whole k-means"] = recognition.whole_k_means(MAIN, fold)
    return found


def _measure_times(
    recognition: Recognition, loo: dict[str, Any], people: int | None
) -> list[dict[str, Any]]:
    """Time both algorithms, once per person, for the first people or all."""
    y = recognition.y
    n = min(people or recognition.n_people, recognition.n_people)
    rows = REPRESENTATIONS[MAIN](recognition.faces.images).astype(np.float32)
    clusters = loo["a"].notes["clusters"]
    settings: list[dict[str, Any]] = [
        {
            "person": p,
            "query": int(np.flatnonzero(y == p)[0]),
            "k": K,
            "clusters": int(np.nanmedian(clusters[p])),
            "repulsion": W,
        }
        for p in range(n)
    ]
    inputs: Arrays = {"X": rows, "gram": recognition.gram(MAIN), "y": y}
    done = recognition.study.compute("time", jobs.timing, settings, inputs, alone=True)
    titles = {
        "whole": "8 centres on all faces",
        "alike": "the same, both from inner products",
        "pair": "8 centres on two people's faces",
        "person": "k-means on one person's faces,\nours on everybody's",
    }
    panels = []
    for key, title in titles.items():
        runs = np.stack([r[key] for r in done])
        panels.append({"key": key, "title": title, "k_means": runs[:, 0], "ours": runs[:, 1]})
        panels[-1] |= {"rounds": runs[:, 2:4], "work": runs[:, 4:6]}
    return panels


def _run_ten_folds(recognition: Recognition, folds: int) -> dict[str, Any]:
    """Errors and slopes of every reading on every representation, by 10-fold cross-validation."""
    fold, y = recognition.ten_folds(folds), recognition.y
    refined = [reading for reading in READINGS.values() if reading.method == "refined"]
    recognition.refine(refined, list(REPRESENTATIONS), fold)
    table: dict[str, Any] = {}
    for representation in REPRESENTATIONS:
        k_means = recognition.k_means(representation, fold)
        errors = [trial.error(y) for trial in k_means]
        whole = recognition.whole_k_means(representation, fold)
        lines = {}
        for reading in READINGS.values():
            trials = reading.run(recognition, representation, fold)
            for w, trial in zip(reading.repulsions, trials, strict=True):
                lines[reading.key, w] = {
                    "error": trial.error(y),
                    "ratio": relative(trial.error(y), float(np.mean(errors))),
                    "slope": _slope(*_sums(reading, trial, k_means, whole)),
                    "clusters per person": _clusters(reading, trial, recognition),
                    "converged": _mean(trial.notes.get("converged", np.full(1, np.nan))),
                }
        table[representation] = {
            "1-NN": recognition.nearest_neighbour_error(representation, fold),
            "k-means": float(np.mean(errors)),
            "k-means spread": float(np.std(errors, ddof=1)),
            "pairs": pair_errors(recognition, representation, fold, W),
            "k-means, half as many": recognition.half_k_means(representation, fold).error(y),
            "lines": lines,
        }
    return table


def _sums(
    reading: Reading, trial: Trial, k_means: list[Trial], whole: Floats
) -> tuple[Floats, Floats]:
    """Return the sums of squared distances to compare: of k-means, and of a reading."""
    if reading.sums == "person":
        return k_means[0].ssd, trial.ssd
    if reading.sums == "whole":
        return whole, trial.ssd
    if reading.sums == "everybody":
        return k_means[0].notes["person_ssd"].sum(axis=0), trial.ssd
    return np.full(1, np.nan), np.full(1, np.nan)


def _slope(x: Floats, y: Floats) -> float:
    """Fit a line through the origin by least squares; return its slope."""
    known = ~np.isnan(x) & ~np.isnan(y)
    return float((x[known] @ y[known]) / (x[known] @ x[known])) if known.any() else float("nan")


def _clusters(reading: Reading, trial: Trial, recognition: Recognition) -> float:
    if reading.key in ("a", "b", "d1"):
        return float(np.nanmean(trial.notes["own_clusters"]))
    if reading.key in ("c", "d2", "e1", "e2"):
        return float(np.nanmean(trial.notes["clusters"])) / recognition.n_people
    return float("nan")


def _scatter(loo: dict[str, Any], y: Indices) -> list[dict[str, Any]]:
    """Collect the panels that compare sums of squares."""
    reference = loo["k-means"][0].margin(y)
    titles = {
        "a": "per person: its faces, 8 centres",
        "b": "all faces, 8 centres in all",
        "c": "all faces, 8 centres per person on average",
    }
    panels = []
    for key in EQUAL_COUNT_READINGS:
        reading, trial = READINGS[key], loo[key]
        x, ours = _sums(reading, trial, loo["k-means"], loo["whole k-means"])
        known = ~np.isnan(x) & ~np.isnan(ours)
        benefit = (trial.margin(y) - reference)[known]
        panels.append(
            {
                "key": reading.key,
                "title": titles[reading.key],
                "x": x[known],
                "y": ours[known],
                "slope": _slope(x, ours),
                "benefit": benefit,
                "relation": _rank_correlation(ours[known] / x[known], benefit),
            }
        )
    return panels


def _numbers(
    loo: dict[str, Any],
    y: Indices,
    scatter: list[dict[str, Any]],
    times: list[dict[str, Any]],
    table: dict[str, Any],
) -> dict[str, Any]:
    errors = [trial.error(y) for trial in loo["k-means"]]
    people = _errors_by_person(loo["k-means"], y)
    by_key = {panel["key"]: panel for panel in times}
    return {
        "leave-one-out error": {
            "k-means": float(np.mean(errors)),
            "k-means spread": float(np.std(errors, ddof=1)),
            **{key: loo[key].error(y) for key in ("a", "b", "c")},
        },
        "people with fewer errors": {
            key: _mean((_errors_by_person([loo[key]], y) < people)[~np.isnan(people)])
            for key in ("a", "c")
        },
        "slope": {panel["key"]: panel["slope"] for panel in scatter},
        "relation of slope and benefit": {panel["key"]: panel["relation"] for panel in scatter},
        "time, ours over k-means": {
            panel["key"]: float(np.median(panel["ours"] / panel["k_means"])) for panel in times
        },
        "8 centres on all faces, mean": {
            f"{method}, {name}": _mean(by_key["alike"][name][:, i])
            for i, method in enumerate(("k-means", "ours"))
            for name in ("rounds", "work")
        },
        "milliseconds from inner products, median": {
            "k-means": 1e3 * float(np.median(by_key["alike"]["k_means"])),
            "ours": 1e3 * float(np.median(by_key["alike"]["ours"])),
        },
        "table": {
            representation: {
                **{key: value for key, value in found.items() if key != "lines"},
                "readings": [
                    {"reading": key, "repulsion": w, **line}
                    for (key, w), line in found["lines"].items()
                ],
            }
            for representation, found in table.items()
        },
    }


def _mean(values: npt.NDArray[Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _rank_correlation(ratio: Floats, benefit: Floats) -> float:
    """Compute the rank correlation; NaN for too few queries."""
    if len(ratio) < MIN_QUERIES:
        return float("nan")
    return float(spearmanr(ratio, benefit).statistic)


def _errors_by_person(trials: list[Trial], y: Indices) -> Floats:
    """Compute the error rate of each person's faces, averaged over trials; NaN without queries."""
    shares = []
    for trial in trials:
        prediction = trial.prediction()
        asked = prediction >= 0
        wrong = np.bincount(y[asked], prediction[asked] != y[asked], int(y.max()) + 1)
        faces = np.bincount(y[asked], minlength=len(wrong)).astype(np.float64)
        faces[faces == 0] = np.nan
        shares.append(wrong / faces)
    return np.mean(shares, axis=0)
