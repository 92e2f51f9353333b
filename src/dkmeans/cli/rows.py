"""Labelled rows from a file: features, the label, weights, and what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dkmeans.cli.console import plural
from dkmeans.cli.errors import InputError, listing
from dkmeans.cli.tables import (
    TableFile,
    format_of,
    is_numeric,
    kind_of,
    numbers,
    open_table,
    read_arrays,
)
from dkmeans.data.table_checks import check_named, loses_digits, no_label


@dataclass(frozen=True)
class Wanted:
    """What to take from a file, as the options say."""

    label: str | None = None
    weight: str | None = None
    drop: Sequence[str] = ()
    numeric_only: bool = False
    skip_missing: bool = False
    array: str = "X"  # name of the rows in an .npz file


@dataclass(frozen=True)
class Labelled:
    """Rows with labels, ready to fit or to judge."""

    X: Any  # a pyarrow table, whose names scikit-learn sees, or an array
    y: npt.NDArray[Any]
    weight: npt.NDArray[np.float64] | None
    notes: list[str]  # what was left out

    def __len__(self) -> int:
        return len(self.y)


def read_labelled(path: Path, wanted: Wanted, like: Any = None) -> Labelled:
    """Read labelled rows.

    Parameters
    ----------
    path : Path
        CSV, TSV, Parquet, Feather, or an `.npz` file.
    wanted : Wanted
        What to take from it.
    like : Labelled, optional
        Rows whose features and kind of label these must have.
    """
    if format_of(path) == "npz":
        return _from_arrays(path, wanted, like)
    file = open_table(path)
    if wanted.label is None:
        raise InputError(
            f"Name the column of labels with --label; {path.name} has {listing(file.names, 12)}."
        )
    file.check_column(wanted.label, "--label")
    if wanted.weight is not None:
        file.check_column(wanted.weight, "--weight")
    if like is None:
        for name in wanted.drop:
            file.check_column(name, "--drop")
    as_text = like is not None and like.y.dtype.kind in "UO"
    table = file.read({wanted.label: pa.string()} if as_text else None)
    if file.is_text and loses_digits(table.column(wanted.label)):
        table = file.read({wanted.label: pa.string()})
    if not table.num_rows:
        raise InputError(f"{path.name} has column names, but no rows.")
    notes: list[str] = []
    if like is None:
        names = _features(file, table, wanted, notes)
    else:
        names = _columns_like(file, like, wanted, notes)
    return _check_labels(path, _gather(file, table, names, wanted, notes), like)


def named(columns: Sequence[Any], names: Sequence[str]) -> Any:
    """Put number columns together so that scikit-learn sees their names."""
    narrow = all(pa.types.is_float32(column.type) for column in columns)
    kind = pa.float32() if narrow else pa.float64()
    return pa.table([pc.cast(column, kind) for column in columns], names=list(names))


def _check_labels(path: Path, rows: Labelled, like: Labelled | None) -> Labelled:
    """Make sure that labels are text where those of the model are, and numbers where they are."""
    if like is not None and (rows.y.dtype.kind == "U") != (like.y.dtype.kind in "UO"):
        kinds = {True: "text", False: "numbers"}
        found = rows.y.dtype.kind == "U"
        raise InputError(
            f"{path.name}: the labels are {kinds[found]}, such as {rows.y[0]!s}, those of the "
            f"model are {kinds[not found]}."
        )
    return rows


def _features(file: TableFile, table: Any, wanted: Wanted, notes: list[str]) -> list[str]:
    names = feature_names(file, (wanted.label, wanted.weight, *wanted.drop), notes)
    others = [name for name in names if not is_numeric(table.schema.field(name).type)]
    if others and not wanted.numeric_only:
        found = listing([_example(table, name) for name in others])
        options = " ".join(f"--drop {_quoted(name)}" for name in others[:3])
        options += " ..." if len(others) > 3 else ""
        raise InputError(
            f"{file.path.name} has columns that are not numbers: {found}. Leave them out with "
            f"{options}, or all of their kind with --numeric-only."
        )
    if others:
        notes.append(f"Left out, not numbers: {listing(others)}.")
    names = [name for name in names if name not in set(others)]
    if not names:
        raise InputError(f"{file.path.name} has no column of numbers beside the label.")
    check_features(file, names)
    return names


def feature_names(file: TableFile, others: Sequence[str | None], notes: list[str]) -> list[str]:
    """List the columns of a table that may be features: no others, and no index of pandas."""
    index = [name for name in file.index if name not in others]
    if index:
        notes.append(f"Left out, the index that pandas stored: {listing(index)}.")
    left_out = {*others, *index}
    return [name for name in file.names if name not in left_out]


def check_features(file: TableFile, names: Sequence[str]) -> None:
    """Make sure that features have names."""
    remedy = "leave it out with --drop {}, or give it a name"
    check_named(file.names, names, file.path.name, remedy=remedy)


def _columns_like(file: TableFile, like: Labelled, wanted: Wanted, notes: list[str]) -> list[str]:
    if isinstance(like.X, pa.Table):
        return needed_columns(file, like.X.column_names)
    width = like.X.shape[1]
    names = feature_names(file, (wanted.label, wanted.weight, *wanted.drop), notes)
    check_features(file, names)
    if len(names) != width:
        raise InputError(f"{file.path.name} has {len(names)} features, the training rows {width}.")
    return names


def needed_columns(file: TableFile, names: Sequence[str]) -> list[str]:
    """Make sure that a table has all the columns of a model."""
    there = set(file.names)
    missing = [name for name in names if name not in there]
    if len(missing) == 1:
        file.check_column(missing[0], "The model needs a column that is not there")
    if missing:
        raise InputError(
            f"{file.path.name} lacks {plural(len(missing), 'column')} that the model needs: "
            f"{listing(missing)}. It has {listing(file.names, 12)}."
        )
    return list(names)


def _gather(
    file: TableFile, table: Any, names: list[str], wanted: Wanted, notes: list[str]
) -> Labelled:
    assert wanted.label is not None
    columns = {name: numbers(table.column(name), name) for name in names}
    weights = None
    if wanted.weight is not None:
        weights = numbers(table.column(wanted.weight), wanted.weight)
    with file.readable():
        label = _plain(table.column(wanted.label))

    lost = {name: missing(column) for name, column in columns.items()}
    lost[wanted.label] = no_label(label)
    if wanted.weight is not None:
        lost[wanted.weight] = missing(weights)
    bad = np.logical_or.reduce(list(lost.values()))
    if bad.any():
        what = describe_missing(lost, bad)
        if not wanted.skip_missing:
            raise InputError(
                f"{file.path.name}: {what}. Fill them in, or leave these rows out with "
                "--skip-missing."
            )
        if bad.all():
            raise InputError(f"{file.path.name}: {what}. No row is left.")
        notes.append(f"Left out: {what}.")
        keep = pa.array(~bad)
        columns = {name: column.filter(keep) for name, column in columns.items()}
        label = label.filter(keep)
        weights = None if weights is None else weights.filter(keep)
    y = _labels(label, wanted.label)
    weight = None if weights is None else weights.to_numpy().astype(np.float64)
    return Labelled(named(list(columns.values()), names), y, weight, notes)


def missing(column: Any) -> npt.NDArray[np.bool_]:
    """Tell where a column of numbers has none, NaN included."""
    mask = pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
    return np.asarray(mask, dtype=bool)


def describe_missing(lost: dict[str, npt.NDArray[np.bool_]], bad: npt.NDArray[np.bool_]) -> str:
    """Count missing values by column, and the rows that have any."""
    counts = {name: int(mask.sum()) for name, mask in lost.items() if mask.any()}
    most = sorted(counts, key=lambda name: -counts[name])
    found = listing([f"{name} ({plural(counts[name], 'row')})" for name in most])
    return f"{lacking(bad)}, in {found}"


def lacking(bad: npt.NDArray[np.bool_]) -> str:
    """Count rows with missing values."""
    count = int(bad.sum())
    have = "has" if count == 1 else "have"
    return f"{count:,} of {plural(len(bad), 'row')} {have} missing values"


def _plain(column: Any) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return pc.cast(column, kind.value_type)
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "True", "False")
    if is_numeric(kind) and not pa.types.is_decimal(kind):
        return column
    return pc.cast(column, pa.string())


def _labels(label: Any, name: str) -> npt.NDArray[Any]:
    if pa.types.is_string(label.type) or pa.types.is_large_string(label.type):
        return np.array(label.to_pylist(), dtype=str)
    return whole_labels(label.to_numpy(), f"Column {name!r}")


def whole_labels(y: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Take whole numbers as integers; fractions are no labels."""
    if y.dtype.kind == "f":
        whole = np.isfinite(y) & (y == np.rint(y))
        if not whole.all():
            raise InputError(
                f"{where} has values such as {y[~whole][0]:g}: labels must be text or integers."
            )
        if loses_digits(pa.array(y)):
            raise InputError(
                f"{where} has floats such as {np.abs(y).max():g}, which may stand for several "
                "whole numbers: store labels as integers or text."
            )
        return y.astype(np.int64)
    return y.astype(str) if y.dtype.kind in "bSO" else y


