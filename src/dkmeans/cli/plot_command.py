"""`dkmeans plot`: pictures of a model, or of data after a fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dkmeans import plots
from dkmeans.atomic import replacing
from dkmeans.cli.console import say, stderr, stdout
from dkmeans.cli.errors import InputError
from dkmeans.cli.fit_command import FitOptions, fit_rows, make_estimator, make_model
from dkmeans.cli.inputs import resolve_input
from dkmeans.cli.labelled_rows import Labelled, Template, Wanted
from dkmeans.cli.loaded_model import LoadedModel, load_model
from dkmeans.cli.output_files import check_free
from dkmeans.cli.rows import read_rows, whole
from dkmeans.cli.table_input import is_data_file

_ENDINGS = (".png", ".svg", ".pdf")
_NEED_ROWS = ("confusion", "margins", "growth")


@dataclass(frozen=True)
class PlotOptions:
    """What to draw from, and where to."""

    out: Path | None = None
    data: Path | None = None
    shape: str | None = None
    max_clusters: str | None = None
    refine: str | None = None
    metric: str | None = None
    standardise: bool = False
    force: bool = False


def run_plot(source: Path, kind: str, wanted: Wanted, options: PlotOptions) -> None:
    """Draw, and tell where the picture is."""
    source = resolve_input(source)
    out = options.out or Path(f"{source.stem}-{kind}.png")
    if out.suffix.lower() not in _ENDINGS:
        raise InputError(f"{out.name}: pictures are written as {', '.join(_ENDINGS)}.")
    check_free(out, source, options.data, force=options.force)
    image_shape = _image_shape(kind, options.shape)
    model, rows = _prepare(source, kind, wanted, options)
    display = _display(kind, model, rows, image_shape)
    with replacing(out) as file:
        display.plot().figure_.savefig(file, dpi=150, format=out.suffix[1:].lower())
    say(stdout(), f"Picture saved: {out.resolve()}")


def _prepare(
    source: Path, kind: str, wanted: Wanted, options: PlotOptions
) -> tuple[LoadedModel, Labelled | None]:
    if source.is_dir() or is_data_file(source):
        if options.data is not None:
            raise InputError(f"--data goes with a model; {source.name} is a table itself.")
        rows = read_rows(source, wanted)
        fitting = FitOptions(
            Path(),
            max_clusters=options.max_clusters,
            refine=options.refine,
            metric=options.metric,
            standardise=options.standardise,
        )
        model = make_model(make_estimator(fitting), rows, fitting)
        for note in rows.notes:
            say(stderr(), note)
        fit_rows(model, rows, fitting, stderr())
        return LoadedModel(model), whole(rows)
    loaded = load_model(source)
    if options.data is None:
        if kind in _NEED_ROWS:
            raise InputError(f"--kind {kind} needs labelled rows: add --data FILE --label COLUMN.")
        return loaded, None
    return loaded, _read(options.data, wanted, like=loaded.template)


def _read(path: Path, wanted: Wanted, like: Template | None = None) -> Labelled:
    """Read rows, and tell what was left out."""
    rows = read_rows(path, wanted, like)
    for note in rows.notes:
        say(stderr(), note)
    return whole(rows)


def _display(
    kind: str, model: LoadedModel, rows: Labelled | None, image_shape: tuple[int, ...] | None
) -> Any:
    if kind == "tree":
        return plots.TreeDisplay.from_estimator(model.whole)
    if kind == "path":
        return plots.PathDisplay.from_estimator(model.whole)
    if kind == "prototypes":
        assert image_shape is not None
        return plots.PrototypeImagesDisplay.from_estimator(model.whole, image_shape=image_shape)
    if kind == "importances":
        if not hasattr(model.core, "feature_importances_"):
            raise InputError(
                "--kind importances needs a model with --metric learned: other metrics weigh all "
                "features alike."
            )
        return plots.FeatureImportancesDisplay.from_estimator(model.whole, image_shape=image_shape)
    if kind == "cells":
        if rows is None:
            return plots.CellsDisplay.from_estimator(model.whole)
        return plots.CellsDisplay.from_estimator(model.whole, rows.X, rows.y)
    assert rows is not None
    if kind == "growth":
        return plots.GrowthDisplay.from_estimator(model.core, model.scaled(rows.X), rows.y)
    if kind == "margins":
        return plots.MarginDisplay.from_estimator(model.whole, rows.X, rows.y)
    return plots.ConfusionDisplay.from_estimator(model.whole, rows.X, rows.y)


def _image_shape(kind: str, text: str | None) -> tuple[int, ...] | None:
    if kind != "prototypes" and not (kind == "importances" and text):
        return None
    parts = (text or "").lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isascii() and part.isdigit() for part in parts):
        found = f"--shape {text}" if text else "--kind prototypes"
        raise InputError(f"{found}: say how features make up an image, such as --shape 28x28.")
    return tuple(map(int, parts))
