"""The demonstration: fit built-in data, compare, draw."""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits, make_moons
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from dkmeans.atomic import replacing
from dkmeans.baselines import ClasswiseKMeans
from dkmeans.cli.console import say, stdout
from dkmeans.estimator import DiscriminativeKMeans, OverfittingWarning
from dkmeans.plots.decision_regions import CellsDisplay
from dkmeans.plots.display import Display, off_screen
from dkmeans.plots.growth import GrowthDisplay
from dkmeans.plots.images import PrototypeImagesDisplay


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows held out."""

    X_train: npt.NDArray[np.float64]
    X_test: npt.NDArray[np.float64]
    y_train: npt.NDArray[np.int64]
    y_test: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    method: str
    clusters: str
    rounds: str
    train_error: float
    test_error: float
    seconds: float


def split_sets() -> dict[str, Split]:
    """Load the two data sets, a fifth of each held out."""
    sets = {
        "two moons": make_moons(500, noise=0.15, random_state=0),
        "digits": load_digits(return_X_y=True),
    }
    return {
        name: Split(*train_test_split(X, y, test_size=0.2, stratify=y, random_state=0))
        for name, (X, y) in sets.items()
    }


def measure(method: str, model: Any, data: Split) -> Line:
    """Fit a model and take its errors and the time of the fit."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfittingWarning)
        model.fit(data.X_train, data.y_train)
    seconds = time.perf_counter() - start
    centers = getattr(model, "cluster_centers_", data.X_train)
    return Line(
        method,
        str(len(centers)),
        str(getattr(model, "n_iter_", "")),
        1 - model.score(data.X_train, data.y_train),
        1 - model.score(data.X_test, data.y_test),
        seconds,
    )


def compare(data: Split, step: Any) -> tuple[DiscriminativeKMeans, list[Line]]:
    """Measure dkmeans with its defaults, what people use today, and the paper's algorithm."""
    lines = []
    step("dkmeans")
    model = DiscriminativeKMeans()
    lines.append(measure("dkmeans", model, data))
    step(f"class-wise k-means, {model.n_clusters_} centres")
    lines.append(measure("class-wise k-means", ClasswiseKMeans(model.n_clusters_), data))
    step("dkmeans, as in the paper")
    lines.append(measure("dkmeans, as in paper", DiscriminativeKMeans.paper(), data))
    step("1-NN")
    lines.append(measure("1-NN on all rows", KNeighborsClassifier(1), data))
    return model, lines


def run_demo(out: Path) -> None:
    """Run everything and tell where the figures are."""
    import matplotlib  # noqa: F401  # if it is missing, say so before the fits

    console = stdout()
    out.mkdir(parents=True, exist_ok=True)
    sets = split_sets()
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("data", "method"):
        table.add_column(name, no_wrap=True)
    for name in ("clusters", "rounds", "train\nerror %", "held-out\nerror %", "seconds\nto fit"):
        table.add_column(name, justify="right", no_wrap=True)

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=11)

        def step(text: str) -> None:
            progress.update(task, description=text, advance=1)

        models = {}
        for name, data in sets.items():
            models[name], lines = compare(data, step)
            for line in lines:
                table.add_row(
                    name,
                    line.method,
                    line.clusters,
                    line.rounds,
                    f"{100 * line.train_error:.1f}",
                    f"{100 * line.test_error:.1f}",
                    f"{line.seconds:.3f}",
                )
            table.add_section()
        moons = sets["two moons"]
        rows = moons.X_train, moons.y_train
        step("drawing the model")
        with off_screen():
            cells = CellsDisplay.from_estimator(models["two moons"], *rows)
        _save(cells, out / "model.png")
        step("drawing the prototypes")
        with off_screen():
            images = PrototypeImagesDisplay.from_estimator(
                models["digits"], image_shape=(8, 8), X_train=sets["digits"].X_train
            )
        _save(images, out / "prototypes.png")
        step("drawing the paper's growth")
        with off_screen():
            growth = GrowthDisplay.from_estimator(DiscriminativeKMeans.paper(), *rows)
        _save(growth, out / "growth.png")
    console.print(table)
    captions = {
        "model.png": "the model of the two moons",
        "prototypes.png": "the prototypes of the digits, each by the training row nearest to it",
        "growth.png": "the paper's growth on the two moons, round by round",
    }
    for name, caption in captions.items():
        say(console, f"Figure: {out / name}: {caption}", soft_wrap=True)


def _save(display: Display, path: Path) -> None:
    with replacing(path) as file:
        display.figure_.savefig(file, dpi=110, format="png")
