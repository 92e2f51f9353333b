"""Where commands write to, and tables written batch by batch."""

import csv
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dkmeans.atomic import check_place, replacing
from dkmeans.cli.errors import InputError, check_exists
from dkmeans.cli.tables import format_of

STDOUT = Path("-")


class Writer(Protocol):
    """Takes record batches of one schema."""

    def write_batch(self, batch: Any) -> None:
        """Write a batch."""

    def close(self) -> None:
        """Write what belongs at the end."""


@contextmanager
def table_writer(path: Path) -> Iterator["Lazy"]:
    """Write a table in the format of its name, under another name until it is whole.

    `-` is CSV on the standard output.
    """
    if path == STDOUT:
        writer = Lazy("csv", sys.stdout.buffer)
        yield writer
        writer.close()
        sys.stdout.buffer.flush()
        return
    with replacing(path) as file:
        writer = Lazy(table_format(path), file)
        yield writer
        writer.close()


def table_format(path: Path) -> str:
    """Tell the format to write; an error if it cannot be written."""
    try:
        format = format_of(path)
    except InputError:
        format = "npz"
    if format == "npz" or path.suffix.lower() == ".gz":
        raise InputError(f"{path.name}: tables are written as .csv, .tsv, .parquet or .feather.")
    return format


class Lazy:
    """A writer that begins with its first batch, which tells the schema."""

    def __init__(self, format: str, file: Any) -> None:
        self._format, self._file = format, file
        self._writer: Writer | None = None

    def write(self, batch: Any) -> None:
        """Write a batch."""
        if self._writer is None:
            self._writer = self._open(batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, schema: Any) -> Writer:
        if self._format == "parquet":
            return pq.ParquetWriter(self._file, schema)
        if self._format == "feather":
            return pa.ipc.new_file(self._file, schema)
        return _TextWriter(self._file, schema, "," if self._format == "csv" else "\t")


class _TextWriter:
    """CSV with no more quotes than it needs."""

    def __init__(self, file: Any, schema: Any, delimiter: str) -> None:
        self._file, self._delimiter = file, delimiter
        self._fast = pa_csv.WriteOptions(
            include_header=False, delimiter=delimiter, quoting_style="none"
        )
        self._write_rows([schema.names])

    def write_batch(self, batch: Any) -> None:
        """Write a batch."""
        buffer = io.BytesIO()
        try:
            pa_csv.write_csv(batch, buffer, self._fast)
        except pa.ArrowInvalid:  # a value needs quotes
            columns = [column.to_pylist() for column in batch.columns]
            self._write_rows(zip(*columns, strict=True))
        else:
            self._file.write(buffer.getbuffer())

    def close(self) -> None:
        """Nothing belongs at the end."""

    def _write_rows(self, rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())


def check_free(path: Path, *inputs: Path | None, force: bool) -> None:
    """Raise an error if a file is in the way, or its folder is not there.

    Inputs must exist, and are never replaced.
    """
    for source in inputs:
        if source is not None:
            check_exists(source)
            if path.exists() and path.samefile(source):
                raise InputError(f"{path} would be replaced, but it is read: name another --out.")
    if path == STDOUT:
        if sys.stdout is None:
            raise InputError("--out -: the standard output is closed: name a file.")
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file.")
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent}: make it first.")
    check_place(path)
    if os.path.lexists(path) and not force:
        raise InputError(f"{path} exists: choose another name, or add --force to replace it.")
