"""`dkmeans predict`: classes, probabilities, clusters and distances for the rows of a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dkmeans.cli.array_files import is_array_file, read_arrays
from dkmeans.cli.console import label_text, plural, say, stderr, stdout
from dkmeans.cli.distance_files import open_distances
from dkmeans.cli.errors import InputError
from dkmeans.cli.image_folders import ImageShape, image_frame, list_images
from dkmeans.cli.inputs import check_input, holds_images, resolve_input
from dkmeans.cli.labelled_rows import count_missing, describe_missing, named_columns, take_rows
from dkmeans.cli.loaded_model import LoadedModel, load_model
from dkmeans.cli.output_files import STDOUT, check_free, output_format, table_writer
from dkmeans.cli.table_input import (
    check_column,
    check_model_columns,
    check_names,
    open_inputs,
    possible_features,
)
from dkmeans.data.column_values import (
    as_numbers,
    is_numeric,
    is_text,
    missing_numbers,
    with_points,
)
from dkmeans.data.table_formats import TableFile
from dkmeans.data.text_files import TextFormat
from dkmeans.data.text_types import join_types
from dkmeans.tables.kinds import Kind, of_arrow
from dkmeans.tables.reading import to_frame

COLUMNS = ("class", "probability", "cluster_id", "distance")
MEDOID_COLUMNS = ("class", "probability", "medoid", "distance")
_DISTANCES = 1 << 22  # distances to prototypes held at once
_IMAGES = 1024  # images read at once
_ARRAY_ROWS = 1 << 16  # rows of an array predicted at once


@dataclass(frozen=True)
class PredictOptions:
    """What to read, and what to write where."""

    out: Path
    force: bool = False
    drop: Sequence[str] = ()
    skip_missing: bool = False
    probabilities: bool = False
    only: bool = False
    array: str = "X"
    quiet: bool = False
    text: TextFormat | None = None


def run_predict(path: Path, data: Path, options: PredictOptions) -> None:
    """Predict batch by batch, and put the file in place when it is whole."""
    data = resolve_input(data)
    check_free(options.out, path, data, force=options.force)
    output_format(options.out)
    model = load_model(path)
    source = source_of(data, model, options)
    console = stderr()
    for note in source.notes if not options.quiet else ():
        say(console, note)
    columns = [*(MEDOID_COLUMNS if model.is_medoids else COLUMNS)]
    if hasattr(model.core, "rejection_"):
        columns.append("known")
    shown = len(columns)
    if options.probabilities:
        columns += [f"probability_{label_text(label)}" for label in model.core.classes_]
    titles = _titles(columns, [] if options.only else source.kept)
    n_rows = n_lost = 0
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or options.quiet,
    )
    with table_writer(options.out) as writer, bar:
        task = bar.add_task("", rows=0, total=source.n_rows)
        for kept, X, lost in source.batches():
            found = predictions(model, X, lost, probabilities=options.probabilities)
            before = [] if options.only else kept
            names = [] if options.only else source.kept
            arrays = [*before, *found]
            writer.write(pa.RecordBatch.from_arrays(arrays, names=[*names, *titles]))
            n_rows += len(lost)
            n_lost += int(lost.sum())
            bar.update(task, rows=n_rows, completed=n_rows)
        if not n_rows:
            raise InputError(f"{data} has column names, but no rows.")
    if options.quiet:
        return
    if n_lost:
        say(console, f"{n_lost:,} of {plural(n_rows, 'row')} have missing values: not predicted.")
    target = console if options.out == STDOUT else stdout()
    where = "" if options.out == STDOUT else f" written to {options.out}"
    say(target, f"{plural(n_rows, 'row')}{where}, with the columns {', '.join(titles[:shown])}.")


def source_of(data: Path, model: LoadedModel, options: PredictOptions) -> "_Source":
    """Prepare to read the rows that a model predicts, in batches."""
    data = resolve_input(data)
    if model.takes_distances:
        return _Distances(data, model, options)
    check_input(data)
    if holds_images(data):
        return _Images(data, model)
    if is_array_file(data):
        return _Arrays(data, model, options)
    if model.kinds is not None:
        return _Frames(open_inputs(data, options.text), model, model.kinds, options)
    return _Table(open_inputs(data, options.text), model, options)


def predictions(
    model: LoadedModel, X: Any, lost: npt.NDArray[np.bool_], *, probabilities: bool = False
) -> list[Any]:
    """Predict rows; those that are lost get nulls.

    Returns
    -------
    columns : list of pyarrow arrays
        Class, its probability, id of the cluster, distance to its prototype; whether it is known,
        if the model can tell; on request the probability of each class.
    """
    core, n = model.core, len(lost)
    nearest = np.zeros(n, dtype=np.intp)
    distance = np.zeros(n)
    shares = np.zeros((n, len(core.classes_)))
    tells, known = hasattr(core, "rejection_"), np.zeros(n, dtype=bool)
    rows = np.flatnonzero(~lost)
    step = max(1, _DISTANCES // len(model.prototype_ids))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        scaled = model.scaled(take_rows(X, some))
        distances = core.transform(scaled)
        nearest[some] = distances.argmin(axis=1)
        distance[some] = distances[np.arange(len(some)), nearest[some]]
        shares[some] = core.predict_proba(scaled)
        if tells:
            known[some] = core.is_known(scaled)
    label = model.prototype_classes[nearest]
    code = np.searchsorted(core.classes_, label)
    columns = [
        pa.array(label.tolist() if label.dtype.kind in "UO" else label, mask=lost),
        pa.array(shares[np.arange(n), code], mask=lost),
        pa.array(model.prototype_ids[nearest], mask=lost),
        pa.array(distance, mask=lost),
    ]
    if tells:
        columns.append(pa.array(known, mask=lost))
    if probabilities:
        columns += [pa.array(column, mask=lost) for column in shares.T]
    return columns


def _titles(columns: list[str], kept: Sequence[str]) -> list[str]:
    """Name the new columns; a name that is taken gets a prefix."""
    titles: list[str] = []
    for name in columns:
        while name in kept or name in titles:
            name = f"predicted_{name}"
        titles.append(name)
    return titles


class _Source:
    """Rows to predict, in batches."""

    kept: Sequence[str] = ()  # names of the columns that go to the output
    notes: Sequence[str] = ()  # what was left out
    n_rows: int | None = None

    def batches(self) -> Iterator[tuple[list[Any], Any, npt.NDArray[np.bool_]]]:
        """Give columns for the output, features, and whether each row has missing values."""
        raise NotImplementedError


class _Table(_Source):
    """The rows of a table: the model's columns by name, whatever their order."""

    def __init__(
        self, files: Sequence[TableFile], model: LoadedModel, options: PredictOptions
    ) -> None:
        file = files[0]
        self._files, self._file, self._model, self._options = files, file, model, options
        self.kept, self.n_rows = file.names, _count(files)
        for name in options.drop:
            check_column(file, name, "--drop")
        if model.names is not None:
            self._features = check_model_columns(file, model.names)
        else:
            notes: list[str] = []
            self._features, self.notes = self._numeric(notes), notes
        # Text is passed on as it is, where the output is text; features are read as numbers here.
        self._keeps_text = output_format(options.out).is_text
        self._types = dict.fromkeys(file.names if self._keeps_text else self._features, pa.string())
        if file.is_text and not self._keeps_text and not options.only:
            self._types |= _stored_types(files, self._features)

    def _numeric(self, notes: list[str]) -> list[str]:
        features = possible_features(self._file, self._options.drop, notes)
        types = self._file.types(features)
        if self._file.is_text and not self._file.count_rows():
            raise InputError(f"{self._file.path} has column names, but no rows.")
        names = [name for name in features if is_numeric(types[name])]
        check_names(self._file, names)
        width = self._model.core.n_features_in_
        if len(names) != width:
            raise InputError(
                f"{self._file.path.name} has {plural(len(names), 'column')} of numbers; the model "
                f"has {plural(width, 'feature')} without names: leave others out with --drop."
            )
        return names

    def batches(self) -> Iterator[tuple[list[Any], Any, npt.NDArray[np.bool_]]]:
        for file in self._files:
            yield from self._batches(file)

    def _batches(self, file: TableFile) -> Iterator[tuple[list[Any], Any, npt.NDArray[np.bool_]]]:
        first_row = 1
        place = {name: at for at, name in enumerate(self._features)}
        for batch in file.batches(types=self._types):
            columns = [
                as_numbers(batch.column(name), name, first_row, file.decimal)
                for name in self._features
            ]
            lost = {
                n: missing_numbers(column)
                for n, column in zip(self._features, columns, strict=True)
            }
            bad = np.logical_or.reduce(list(lost.values()))
            if bad.any() and not self._options.skip_missing:
                counts = {name: int(mask.sum()) for name, mask in lost.items()}
                which = f"rows {first_row:,} to {first_row + len(bad) - 1:,}"
                raise InputError(
                    f"{file.path.name}, {which}: {describe_missing(counts, bad)}. Fill them "
                    "in, or leave their predictions empty with --skip-missing."
                )
            kept = []
            for name in self.kept:
                as_read = batch.column(name)
                if name in place and is_text(as_read.type) and not self._keeps_text:
                    as_read = columns[place[name]]
                elif is_text(as_read.type):
                    as_read = with_points(as_read, file.decimal)
                kept.append(as_read)
            yield kept, self._rows(columns), bad
            first_row += len(bad)

    def _rows(self, columns: list[Any]) -> Any:
        if self._model.names is not None:
            return named_columns(columns, self._features)
        return np.column_stack([c.to_numpy(zero_copy_only=False) for c in columns])


