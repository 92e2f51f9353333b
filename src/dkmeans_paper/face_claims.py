"""Claims of the paper on face recognition, compared with measurements; tables."""

from typing import Any

import numpy as np

from dkmeans_paper.readings import EQUAL_COUNT_READINGS, READINGS, SEEDS
from dkmeans_paper.rounds import Repulsion
from dkmeans_paper.sections import Claim, ReportTable, verdict

MAIN = "high-pass"  # the representation for which the error of k-means is that of the paper
W = 0.25  # repulsion of the leave-one-out runs
_TIMED_ROWS = {
    "whole": "all faces",
    "pair": "two people's faces",
    "person": "one person against all",
}
PAPER_ERROR, PAPER_SLOPE = 0.18, 1.38
MAX_TIME_RATIO = 0.37  # the paper reports 0.27; with tolerance


def relative(error: float, reference: float) -> float:
    """Divide an error by a reference error; 1 if both are zero."""
    return error / reference if reference else 1.0 if error == 0 else np.inf


def _less(ratio: float) -> str:
    return f"{1 - ratio:.0%} less" if ratio <= 1 else f"{ratio - 1:.0%} more"


def face_claims(numbers: dict[str, Any], table: dict[str, Any]) -> list[Claim]:
    """Compare each claim of the paper with its measurement; the numbers determine the verdicts."""
    errors, slopes = numbers["leave-one-out error"], numbers["slope"]
    folds = numbers["cross-validation"]
    times = numbers["time, ours over k-means"]
    relation = numbers["relation of slope and benefit"]
    same_number = {
        (name, key, w): line["ratio"]
        for name, found in table.items()
        for (key, w), line in found["lines"].items()
        if key in EQUAL_COUNT_READINGS
    }
    best_at = min(same_number, key=same_number.__getitem__)
    best = same_number[best_at]
    pair = {name: relative(*found["pairs"]) for name, found in table.items()}
    ratio = relative(min(errors["a"], errors["c"]), errors["k-means"])
    lines = table[MAIN]["lines"]
    stopped, converged = (
        min(line["error"] for (key, _), line in lines.items() if key in keys)
        for keys in (("a", "c"), ("d1", "d2"))
    )
    work = numbers["8 centres on all faces, mean"]
    fewer = _less(work["ours, work"] / work["k-means, work"])
    alike = numbers["milliseconds from inner products, median"]
    return [
        Claim(
            "K-means with 8 centres per person takes 18 % of the faces for someone else.",
            f"{errors['k-means']:.1%} ({MAIN}, leave-one-out, mean of {len(SEEDS)} random starts, "
            f"standard deviation {errors['k-means spread']:.1%}). Other representations: "
            + ", ".join(f"{n} {f['k-means']:.0%}" for n, f in table.items() if n != MAIN)
            + f" ({folds}).",
            verdict(abs(errors["k-means"] - PAPER_ERROR), 0.02, 0.05),
        ),
        Claim(
            "The discriminative algorithm errs on 12 %, a third less, at the same number of "
            "clusters.",
            f"{MAIN}, leave-one-out, w = {W}: (a) {errors['a']:.1%}, (b) {errors['b']:.1%}, (c) "
            f"{errors['c']:.1%}: {_less(ratio)} at best. Over all representations and w ({folds}): "
            f"{_less(best)} at best, with {best_at[0]}, ({best_at[1]}), w = {best_at[2]}. Telling "
            f"two people apart with 8 clusters for both, beside k-means with 4 each ({folds}, "
            f"w = {W}): "
            + ", ".join(f"{n} {_less(r)}" for n, r in pair.items())
            + ". Rule: the leave-one-out ratio is at most 0.7; in part: any at most 0.95.",
            "confirmed" if ratio <= 0.7 else verdict(min(ratio, best), 0.0, 0.95),
        ),
        Claim(
            "It is better for people throughout.",
            "Share of people with fewer errors than with k-means: "
            + ", ".join(f"({k}) {v:.0%}" for k, v in numbers["people with fewer errors"].items()),
            verdict(-max(numbers["people with fewer errors"].values()), -0.9, -0.5),
        ),
        Claim(
            "Run until converged it would be better still.",
            f"Best of the readings that stop at 8: {stopped:.1%}; best of those that run on: "
            f"{converged:.1%}, with more clusters ({MAIN}, {folds}).",
            "confirmed" if converged < stopped else "not confirmed",
        ),
        Claim(
            f"Its sum of squared distances is {PAPER_SLOPE} times that of k-means.",
            f"Slopes at w = {W}: "
            + ", ".join(f"({key}) {slope:.2f}" for key, slope in slopes.items())
            + f". Reading (a) at other w ({MAIN}, {folds}): "
            + ", ".join(
                f"{line['slope']:.2f} at w = {w}" for (key, w), line in lines.items() if key == "a"
            ),
            verdict(abs(slopes["a"] - PAPER_SLOPE), 0.05, 0.25),
        ),
        Claim(
            "The benefit does not depend on the sum of squared distances.",
            "Rank correlation between the ratio of the sums and the benefit, over queries: "
            + ", ".join(f"({key}) {r:+.2f}" for key, r in relation.items()),
            "too few queries"
            if any(np.isnan(r) for r in relation.values())
            else verdict(max(abs(r) for r in relation.values()), 0.1, 0.3),
        ),
        Claim(
            "It reaches 8 clusters in 73 % less time than k-means takes to converge.",
            "Time of DiscriminativeKMeans over that of scikit-learn's KMeans, median: "
            + ", ".join(
                f"{_TIMED_ROWS[key]} {t:.2f}" for key, t in times.items() if key in _TIMED_ROWS
            )
            + f". On all faces, 8 centres: {work['ours, rounds']:.1f} rounds against "
            f"{work['k-means, rounds']:.1f}, and {fewer} distances from a face to a centre. With "
            f"both written alike, from inner products, a fit takes {alike['ours']:.0f} ms against "
            f"{alike['k-means']:.0f} ms, median of the ratio {times['alike']:.2f}. Rule: both "
            f"ratios on all faces at most {MAX_TIME_RATIO}; in part: one.",
            "confirmed"
            if max(times["whole"], times["alike"]) <= MAX_TIME_RATIO
            else verdict(min(times["whole"], times["alike"]), 0.0, MAX_TIME_RATIO),
        ),
    ]


