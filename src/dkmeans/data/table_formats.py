"""Formats of tables on disk. A new format is a class here that is listed in FORMATS."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dkmeans.data.blocks import SourceError
from dkmeans.data.table_checks import check_column_names, check_intact, index_columns, readable
from dkmeans.data.text_files import (
    NULL_VALUES,
    CsvWriter,
    TextFormat,
    bytes_per_block,
    decimal_of,
    delimiter_of,
    header,
    open_bytes,
)
from dkmeans.data.text_types import infer_types, try_types

BATCH_ROWS = 1 << 16  # rows of a record batch, unless the caller asks for another number
_READ_BYTES = 1 << 20  # bytes of a Parquet column chunk read at a time


class BatchWriter(Protocol):
    """Writes record batches of one schema."""

    def write_batch(self, batch: Any) -> None:
        """Write a batch."""

    def close(self) -> None:
        """Complete the file."""


class TableFile(ABC):
    """A table in a file: its columns, and its rows as record batches.

    Parameters
    ----------
    path : Path
        An existing file of this format.
    text : TextFormat, optional
        How text is written, for formats that are text.

    Attributes
    ----------
    names : list of str
        Columns, in the order of the file.
    index : list of str
        Columns in which pandas stored the index.
    n_rows : int or None
        None for formats that have to be read to the end to know it, until that has been done.
    """

    format: ClassVar[str]  # name in messages
    suffixes: ClassVar[tuple[str, ...]]
    is_text: ClassVar[bool] = False
    decimal: str = "."  # in numbers that are text

    def __init__(self, path: Path, text: TextFormat | None = None) -> None:
        self.path, self._text = path, text or TextFormat()
        self.n_rows: int | None = None
        if path.stat().st_size == 0:
            raise SourceError(f"{path} is empty.")
        with self.readable():
            self.schema = self._read_schema()
            self.names: list[str] = self.schema.names
        if not self.names:
            raise SourceError(f"{path} has no columns.")
        check_column_names(self.names, str(path))
        self.index = index_columns(self.schema)

    def reopen(self) -> "TableFile":
        """Open the file as it is now."""
        return type(self)(self.path, self._text)

    def readable(self) -> AbstractContextManager[None]:
        """Turn errors of pyarrow into one sentence."""
        return readable(self.path, self.format)

    def types(self, columns: Sequence[str], exact: Collection[str] = ()) -> dict[str, Any]:
        """Find types that fit all values of columns.

        Text is read to the end; its numbers are float64, but in columns whose values must stay
        `exact`, as those of labels. Columns without any value are of the type null.
        """
        return {name: self.schema.field(name).type for name in columns}

    def batches(
        self,
        columns: Sequence[str] | None = None,
        types: Mapping[str, Any] | None = None,
        rows: int | None = None,
    ) -> Iterator[Any]:
        """Read record batches.

        Parameters
        ----------
        columns : sequence of str, optional
            All if not given.
        types : mapping from str to DataType, optional
            How to parse columns of text files; inferred from the first block where not given.
        rows : int, optional
            The most rows of a batch.
        """
        with self.readable():
            for batch in self._read_batches(columns, types, rows or BATCH_ROWS):
                check_intact(batch, str(self.path))
                step = rows or max(1, batch.num_rows)
                for start in range(0, batch.num_rows, step):
                    yield batch.slice(start, step)

    def count_rows(self) -> int:
        """Count the rows."""
        if self.n_rows is None:
            self.n_rows = sum(batch.num_rows for batch in self.batches(self.names[:1]))
        return self.n_rows

    @staticmethod
    @abstractmethod
    def writer(file: Any, schema: Any) -> BatchWriter:
        """Begin to write a table of this format to a binary file."""

    @abstractmethod
    def _read_schema(self) -> Any:
        """Read the names and types of columns; set `n_rows` if it is known then."""

    @abstractmethod
    def _read_batches(
        self, columns: Sequence[str] | None, types: Mapping[str, Any] | None, rows: int
    ) -> Iterator[Any]:
        """Read record batches of about so many rows."""


class Csv(TableFile):
    """Text with a separator, which the header tells: comma, semicolon or tab; `.gz` or plain."""

    format = "CSV"
    suffixes = (".csv",)
    is_text = True

    def types(self, columns: Sequence[str], exact: Collection[str] = ()) -> dict[str, Any]:
        """Infer types from the first block, and confirm them, or try all values."""
        with self.readable():
            guess = infer_types(next(self._parse(columns, None, None), None), columns, exact)
            found = None
            if guess is not None:
                try:
                    found = guess.confirm(self._parse(guess.columns, guess.types, None))
                except pa.ArrowInvalid:  # some later value does not fit
                    found = None
            if found is None:
                as_text = dict.fromkeys(columns, pa.string())
                texts = self._parse(columns, as_text, None)
                found = try_types(texts, columns, exact, self.decimal)
        self.n_rows = found.n_rows
        return found.types

    @staticmethod
    def writer(file: Any, schema: Any) -> BatchWriter:
        """Write commas, and no more quotes than needed."""
        return CsvWriter(file, schema, ",")

    def _default_delimiter(self) -> str:
        return delimiter_of(self.path)

    def _read_schema(self) -> Any:
        self.delimiter = self._text.sep or self._default_delimiter()
        names = header(self.path, self.delimiter)
        self.decimal = self._text.decimal or decimal_of(self.path, self.delimiter)
        return pa.schema([(name, pa.null()) for name in names])

    def _read_batches(
        self, columns: Sequence[str] | None, types: Mapping[str, Any] | None, rows: int
    ) -> Iterator[Any]:
        return self._parse(columns, types, rows)

    def _parse(
        self, columns: Sequence[str] | None, types: Mapping[str, Any] | None, rows: int | None
    ) -> Iterator[Any]:
        with open_bytes(self.path) as stream:
            yield from pa_csv.open_csv(
                stream,
                read_options=pa_csv.ReadOptions(block_size=bytes_per_block(self.names)),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True
                ),
                convert_options=pa_csv.ConvertOptions(
                    include_columns=columns,
                    column_types=types,
                    decimal_point=self.decimal,
                    null_values=NULL_VALUES,
                    strings_can_be_null=False,
                ),
            )


class Tsv(Csv):
    """Text with tabs; `.gz` or plain."""

    format = "TSV"
    suffixes = (".tsv",)

    @staticmethod
    def writer(file: Any, schema: Any) -> BatchWriter:
        """Write tabs, and no more quotes than needed."""
        return CsvWriter(file, schema, "\t")

    def _default_delimiter(self) -> str:
        return "\t"


class Parquet(TableFile):
    """Columns in row groups, which are read in parts."""

    format = "Parquet"
    suffixes = (".parquet", ".pq")

    @staticmethod
    def writer(file: Any, schema: Any) -> BatchWriter:
        """Write with the defaults of pyarrow."""
        return pq.ParquetWriter(file, schema)

    def _read_schema(self) -> Any:
        with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=_READ_BYTES) as file:
            self.n_rows = file.metadata.num_rows
            return file.schema_arrow

    def _read_batches(
        self, columns: Sequence[str] | None, types: Mapping[str, Any] | None, rows: int
    ) -> Iterator[Any]:
        with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=_READ_BYTES) as file:
            yield from file.iter_batches(batch_size=rows, columns=columns)


class Feather(TableFile):
    """Record batches of Arrow, mapped into memory."""

    format = "Feather"
    suffixes = (".feather", ".arrow")

    @staticmethod
    def writer(file: Any, schema: Any) -> BatchWriter:
        """Write uncompressed batches."""
        return pa.ipc.new_file(file, schema)

    def _read_schema(self) -> Any:
        with pa.memory_map(str(self.path)) as stream:
            return pa.ipc.open_file(stream).schema

    def _read_batches(
        self, columns: Sequence[str] | None, types: Mapping[str, Any] | None, rows: int
    ) -> Iterator[Any]:
        with pa.memory_map(str(self.path)) as stream:
            reader = pa.ipc.open_file(stream)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield batch if columns is None else batch.select(columns)


FORMATS: tuple[type[TableFile], ...] = (Csv, Tsv, Parquet, Feather)
SUFFIXES = {suffix: format for format in FORMATS for suffix in format.suffixes}


def format_of(path: Path) -> type[TableFile] | None:
    """Tell the format of a table by the extension, in any case; text may end in `.gz` as well."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        format = SUFFIXES.get(Path(path.stem).suffix.lower())
        return format if format is not None and format.is_text else None
    return SUFFIXES.get(suffix)
