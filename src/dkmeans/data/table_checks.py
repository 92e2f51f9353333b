"""What every reader of tables makes sure of, before anything is made of what pyarrow read."""

import csv
import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import SourceError
from dkmeans.data.text_files import is_text, not_utf8

_FORMATS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Feather",
    ".arrow": "Feather",
}
_INDEX = re.compile(r"__index_level_\d+__")  # names that pandas gives to an index without one
_NAMELESS = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?(\.\d+)?")  # the latter by pandas, again
_EXACT = 2.0**53  # from here on, float64 does not have all whole numbers


@contextmanager
def readable(path: Path, name: str) -> Iterator[None]:
    """Turn what pyarrow says of a file that it cannot read into one sentence.

    Parameters
    ----------
    path : Path
    name : str
        What to call it.
    """
    import pyarrow as pa

    wrong = pa.ArrowException, OSError, EOFError, UnicodeError, csv.Error, zlib.error
    try:
        yield
    except wrong as error:
        place = not_utf8(path) if is_text(path) else None
        if place is not None:
            raise SourceError(
                f"{name} is not encoded in UTF-8, as {place}: convert it first, for instance from "
                "Latin-1 with iconv -f LATIN1 -t UTF-8."
            ) from error
        suffix = Path(path.name.lower().removesuffix(".gz")).suffix
        raise SourceError(
            f"{name} cannot be read as {_FORMATS[suffix]}: {_first_line(error)}"
        ) from error


def sound(data: Any, name: str) -> Any:
    """Check a record batch or table to the last value, and return it.

    Pyarrow takes offsets and lengths as a file has them: wrong ones would lead out of the memory
    of the process, and end it.
    """
    import pyarrow as pa

    try:
        data.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SourceError(
            f"{name} is damaged ({_first_line(error)}): get or write the file again."
        ) from error
    return data


def check_names(names: Sequence[str], name: str) -> None:
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
    return [column for column in schema.names if column in written or _INDEX.fullmatch(column)]


def check_named(names: Sequence[str], features: Collection[str], name: str, *, remedy: str) -> None:
    """Refuse features without a name, as an index has none in a CSV file that pandas wrote.

    Parameters
    ----------
    names, features : sequences of str
        All columns, and those that are features.
    name : str
        What to call the file.
    remedy : str
        What to do, with {} where the column is to be named.
    """
    chosen = set(features)
    for place, column in enumerate(names, 1):
        if column in chosen and _NAMELESS.fullmatch(column):
            raise SourceError(
                f"{name}: column {place} has no name ({column!r}), so it is probably an index that "
                f"pandas wrote: {remedy.format(repr(column))}."
            )


def no_label(labels: Any) -> npt.NDArray[np.bool_]:
    """Tell where labels are missing: null, NaN, or text without a letter."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lost = pc.is_null(labels, nan_is_null=True)
    if pa.types.is_string(labels.type) or pa.types.is_large_string(labels.type):
        lost = pc.or_(lost, pc.equal(pc.utf8_trim_whitespace(labels), "").fill_null(True))
    return np.asarray(lost.to_numpy(zero_copy_only=False), dtype=bool)


def loses_digits(labels: Any) -> bool:
    """Tell whether labels were read as floats that may stand for several whole numbers."""
    import pyarrow as pa

    if not pa.types.is_floating(labels.type):
        return False
    values = np.abs(labels.to_numpy(zero_copy_only=False)) if len(labels) else np.zeros(0)
    return bool(((values >= _EXACT) & np.isfinite(values)).any())


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