def face_tables(table: dict[str, Any], numbers: dict[str, Any]) -> list[ReportTable]:
    """Tabulate errors and slopes: one line per reading, one column per representation."""
    names = list(table)
    keys = list(table[names[0]]["lines"])
    titles = {key: reading.title for key, reading in READINGS.items()}
    errors, folds = numbers["leave-one-out error"], numbers["cross-validation"]
    one_by_one = [
        [f"k-means, 8 per person, mean of {len(SEEDS)} random starts", _percent(errors["k-means"])],
        *([f"{titles[key]}, w = {W}", _percent(errors[key])] for key in ("a", "b", "c")),
    ]

    def line(key: tuple[str, Repulsion], name: str, form: str) -> list[str]:
        cells = [table[n]["lines"][key][name] for n in names]
        shown = ["" if np.isnan(cell) else format(cell, form) for cell in cells]
        w = str(key[1]) if READINGS[key[0]].growth == "paper" else ""
        return [titles[key[0]], w, *shown]

    references = [
        ["nearest other face (1-NN)", "", *(_percent(table[n]["1-NN"]) for n in names)],
        [
            f"k-means, 8 per person, mean of {len(SEEDS)} starts",
            "",
            *(_percent(table[n]["k-means"]) for n in names),
        ],
        [
            "k-means, 4 per person, one start",
            "",
            *(_percent(table[n]["k-means, half as many"]) for n in names),
        ],
    ]
    two = [
        [title, *(_percent(table[n]["pairs"][i]) for n in names)]
        for i, title in enumerate((f"the pair's own model, w = {W}", "k-means, 4 per person"))
    ]
    return [
        ReportTable(f"Error, leave-one-out, {MAIN}", ["method", "error"], one_by_one),
        ReportTable(
            f"Error, cross-validation ({folds})",
            ["method", "w", *names],
            references + [line(key, "error", ".1%") for key in keys],
            "Converged runs follow the paper's rounds alone, without the guaranteed ending of the "
            "estimator. Pairs: each model has 8 clusters, but everybody takes part in as many "
            "models as there are others.",
        ),
        ReportTable(
            f"Error relative to k-means, cross-validation ({folds}) (paper: 0.67)",
            ["method", "w", *names],
            [line(key, "ratio", ".2f") for key in keys],
        ),
        ReportTable(
            "Slope of the sums of squared distances (paper: 1.38)",
            ["method", "w", *names],
            [line(key, "slope", ".2f") for key in keys if key[0] in EQUAL_COUNT_READINGS],
            "(a): the person's faces to the person's 8 centres; (b): all faces to 8 centres; (c): "
            "all faces, each to the nearest centre of its person, 8 per person on average. Each "
            "beside k-means on the same faces with as many centres.",
        ),
        ReportTable(
            f"Clusters per person, cross-validation ({folds})",
            ["method", "w", *names],
            [
                line(key, "clusters per person", ".1f")
                for key in keys
                if not np.isnan(table[names[0]]["lines"][key]["clusters per person"])
            ],
        ),
        ReportTable(
            "Share of runs that converge within 300 rounds",
            ["method", "w", *names],
            [line(key, "converged", ".0%") for key in keys if key[0] in ("d1", "d2")],
        ),
        ReportTable(
            f"Telling two people apart, 8 clusters for the two: error over all pairs, {folds}",
            ["method", *names],
            two,
        ),
    ]


def _percent(share: float) -> str:
    return f"{share:.1%}"