class _Frames(_Source):
    """The rows of a table with columns of all kinds, for a pipeline."""

    def __init__(
        self,
        files: Sequence[TableFile],
        model: LoadedModel,
        kinds: Mapping[str, Kind],
        options: PredictOptions,
    ) -> None:
        assert model.names is not None
        self._files, self._options = files, options
        self.kept, self.n_rows = files[0].names, _count(files)
        for file in files:
            check_model_columns(file, model.names)
        if not kinds:  # a pipeline that table_pipeline did not make: as the table has them
            types = [file.types(model.names) for file in files]
            kinds = {n: of_arrow(join_types(found[n] for found in types)) for n in model.names}
        self._kinds = {name: kinds[name] for name in model.names}
        self._keeps_text = output_format(options.out).is_text
        self._stored: dict[str, Any] = {}
        if files[0].is_text and not self._keeps_text and not options.only:
            numbers = (Kind.NUMBER, Kind.BOOLEAN)
            plain = [name for name, kind in self._kinds.items() if kind in numbers]
            texts = [name for name in self._kinds if name not in plain]
            self._stored = _stored_types(files, plain) | dict.fromkeys(texts, pa.string())

    def batches(self) -> Iterator[tuple[list[Any], Any, npt.NDArray[np.bool_]]]:
        for file in self._files:
            first_row = 1
            types = dict.fromkeys(file.names, pa.string()) | self._stored
            for batch in file.batches(types=types):
                frame = to_frame(batch, self._kinds, first_row, file.decimal)
                lost = np.zeros(batch.num_rows, dtype=bool)
                if self._options.skip_missing:
                    lost = frame.isna().any(axis=1).to_numpy()
                kept = [self._passed_on(batch, frame, name, file.decimal) for name in self.kept]
                yield kept, frame, lost
                first_row += batch.num_rows

    def _passed_on(self, batch: Any, frame: Any, name: str, decimal: str) -> Any:
        """Text stays as it is, with points in decimals; features are stored as numbers if typed."""
        column = batch.column(name)
        if not is_text(column.type):
            return column
        column = with_points(column, decimal)
        if self._keeps_text:
            return column
        is_number = self._kinds.get(name) in (Kind.NUMBER, Kind.BOOLEAN)
        return pa.array(frame[name].to_numpy(), from_pandas=True) if is_number else column


