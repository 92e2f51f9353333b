"""Tables on disk as blocks of labelled rows: the one reader of `fit(path)` and the command line."""

import difflib
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Batch, BlockSource, Paths, SourceError, as_floats, rows_per_block

try:
    import pyarrow as pa
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Reading tables needs pyarrow: pip install 'dkmeans[tables]'", name="pyarrow"
    ) from error

from dkmeans.data.column_values import (
    describe_type,
    first_text,
    is_numeric,
    is_text,
    missing_labels,
    plain_labels,
    to_array,
    to_labels,
)
from dkmeans.data.table_checks import check_features_named
from dkmeans.data.table_formats import SUFFIXES, TableFile, format_of
from dkmeans.data.text_files import TextFormat
from dkmeans.data.text_types import join_types

_NAMED_ROWS = 5  # rows that are named in an error
_CACHED_ROWS = 2048  # rows whose columns are put side by side at a time, to stay in the cache


class OtherColumns(Enum):
    """What to do with columns that are not numbers, where features are not named."""

    REFUSE = "refuse"
    LEAVE_OUT = "leave out"


class LabelKind(Enum):
    """What labels are read as."""

    AS_STORED = "as stored"
    TEXT = "text"  # numbers in text files, too, as they are written


@dataclass(frozen=True)
class Selection:
    """What to take from a table.

    Parameters
    ----------
    label : str
        Column of the class labels.
    weight : str, optional
        Column of the weights.
    columns : sequence of str, optional
        Features, which are read as numbers even if they are stored as text. All other columns if
        not given, without an index that pandas stored.
    drop : sequence of str
        Columns that are no features, where these are not named.
    other_columns : OtherColumns
    label_kind : LabelKind
    skip_unlabelled : bool
        Whether rows without a label are left out where blocks are read; else they are an error.
    """

    label: str
    weight: str | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    other_columns: OtherColumns = OtherColumns.REFUSE
    label_kind: LabelKind = LabelKind.AS_STORED
    skip_unlabelled: bool = False

    @property
    def not_features(self) -> set[str | None]:
        """Columns that are no features, None included."""
        return {self.label, self.weight, *self.drop}


class NotNumbersError(SourceError):
    """Columns that would be features are not numbers.

    Attributes
    ----------
    path : Path
    columns : dict from str to str
        What each of them is instead, with an example.
    """

    def __init__(self, path: Path, columns: dict[str, str]) -> None:
        super().__init__(
            f"{path} has columns that are not numbers: {list(columns)}. Name the columns that "
            "are features with `columns`, encode these, or use dkmeans.fit_table."
        )
        self.path, self.columns = path, columns


@dataclass(frozen=True)
class TablePart:
    """Rows of a table, as they are: values and labels may be missing."""

    X: npt.NDArray[np.floating]  # NaN where values are missing
    label: Any  # a pyarrow array
    weight: npt.NDArray[Any] | None  # NaN where they are missing
    file: TableFile
    first_row: int  # in the file, from 0

    @property
    def where(self) -> str:
        """Name the place of the rows, for messages."""
        return f"{self.file.path}, rows from {self.first_row}"

    def missing_labels(self) -> npt.NDArray[np.bool_]:
        """Tell which rows have no label."""
        return missing_labels(self.label)

    def labels(self, name: str) -> npt.NDArray[Any]:
        """Make an array of the labels, none of which may be missing."""
        with self.file.readable():
            return to_labels(self.label, name)

    def take(self, rows: npt.NDArray[np.bool_]) -> "TablePart":
        """Keep some rows."""
        weight = None if self.weight is None else self.weight[rows]
        label = self.label.filter(pa.array(rows))
        return TablePart(self.X[rows], label, weight, self.file, self.first_row)


