"""The paper's synthetic experiments: a first set, a larger second set, and a continued fit."""

from collections import Counter
from typing import Any

import numpy as np

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.growth.grow import grow
from dkmeans.growth.rules import Continuation
from dkmeans.plots.display import off_screen
from dkmeans.plots.growth import GrowthDisplay, Panel
from dkmeans.plots.style import color, marker
from dkmeans.prepare import prepare
from dkmeans_paper.effort import FULL, Effort
from dkmeans_paper.plane import (
    Floats,
    Ints,
    Sets,
    fit_three,
    gaps_and_sizes,
    judge,
    measure,
    plane_sets,
    ratio,
)
from dkmeans_paper.sections import Claim, Picture, ReportTable, Section, Verdict
from dkmeans_paper.study import Study

RUNS = {
    "1": "1: set 1",
    "2": "2: set 2 from scratch",
    "3": "3: set 2 from the end of 1",
    "k-means": "class-wise k-means, set 2",
}
STATEMENTS = {
    "converge": "All three runs converge.",
    "density": "Clusters lie densely where the two classes are close and sparsely elsewhere.",
    "far": "Run afresh with the added points, the centres far from them are where they were.",
    "near": "Much changes where the classes newly meet: centres are added there.",
    "agreement": "Going on from the first result ends in much the same centres as a fresh start.",
}


def run_synthetic(study: Study, effort: Effort = FULL) -> Section:
    """Run the three experiments, draw them, and compare the results with the paper.

    Parameters
    ----------
    study : Study
        Stores the figures.
    effort : Effort
        How many redrawings to make.

    Returns
    -------
    section : Section
        Claims, tables, figures and numbers.
    """
    sets = plane_sets()
    X1, y1, X2, y2 = sets
    models = fit_three(sets)
    numbers = measure(sets, models)
    verdicts = judge(numbers)
    displays = (
        growth(DiscriminativeKMeans.paper(), X1, y1, Continuation.FRESH),
        growth(DiscriminativeKMeans.paper(), X2, y2, Continuation.FRESH),
        growth(models[0], X2, y2, Continuation.WARM),
    )
    parts: list[ReportTable | Picture] = []
    for run, display in zip(("1", "2", "3"), displays, strict=True):
        name = study.save_figure(f"synthetic-{run}", _rounds_figure(display))
        caption = (
            "Points, centres by class, and cells (shaded by class) at the start and after every "
            "round until convergence. The title counts the clusters and those of mixed cells."
        )
        if run != "1":
            caption += " The added points are the positives beside the negatives at the lower left."
        if run == "3":
            caption += " The start is the end of experiment 1, with the added points."
        parts.append(Picture(name, f"Experiment {RUNS[run]}", caption))
    tolerance, far = numbers["tolerance"], numbers["far"]
    parts += [
        Picture(
            study.save_figure("synthetic-density", draw_density(sets, models, numbers)),
            "Clusters where the classes meet",
            "Left: centres per 100 training points, in quarters of the points by their distance "
            "to the other class; every point carries an equal share of the centre of its cell. "
            "Class-wise k-means, which does not see the other class, has as many centres as "
            "experiment 2. Right: points in the cell of each point of experiment 2, against that "
            "distance.",
        ),
        Picture(
            study.save_figure("synthetic-change", draw_change(sets, models, numbers)),
            "What the added points change",
            "Distance from each centre to the nearest centre of its class in the other run, "
            "against its distance to the added points; the upright axis is linear up to 0.5, then "
            "logarithmic. Dashed: one extent of the added points (the largest distance between "
            f"two, {far:.2f}), beyond which is far. Dotted: a quarter of the typical spacing of "
            f"centres ({tolerance:.2f}), within which counts as the same place.",
        ),
        _change_table(numbers),
    ]
    others = (plane_sets(drawing) for drawing in range(1, effort.redrawings + 1))
    redrawn = [judge(measure(other, fit_three(other))) for other in others]
    numbers["redrawn"] = {name: dict(Counter(r[name] for r in redrawn)) for name in verdicts}
    parts.append(_redrawn_table(numbers["redrawn"]))
    study.console.print(f"Synthetic data: 3 experiments and {effort.redrawings} redrawings done")
    return Section(
        "Synthetic data",
        f"Two classes drawn in the plane, coordinates fixed: {len(X1)} points, {int(y1.sum())} of "
        f"them positive; set 2 adds {len(X2) - len(X1)} positive points beside negatives that had "
        "been on their own. Default parameters, until convergence.",
        _claims(numbers, verdicts),
        parts,
        numbers,
    )


