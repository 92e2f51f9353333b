"""`dkmeans compare`: this and other methods on one table, with a picture."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from dkmeans.atomic import replacing
from dkmeans.baselines import ClasswiseKMeans
from dkmeans.cli.console import grid, percent, plural, print_json, say, show, stderr, stdout
from dkmeans.cli.errors import InputError
from dkmeans.cli.fit_command import FitOptions, make_estimator
from dkmeans.cli.inputs import check_input, resolve_input
from dkmeans.cli.labelled_rows import Wanted
from dkmeans.cli.output_files import check_free
from dkmeans.cli.rows import read_rows
from dkmeans.cli.trials import Candidates, Split, Trial

_OURS = "dkmeans"
_MANY_ROWS = 10_000
_NEIGHBOURS = 5
_ENDINGS = (".png", ".svg", ".pdf")


def run_compare(
    path: Path,
    wanted: Wanted,
    options: FitOptions,
    split: Split,
    *,
    most_rows: int,
    picture: Path | None,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Fit all methods on the same rows, tell their errors, and draw them."""
    path = resolve_input(path)
    if picture is not None:
        if picture.suffix.lower() not in _ENDINGS:
            raise InputError(f"{picture.name}: pictures are written as {', '.join(_ENDINGS)}.")
        check_free(picture, path, force=force)
    check_input(path)
    rows = read_rows(path, wanted)
    candidates = Candidates(rows, standardise=options.standardise)
    notes = [*rows.notes, candidates.sample(most_rows)]
    console = stderr()
    for note in notes if not options.quiet else ():
        if note:
            say(console, note)
    parts = split.parts(candidates.data.y)
    found = _compare(candidates, options, parts, console)
    how = f"{plural(len(candidates.data.y), 'row')}, {split}"
    if as_json:
        print_json(stdout(), _document(found, how))
    else:
        _report(found, how)
    if picture is not None:
        _draw(found, how, picture)
        say(stdout() if not as_json else console, f"Picture saved: {picture.resolve()}")


def _compare(
    candidates: Candidates, options: FitOptions, parts: Any, console: Any
) -> dict[str, Trial]:
    estimator = make_estimator(options)
    found: dict[str, Trial] = {}
    with console.status("fitting") as status:
        status.update(_OURS)
        ours = found[_OURS] = candidates.run(lambda _: estimator, parts)
        others: dict[str, Callable[[int], Any]] = {
            "class-wise k-means": lambda fold: ClasswiseKMeans(ours.sizes[fold]),
            f"{_NEIGHBOURS}-NN": lambda _: KNeighborsClassifier(_NEIGHBOURS),
            "SVM": lambda _: SVC(),
            "boosting": lambda _: HistGradientBoostingClassifier(random_state=0),
            "most frequent class": lambda _: DummyClassifier(),
        }
        # Small fits wait for each other's threads longer than they compute.
        limit = 1 if len(candidates.data.y) < _MANY_ROWS else None
        for name, make in others.items():
            status.update(name)
            with threadpool_limits(limit):
                found[name] = candidates.run(make, parts)
    return found


def _report(found: dict[str, Trial], how: str) -> None:
    console = stdout()
    say(console, f"{how}.")
    console.print()
    table = grid("method", "error\n%", "+-", "balanced\nerror %", "prototypes", "seconds\nto fit")
    for name, trial in sorted(found.items(), key=lambda item: item[1].error):
        table.add_row(
            name,
            percent(trial.error),
            percent(trial.deviation),
            percent(trial.balanced_error),
            f"{np.mean(trial.sizes):,.4g}" if trial.sizes else "-",
            f"{trial.seconds:.2f}",
        )
    show(console, table)


def _document(found: dict[str, Trial], how: str) -> dict[str, Any]:
    return {
        "how": how,
        "methods": [
            {
                "method": name,
                "error": trial.error,
                "deviation": None if trial.deviation != trial.deviation else trial.deviation,
                "balanced_error": trial.balanced_error,
                "prototypes": float(np.mean(trial.sizes)) if trial.sizes else None,
                "seconds": trial.seconds,
            }
            for name, trial in found.items()
        ],
    }


def _draw(found: dict[str, Trial], how: str, path: Path) -> None:
    """Draw the error of each method, and that of each fold."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ordered = sorted(found.items(), key=lambda item: -item[1].error)
    figure = Figure(figsize=(7, 0.5 * len(ordered) + 1.4), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    for at, (name, trial) in enumerate(ordered):
        colour = "#0072b2" if name == _OURS else "#8c8c8c"
        ax.barh(at, 100 * trial.error, color=colour, height=0.62)
        if len(trial.fold_errors) > 1:
            ax.plot(100 * np.array(trial.fold_errors), [at] * len(trial.fold_errors), "k|", ms=8)
        largest = 100 * max([trial.error, *trial.fold_errors])
        label = f"{100 * trial.error:.1f} %"
        ax.annotate(label, (largest, at), (5, 0), textcoords="offset points", va="center")
    ax.set_yticks(range(len(ordered)), [name for name, _ in ordered])
    ax.set_xlabel("error in % (ticks: single folds)")
    ax.set_title(how, fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(0, 1.18 * max(100 * max([t.error, *t.fold_errors]) for t in found.values()) or 1)
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix[1:].lower())