class SelectedTable(BlockSource):
    """Labelled rows of one or more files of one format.

    Parameters
    ----------
    files : sequence of TableFile
    selection : Selection
    memory_mb : float, optional
        For blocks and what is made of them.

    Attributes
    ----------
    names : list of str
        Features.
    dtype : dtype
        Type of the features.
    index, left_out : list of str
        Columns that are no features: the index that pandas stored, and what is not numbers.
    """

    names: list[str]
    _skipping = ""  # how to leave out rows without a label, for the error

    def __init__(
        self, files: Sequence[TableFile], selection: Selection, memory_mb: float | None = None
    ) -> None:
        self._files, self._selection = list(files), selection
        self._first = self._files[0]
        self.index: list[str] = []
        self.left_out: list[str] = []
        self._check_named_columns()
        candidates = self._candidates()
        self._types = [self._types_of(file, candidates) for file in self._files]
        if self._first.is_text and not self.count_rows():
            self._raise_empty()
        self.names = self._choose(candidates)
        self._label_type = join_types(types[selection.label] for types in self._types)
        is_number = is_numeric(self._label_type)
        if self._first.is_text and (not is_number or selection.label_kind is LabelKind.TEXT):
            self._label_type = pa.string()  # dates and times as they are written
        for file, types in zip(self._files[1:], self._types[1:], strict=True):
            self._check_types(file, types)
        kinds = [np.float64] if self._first.is_text else map(self._dtype_of, self.names)
        self.dtype = as_floats(list(kinds))
        self._step = rows_per_block(memory_mb, len(self.names), self.dtype.itemsize)

    @property
    def has_text_labels(self) -> bool:
        """Whether labels are text, and not numbers or Booleans."""
        kind = self._label_type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return not is_numeric(kind) or pa.types.is_decimal(kind)

    def count_rows(self) -> int:
        """Count the rows of all files."""
        return sum(file.count_rows() for file in self._files)

    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning; missing values are NaN."""
        for part in self.parts():
            missing = part.missing_labels()
            if missing.any():
                if not self._selection.skip_unlabelled:
                    raise SourceError(self._describe_unlabelled(part, missing))
                part = part.take(~missing)
                if not len(part.X):
                    continue
            yield Batch(part.X, part.labels(self._selection.label), part.weight, part.where)

    def _describe_unlabelled(self, part: TablePart, missing: npt.NDArray[np.bool_]) -> str:
        """Name the first rows that have no label, as users count them."""
        rows = part.first_row + 1 + np.flatnonzero(missing)
        several, more = len(rows) > 1, len(rows) - _NAMED_ROWS
        named = ", ".join(str(row) for row in rows[:_NAMED_ROWS].tolist())
        named += f" and {more} more" if more > 0 else ""
        what = "missing labels in rows" if several else "a missing label in row"
        remedy = (
            "fill them in, or remove these rows" if several else "fill it in, or remove the row"
        )
        return (
            f"{part.file.path}: column {self._selection.label!r} has {what} {named}: {remedy}"
            f"{self._skipping}."
        )

    def parts(self) -> Iterator[TablePart]:
        """Read rows as they are, from the beginning."""
        total = 0
        for file, types in zip(self._files, self._types, strict=True):
            waiting: list[Any] = []
            count = first = 0
            for batch in self._batches(file, types):
                total += batch.num_rows
                waiting.append(batch)
                count += batch.num_rows
                if count >= self._step:
                    yield self._part(waiting, file, first)
                    first, waiting, count = first + count, [], 0
            if count:
                yield self._part(waiting, file, first)
        if not total:
            self._raise_empty()

    @property
    def _used(self) -> list[str]:
        """Columns to read."""
        selection = self._selection
        others = [selection.label, *([selection.weight] if selection.weight else [])]
        return [*self.names, *(name for name in others if name not in self.names)]

    def _check_named_columns(self) -> None:
        """Refuse names that are not those of columns."""
        selection, there = self._selection, self._first.names
        weight = [selection.weight] if selection.weight else []
        for name in (selection.label, *weight, *(selection.columns or ()), *selection.drop):
            if name not in there:
                near = difflib.get_close_matches(name, there, 1)
                hint = f" Did you mean {near[0]!r}?" if near else f" It has {there}."
                raise SourceError(f"{self._first.path} has no column {name!r}.{hint}")

    def _candidates(self) -> list[str]:
        """List the columns that are features if they are numbers."""
        selection, not_features = self._selection, self._selection.not_features
        if selection.columns is not None:
            return [name for name in selection.columns if name not in not_features]
        self.index = [name for name in self._first.index if name not in not_features]
        left_out = {*not_features, *self.index}
        return [name for name in self._first.names if name not in left_out]

    def _types_of(self, file: TableFile, candidates: list[str]) -> dict[str, Any]:
        """Find the types of all columns that may be used."""
        selection, there = self._selection, set(file.names)
        wanted = [*candidates, selection.label, *([selection.weight] if selection.weight else [])]
        for name in wanted:
            if name not in there:
                whose = "it had before" if file.path == self._first.path else None
                whose = whose or f"{self._first.path} has"
                raise SourceError(f"{file.path} has no column {name!r}, which {whose}.")
        return file.types(list(dict.fromkeys(wanted)), [selection.label])

    def _choose(self, candidates: list[str]) -> list[str]:
        """Choose the features among the candidates."""
        selection, path = self._selection, self._first.path
        if selection.columns is None:
            for file, types in zip(self._files, self._types, strict=True):
                others = [name for name in candidates if not is_numeric(types[name])]
                if others and selection.other_columns is OtherColumns.REFUSE:
                    described = {name: _describe(file, name, types[name]) for name in others}
                    raise NotNumbersError(file.path, described)
                candidates = [name for name in candidates if name not in set(others)]
                self.left_out += others
        if not candidates:
            raise SourceError(f"{path} has no column of numbers beside {selection.label!r}.")
        if selection.columns is None:
            check_features_named(self._first.names, candidates, str(path))
        return candidates

    def _dtype_of(self, name: str) -> Any:
        kind = self._types[0][name]
        is_plain = is_numeric(kind) and not pa.types.is_decimal(kind)
        return kind.to_pandas_dtype() if is_plain else np.float64

    def _check_types(self, file: TableFile, types: dict[str, Any]) -> None:
        """Refuse a file whose columns have other types than those of the first when it was opened.

        Text has no types of its own, and the encoding of labels may differ.
        """
        if file.is_text:
            return
        for name in self._used:
            kind, other = self._types[0][name], types[name]
            if other != kind and name != self._selection.label:
                is_first = file.path == self._first.path
                where = "before" if is_first else f"in {self._first.path}"
                raise SourceError(
                    f"Column {name!r} is of type {other} in {file.path}, but {kind} {where}: all "
                    "files must agree, and stay as they are during a fit."
                )

    def _batches(self, file: TableFile, types: dict[str, Any]) -> Iterator[Any]:
        """Read a file; numbers in text as float64, but for the label."""
        if not file.is_text:
            file = file.reopen()  # it may have changed
            self._check_types(file, self._types_of(file, self.names))
            return file.batches(self._used, rows=self._step)
        parsed = {name: parsed_as(types[name]) for name in self._used}
        parsed[self._selection.label] = self._label_type
        return file.batches(self._used, parsed, self._step)

    def _part(self, batches: list[Any], file: TableFile, first: int) -> TablePart:
        """Make arrays of record batches."""
        n = sum(batch.num_rows for batch in batches)
        X = np.empty((n, len(self.names)), dtype=self.dtype)
        labels, weights, start = [], [], 0
        for batch in batches:
            row, stop = first + start + 1, start + batch.num_rows
            columns = [to_array(batch.column(name), name, row) for name in self.names]
            _side_by_side(columns, X[start:stop])
            with file.readable():
                labels.append(self._plain_labels(batch))
            if self._selection.weight:
                name = self._selection.weight
                weights.append(to_array(batch.column(name), name, row))
            start = stop
        weight = np.concatenate(weights) if weights else None
        return TablePart(X, pa.concat_arrays(labels), weight, file, first)

    def _plain_labels(self, batch: Any) -> Any:
        return plain_labels(batch.column(self._selection.label))

    def _raise_empty(self) -> NoReturn:
        path = os.path.commonpath([file.path for file in self._files])
        raise SourceError(f"{path} has column names, but no rows.")


class TableBlocks(SelectedTable):
    """Labelled rows of one or more files with the same columns.

    Parameters
    ----------
    path : str, Path, or sequence of them
        A file, or a folder of files of one format, which are read in the order of their names;
        files and folders in it whose names start with a dot or an underscore are left out. Several
        of them are read in the order given.
    label : str
        Column with the class labels.
    weight : str, optional
        Column with the weights.
    columns : sequence of str, optional
        Columns that are features, which are read as numbers even if they are stored as text; all
        others if not given, and then these must be numbers. An index that pandas stored with the
        table is no feature then.
    memory_mb : float, optional
        For blocks and what is made of them.
    """

    def __init__(
        self,
        path: Paths,
        label: str,
        weight: str | None = None,
        columns: Sequence[str] | None = None,
        memory_mb: float | None = None,
    ) -> None:
        files = open_tables(path)
        super().__init__(files, Selection(label, weight, columns), memory_mb)
        if self.index:
            warnings.warn(
                f"{files[0].path}: left out, the index that pandas stored: "
                f"{', '.join(map(repr, sorted(self.index)))}.",
                stacklevel=2,
            )


def open_table(path: Path, text: TextFormat | None = None) -> TableFile:
    """Open a file that exists, and read the names of its columns."""
    format = format_of(path)
    if format is None:
        raise SourceError(
            f"{path} is none of the formats that can be read: {', '.join(SUFFIXES)}; text may be "
            "compressed (.csv.gz)."
        )
    return format(path, text)


def open_tables(path: Paths, text: TextFormat | None = None) -> list[TableFile]:
    """Open files, or all files of folders, which must be of one format."""
    if not isinstance(path, str | Path):
        opened = [file for one in path for file in open_tables(one, text)]
        kinds = sorted({_family(file.path) for file in opened})
        if len(kinds) > 1:
            raise SourceError(f"X has {' and '.join(kinds)} files: one kind is needed.")
        return opened
    path = Path(path)
    if path.is_dir():
        inside = (file for file in path.rglob("*") if not _is_hidden(file.relative_to(path)))
        files = sorted(file for file in inside if format_of(file) is not None and file.is_file())
        kinds = sorted({_family(file) for file in files})
        if len(kinds) != 1:
            found = " and ".join(kinds) or "no"
            raise SourceError(f"The folder {path} has {found} files: one kind is needed.")
        return [open_table(file, text) for file in files]
    if not path.exists():
        raise SourceError(f"There is no file or folder {path}.")
    return [open_table(path, text)]


def _family(path: Path) -> str:
    format = format_of(path)
    assert format is not None
    return "csv" if format.is_text else format.format.lower()


def _is_hidden(path: Path) -> bool:
    """Tell whether a file in a folder, or a folder around it, is not meant to be seen as data."""
    return any(part.startswith((".", "_")) for part in path.parts)


def parsed_as(kind: Any) -> Any:
    """Choose what to parse a feature or weight in text as."""
    if pa.types.is_boolean(kind):
        return kind
    return pa.float64() if is_numeric(kind) or pa.types.is_null(kind) else pa.string()


def _describe(file: TableFile, name: str, kind: Any) -> str:
    """Say what a column is that is not numbers, with a value of it."""
    found = describe_type(kind)
    if found != "text":
        return found
    types = {name: pa.string()} if is_text(kind) else None
    values = map(first_text, (batch.column(name) for batch in file.batches([name], types)))
    example = next((value for value in values if value), None)
    if example and re.fullmatch(r"[-+]?\d*,\d+", example):
        return f"text, such as {example[:20]!r}, perhaps with a decimal comma"
    return f"text, such as {example[:20]!r}" if example else found


def _side_by_side(columns: list[npt.NDArray[Any]], X: npt.NDArray[np.floating]) -> None:
    """Copy columns into an array of rows."""
    for start in range(0, len(X), _CACHED_ROWS):
        rows = slice(start, start + _CACHED_ROWS)
        here = X[rows]
        for j, column in enumerate(columns):
            here[:, j] = column[rows]
