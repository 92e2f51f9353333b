"""Tables in files: CSV, TSV, Parquet and Feather by pyarrow, whole or in batches; `.npz`."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dkmeans.cli.errors import InputError, check_exists, suggestion
from dkmeans.data.table_checks import check_names, index_columns, readable, sound
from dkmeans.data.text_files import bytes_at_once, first_line, header

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".npz": "npz",
}
NULLS = [*pa_csv.ConvertOptions().null_values, "?", "None", "none"]
_ROWS = 1 << 16  # of a Parquet file at once


def format_of(path: Path) -> str:
    """Tell the format of a file by its name; text may be compressed (`.csv.gz`)."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
        if FORMATS.get(suffix) not in ("csv", "tsv"):
            raise InputError(
                f"{path.name}: of compressed files, only .csv.gz and .tsv.gz are read."
            )
    if suffix not in FORMATS:
        what = f"The extension {suffix!r}" if suffix else "A name without extension"
        raise InputError(
            f"{path.name}: {what} does not tell the format; it must be one of {', '.join(FORMATS)}."
        )
    return FORMATS[suffix]


@dataclass(frozen=True)
class TableFile:
    """A table in a file that exists."""

    path: Path
    format: str
    names: list[str]
    n_rows: int | None  # if that is known beforehand
    index: list[str]  # names of columns in which pandas stored the table's index

    @property
    def is_text(self) -> bool:
        """Whether it is CSV or TSV."""
        return self.format in ("csv", "tsv")

    def check_column(self, name: str, option: str) -> None:
        """Raise an error if there is no such column."""
        if name not in self.names:
            raise InputError(
                f"{option}: {self.path.name} has no column {name!r}; {suggestion(name, self.names)}"
            )

    def readable(self) -> AbstractContextManager[None]:
        """Say in a sentence why it cannot be read."""
        return readable(self.path, self.path.name)

    def read(self, types: Mapping[str, Any] | None = None) -> Any:
        """Read all of it as a pyarrow table; `types` are those of columns of a text file."""
        with self.readable():
            return sound(self._table(types), self.path.name)

    def batches(self, types: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Read it as pyarrow record batches, one at a time."""
        with self.readable():
            for batch in self._batches(types):
                yield sound(batch, self.path.name)

    def _table(self, types: Mapping[str, Any] | None) -> Any:
        if self.is_text:
            with _text(self.path) as stream:
                return pa_csv.read_csv(stream, **self._parsing(types))
        if self.format == "parquet":
            return pq.read_table(self.path)
        with pa.memory_map(str(self.path)) as stream:
            return pa.ipc.open_file(stream).read_all()

    def _batches(self, types: Mapping[str, Any] | None) -> Iterator[Any]:
        if self.is_text:
            with _text(self.path) as stream:
                yield from pa_csv.open_csv(stream, **self._parsing(types))
        elif self.format == "parquet":
            with pq.ParquetFile(self.path) as file:
                yield from file.iter_batches(_ROWS)
        else:
            with pa.memory_map(str(self.path)) as stream:
                reader = pa.ipc.open_file(stream)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)

    def _parsing(self, types: Mapping[str, Any] | None) -> dict[str, Any]:
        """Tell pyarrow how to read text."""
        return {
            "read_options": pa_csv.ReadOptions(block_size=bytes_at_once(self.names)),
            "parse_options": pa_csv.ParseOptions(
                delimiter=_delimiter(self.path, self.format), newlines_in_values=True
            ),
            "convert_options": pa_csv.ConvertOptions(
                column_types=types, null_values=NULLS, strings_can_be_null=False
            ),
        }


def open_table(path: Path) -> TableFile:
    """Look at a table: its format and the names of its columns."""
    check_exists(path)
    format = format_of(path)
    if format == "npz":
        raise InputError(f"{path.name} holds arrays, where a table is needed.")
    if path.stat().st_size == 0:
        raise InputError(f"{path.name} is empty.")
    n_rows = None
    with readable(path, path.name):
        if format in ("csv", "tsv"):
            schema = pa.schema(
                [(name, pa.null()) for name in header(path, _delimiter(path, format))]
            )
        elif format == "parquet":
            metadata = pq.read_metadata(path)
            schema, n_rows = metadata.schema.to_arrow_schema(), metadata.num_rows
        else:
            with pa.memory_map(str(path)) as stream:
                schema = pa.ipc.open_file(stream).schema
        names = schema.names
    check_names(names, path.name)
    return TableFile(path, format, names, n_rows, index_columns(schema))


def read_arrays(path: Path, names: list[str]) -> list[npt.NDArray[Any]]:
    """Read arrays by name from an `.npz` file."""
    check_exists(path)
    try:
        with np.load(path) as file:
            for name in names:
                if name not in file:
                    raise InputError(
                        f"{path.name} has no array {name!r}; {suggestion(name, file.files)}"
                    )
            return [file[name] for name in names]
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path.name} cannot be read as .npz: {_first_line(error)}") from error


def numbers(column: Any, name: str, first_row: int = 1) -> Any:
    """Turn a column into float64 (float32 stays), with nulls where values are missing.

    Text is read as numbers; a value that is none is an error. `first_row` is the number of the
    column's first row in its file.
    """
    kind = column.type
    if pa.types.is_float32(kind):
        return column
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            return pc.cast(column, pa.float64())  # most often there is nothing else to it
        except pa.ArrowInvalid:
            text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(pc.is_in(text, pa.array(NULLS, kind)), pa.scalar(None, kind), text)
        lower = pc.utf8_lower(text)
        text = pc.if_else(pc.equal(lower, "true"), "1", text)
        text = pc.if_else(pc.equal(lower, "false"), "0", text)
        try:
            return pc.cast(text, pa.float64())
        except pa.ArrowInvalid:
            at, value = _not_a_number(text)
            raise InputError(
                f"Column {name!r}: {value!r} in row {first_row + at:,} is not a number."
            ) from None
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    try:
        return pc.cast(column, pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"Column {name!r} is {kind_of(kind)}, where numbers are needed.") from None


def is_numeric(kind: Any) -> bool:
    """Whether a type of pyarrow is of numbers, yes and no included."""
    return any(
        of(kind)
        for of in (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_decimal,
            pa.types.is_boolean,
        )
    )


def kind_of(kind: Any) -> str:
    """Name a type of pyarrow as people do."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_temporal(kind):
        return "date or time"
    if pa.types.is_null(kind):
        return "empty"
    return "text in another encoding than UTF-8" if pa.types.is_binary(kind) else str(kind)


def _not_a_number(text: Any) -> tuple[int, str]:
    for at, value in enumerate(text.to_pylist()):
        try:
            pc.cast(pa.array([value], pa.string()), pa.float64())
        except pa.ArrowInvalid:
            return at, value
    raise AssertionError


@contextmanager
def _text(path: Path) -> Iterator[Any]:
    with pa.input_stream(str(path), compression="detect") as stream:
        yield stream


def _delimiter(path: Path, format: str) -> str:
    """Tell what separates columns; some programs write semicolons into .csv files."""
    if format == "tsv":
        return "\t"
    names = first_line(path)
    return next((d for d in ",;\t" if d in names), ",")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
