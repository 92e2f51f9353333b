"""Tables on disk, read in blocks by pyarrow: Parquet, CSV, TSV and Feather files, or folders."""

import difflib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Batch, SourceError, as_floats, rows_per_block
from dkmeans.data.table_checks import (
    check_named,
    check_names,
    index_columns,
    loses_digits,
    no_label,
    readable,
    sound,
)
from dkmeans.data.text_files import bytes_at_once, header

_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".feather": "feather",
    ".arrow": "feather",
}
_SMALL = 1 << 20  # bytes of a file that are read at a time
_TEXT = ("binary", "large_binary", "binary_view", "string_view")  # to be read as text, too
_CALLER = 4  # frames up, who makes blocks
_NEAR = 2048  # rows whose columns are put side by side at a time, so that they stay in the cache


class TableBlocks:
    """Labelled rows of one or more files with the same columns.

    Parameters
    ----------
    path : str or Path
        A file, or a folder of files of one kind, which are read in the order of their names;
        files and folders in it whose names start with a dot or an underscore are left out.
    label : str
        Column with the class labels.
    weight : str, optional
        Column with the weights.
    columns : sequence of str, optional
        Columns that are features; all others that are numbers if not given, and then there must
        be no other columns. An index that pandas stored with the table is no feature then.
    memory_mb : float, optional
        For blocks and what is made of them.
    """

    def __init__(
        self,
        path: str | Path,
        label: str,
        weight: str | None = None,
        columns: Sequence[str] | None = None,
        memory_mb: float | None = None,
    ) -> None:
        _need_pyarrow()
        self._path, self._files = Path(path), _files(Path(path))
        self._label, self._weight = label, weight
        self._is_text = _KINDS[self._files[0].suffix] == "csv"
        self._schema = _schema(self._files[0])
        self.names = self._features(columns)
        self._types = {name: self._schema.field(name).type for name in self._wanted}
        kinds = [self._types[name].to_pandas_dtype() for name in self.names]
        self.dtype = as_floats([np.float64] if self._is_text else kinds)
        self._step = rows_per_block(memory_mb, len(self.names), self.dtype.itemsize)
        for file in self._files[1:]:
            self._check(file, _schema(file))
        # Labels that are beyond integers and floats stay apart as text, in all files.
        self._text_label = self._is_text and any(map(self._loses_digits, self._files))

    @property
    def _wanted(self) -> list[str]:
        return [*self.names, self._label, *([self._weight] if self._weight else [])]

    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning."""
        total = 0
        for file in self._files:
            waiting: list[Any] = []
            count = first = 0
            for batch in self._batches(file):
                total += batch.num_rows
                waiting.append(batch)
                count += batch.num_rows
                if count >= self._step:
                    yield self._joined(waiting, file, first)
                    first, waiting, count = first + count, [], 0
            if count:
                yield self._joined(waiting, file, first)
        if not total:
            raise SourceError(f"{self._path} has column names, but no rows.")

    def _batches(self, file: Path) -> Iterator[Any]:
        """Read a file, its text as float64 but for the label."""
        import pyarrow as pa

        types = {name: pa.float64() for name in self._wanted if name != self._label}
        if self._text_label:
            types[self._label] = pa.string()
        if not self._is_text:
            self._check(file, _schema(file))  # it may have changed
        return _batches(file, self._wanted, types, self._step)

    def _loses_digits(self, file: Path) -> bool:
        """Tell whether labels in a text file are numbers that floats cannot tell apart."""
        import pyarrow as pa

        if not pa.types.is_floating(_schema(file).field(self._label).type):
            return False
        batches = _batches(file, [self._label], {self._label: pa.float64()}, self._step)
        return any(loses_digits(batch.column(self._label)) for batch in batches)

    def _features(self, columns: Sequence[str] | None) -> list[str]:
        """Choose the columns that are features, and check that all that is named is there."""
        names = self._schema.names
        for name in [self._label, *([self._weight] if self._weight else []), *(columns or [])]:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f" Did you mean {near[0]!r}?" if near else f" It has {names}."
                raise SourceError(f"{self._files[0]} has no column {name!r}.{hint}")
        chosen = list(columns) if columns is not None else self._without_index(names)
        chosen = [name for name in chosen if name not in (self._label, self._weight)]
        odd = [name for name in chosen if not self._is_number(name)]
        if odd:
            raise SourceError(
                f"{self._files[0]} has columns that are not numbers: {odd}. Name the columns that "
                "are features with `columns`, or encode these."
            )
        if not chosen:
            raise SourceError(f"{self._files[0]} has no columns beside {self._label!r}.")
        if columns is None:
            remedy = "write the table without it (index=False), or name the features with `columns`"
            check_named(names, chosen, str(self._files[0]), remedy=remedy)
        return chosen

    def _without_index(self, names: list[str]) -> list[str]:
        """Leave out the index that pandas stored, and say so."""
        index = set(index_columns(self._schema)) - {self._label, self._weight}
        if index:
            warnings.warn(
                f"{self._files[0]}: left out, the index that pandas stored: "
                f"{', '.join(map(repr, sorted(index)))}.",
                stacklevel=_CALLER,
            )
        return [name for name in names if name not in index]

    def _is_number(self, name: str) -> bool:
        """Tell whether a column is of numbers, or may be, as it is empty where it was looked at."""
        import pyarrow as pa

        kind = self._schema.field(name).type
        return _is_number(kind) or (self._is_text and bool(pa.types.is_null(kind)))

    def _check(self, file: Path, schema: Any) -> None:
        """Refuse a file whose columns differ from those of the first when it was opened."""
        first = self._files[0]
        there = set(schema.names)
        for name, kind in self._types.items():
            if name not in there:
                whose = "it had before" if file == first else f"{first} has"
                raise SourceError(f"{file} has no column {name!r}, which {whose}.")
            other = schema.field(name).type
            is_label = name == self._label  # whose encoding may differ
            if other != kind and not is_label and file.suffix not in (".csv", ".tsv"):
                where = "before" if file == first else f"in {first}"
                raise SourceError(
                    f"Column {name!r} is of type {other} in {file}, but {kind} {where}: all files "
                    "must agree, and stay as they are during a fit."
                )

    def _joined(self, batches: list[Any], file: Path, first: int) -> Batch:
        """Make arrays of record batches."""
        where = f"{file}, rows from {first}"
        n = sum(batch.num_rows for batch in batches)
        X = np.empty((n, len(self.names)), dtype=self.dtype)
        labels, weights, start = [], [], 0
        for batch in batches:
            stop = start + batch.num_rows
            # Missing values become NaN, which is reported where all values are checked.
            columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in self.names]
            _side_by_side(columns, X[start:stop])
            with readable(file, str(file)):
                labels.append(_labels(batch.column(self._label), self._label, where))
            if self._weight:
                weights.append(batch.column(self._weight).to_numpy(zero_copy_only=False))
            start = stop
        weight = np.concatenate(weights) if weights else None
        return Batch(X, np.concatenate(labels), weight, where)


def _side_by_side(columns: list[npt.NDArray[Any]], X: npt.NDArray[np.floating]) -> None:
    """Copy columns into an array of rows."""
    for start in range(0, len(X), _NEAR):
        rows = slice(start, start + _NEAR)
        here = X[rows]
        for j, column in enumerate(columns):
            here[:, j] = column[rows]


def is_path(X: Any) -> bool:
    """Tell whether X names a file or folder."""
    return isinstance(X, str | Path)


def _need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("Reading tables needs pyarrow: pip install 'dkmeans[tables]'") from error


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(
            file
            for file in path.rglob("*")
            if file.suffix in _KINDS and not _is_hidden(file.relative_to(path)) and file.is_file()
        )
        kinds = {_KINDS[f.suffix] for f in files}
        if len(kinds) != 1:
            found = "no" if not kinds else f"{' and '.join(sorted(kinds))}"
            raise SourceError(f"The folder {path} has {found} files: one kind is needed.")
        return files
    if not path.exists():
        raise SourceError(f"There is no file or folder {path}.")
    if path.suffix not in _KINDS:
        raise SourceError(f"{path} is none of the kinds that can be read: {sorted(_KINDS)}.")
    return [path]


def _is_hidden(path: Path) -> bool:
    """Tell whether a file in a folder, or a folder around it, is not meant to be seen as data."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _open(file: Path, **more: Any) -> Any:
    """Open a table, and say which if it cannot be read."""
    import pyarrow as pa
    from pyarrow import csv, ipc
    from pyarrow import parquet as pq

    kind = _KINDS[file.suffix]
    with readable(file, str(file)):
        if kind == "parquet":
            return pq.ParquetFile(file, pre_buffer=False, buffer_size=_SMALL)
        if kind == "feather":
            return ipc.open_file(pa.memory_map(str(file)))
        delimiter = "\t" if file.suffix == ".tsv" else ","
        return csv.open_csv(
            file,
            read_options=csv.ReadOptions(block_size=bytes_at_once(header(file, delimiter))),
            parse_options=csv.ParseOptions(delimiter=delimiter),
            convert_options=csv.ConvertOptions(**more),
        )


