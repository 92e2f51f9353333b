"""A model and labelled rows for commands that take either a model or a table to fit first."""

from pathlib import Path

from dkmeans.cli.console import say, stderr
from dkmeans.cli.errors import InputError
from dkmeans.cli.fit_command import FitOptions, fit_rows, make_estimator, make_model
from dkmeans.cli.inputs import check_input, resolve_input
from dkmeans.cli.labelled_rows import Labelled, Wanted
from dkmeans.cli.loaded_model import LoadedModel, load_model
from dkmeans.cli.rows import read_rows, whole
from dkmeans.cli.table_input import is_data_file


def model_and_rows(
    source: Path, data: Path | None, wanted: Wanted, options: FitOptions
) -> tuple[LoadedModel, Labelled]:
    """Load a model and read rows, or fit a model to rows; tell what was left out."""
    source = resolve_input(source)
    is_table = source.is_dir() or is_data_file(source)
    if is_table and data is not None:
        raise InputError(f"{data} goes with a model; {source.name} is a table itself.")
    if not is_table and data is None:
        raise InputError(f"{source.name} is a model: name a table with labelled rows after it.")
    model = None if is_table else load_model(source)
    path = source if data is None else resolve_input(data)
    check_input(path)
    rows = read_rows(path, wanted, None if model is None else model.template)
    fitted = None
    if model is None:
        fitted = make_model(make_estimator(options), rows, options)
    if not options.quiet:
        for note in rows.notes:
            say(stderr(), note)
    if model is None:
        fit_rows(fitted, rows, options, stderr())
        model = LoadedModel(fitted)
    return model, whole(rows)
