"""Labelled rows for commands: from a table or from arrays, in memory or in blocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dkmeans.cli.array_files import is_array_file, read_arrays
from dkmeans.cli.console import file_size, plural
from dkmeans.cli.errors import InputError, listing
from dkmeans.cli.table_input import (
    check_column,
    check_model_columns,
    check_names,
    describe_index,
    in_options,
    open_inputs,
    possible_features,
)
from dkmeans.data.blocks import Batch, BlockSource
from dkmeans.data.column_values import check_float_labels
from dkmeans.data.named_arrays import NamedArray
from dkmeans.data.system_memory import total_memory
from dkmeans.data.table_formats import TableFile
from dkmeans.data.tables import LabelKind, OtherColumns, SelectedTable, Selection, TablePart
from dkmeans.data.text_files import TextFormat

NO_ROW_LEFT = "No row is left: leave out columns with many of them with --drop."
MEMORY_SHARE = 8  # tables that take more than one in so many bytes of the memory stay on disk


@dataclass(frozen=True)
class Wanted:
    """What to take from a file, as the options say."""

    label: str | None = None
    weight: str | None = None
    drop: Sequence[str] = ()
    numeric_only: bool = False
    skip_missing: bool = False  # leave out rows that lack a feature, a label or a weight
    array: str = "X"  # name of the rows in an .npz file
    columns: Sequence[str] | None = None
    categories: Sequence[str] = ()  # columns of numbers that are codes
    raw: bool = False  # numbers as they are, without a table pipeline
    impute: str = "median"
    text: TextFormat | None = None
    size: tuple[int, int] | None = None  # of images
    skip_unlabelled: bool = False  # leave out rows without a label or a weight

    @property
    def needs_labels(self) -> bool:
        """Whether a row without a label or a weight is an error."""
        return not (self.skip_unlabelled or self.skip_missing)


@dataclass(frozen=True)
class Labelled:
    """Rows with labels in memory, ready to fit or to judge."""

    X: Any  # a dataframe, a pyarrow table whose names scikit-learn sees, or an array
    y: npt.NDArray[Any]
    weight: npt.NDArray[np.float64] | None
    notes: list[str] = field(default_factory=list)  # what was left out
    places: npt.NDArray[np.intp] | None = None  # in the table, if rows may be left out

    def in_table(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """Tell which rows of the table, from 0, these rows are."""
        return rows if self.places is None else self.places[rows]

    def blocks(self) -> Iterable["Labelled"]:
        """Give all rows at once."""
        return [self]

    def array(self) -> Any:
        """Make an array or dataframe of the rows, with the names of features if they have any."""
        if isinstance(self.X, np.ndarray) or hasattr(self.X, "iloc"):
            return self.X
        rows = np.column_stack([column.to_numpy() for column in self.X.columns])
        return NamedArray.of(rows, self.X.column_names)


@dataclass(frozen=True)
class Template:
    """What rows must be like: the features and the kind of labels of a model."""

    names: list[str] | None
    n_features: int
    has_text_labels: bool
    kinds: Mapping[str, Any] | None = None  # kinds of columns; None if rows are no dataframes

    @classmethod
    def of(cls, rows: Any) -> "Template":
        """Take the features and labels of other rows."""
        if isinstance(rows, LargeTable):
            return cls(rows.names, len(rows.names), rows.has_text_labels)
        if hasattr(rows, "kinds"):
            return cls(list(rows.kinds), len(rows.kinds), rows.has_text_labels, rows.kinds)
        names = list(rows.X.columns) if hasattr(rows.X, "iloc") else None
        names = rows.X.column_names if isinstance(rows.X, pa.Table) else names
        return cls(names, rows.X.shape[1], rows.y.dtype.kind in "UO")


class LargeTable(BlockSource):
    """Labelled rows of a table that is read block by block, again and again.

    Parameters
    ----------
    path : Path
    table : SelectedTable
    wanted : Wanted
    notes : list of str
    memory_mb : float
    """

    names: list[str]

    def __init__(
        self, path: Path, table: SelectedTable, wanted: Wanted, notes: list[str], memory_mb: float
    ) -> None:
        self._path, self._table, self._wanted = path, table, wanted
        self.names, self.notes, self.memory_mb = table.names, notes, memory_mb

    def __iter__(self) -> Iterator[Batch]:
        """Start to read from the beginning."""
        assert self._wanted.label is not None
        for part in self._table.parts():
            lost = _missing(part, self._table.names, self._wanted)
            if lost.refused.any():
                rows = part.first_row + 1, part.first_row + len(part.X)
                raise InputError(
                    f"{self._path.name}, rows {rows[0]:,} to {rows[1]:,}: {lost}. {lost.remedy}"
                )
            if lost.any_row.any():
                part = part.take(~lost.any_row)
            labels = part.labels(self._wanted.label)
            yield Batch(part.X, labels, part.weight, part.where)

    def blocks(self) -> Iterator[Labelled]:
        """Read rows with the names of their features."""
        for batch in self:
            yield Labelled(_named(batch.X, self.names), batch.y, batch.weight)

    @property
    def has_text_labels(self) -> bool:
        """Whether labels are text."""
        return self._table.has_text_labels


def read_numbers(path: Path, wanted: Wanted, like: Template | None = None) -> Labelled:
    """Read labelled rows of numbers into memory.

    Parameters
    ----------
    path : Path
        A table, or an `.npz` file.
    wanted : Wanted
        What to take from it.
    like : Template, optional
        What the rows must be like.
    """
    if is_array_file(path):
        return _from_arrays(path, wanted, like)
    files = open_inputs(path, wanted.text)
    notes: list[str] = []
    return _read(files[0], _select(files, wanted, like, notes), wanted, like, notes)


def open_numbers(
    path: Path, wanted: Wanted, like: Template | None = None
) -> "Labelled | LargeTable":
    """Read rows of numbers into memory, or prepare to read them in blocks if they are many."""
    if is_array_file(path):
        return _from_arrays(path, wanted, like)
    files = open_inputs(path, wanted.text)
    file = files[0]
    notes: list[str] = []
    table = _select(files, wanted, like, notes)
    n_bytes = table.count_rows() * len(table.names) * table.dtype.itemsize
    room = total_memory() // MEMORY_SHARE
    if n_bytes <= room:
        return _read(file, table, wanted, like, notes)
    memory_mb = room / 2**20
    table = _select(files, wanted, like, [], memory_mb)
    notes.append(
        f"{path.name} takes {file_size(n_bytes)}, more than {file_size(room)}, which is 1/"
        f"{MEMORY_SHARE} of the memory: it is read in blocks, again in every pass."
    )
    large = LargeTable(path, table, wanted, notes, memory_mb)
    if like is not None and large.has_text_labels != like.has_text_labels:
        check_label_kind(path, next(iter(large)).y, like)
    return large


def labels_and_weights(file: TableFile, wanted: Wanted, path: Path) -> Selection:
    """Select the columns of labels and weights that the options name; `path` is for messages."""
    if wanted.label is None:
        raise InputError(
            f"Name the column of labels with --label; {path.name} has {listing(file.names, 12)}."
        )
    check_column(file, wanted.label, "--label")
    if wanted.weight is not None:
        check_column(file, wanted.weight, "--weight")
    return Selection(wanted.label, wanted.weight)


def chosen_columns(selection: Selection, file: TableFile, wanted: Wanted) -> Selection:
    """Add the features that the options name, and the columns that they leave out."""
    drop = checked_names(file, wanted.drop, "--drop")
    columns = None
    if wanted.columns is not None:
        columns = checked_names(file, wanted.columns, "--columns")
    return replace(selection, drop=drop, columns=columns)


def checked_names(file: TableFile, given: Sequence[str], option: str) -> list[str]:
    """List the columns that an option names, one by one or with commas between them."""
    names: list[str] = []
    for text in given:
        for name in [text] if text in file.names else text.split(","):
            check_column(file, name, option)
            names.append(name)
    return names


def take_rows(X: Any, which: npt.NDArray[Any]) -> Any:
    """Take rows of a dataframe, a pyarrow table or an array, by index."""
    if hasattr(X, "iloc"):
        return X.iloc[which]
    return X.take(which) if isinstance(X, pa.Table) else X[which]


def named_columns(columns: Sequence[Any], names: Sequence[str]) -> Any:
    """Put number columns together so that scikit-learn sees their names."""
    narrow = all(pa.types.is_float32(column.type) for column in columns)
    kind = pa.float32() if narrow else pa.float64()
    return pa.table([pc.cast(column, kind) for column in columns], names=list(names))


def describe_missing(counts: dict[str, int], any_row: npt.NDArray[np.bool_]) -> str:
    """Count missing values by column, and the rows that have any."""
    most = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    found = listing([f"{name} ({plural(counts[name], 'row')})" for name in most])
    return f"{count_missing(any_row)}, in {found}"


def remedy(*, features: bool) -> str:
    """Say what to do about missing values: of features, or only of labels and weights."""
    option = "--skip-missing" if features else "--skip-unlabelled"
    return f"Fill them in, or leave these rows out with {option}."


def count_missing(bad: npt.NDArray[np.bool_]) -> str:
    """Count rows with missing values."""
    count = int(bad.sum())
    have = "has" if count == 1 else "have"
    return f"{count:,} of {plural(len(bad), 'row')} {have} missing values"


@dataclass(frozen=True)
class _Missing:
    """Where values are missing."""

    counts: dict[str, int]  # by column
    any_row: npt.NDArray[np.bool_]
    refused: npt.NDArray[np.bool_]  # the rows that no option leaves out
    in_features: bool  # whether a feature is missing in any of these

    @classmethod
    def of(
        cls,
        counts: dict[str, int],
        holes: npt.NDArray[np.bool_],
        no_label: npt.NDArray[np.bool_],
        wanted: Wanted,
    ) -> "_Missing":
        """Tell rows with a hole in a feature and rows without a label apart."""
        any_row = holes | no_label
        refused = any_row
        if wanted.skip_missing:
            refused = np.zeros_like(any_row)
        elif wanted.skip_unlabelled:
            refused = holes & ~no_label
        return cls(counts, any_row, refused, bool((holes & refused).any()))

    @property
    def remedy(self) -> str:
        """Say what to do about them."""
        return remedy(features=self.in_features)

    def __str__(self) -> str:
        return describe_missing(self.counts, self.any_row)

    def joined(self, other: "_Missing") -> "_Missing":
        """Add the rows after these."""
        counts = {name: count + other.counts[name] for name, count in self.counts.items()}
        return _Missing(
            counts,
            np.concatenate([self.any_row, other.any_row]),
            np.concatenate([self.refused, other.refused]),
            self.in_features or other.in_features,
        )


def _select(
    files: Sequence[TableFile],
    wanted: Wanted,
    like: Template | None,
    notes: list[str],
    memory_mb: float | None = None,
) -> SelectedTable:
    """Choose columns as the options say, or as a model needs them."""
    file = files[0]
    selection = labels_and_weights(file, wanted, file.path)
    if like is None:
        selection = chosen_columns(selection, file, wanted)
        others = OtherColumns.LEAVE_OUT if wanted.numeric_only else OtherColumns.REFUSE
        selection = replace(selection, other_columns=others)
    else:
        kind = LabelKind.TEXT if like.has_text_labels else LabelKind.AS_STORED
        columns = _columns_like(file, like, wanted, notes)
        selection = replace(selection, columns=columns, label_kind=kind)
    with in_options():
        table = SelectedTable(files, selection, memory_mb)
    if table.index:
        notes.append(describe_index(table.index))
    if table.left_out:
        notes.append(f"Left out, not numbers: {listing(table.left_out)}.")
    return table


def _columns_like(file: TableFile, like: Template, wanted: Wanted, notes: list[str]) -> list[str]:
    if like.names is not None:
        return check_model_columns(file, like.names)
    names = possible_features(file, (wanted.label, wanted.weight, *wanted.drop), notes)
    check_names(file, names)
    if len(names) != like.n_features:
        raise InputError(
            f"{file.path.name} has {len(names)} features, the training rows {like.n_features}."
        )
    return names


def _read(
    file: TableFile,
    table: SelectedTable,
    wanted: Wanted,
    like: Template | None,
    notes: list[str],
) -> Labelled:
    """Read all rows, and leave out those with missing values if that is wanted."""
    assert wanted.label is not None
    parts: list[TablePart] = []
    found: list[_Missing] = []
    for part in table.parts():
        found.append(_missing(part, table.names, wanted))
        parts.append(part)
    lost = found[0]
    for more in found[1:]:
        lost = lost.joined(more)
    if lost.refused.any():
        raise InputError(f"{file.path.name}: {lost}. {lost.remedy}")
    if lost.any_row.any():
        if lost.any_row.all():
            raise InputError(f"{file.path.name}: {lost}. {NO_ROW_LEFT}")
        notes.append(f"Left out: {lost}.")
        parts = [part.take(~mask.any_row) for part, mask in zip(parts, found, strict=True)]
    y = np.concatenate([part.labels(wanted.label) for part in parts if len(part.X)])
    weights = [part.weight for part in parts if part.weight is not None]
    weight = np.concatenate(weights).astype(np.float64) if weights else None
    if like is not None:
        check_label_kind(file.path, y, like)
    columns = [np.concatenate([part.X[:, j] for part in parts]) for j in range(len(table.names))]
    places = np.flatnonzero(~lost.any_row)
    return Labelled(pa.table(columns, names=table.names), y, weight, notes, places)


def _missing(part: TablePart, names: list[str], wanted: Wanted) -> _Missing:
    """Find missing features, labels and weights."""
    assert wanted.label is not None
    mask = np.isnan(part.X)
    counts = dict(zip(names, mask.sum(axis=0).tolist(), strict=True))
    others = unlabelled(part, wanted)
    counts |= {name: int(lost.sum()) for name, lost in others.items()}
    no_label = np.logical_or.reduce(list(others.values()))
    return _Missing.of(counts, mask.any(axis=1), no_label, wanted)


def unlabelled(part: TablePart, wanted: Wanted) -> dict[str, npt.NDArray[np.bool_]]:
    """Find rows without a label or a weight, by the name of the column."""
    assert wanted.label is not None
    found = {wanted.label: part.missing_labels()}
    if wanted.weight is not None and part.weight is not None:
        found[wanted.weight] = np.isnan(part.weight.astype(np.float64))
    return found


def _named(X: npt.NDArray[Any], names: Sequence[str]) -> Any:
    return pa.table([pa.array(np.ascontiguousarray(column)) for column in X.T], names=list(names))


def check_label_kind(path: Path, y: npt.NDArray[Any], like: Template) -> None:
    """Raise an error unless labels are text where those of the model are, and else numbers."""
    if (y.dtype.kind == "U") != like.has_text_labels:
        kinds = {True: "text", False: "numbers"}
        found = y.dtype.kind == "U"
        raise InputError(
            f"{path.name}: the labels are {kinds[found]}, such as {y[0]!s}, those of the "
            f"model are {kinds[not found]}."
        )


def _from_arrays(path: Path, wanted: Wanted, like: Template | None) -> Labelled:
    names = [wanted.array, wanted.label or "y"]
    X, y, *rest = read_arrays(path, [*names, wanted.weight] if wanted.weight else names)
    if X.dtype.kind not in "biuf":
        raise InputError(f"{path.name}: array {names[0]!r} is of type {X.dtype}, not numbers.")
    if X.ndim < 2 or not len(X):
        raise InputError(f"{path.name}: array {names[0]!r} has shape {X.shape}; rows are needed.")
    if y.shape != X.shape[:1] or any(w.shape != X.shape[:1] for w in rest):
        raise InputError(
            f"{path.name}: {names[1]!r} has shape {y.shape}; {names[0]!r} has {len(X)} rows."
        )
    X = X.reshape(len(X), -1)
    X = X if X.dtype == np.float32 else X.astype(np.float64)
    floats = [values for values in (y, *rest) if values.dtype.kind == "f"]
    no_label = np.logical_or.reduce([np.zeros(len(X), dtype=bool), *map(np.isnan, floats)])
    lost, notes = _Missing.of({}, np.isnan(X).any(axis=1), no_label, wanted), []
    used = np.flatnonzero(~lost.any_row)
    if len(used) < len(X):
        what = count_missing(lost.any_row)
        if lost.refused.any():
            raise InputError(f"{path.name}: {what}. {lost.remedy}")
        if not len(used):
            raise InputError(f"{path.name}: {what}. No row is left.")
        X, y, rest = X[used], y[used], [w[used] for w in rest]
        notes.append(f"Left out: {what}.")
    if y.dtype.kind == "f":
        check_float_labels(y, f"Array {names[1]!r}")
    y = y.astype(str) if y.dtype.kind in "SO" else y
    if like is not None:
        if X.shape[1] != like.n_features:
            raise InputError(
                f"{path.name} has {X.shape[1]} features, the training rows {like.n_features}."
            )
        check_label_kind(path, y, like)
        X = X if like.names is None else _named(X, like.names)
    return Labelled(X, y, rest[0].astype(np.float64) if rest else None, notes, used)
