"""Figures of the face experiments."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.plots.style import COLORS, MARKERS
from dkmeans_paper.faces import Faces
from dkmeans_paper.rounds import Floats, Indices

Figure = Any
_METHOD_LABELS = {
    "k_means": "k-means, to convergence",
    "ours": "discriminative k-means, to the budget",
}
_SEQUENCE_COLORS = (COLORS[2], COLORS[1], COLORS[0])  # of the three image sequences


def sheet(lines: list[npt.NDArray[np.uint8]], titles: list[str]) -> Figure:
    """Draw lines of pictures, each with a title."""
    from matplotlib.figure import Figure

    strips = [_strip(images) for images in lines]
    height, width = strips[0].shape
    inches = 10 * height / width + 0.28
    figure = Figure(figsize=(10, inches * len(lines)), layout="constrained")
    axes = figure.subplots(len(lines), 1, squeeze=False)[:, 0]
    for place, strip, title in zip(axes, strips, titles, strict=True):
        place.imshow(strip, cmap="gray", vmin=0, vmax=255)
        place.set_title(title, fontsize=10, loc="left")
        place.set_axis_off()
    return figure


def _strip(images: npt.NDArray[np.uint8], gap: int = 2) -> npt.NDArray[np.float64]:
    """Concatenate pictures horizontally, with gaps."""
    framed = np.pad(images.astype(np.float64), ((0, 0), (0, 0), (0, gap)), constant_values=np.nan)
    return np.concatenate(list(framed), axis=1)[:, :-gap]


def extreme_lights(faces: Faces, n_people: int = 4, n_lights: int = 8) -> Figure:
    """Draw some people lit from one side to the other."""
    lights = [
        set(zip(faces.azimuth[faces.person == p], faces.elevation[faces.person == p], strict=True))
        for p in range(min(n_people, len(faces.names)))
    ]
    shared = sorted(set.intersection(*lights)) or sorted(lights[0])
    chosen = [shared[i * (len(shared) - 1) // (n_lights - 1)] for i in range(n_lights)]
    lines = []
    for p in range(len(lights)):
        mine = np.flatnonzero(faces.person == p)
        angles = np.stack([faces.azimuth[mine], faces.elevation[mine]])
        at = [mine[np.abs(angles.T - light).sum(axis=1).argmin()] for light in chosen]
        lines.append(faces.images[at])
    figure = sheet(lines, faces.names[: len(lights)])
    step = faces.images.shape[2] + 2
    for i, (azimuth, elevation) in enumerate(chosen):
        figure.axes[-1].text(
            (i + 0.5) * step,
            faces.images.shape[1] + 2,
            f"{azimuth:+d}°, {elevation:+d}°",
            ha="center",
            va="top",
            fontsize=9,
        )
    return figure


def confusion(y: Indices, predictions: dict[str, Indices]) -> Figure:
    """Draw confusion matrices, and the error rate of each person."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    n, people = len(predictions), int(y.max()) + 1
    figure = Figure(figsize=(4.6 * n, 6.2), layout="constrained")
    axes = figure.subplots(2, n, squeeze=False, height_ratios=(3.2, 1), sharex="col", sharey="row")
    tables = [_shares(y, prediction, people) for prediction in predictions.values()]
    top = max(t.max() for t in tables)
    for i, (title, table) in enumerate(zip(predictions, tables, strict=True)):
        shown = axes[0, i].imshow(
            100 * table.T,
            cmap="magma_r",
            vmin=0,
            vmax=100 * top or 1.0,
            aspect="auto",
            extent=(0.5, people + 0.5, people + 0.5, 0.5),
        )
        axes[0, i].set_title(title, fontsize=10)
        marginal = 100 * table.sum(axis=1)
        axes[1, i].plot(
            np.arange(1, people + 1), marginal, color=COLORS[1], marker=MARKERS[0], ms=3, lw=1
        )
        mean = marginal.mean()
        axes[1, i].axhline(mean, color="0.4", lw=0.8, ls="--")
        axes[1, i].set_title(f"mean over people {mean:.1f} %", fontsize=9)
        axes[1, i].set_xlabel("person")
        axes[1, i].grid(axis="y", lw=0.3)
    axes[1, 0].set_ylim(0, 105 * max(t.sum(axis=1).max() for t in tables) or 1.0)
    for axis in (axes[0, 0].yaxis, *(place.xaxis for place in axes[1])):
        axis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    axes[0, 0].set_ylabel("taken for person")
    axes[1, 0].set_ylabel("taken for\nanyone else, %")
    figure.colorbar(shown, ax=axes[0, :], label="share of the person's faces, %", pad=0.01)
    return figure


