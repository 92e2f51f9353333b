"""`dkmeans explore`: a page in the browser that shows a model and its rows."""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dkmeans.cli.array_files import is_array_file
from dkmeans.cli.console import plural, say, stderr, stdout
from dkmeans.cli.errors import InputError
from dkmeans.cli.fit_command import FitOptions, fit_with_progress, make_estimator
from dkmeans.cli.frame_rows import FrameRows
from dkmeans.cli.image_folders import ImageShape
from dkmeans.cli.inputs import STDIN, check_input, holds_images, resolve_input
from dkmeans.cli.labelled_rows import Labelled, Template, Wanted
from dkmeans.cli.loaded_model import LoadedModel, load_model
from dkmeans.cli.rows import read_rows
from dkmeans.cli.table_input import is_data_file
from dkmeans.explorer.launch import serve
from dkmeans.explorer.layers import Rows
from dkmeans.explorer.session import Session
from dkmeans.explorer.tables import SHARE, Origin, Source, held_out_rows, read_table
from dkmeans.tables.kinds import Kind
from dkmeans.tables.pipeline import build_pipeline


@dataclass(frozen=True)
class ExploreOptions:
    """Where the page is served, and what it shows beside the table."""

    test: Path | None = None
    held_out: float = SHARE
    shape: str | None = None
    journal: Path | None = None
    port: int = 0
    browser: bool = True


def run_explore(
    source: Path, data: Path | None, wanted: Wanted, fitting: FitOptions, options: ExploreOptions
) -> None:
    """Load or fit a model, and serve the page until Ctrl-C."""
    session = open_session(source, data, wanted, fitting, options)
    console = stdout()
    if session.journal is not None and not fitting.quiet:
        say(console, f"Journal of edits: {session.journal.path}")
        if session.journal.entries:
            say(console, f"{plural(len(session.done), 'edit')} of it made again.")

    def announce(address: str) -> None:
        console.print(f"Explorer: {address}", soft_wrap=True)
        if not fitting.quiet:
            say(console, "Ctrl-C ends it.")

    serve(session, port=options.port, open_browser=options.browser, announce=announce)
    if session.is_working:  # threads cannot be stopped, and Python would wait for them
        sys.stdout.flush()
        os._exit(0)


def open_session(
    source: Path, data: Path | None, wanted: Wanted, fitting: FitOptions, options: ExploreOptions
) -> Session:
    """Load or fit a model, read the rows, and make the edits of the journal again."""
    from_stdin = STDIN in (source, data)
    source = resolve_input(source)
    is_table = source.is_dir() or is_data_file(source)
    if is_table and data is not None:
        raise InputError(f"{data} goes with a model; {source.name} is a table itself.")
    if not is_table and data is None:
        raise InputError(f"{source.name} is a model: name a table with labelled rows after it.")
    model = None if is_table else load_model(source)
    if model is not None and model.is_medoids:
        raise InputError(f"{source.name} is a model of medoids, which explore does not show.")
    path = source if data is None else resolve_input(data)
    reader = _Reader(wanted, fitting.quiet)
    rows, table = reader.read(path, None if model is None else model.template)
    test, test_table = None, None
    if options.test is not None:
        test, test_table = reader.read(options.test, reader.template(model, table, rows))
    origin = Origin(source=table, test=test_table, impute=wanted.impute)
    if model is None:
        if test is None and options.held_out > 0:
            rows, test = _hold_out(rows, options.held_out, fitting)
            origin = replace(origin, share=options.held_out)
        whole = _fitted(rows, table, wanted, fitting)
        how: Any = "standardised" if fitting.standardise else "raw"
        how = how if wanted.raw or table is None else "table"
        origin = replace(origin, estimator=LoadedModel(whole).core, features=how)
    else:
        whole = model.whole
        origin = replace(origin, model=source)
    journal = options.journal
    if journal is None:
        name = f"{path.name}.explore.jsonl"
        journal = Path(name) if from_stdin else path.with_name(name)
    return Session(
        whole,
        rows,
        test,
        title=path.name,
        image_shape=_image_shape(options.shape, LoadedModel(whole)),
        origin=origin,
        journal=journal,
    )


