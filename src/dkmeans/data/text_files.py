"""Tables as text: encoding, separator, the names of columns, and how to write them."""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

BLOCK_BYTES = 1 << 22  # bytes of text parsed at a time
# What stands for a missing number; in columns of text, these are text.
NULL_VALUES = [*pa_csv.ConvertOptions().null_values, "?", "None", "none"]
_NUMBER_BYTES = 32  # bytes of a number at most, with its separator
_MAX_BLOCK_BYTES = (1 << 31) - 1  # limit of pyarrow
_DELIMITERS = ",;\t|"  # the first that is in the header separates columns
_SNIFFED_ROWS = 200  # rows that tell whether decimals have commas
_POINT = re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*")
_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")


@dataclass(frozen=True)
class TextFormat:
    """How numbers and columns are written in text files; None is found out from the file."""

    sep: str | None = None
    decimal: str | None = None


def header_line(path: Path) -> str:
    """Read the first line; bytes that are not UTF-8 become lone surrogates."""
    with _decoded(path) as text:
        return text.readline()


def delimiter_of(path: Path) -> str:
    """Tell what separates columns: some programs write semicolons or tabs into .csv files."""
    names = header_line(path)
    return next((delimiter for delimiter in _DELIMITERS if delimiter in names), _DELIMITERS[0])


def decimal_of(path: Path, delimiter: str) -> str:
    """Tell whether decimals have a point or a comma, by the first rows.

    They have a comma if some values look so, and none has a point. Where commas separate columns,
    that is so in quotes only.
    """
    with _decoded(path) as text:
        rows = list(islice(csv.reader(text, delimiter=delimiter), 1, _SNIFFED_ROWS))
    values = [value for row in rows for value in row]
    has_point = any(_POINT.fullmatch(value) for value in values)
    has_comma = any(_COMMA.fullmatch(value) for value in values)
    return "," if has_comma and not has_point else "."


def header(path: Path, delimiter: str) -> list[str]:
    """Read the names of the columns, however long they are."""
    with _decoded(path) as text:
        names = next((row for row in csv.reader(text, delimiter=delimiter) if row), [])
    "".join(names).encode()  # raises an error if they are not UTF-8
    return names


def bytes_per_block(names: Sequence[str]) -> int:
    """Tell how much text to parse at a time: no less than the header, or a row of numbers."""
    row = sum(len(name.encode()) + _NUMBER_BYTES for name in names)
    return min(max(BLOCK_BYTES, row), _MAX_BLOCK_BYTES)


def open_bytes(path: Path) -> Any:
    """Open a file for pyarrow, decompressed if its name ends in `.gz`."""
    return pa.input_stream(str(path), compression="gzip" if _is_compressed(path) else None)


def find_not_utf8(path: Path) -> str | None:
    """Say where a file has bytes that are not UTF-8; None if it has none."""
    try:
        with _opened(path) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f"line {number:,} has the byte 0x{line[error.start]:02X}"
    except (OSError, EOFError, zlib.error):
        pass  # something else is wrong with it
    return None


def starts_as_utf16(path: Path) -> bool:
    """Tell whether a file begins with the mark of UTF-16, as Unicode text of spreadsheets does."""
    with _opened(path) as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class CsvWriter:
    """Writes text with no more quotes than it needs."""

    def __init__(self, file: Any, schema: Any, delimiter: str) -> None:
        self._file, self._delimiter = file, delimiter
        self._unquoted = pa_csv.WriteOptions(
            include_header=False, delimiter=delimiter, quoting_style="none"
        )
        self._write_rows([schema.names])

    def write_batch(self, batch: Any) -> None:
        """Write a batch."""
        batch = _with_python_booleans(batch)
        buffer = io.BytesIO()
        try:
            pa_csv.write_csv(batch, buffer, self._unquoted)
        except pa.ArrowInvalid:  # a value needs quotes
            columns = [column.to_pylist() for column in batch.columns]
            self._write_rows(zip(*columns, strict=True))
        else:
            self._file.write(buffer.getbuffer())

    def close(self) -> None:
        """Do nothing: text needs no end."""

    def _write_rows(self, rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())


def _with_python_booleans(batch: Any) -> Any:
    """Spell Booleans as Python and pandas do, and as reports do: True and False."""
    columns = [
        pc.if_else(column, "True", "False") if pa.types.is_boolean(column.type) else column
        for column in batch.columns
    ]
    return type(batch).from_arrays(columns, names=batch.schema.names)


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path) if _is_compressed(path) else path.open("rb"))


def _decoded(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(_opened(path), "utf-8-sig", "surrogateescape", newline="")