def _from_arrays(path: Path, wanted: Wanted, like: Any) -> Labelled:
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
    bad, notes = np.isnan(X).any(axis=1), []
    if bad.any():
        what = lacking(bad)
        if not wanted.skip_missing or bad.all():
            raise InputError(
                f"{path.name}: {what}. Fill them in, or leave these rows out with --skip-missing."
            )
        X, y, rest = X[~bad], y[~bad], [w[~bad] for w in rest]
        notes.append(f"Left out: {what}.")
    y = whole_labels(y, f"Array {names[1]!r}")
    if like is not None:
        if X.shape[1] != like.X.shape[1]:
            raise InputError(
                f"{path.name} has {X.shape[1]} features, the training rows {like.X.shape[1]}."
            )
        if isinstance(like.X, pa.Table):
            X = named([pa.array(column) for column in X.T], like.X.column_names)
    weight = rest[0].astype(np.float64) if rest else None
    return _check_labels(path, Labelled(X, y, weight, notes), like)


def _example(table: Any, name: str) -> str:
    column = table.column(name)
    kind = kind_of(column.type)
    if kind == "text":
        value = next((v for v in column.slice(0, 100).to_pylist() if v), "")
        kind += f", such as {value[:20]!r}" if value else ""
    return f"{name} ({kind})"


def _quoted(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f"'{name}'"