class _Images(_Source):
    """Images, with their paths and, if they are in folders of classes, their labels."""

    kept = ("file",)

    def __init__(self, folder: Path, model: LoadedModel) -> None:
        shape = ImageShape.of_names(model.names)
        if shape is None:
            raise InputError(f"{folder} has images, but the model was not fitted on images.")
        self._folder, self._shape, self._files = folder, shape, list_images(folder)
        self.n_rows = len(self._files)

    def batches(self) -> Iterator[tuple[list[Any], Any, npt.NDArray[np.bool_]]]:
        for start in range(0, len(self._files), _IMAGES):
            some = self._files[start : start + _IMAGES]
            names = pa.array([str(file.relative_to(self._folder)) for file in some])
            yield [names], image_frame(some, self._shape), np.zeros(len(some), dtype=bool)


def _stored_types(files: Sequence[TableFile], numbers: Sequence[str]) -> dict[str, Any]:
    """Choose what columns of text are parsed as, to store them with types.

    Those of numbers that are neither integers nor Booleans are read as text, and converted later.
    """
    names = files[0].names
    found = [file.types(names, names) for file in files]
    joined = {name: join_types(types[name] for types in found) for name in names}
    for name in numbers:
        if not (pa.types.is_integer(joined[name]) or pa.types.is_boolean(joined[name])):
            joined[name] = pa.string()
    return joined


