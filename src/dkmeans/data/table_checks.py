"""Checks of tables on disk, before anything is made of what pyarrow read."""

import csv
import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from dkmeans.data.blocks import SourceError
from dkmeans.data.text_files import find_not_utf8, starts_as_utf16

_TEXT_FORMATS = ("CSV", "TSV")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # names of an index that has none
_UNNAMED = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?(\.\d+)?")  # the latter by pandas
_READ_ERRORS = (
    pa.ArrowException,
    OSError,
    EOFError,
    UnicodeError,
    csv.Error,
    zlib.error,
)


class UnnamedColumnError(SourceError):
    """A feature has no name, so it is probably an index.

    Attributes
    ----------
    problem : str
        What is wrong, without what to do.
    column : str
    """

    def __init__(self, problem: str, column: str) -> None:
        remedy = "write the table without it (index=False), or name the features with `columns`"
        super().__init__(f"{problem}: {remedy}.")
        self.problem, self.column = problem, column


@contextmanager
def readable(path: Path, format: str) -> Iterator[None]:
    """Turn what pyarrow says of a file that it cannot read into one sentence."""
    try:
        yield
    except _READ_ERRORS as error:
        place = find_not_utf8(path) if format in _TEXT_FORMATS else None
        if place is not None:
            source = "from UTF-16 with iconv -f UTF-16"
            if not starts_as_utf16(path):
                source = "for instance from Latin-1 with iconv -f LATIN1"
            raise SourceError(
                f"{path} is not encoded in UTF-8, as {place}: convert it first, {source} -t UTF-8."
            ) from error
        raise SourceError(f"{path} cannot be read as {format}: {_first_line(error)}") from error


def check_intact(data: Any, name: str) -> None:
    """Check a record batch to the last value.

    Pyarrow takes offsets and lengths as a file has them: wrong ones would lead out of the memory
    of the process, and end it.
    """
    try:
        data.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SourceError(
            f"{name} is damaged ({_first_line(error)}): get or write the file again."
        ) from error


def check_column_names(names: Sequence[str], name: str) -> None:
    """Refuse columns of the same name."""
    twice = [column or "''" for column, count in Counter(names).items() if count > 1]
    if twice:
        more = f" and {len(twice) - 8} more" if len(twice) > 8 else ""
        raise SourceError(
            f"{name} has several columns of one name: {', '.join(twice[:8])}{more}. Give each "
            "column a name of its own."
        )


def index_columns(schema: Any) -> list[str]:
    """Find the columns in which pandas has stored the index of a table."""
    try:
        about = json.loads((schema.metadata or {})[b"pandas"])
        written = {column for column in about["index_columns"] if isinstance(column, str)}
    except (ValueError, KeyError, TypeError):
        written = set()  # pandas has not written it
    return [name for name in schema.names if name in written or _PANDAS_INDEX.fullmatch(name)]


def check_features_named(names: Sequence[str], features: Collection[str], name: str) -> None:
    """Refuse features without a name, as an index has none in a CSV file that pandas wrote.

    Parameters
    ----------
    names, features : sequences of str
        All columns, and those that are features.
    name : str
        What to call the file.
    """
    chosen = set(features)
    for place, column in enumerate(names, 1):
        if column in chosen and _UNNAMED.fullmatch(column):
            raise UnnamedColumnError(
                f"{name}: column {place} has no name ({column!r}), so it is probably an index that "
                "pandas wrote",
                column,
            )


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
