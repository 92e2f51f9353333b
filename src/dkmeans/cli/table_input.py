"""Tables as commands see them: the library's reader, with errors that speak of options."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from dkmeans.cli.array_files import SUFFIX, is_array_file
from dkmeans.cli.console import plural
from dkmeans.cli.errors import InputError, check_exists, listing, suggestion
from dkmeans.data.table_checks import UnnamedColumnError, check_features_named
from dkmeans.data.table_formats import SUFFIXES, TableFile, format_of
from dkmeans.data.tables import NotNumbersError, open_tables
from dkmeans.data.text_files import TextFormat


def check_format(path: Path) -> None:
    """Raise an error if the name of a file does not tell that it holds a table or arrays."""
    if is_array_file(path) or format_of(path) is not None:
        return
    suffix = path.suffix.lower()
    if suffix == ".gz":
        raise InputError(f"{path.name}: of compressed files, only .csv.gz and .tsv.gz are read.")
    if suffix in (".xlsx", ".xls", ".ods"):
        raise InputError(f"{path.name}: spreadsheets are not read: save it as CSV in UTF-8 first.")
    what = f"The extension {suffix!r}" if suffix else "A name without extension"
    known = ", ".join([*SUFFIXES, SUFFIX])
    raise InputError(f"{path.name}: {what} does not tell the format; it must be one of {known}.")


def is_data_file(path: Path) -> bool:
    """Tell by the name whether a file holds a table or arrays."""
    return is_array_file(path) or format_of(path) is not None


def open_inputs(path: Path, text: TextFormat | None = None) -> list[TableFile]:
    """Open a table, or a folder of tables."""
    if path.is_dir():
        return open_tables(path, text)
    check_exists(path)
    check_format(path)
    if is_array_file(path):
        raise InputError(f"{path.name} holds arrays, where a table is needed.")
    return open_tables(path, text)


def text_format(sep: str | None, decimal: str | None) -> TextFormat:
    """Read how text is written: what separates columns, and the decimal point."""
    names = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
    sep = names.get(sep, sep) if sep is not None else None
    if sep is not None and len(sep) != 1:
        raise InputError(f"--sep {sep}: it must be a single character, or tab.")
    decimal = names.get(decimal, decimal) if decimal is not None else None
    if decimal is not None and (decimal not in (".", ",") or decimal == sep):
        raise InputError(f"--decimal {decimal}: it must be . or , and not what separates columns.")
    return TextFormat(sep, decimal)


def check_column(file: TableFile, name: str, option: str) -> None:
    """Raise an error if a table has no such column."""
    if name not in file.names:
        header = " Its first line must name the columns." if any(map(_is_value, file.names)) else ""
        raise InputError(
            f"{option}: {file.path.name} has no column {name!r}; "
            f"{suggestion(name, file.names)}{header}"
        )


def _is_value(text: str) -> bool:
    """Whether it is a number with a decimal point, and no name."""
    try:
        return "." in text and isfinite(float(text))
    except ValueError:
        return False


def check_model_columns(file: TableFile, names: Sequence[str]) -> list[str]:
    """Raise an error unless a table has all the columns of a model."""
    there = set(file.names)
    missing = [name for name in names if name not in there]
    if len(missing) == 1:
        check_column(file, missing[0], "The model needs a column that is not there")
    if missing:
        raise InputError(
            f"{file.path.name} lacks {plural(len(missing), 'column')} that the model needs: "
            f"{listing(missing)}. It has {listing(file.names, 12)}."
        )
    return list(names)


def possible_features(file: TableFile, others: Sequence[str | None], notes: list[str]) -> list[str]:
    """List the columns that may be features: no others, and no index of pandas."""
    index = [name for name in file.index if name not in others]
    if index:
        notes.append(describe_index(index))
    left_out = {*others, *index}
    return [name for name in file.names if name not in left_out]


def check_names(file: TableFile, features: Sequence[str]) -> None:
    """Raise an error if a feature has no name."""
    with in_options():
        check_features_named(file.names, features, str(file.path))


def describe_index(index: Sequence[str]) -> str:
    """Say that the index of pandas is no feature."""
    return f"Left out, the index that pandas stored: {listing(index)}."


@contextmanager
def in_options() -> Iterator[None]:
    """Turn errors of the reader into errors that name options."""
    try:
        yield
    except UnnamedColumnError as error:
        raise InputError(
            f"{error.problem}: leave it out with --drop {error.column!r}, or give it a name."
        ) from error
    except NotNumbersError as error:
        names = list(error.columns)
        found = listing([f"{name} ({kind})" for name, kind in error.columns.items()])
        options = " ".join(f"--drop {_quoted(name)}" for name in names[:3])
        options += " ..." if len(names) > 3 else ""
        raise InputError(
            f"{error.path} has columns that are not numbers: {found}. Leave them out with "
            f"{options}, or all of their kind with --numeric-only, or use them without --raw."
        ) from error
    except ValueError as error:
        if not hasattr(error, "problem"):
            raise
        raise InputError(_ambiguous(error)) from error


def _ambiguous(error: Any) -> str:
    """Say what to do about a column that may be a feature or not."""
    if type(error).__name__ == "DecimalCommaError":
        return f"{error.problem}: add --decimal ',', or use it as text with --category."
    name = _quoted(error.column)
    return f"{error.problem}: leave it out with --drop {name}, or name all features with --columns."


def _quoted(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f"'{name}'"
