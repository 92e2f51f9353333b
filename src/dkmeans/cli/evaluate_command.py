"""`dkmeans evaluate`: errors on rows that a model was not fitted on."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dkmeans.cli.console import (
    grid,
    label_text,
    percent,
    plural,
    print_json,
    say,
    show,
    stderr,
    stdout,
)
from dkmeans.cli.errors import InputError
from dkmeans.cli.fit_command import FitOptions, check_medoid_rows, in_option_names, make_estimator
from dkmeans.cli.inputs import check_input, resolve_input
from dkmeans.cli.labelled_rows import Wanted
from dkmeans.cli.loaded_model import load_model
from dkmeans.cli.rows import read_rows, whole
from dkmeans.cli.table_input import is_data_file
from dkmeans.cli.trials import Candidates, Split, Trial, most_confused

_MATRIX = 12  # classes that a confusion matrix is printed for
_PAIRS = 10


def run_evaluate(
    source: Path,
    data: Path | None,
    wanted: Wanted,
    options: FitOptions,
    split: Split,
    *,
    as_json: bool = False,
) -> None:
    """Evaluate a model on rows, or fit and test on parts of a table; tell the errors."""
    source = resolve_input(source)
    if source.is_dir() or is_data_file(source):
        if data is not None:
            raise InputError(f"{data} goes with a model; {source.name} is a table itself.")
        trial, how = _by_splits(source, wanted, options, split)
    else:
        if data is None:
            raise InputError("A model needs rows to be evaluated on: name a table after it.")
        trial, how = _of_model(source, resolve_input(data), wanted), f"of {data.name}"
    if not options.quiet:
        for note in trial.notes:
            say(stderr(), in_option_names(note))
    console = stdout()
    if as_json:
        print_json(console, _document(trial, how))
    else:
        _report(console, trial, how)


def _by_splits(path: Path, wanted: Wanted, options: FitOptions, split: Split) -> tuple[Trial, str]:
    check_input(path)
    rows = read_rows(path, wanted)
    candidates = Candidates(rows, standardise=options.standardise)
    check_medoid_rows(rows, options)
    estimator = make_estimator(options)
    parts = split.parts(candidates.data.y)
    with stderr().status("fitting") if not options.quiet else _Nothing():
        trial = candidates.run(lambda _: estimator, parts)
    trial.notes[:0] = rows.notes
    return trial, f"in {split}" if split.test_size is None else f"with {split}"


def _of_model(path: Path, data: Path, wanted: Wanted) -> Trial:
    model = load_model(path)
    if model.takes_distances:
        raise InputError(
            f"{path.name} takes distances, not rows with labels: use dkmeans predict, and compare "
            "its classes with the labels."
        )
    check_input(data)
    rows = read_rows(data, wanted, model.template)
    labelled = whole(rows)
    predicted = model.whole.predict(labelled.X)
    weight = np.ones(len(predicted)) if labelled.weight is None else labelled.weight
    error = float(np.average(predicted != labelled.y, weights=weight))
    sizes = [len(model.prototype_ids)]
    return Trial(
        labelled.y, predicted, weight, [error], float("nan"), sizes, rows.notes, model.noun
    )


def _report(console: Console, trial: Trial, how: str) -> None:
    spread = "" if trial.deviation != trial.deviation else f" (± {percent(trial.deviation)})"
    clusters = f"{np.mean(trial.sizes):,.4g} {trial.noun}s" if trial.sizes else ""
    seconds = "" if trial.seconds != trial.seconds else f", {trial.seconds:.1f} s to fit"
    say(
        console,
        f"{plural(len(trial.y), 'row')} {how}: error {percent(trial.error)} %{spread}, balanced "
        f"error {percent(trial.balanced_error)} %; {clusters}{seconds}.",
    )
    console.print()
    labels = np.union1d(np.unique(trial.y), np.unique(trial.predicted))
    known = set(np.unique(trial.y).tolist())
    table = grid("class", "rows", "error\n%", "precision\n%")
    for label in labels:
        there = label.item() in known if isinstance(label, np.generic) else label in known
        table.add_row(
            label_text(label),
            f"{trial.weight[trial.y == label].sum():,.10g}",
            percent(trial.error_of(label)) if there else "-",
            percent(trial.precision_of(label)),
        )
    show(console, table)
    console.print()
    if len(labels) <= _MATRIX:
        matrix = grid("true \\ predicted", *map(label_text, labels))
        for label, counts in zip(labels, trial.confusion(labels), strict=True):
            matrix.add_row(label_text(label), *(f"{count:,.10g}" for count in counts))
    else:
        matrix = grid("most confused", "taken for", "rows", left=2)
        for number, (true, found, weight) in enumerate(most_confused(trial, labels)):
            if number == _PAIRS:
                break
            matrix.add_row(label_text(true), label_text(found), f"{weight:,.10g}")
    show(console, matrix)


def _document(trial: Trial, how: str) -> dict[str, Any]:
    labels = np.union1d(np.unique(trial.y), np.unique(trial.predicted))
    known = np.unique(trial.y)
    return {
        "how": how,
        "rows": len(trial.y),
        "error": trial.error,
        "balanced_error": trial.balanced_error,
        "fold_errors": trial.fold_errors,
        "clusters": trial.sizes,
        "classes": labels.tolist(),
        "class_errors": {str(label): trial.error_of(label) for label in known},
        "confusion": trial.confusion(labels).tolist(),
    }


class _Nothing:
    """Shows nothing while something is done."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
