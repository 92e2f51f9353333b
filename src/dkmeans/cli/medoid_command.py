"""`dkmeans fit --precomputed`: from a matrix of distances to a model file."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from dkmeans.cli.console import say, stderr, stdout
from dkmeans.cli.distance_files import open_distances, read_labels
from dkmeans.cli.errors import InputError
from dkmeans.cli.fit_command import (
    CHOSEN_NUMBER,
    FitOptions,
    fit_rows,
    in_option_names,
    make_medoids,
)
from dkmeans.cli.fit_report import Errors, report
from dkmeans.cli.labelled_rows import Labelled
from dkmeans.cli.loaded_model import LoadedModel
from dkmeans.cli.output_files import check_free
from dkmeans.files.model_file import save
from dkmeans.metrics.kinds import PRECOMPUTED


def run_fit_distances(
    train: Path, label_file: Path | None, label: str | None, options: FitOptions
) -> None:
    """Read distances and labels, fit, save and tell."""
    if label_file is None:
        raise InputError(
            "--precomputed needs the labels of the rows: name their file as --label-file."
        )
    if options.medoids is not None:
        raise InputError(
            f"--medoids {options.medoids} needs rows, and --precomputed has distances: drop one."
        )
    options = replace(options, medoids=PRECOMPUTED)
    rows_only = {
        "--test": options.test,
        "--reject": options.reject,
        "--standardise": options.standardise,
    }
    for name, value in rows_only.items():
        if value:
            raise InputError(f"{name} needs rows, and --precomputed has distances only: drop it.")
    check_free(options.out, train, label_file, force=options.force)
    D = open_distances(train)
    if D.shape[0] != D.shape[1]:
        raise InputError(
            f"{train.name} has the shape {D.shape}; the distances between all rows are needed."
        )
    rows = Labelled(D, read_labels(label_file, label, len(D)), None)
    if len(np.unique(rows.y)) < 2:
        raise InputError(
            f"All rows of {label_file.name} have the label {rows.y[0]!s}; two classes are needed."
        )
    model = make_medoids(options, PRECOMPUTED)
    console = stderr()
    if options.max_clusters is None and not options.quiet:
        say(console, CHOSEN_NUMBER)
    try:
        seconds = fit_rows(model, rows, options, console)
    except ValueError as error:
        raise InputError(in_option_names(str(error))) from error
    save(model, options.out)
    if not options.quiet:
        errors = Errors.of(model, rows)
        loaded = LoadedModel(model)
        report(stdout(), loaded, errors, None, seconds=seconds, saved=options.out.resolve())