def _schema(file: Path) -> Any:
    opened = _open(file)
    with readable(file, str(file)):
        schema = opened.schema_arrow if hasattr(opened, "schema_arrow") else opened.schema
        names = schema.names
    if not names:
        raise SourceError(f"{file} has no columns.")
    check_names(names, str(file))
    return schema


def _batches(file: Path, columns: list[str], types: dict[str, Any], rows: int) -> Iterator[Any]:
    """Read a file in record batches of so many rows, about; text of some columns as types."""
    for batch in _as_stored(file, columns, types, rows):
        sound(batch, str(file))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _as_stored(file: Path, columns: list[str], types: dict[str, Any], rows: int) -> Iterator[Any]:
    kind = _KINDS[file.suffix]
    if kind == "csv":
        opened = _open(file, include_columns=columns, column_types=types)
    else:
        opened = _open(file)
    with readable(file, str(file)):
        if kind == "parquet":
            yield from opened.iter_batches(batch_size=rows, columns=columns)
        elif kind == "feather":
            for number in range(opened.num_record_batches):
                yield opened.get_batch(number).select(columns)
        else:
            yield from opened


def _labels(column: Any, name: str, where: str) -> npt.NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if str(column.type) in _TEXT:
        column = pc.cast(column, pa.large_string())
    lost = int(no_label(column).sum())
    if lost:
        raise SourceError(
            f"{lost} labels are missing in column {name!r} ({where}): drop these rows."
        )
    labels = column.to_numpy(zero_copy_only=False)
    return labels.astype(str) if labels.dtype == object else labels


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