def _count(files: Sequence[TableFile]) -> int | None:
    counts = [file.n_rows for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


class _Arrays(_Source):
    """The rows of an array; the output has predictions alone."""

    def __init__(self, path: Path, model: LoadedModel, options: PredictOptions) -> None:
        (X,) = read_arrays(path, [options.array])
        width = model.core.n_features_in_
        X = X.reshape(len(X), -1) if X.ndim else X.reshape(0, 0)
        if X.shape[1] != width:
            raise InputError(
                f"{path.name}: array {options.array!r} has {plural(X.shape[1], 'feature')}, the "
                f"model {width}."
            )
        self._X = X if X.dtype == np.float32 else X.astype(np.float64)
        self._names, self._options, self._path = model.names, options, path
        self.n_rows = len(X)

    def batches(self) -> Iterator[tuple[list[Any], Any, npt.NDArray[np.bool_]]]:
        for start in range(0, len(self._X), _ARRAY_ROWS):
            X = self._X[start : start + _ARRAY_ROWS]
            bad = np.isnan(X).any(axis=1)
            if bad.any() and not self._options.skip_missing:
                raise InputError(
                    f"{self._path.name}: {count_missing(bad)}. Fill "
                    "them in, or leave their predictions empty with --skip-missing."
                )
            rows = X
            if self._names is not None:
                rows = named_columns([pa.array(column) for column in X.T], self._names)
            yield [], rows, bad


class _Distances(_Source):
    """Distances to all training rows, or to the medoids only, for models without features."""

    def __init__(self, path: Path, model: LoadedModel, options: PredictOptions) -> None:
        self._X = open_distances(path)
        widths = (model.core.n_features_in_, model.core.n_medoids_)
        if self._X.shape[1] not in widths:
            raise InputError(
                f"{path.name} has {plural(self._X.shape[1], 'column')}; distances to the "
                f"{widths[0]:,} training rows of the model are needed, or to its {widths[1]:,} "
                "medoids."
            )
        self._path, self._options = path, options
        self.n_rows = len(self._X)

    def batches(self) -> Iterator[tuple[list[Any], Any, npt.NDArray[np.bool_]]]:
        for start in range(0, len(self._X), _ARRAY_ROWS):
            X = np.asarray(self._X[start : start + _ARRAY_ROWS])
            bad: npt.NDArray[np.bool_] = np.isnan(X.max(axis=1))
            if bad.any() and not self._options.skip_missing:
                raise InputError(
                    f"{self._path.name}: {count_missing(bad)}. Fill them in, or leave their "
                    "predictions empty with --skip-missing."
                )
            yield [], X, bad
