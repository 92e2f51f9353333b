"""Where commands write to, and tables written batch by batch."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dkmeans.atomic import check_place, replacing
from dkmeans.cli.errors import InputError, check_exists
from dkmeans.data.table_formats import BatchWriter, Csv, TableFile, format_of

STDOUT = Path("-")


@contextmanager
def table_writer(path: Path) -> Iterator["TableWriter"]:
    """Write a table in the format of its name, under another name until it is whole.

    `-` is CSV on the standard output.
    """
    if path == STDOUT:
        writer = TableWriter(Csv, sys.stdout.buffer)
        yield writer
        writer.close()
        sys.stdout.buffer.flush()
        return
    with replacing(path) as file:
        writer = TableWriter(output_format(path), file)
        try:
            yield writer
        finally:
            writer.close()


def output_format(path: Path) -> type[TableFile]:
    """Tell the format to write, by the name of a file or `-`; an error if it cannot be written."""
    format = Csv if path == STDOUT else format_of(path)
    if format is None or path.suffix.lower() == ".gz":
        raise InputError(f"{path.name}: tables are written as .csv, .tsv, .parquet or .feather.")
    return format


class TableWriter:
    """Writes a table batch by batch; the first batch tells the schema."""

    def __init__(self, format: type[TableFile], file: Any) -> None:
        self._format, self._file = format, file
        self._writer: BatchWriter | None = None

    def write(self, batch: Any) -> None:
        """Write a batch."""
        if self._writer is None:
            self._writer = self._format.writer(self._file, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Complete the file."""
        if self._writer is not None:
            self._writer.close()


def check_free(path: Path, *inputs: Path | None, force: bool) -> None:
    """Raise an error if a file is in the way, or its folder is not there.

    Inputs must exist, and are never replaced.
    """
    for source in inputs:
        if source is not None:
            if not source.is_dir():
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