def _shares(y: Indices, prediction: Indices, people: int) -> Floats:
    """Compute the share of each person's faces (line) recognised as another person (column)."""
    asked = prediction >= 0
    table = np.zeros((people, people))
    np.add.at(table, (y[asked], prediction[asked]), 1)
    table /= np.maximum(table.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(table, 0)
    return table


def ssd_scatter(panels: list[dict[str, Any]]) -> Figure:
    """Draw sums of squared distances of two methods, coloured by the benefit.

    Each panel has the keys title, x, y, slope and benefit.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(panels), 4.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for place, panel in zip(axes, panels, strict=True):
        span = np.nanpercentile(np.abs(panel["benefit"]), 98) or 1.0
        shown = place.scatter(
            panel["x"],
            panel["y"],
            c=panel["benefit"],
            cmap="RdBu",
            vmin=-span,
            vmax=span,
            s=14,
            lw=0.2,
            edgecolor="0.3",
        )
        ends = np.array([0, np.nanmax(panel["x"]) * 1.03])
        place.plot(
            ends, panel["slope"] * ends, color=COLORS[1], label=f"slope {panel['slope']:.2f}"
        )
        place.plot(ends, ends, color="0.5", lw=0.8, ls="--", label="equal")
        low_x, low_y = np.nanmin(panel["x"]), np.nanmin(panel["y"])
        place.set(xlim=(0.95 * min(low_x, low_y), ends[1]), ylim=(0.95 * min(low_x, low_y), None))
        place.set_title(panel["title"], fontsize=10)
        place.set(xlabel="SSD of k-means", ylabel="SSD of discriminative k-means")
        place.legend(loc="upper left")
        figure.colorbar(shown, ax=place, label="benefit: gain in relative margin (blue: gain)")
    return figure


def plot_times(panels: list[dict[str, Any]]) -> Figure:
    """Draw the times of both algorithms over the runs. Each panel has title, k_means and ours."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for place, panel in zip(axes, panels, strict=True):
        for i, (key, label) in enumerate(_METHOD_LABELS.items()):
            style = {"color": COLORS[1 - i], "marker": MARKERS[1 - i], "ms": 3, "lw": 1}
            place.plot(1e3 * panel[key], label=label, **style)
        place.set_title(panel["title"], fontsize=10)
        place.set(xlabel="person", ylabel="milliseconds", ylim=(0, None))
        place.grid(axis="y", lw=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def components(
    points: list[Floats],
    titles: tuple[str, ...],
    panels: list[tuple[str, npt.NDArray[np.bool_] | None]],
) -> Figure:
    """Draw three sets of points in space; mark misclassified points of the last set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 4.8), layout="constrained")
    for i, (title, wrong) in enumerate(panels, 1):
        place = figure.add_subplot(1, len(panels), i, projection="3d")
        for j, rows in enumerate(points):
            place.scatter(
                *rows.T,
                s=14,
                color=_SEQUENCE_COLORS[j],
                marker=MARKERS[j],
                alpha=0.7,
                lw=0,
                label=titles[j],
            )
        if wrong is not None and wrong.any():
            place.scatter(
                *points[-1][wrong].T, s=40, color="black", marker="x", lw=1.2, label="misclassified"
            )
        place.set_title(title, fontsize=10)
        place.tick_params(labelsize=7)
        place.set(xlabel="component 1", ylabel="component 2", zlabel="component 3")
        place.set_box_aspect(None, zoom=0.88)
        if len(place.get_legend_handles_labels()[0]) > len(points):
            handles = place.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4)
    return figure


def frame_distances(panels: list[tuple[str, Floats, npt.NDArray[np.bool_]]]) -> Figure:
    """Draw, frame by frame, the distance to the nearest centre of the right and wrong person."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.9 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    for place, (title, (other, own), wrong) in zip(axes, panels, strict=True):
        frame = np.arange(len(own))
        place.plot(frame, own, color=COLORS[0], label="nearest centre of the right person")
        place.plot(
            frame, other, color=COLORS[1], ls="--", label="nearest centre of the wrong person"
        )
        place.plot(frame[wrong], own[wrong], "x", color="black", label="misclassified", ms=5)
        place.set_title(f"{title}: {wrong.mean():.0%} misclassified", fontsize=10)
        place.set_ylabel("distance")
        place.grid(lw=0.3)
    axes[-1].set_xlabel("frame of the third sequence")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