def growth(estimator: DiscriminativeKMeans, X: Floats, y: Ints, how: Continuation) -> GrowthDisplay:
    """Record the start and every round of a fit."""
    with prepare(estimator, X, y, None, how) as prepared:
        panels = [Panel(s.round, s.prototypes, s.n_mixed) for s in grow(prepared.run())]
    names = np.array(["negative", "positive"])
    return GrowthDisplay(prepared.training.X, prepared.training.y, names, panels)


def _rounds_figure(display: GrowthDisplay) -> Any:
    with off_screen():
        display.plot(columns=6 if len(display.panels) > 8 else 4)
    for axes in display.axes_.flat:
        for line in axes.lines[len(display.classes) :]:
            # Smaller markers: centres are dense where the classes meet.
            line.set_markersize(0.7 * line.get_markersize())
    display.figure_.set_size_inches(0.8 * display.figure_.get_size_inches())
    return display.figure_


def _claims(numbers: dict[str, Any], verdicts: dict[str, Verdict]) -> list[Claim]:
    to, back = numbers["change"]["1 to 2"], numbers["change"]["2 to 1"]
    going_on = numbers["change"]["1 to 3"]["far"]
    runs = [numbers["density"][run] for run in ("1", "2", "3")]
    denser, related = [f"{ratio(r):.1f}" for r in runs], [f"{r['spearman']:.2f}" for r in runs]
    agreement = numbers["agreement"]
    measured = {
        "converge": "Converged: "
        + ", ".join("yes" if done else "no" for done in numbers["converged"])
        + f", in {_listed(numbers['rounds'])} rounds with {_listed(numbers['clusters'])} clusters. "
        "Rule: all; in part: some.",
        "density": "The quarter of the points nearest to the other class has "
        f"{_listed(denser)} times the centres per point of the farthest "
        f"quarter (class-wise k-means: {ratio(numbers['density']['k-means']):.1f}); Spearman "
        f"correlation of distance and cell size {_listed(related)}. "
        "Rule: at least 2 times and 0.3 in every run; in part: above 1 and 0.",
        "far": f"Of experiment 1's far centres, {to['far']['same']:.0%} have one of experiment 2 "
        f"in the same place, and {back['far']['same']:.0%} the other way; the median displacement "
        f"is {to['far']['median']:.2f}, {to['far']['median'] / numbers['width']:.1%} of the width "
        "of the drawing, which the eye may take for the same. Continued (experiment 3): "
        f"{going_on['same']:.0%}, {going_on['median']:.2f}. Rule: 90 % both ways in experiment 2; "
        "in part: 50 %.",
        "near": f"Near centres went from {to['near']['centres']} to {back['near']['centres']}, far "
        f"ones from {to['far']['centres']} to {back['far']['centres']}; median displacement near "
        f"{to['near']['median']:.2f} (old centres) and {back['near']['median']:.2f} (new ones), "
        f"far {to['far']['median']:.2f} and {back['far']['median']:.2f}. Rule: near ones grow by "
        "a larger factor, and both medians are larger near; in part: one of the two.",
        "agreement": f"{agreement['same']:.0%} of the centres are in the same place "
        f"({agreement['matched']} pairs, {agreement['unmatched']} without a partner, which count "
        f"as elsewhere); pairs are {agreement['median']:.2f} typical spacings apart in the median. "
        f"The label is the same on {agreement['plane']:.1%} of the plane. Rule: 90 % of the "
        "centres and 95 % of the plane; in part: half the centres, or the plane.",
    }
    return [Claim(text, measured[name], verdicts[name]) for name, text in STATEMENTS.items()]


def _listed(values: Any) -> str:
    *most, last = (str(value) for value in values)
    return f"{', '.join(most)} and {last}"


