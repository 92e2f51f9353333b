"""`dkmeans plot`: pictures of a model, or of data after a fit."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dkmeans import plots
from dkmeans.atomic import replacing
from dkmeans.cli.console import say, stderr, stdout
from dkmeans.cli.errors import InputError, listing
from dkmeans.cli.fit_command import NONE, FitOptions, fit_rows, make_estimator, make_model
from dkmeans.cli.image_folders import ImageShape
from dkmeans.cli.inputs import holds_images, resolve_input
from dkmeans.cli.labelled_rows import Labelled, Template, Wanted, take_rows
from dkmeans.cli.loaded_model import LoadedModel, load_model
from dkmeans.cli.output_files import check_free
from dkmeans.cli.rows import read_rows, whole
from dkmeans.cli.table_input import is_data_file
from dkmeans.plots.display import off_screen

_ENDINGS = (".png", ".svg", ".pdf")


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


def run_plot(source: Path, kind: str | None, wanted: Wanted, options: PlotOptions) -> None:
    """Draw, and tell where the picture is."""
    source = resolve_input(source)
    kind = kind or _first_kind(source)
    out = options.out or Path(f"{source.stem}-{kind}.png")
    if out.suffix.lower() not in _ENDINGS:
        raise InputError(f"{out.name}: pictures are written as {', '.join(_ENDINGS)}.")
    check_free(out, source, options.data, force=options.force)
    given_shape = _given_shape(options.shape)
    model, rows = _prepare(source, kind, wanted, options)
    image_shape = _image_shape(kind, given_shape, model)
    with _missing_signs_told():
        with off_screen():
            display = PICTURES[kind].draw(Subject(model, rows, image_shape))
        with replacing(out) as file:
            display.figure_.savefig(file, dpi=150, format=out.suffix[1:].lower())
    say(stdout(), f"Picture saved: {out.resolve()}")


@contextmanager
def _missing_signs_told() -> Iterator[None]:
    """Tell once which signs of names the font lacks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    lacking = set()
    for warning in caught:
        glyph = re.match(r"Glyph (\d+) .*missing from", str(warning.message))
        if glyph is None:
            warnings.showwarning(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        else:
            lacking.add(chr(int(glyph[1])))
    if lacking:
        signs = listing(sorted(lacking))
        say(stderr(), f"Note: the font of pictures lacks {signs}: boxes stand for them.")


def _first_kind(source: Path) -> str:
    """Return the picture that is drawn if none is named."""
    is_data = source.is_dir() or is_data_file(source)
    return "path" if not is_data and load_model(source).is_medoids else "cells"


def _prepare(
    source: Path, kind: str, wanted: Wanted, options: PlotOptions
) -> tuple[LoadedModel, Labelled | None]:
    if source.is_dir() or is_data_file(source):
        if options.data is not None:
            raise InputError(f"--data goes with a model; {source.name} is a table itself.")
        if options.shape is None and not holds_images(source):
            _check_shape_given(kind)
        rows = read_rows(source, wanted)
        if kind == "suspects":  # as `dkmeans suspects` fits
            refine, metric = options.refine or NONE, options.metric or "euclidean"
            options = replace(options, refine=refine, metric=metric)
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
    if loaded.is_medoids and not PICTURES[kind].of_medoids:
        drawn = ", ".join(name for name, picture in PICTURES.items() if picture.of_medoids)
        raise InputError(
            f"{source.name} is a model of medoids, of which --kind {kind} is not drawn: choose one "
            f"of {drawn}."
        )
    if loaded.takes_distances and options.data is not None:
        raise InputError(f"{source.name} takes distances, not rows: leave out --data.")
    if options.data is None:
        if PICTURES[kind].needs_rows:
            raise InputError(f"--kind {kind} needs labelled rows: add --data FILE --label COLUMN.")
        return loaded, None
    return loaded, _read(options.data, wanted, like=loaded.template)


def _read(path: Path, wanted: Wanted, like: Template | None = None) -> Labelled:
    """Read rows, and tell what was left out."""
    rows = read_rows(path, wanted, like)
    for note in rows.notes:
        say(stderr(), note)
    return whole(rows)


@dataclass(frozen=True)
class Subject:
    """What is drawn."""

    model: LoadedModel
    rows: Labelled | None  # None if the picture does not need them and none are given
    image_shape: tuple[int, ...] | None

    @property
    def whole(self) -> Any:
        """The model, with the steps before it."""
        return self.model.whole

    @property
    def labelled(self) -> tuple[Any, Any]:
        """Rows and labels, for a picture that needs them."""
        assert self.rows is not None
        return self.rows.X, self.rows.y

    @property
    def unlabelled(self) -> tuple[Any, ...]:
        """Rows, if there are any, for a picture that does not need them."""
        return () if self.rows is None else (self.rows.X,)

    @property
    def shape(self) -> dict[str, Any]:
        """Image shape, as an argument."""
        return {"image_shape": self.image_shape}


@dataclass(frozen=True)
class Picture:
    """How a kind of picture is drawn, and what it needs."""

    draw: Callable[[Subject], Any]
    needs_rows: bool = False
    needs_shape: bool = False
    of_medoids: bool = False  # whether it is drawn of medoids too


def _cells(s: Subject) -> Any:
    rows = () if s.rows is None else s.labelled
    return plots.CellsDisplay.from_estimator(s.whole, *rows)


def _growth(s: Subject) -> Any:
    X, y = s.labelled
    return plots.GrowthDisplay.from_estimator(s.model.core, s.model.scaled(X), y)


def _importances(s: Subject) -> Any:
    if not hasattr(s.model.core, "feature_importances_"):
        raise InputError(
            "--kind importances needs a model with --metric learned: other metrics weigh all "
            "features alike."
        )
    return plots.FeatureImportancesDisplay.from_estimator(s.whole, **s.shape)


def _rejection(s: Subject) -> Any:
    if getattr(s.model.core, "rejection_", None) is None:
        raise InputError(
            "--kind rejection needs a model with thresholds: fit it with --reject and --test."
        )
    X, y = s.labelled
    known = np.isin(y, s.model.core.classes_)
    if known.all():
        return plots.RejectionDisplay.from_estimator(s.whole, X, y)
    if not known.any():
        raise InputError("--kind rejection needs rows of classes that the model knows; none are.")
    of_known, others = (take_rows(X, np.flatnonzero(rows)) for rows in (known, ~known))
    return plots.RejectionDisplay.from_estimator(s.whole, of_known, unknown=others)


def _suspects(s: Subject) -> Any:
    X, y = s.labelled
    found = s.model.core.suspects(s.model.scaled(X), y)
    assert s.rows is not None
    found = found.with_index(s.rows.in_table(found.row) + 1)  # rows count from 1 here
    return plots.SuspectImagesDisplay.from_suspects(found, X, **s.shape)


PICTURES = {
    "cells": Picture(_cells),
    "tree": Picture(lambda s: plots.TreeDisplay.from_estimator(s.whole)),
    "path": Picture(lambda s: plots.PathDisplay.from_estimator(s.whole), of_medoids=True),
    "borders": Picture(lambda s: plots.ClassBordersDisplay.from_estimator(s.whole)),
    "profiles": Picture(
        lambda s: plots.PrototypeProfilesDisplay.from_estimator(s.whole, *s.unlabelled)
    ),
    "parallel": Picture(
        lambda s: plots.PrototypeProfilesDisplay.from_estimator(
            s.whole, *s.unlabelled, kind="parallel"
        )
    ),
    "importances": Picture(_importances),
    "confusion": Picture(
        lambda s: plots.ConfusionDisplay.from_estimator(s.whole, *s.labelled),
        needs_rows=True,
        of_medoids=True,
    ),
    "margins": Picture(
        lambda s: plots.MarginDisplay.from_estimator(s.whole, *s.labelled),
        needs_rows=True,
        of_medoids=True,
    ),
    "certified": Picture(
        lambda s: plots.CertifiedAccuracyDisplay.from_estimator(s.whole, *s.labelled),
        needs_rows=True,
        of_medoids=True,
    ),
    "reliability": Picture(
        lambda s: plots.ReliabilityDisplay.from_estimator(s.whole, *s.labelled),
        needs_rows=True,
        of_medoids=True,
    ),
    "rejection": Picture(_rejection, needs_rows=True, of_medoids=True),
    "parts": Picture(
        lambda s: plots.FeaturePartsDisplay.from_estimator(s.whole, s.labelled[0]), needs_rows=True
    ),
    "growth": Picture(_growth, needs_rows=True),
    "prototypes": Picture(
        lambda s: plots.PrototypeImagesDisplay.from_estimator(s.whole, **s.shape), needs_shape=True
    ),
    "exemplars": Picture(
        lambda s: plots.PrototypeImagesDisplay.from_estimator(
            s.whole, **s.shape, X_train=s.labelled[0]
        ),
        needs_rows=True,
        needs_shape=True,
    ),
    "explanation": Picture(
        lambda s: plots.ExplanationDisplay.from_estimator(s.whole, s.labelled[0], **s.shape),
        needs_rows=True,
        needs_shape=True,
    ),
    "suspects": Picture(_suspects, needs_rows=True, needs_shape=True),
}


def _given_shape(text: str | None) -> tuple[int, ...] | None:
    """Read the shape of images, such as 28x28."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(
            f"--shape {text}: say how features make up an image, such as --shape 28x28."
        )
    return tuple(map(int, parts))


def _check_shape_given(kind: str) -> None:
    if PICTURES[kind].needs_shape:
        raise InputError(
            f"--kind {kind}: say how features make up an image, such as --shape 28x28."
        )


def _image_shape(
    kind: str, given: tuple[int, ...] | None, model: LoadedModel
) -> tuple[int, ...] | None:
    """Return the shape of images, if they are drawn; that of a fitted folder need not be given."""
    if not PICTURES[kind].needs_shape:
        return given if kind == "importances" else None
    own = ImageShape.of_names(model.names)
    if given is None and own is not None:
        return (own.height, own.width, 3) if own.colours else (own.height, own.width)
    if given is None:
        _check_shape_given(kind)
    return given