class _Reader:
    """Reads labelled rows of tables, arrays and folders of images.

    Parameters
    ----------
    wanted : Wanted
    quiet : bool
        Whether to say nothing about what is left out.
    """

    def __init__(self, wanted: Wanted, quiet: bool) -> None:
        self._wanted, self._quiet = wanted, quiet

    def read(self, path: Path, like: Template | None) -> tuple[Rows, Source | None]:
        """Read rows, and tell which table they come from, if it is one."""
        check_input(path)
        found = read_rows(path, self._wanted, like)
        if isinstance(found, FrameRows) and found.memory_mb is not None:
            raise InputError(
                f"{path.name} is too large to be shown: make a smaller table of it first, such as "
                "with dkmeans condense."
            )
        if isinstance(found, FrameRows) and like is None:
            found.study()
        self._say(found.notes)
        if is_array_file(path) or holds_images(path):
            assert isinstance(found, Labelled)
            return Rows(found.array(), found.y, found.weight), None
        table = self._source(path, found, like)
        rows = read_table(table)
        self._say([note for note in rows.notes if not found.notes])
        return rows, table

    def template(self, model: LoadedModel | None, table: Source | None, rows: Rows) -> Template:
        """Tell what test rows must be like."""
        if model is not None:
            found: Template = model.template
            return found
        names = None if table is None else list(table.kinds)
        kinds = None if table is None else {n: Kind(k) for n, k in table.kinds.items()}
        kinds = None if self._wanted.raw else kinds
        return Template(names, rows.X.shape[1], rows.y.dtype.kind in "UO", kinds)

    def _source(self, path: Path, found: Labelled | FrameRows, like: Template | None) -> Source:
        names = found.X.column_names if isinstance(found, Labelled) else list(found.kinds)
        kinds = dict.fromkeys(names, "number")
        if isinstance(found, FrameRows):
            kinds = {name: str(kind) for name, kind in found.kinds.items()}
        wanted = self._wanted
        assert wanted.label is not None
        return Source(
            path,
            wanted.label,
            kinds,
            weight=wanted.weight,
            sep=None if wanted.text is None else wanted.text.sep,
            decimal=None if wanted.text is None else wanted.text.decimal,
            text_labels=like is not None and like.has_text_labels,
            skip_missing=wanted.skip_missing,
            skip_unlabelled=wanted.skip_unlabelled,
        )

    def _say(self, notes: list[str]) -> None:
        for note in notes if not self._quiet else ():
            say(stderr(), note)


def _hold_out(rows: Rows, share: float, fitting: FitOptions) -> tuple[Rows, Rows | None]:
    """Hold rows out, and say so."""
    if share >= 1:
        raise InputError(f"--held-out {share:g}: it must be a share of the rows below 1.")
    away = held_out_rows(rows.X, rows.y, share)
    if not away.any():
        return rows, None
    if not fitting.quiet:
        say(
            stderr(),
            f"{int(away.sum()):,} of {plural(len(away), 'row')} are held out, chosen by a hash of "
            "their values, so that errors on them are honest; --held-out 0 fits all rows.",
        )
    return rows.take(~away), rows.take(away)


def _fitted(rows: Rows, table: Source | None, wanted: Wanted, fitting: FitOptions) -> Any:
    """Fit a model to rows, behind what makes features of them."""
    model: Any = make_estimator(fitting)
    if table is not None and not wanted.raw:
        kinds = {name: Kind(kind) for name, kind in table.kinds.items()}
        impute: Any = wanted.impute
        model = build_pipeline(kinds, model, impute=impute)
    elif fitting.standardise:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model = make_pipeline(StandardScaler(), model)
    step = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
    weight = {} if rows.weight is None else {f"{step}sample_weight": rows.weight}
    fit_with_progress(model, lambda: model.fit(rows.X, rows.y, **weight), fitting, stderr())
    if len(LoadedModel(model).core.classes_) < 2:
        raise InputError("All rows have the same label; two classes are needed.")
    return model


def _image_shape(text: str | None, model: LoadedModel) -> tuple[int, ...] | None:
    if text is None:
        shape = ImageShape.of_names(model.names)
        if shape is None:
            return None
        return (shape.height, shape.width, *((3,) if shape.colours else ()))
    parts = text.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"--shape {text}: it must be height and width, such as 28x28.")
    return tuple(map(int, parts))