def _change_table(numbers: dict[str, Any]) -> ReportTable:
    lines = []
    for name, change in numbers["change"].items():
        for where in ("near", "far"):
            part = change[where]
            lines.append(
                [f"{name}, {where}", str(part["centres"]), f"{part['median']:.2f}"]
                + [f"{share:.0%}" for share in part["within"]]
            )
    columns = ["centres of", "number", "median", "within 1/8", "within 1/4", "within 1/2"]
    return ReportTable(
        "Displacement of centres",
        columns,
        lines,
        "From each centre of the first run named to the nearest of its class in the second: median "
        "in units of the drawing, and shares within multiples of the typical spacing of centres "
        f"({numbers['spacing']:.2f}, the median distance in experiment 1 to the nearest of the "
        f"same class). Far is more than the extent of the added points ({numbers['far']:.2f}) "
        "from all of them. For comparison: beside an evenly spaced row of centres, points put "
        "down at random have one within 1/8, 1/4 and 1/2 of the spacing in 25, 50 and 100 % of "
        "cases.",
    )


def _redrawn_table(redrawn: dict[str, dict[str, int]]) -> ReportTable:
    kinds = ("confirmed", "in part", "not confirmed")
    return ReportTable(
        f"The same rules on {sum(next(iter(redrawn.values())).values())} redrawings",
        ["claim", *kinds],
        [
            [STATEMENTS[name], *(str(counts.get(kind, 0)) for kind in kinds)]
            for name, counts in redrawn.items()
        ],
        "The same shapes, with the points scattered in them differently: how much hangs on the "
        "one drawing.",
    )


def draw_density(sets: Sets, models: list[DiscriminativeKMeans], numbers: dict[str, Any]) -> Any:
    """Draw the density of centres against the distance to the other class."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    bars, cells = figure.subplots(1, 2, width_ratios=(1.2, 1))
    for k, (run, title) in enumerate(RUNS.items()):
        places = np.arange(4) + 0.2 * (k - 1.5)
        shade = "0.65" if run == "k-means" else color(k + 2)
        bars.bar(places, numbers["density"][run]["per_100"], 0.2, color=shade, label=title)
    bars.set_xticks(range(4), ["nearest", "second", "third", "farthest"])
    bars.set(
        xlabel="quarter of the points by distance to the other class",
        ylabel="centres per 100 points",
    )
    bars.legend(frameon=False)
    X, y = sets[2:]
    gaps, sizes = gaps_and_sizes(X, y, models[1].cluster_centers_)
    for c, name in enumerate(("negative", "positive")):
        cells.plot(
            gaps[y == c],
            sizes[y == c],
            marker(c),
            ms=4,
            alpha=0.6,
            mew=0,
            color=color(c),
            label=name,
        )
    cells.set(
        xlabel="distance to the nearest point of the other class",
        ylabel="points in the cell (experiment 2)",
        ylim=(0, None),
        xlim=(0, None),
    )
    cells.legend(frameon=False)
    return figure


def draw_change(sets: Sets, models: list[DiscriminativeKMeans], numbers: dict[str, Any]) -> Any:
    """Draw the displacement of centres against their distance to the added points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    ticks = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 1, 2, 3)
    for k, axes in zip(("2", "3"), figure.subplots(1, 2, sharex=True, sharey=True), strict=True):
        for name, c, label in (
            (f"1 to {k}", 0, f"centres of 1, to those of {k}"),
            (f"{k} to 1", 1, f"centres of {k}, to those of 1"),
        ):
            change = numbers["change"][name]
            axes.plot(
                change["distance"],
                change["displacement"],
                marker(c),
                ms=6,
                mfc=color(c + 2) if c == 0 else "none",
                color=color(c + 2),
                label=label,
            )
        axes.axvline(numbers["far"], color="0.4", lw=1, ls="--")
        axes.axhline(numbers["tolerance"], color="0.4", lw=1, ls=":")
        # Linear for small displacements, logarithmic for the large ones of new centres.
        axes.set_yscale("symlog", linthresh=0.5, linscale=1.5)
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set(title=f"Experiment {RUNS[k]}", xlabel="distance to the nearest added point")
        axes.text(numbers["far"] + 0.08, 0.75, "far", color="0.3")
        axes.legend(frameon=False, loc="upper right")
        axes.label_outer()
    figure.axes[0].set_ylabel("distance to the nearest centre\nof the class in the other run")
    return figure
