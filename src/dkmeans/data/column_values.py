"""Columns of tables as numbers and as class labels."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dkmeans.data.blocks import SourceError
from dkmeans.data.text_files import NULL_VALUES

_MAX_EXACT = 2.0**53  # from here on, float64 does not have all integers


def is_numeric(kind: Any) -> bool:
    """Tell whether a type is of numbers: integers, floats, decimals or Booleans."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
    )


def is_text(kind: Any) -> bool:
    """Tell whether a type is of text."""
    return str(kind) in ("string", "large_string", "string_view")


def describe_type(kind: Any) -> str:
    """Name a type as people do."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        return "text"
    if pa.types.is_temporal(kind):
        return "date or time"
    if pa.types.is_null(kind):
        return "empty"
    is_binary = "binary" in str(kind)
    return "text in another encoding than UTF-8" if is_binary else str(kind)


def first_text(column: Any) -> str | None:
    """Find the first value of a column of text that is not a number."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    for value in column.to_pylist():
        text = str(value or "").strip()
        if text and text not in NULL_VALUES and not _is_number(text):
            return text
    return None


def with_points(column: Any, decimal: str) -> Any:
    """Write numbers that are text with a point, in place of another decimal point."""
    if decimal == ".":
        return column
    pattern = rf"^(\s*[-+]?\d*){re.escape(decimal)}(\d+([eE][-+]?\d+)?\s*)$"
    return pc.replace_substring_regex(column, pattern, r"\1.\2")


def as_numbers(column: Any, name: str, first_row: int = 1, decimal: str = ".") -> Any:
    """Convert a column to float64, with nulls where values are missing; float32 stays.

    Parameters
    ----------
    column : Array
        Text is read as numbers; a value that is none is an error.
    name : str
    first_row : int
        Number of the column's first row in its file.
    decimal : str
        Decimal point of text.
    """
    kind = column.type
    if pa.types.is_float32(kind):
        return column
    if is_text(kind):
        column = with_points(column, decimal)
        return _parse_numbers(column, name, first_row)
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    try:
        return pc.cast(column, pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SourceError(
            f"Column {name!r} is {describe_type(kind)}, where numbers are needed."
        ) from None


def to_array(column: Any, name: str, first_row: int) -> npt.NDArray[Any]:
    """Make an array of a column of numbers, with NaN where values are missing."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        column = as_numbers(column, name, first_row)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def to_labels(column: Any, name: str) -> npt.NDArray[Any]:
    """Make an array of class labels without missing ones: numbers, Booleans or text.

    Dates, decimals and all else become text.
    """
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_floating(kind):
        labels = np.asarray(column.to_numpy(zero_copy_only=False))
        check_float_labels(labels, f"Column {name!r}")
        return labels
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(str)


def check_float_labels(y: npt.NDArray[np.floating], where: str) -> None:
    """Refuse fractions, and floats that may stand for several integers."""
    whole = np.isfinite(y) & (y == np.rint(y))
    if not whole.all():
        raise SourceError(
            f"{where} has values such as {y[~whole][0]:g}: labels must be text or integers."
        )
    if len(y) and np.abs(y).max() >= _MAX_EXACT:
        raise SourceError(
            f"{where} has floats such as {np.abs(y).max():g}, which may stand for several "
            "whole numbers: store labels as integers or text."
        )


def plain_labels(column: Any) -> Any:
    """Decode dictionaries, and make text of all that is neither number, Boolean nor text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if is_numeric(kind) and not pa.types.is_decimal(kind):
        return column
    return pc.cast(column, pa.large_string())


def missing_labels(labels: Any) -> npt.NDArray[np.bool_]:
    """Tell where labels are missing: null, NaN, or text of spaces."""
    missing = pc.is_null(labels, nan_is_null=True)
    if is_text(labels.type):
        missing = pc.or_(missing, pc.equal(pc.utf8_trim_whitespace(labels), "").fill_null(True))
    return np.asarray(missing.to_numpy(zero_copy_only=False), dtype=bool)


def missing_numbers(column: Any) -> npt.NDArray[np.bool_]:
    """Tell where a column of numbers is null or NaN."""
    mask = pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
    return np.asarray(mask, dtype=bool)


def has_inexact_integers(labels: Any) -> bool:
    """Tell whether labels were read as floats so large that they may stand for several integers."""
    if not pa.types.is_floating(labels.type):
        return False
    values = np.abs(labels.to_numpy(zero_copy_only=False)) if len(labels) else np.zeros(0)
    return bool(((values >= _MAX_EXACT) & np.isfinite(values)).any())


def _parse_numbers(column: Any, name: str, first_row: int) -> Any:
    kind = column.type
    try:
        return pc.cast(column, pa.float64())  # most often there is nothing else to it
    except pa.ArrowInvalid:
        text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.is_in(text, pa.array(NULL_VALUES, kind)), pa.scalar(None, kind), text)
    lower = pc.utf8_lower(text)
    text = pc.if_else(pc.equal(lower, "true"), "1", text)
    text = pc.if_else(pc.equal(lower, "false"), "0", text)
    try:
        return pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        values = text.to_pylist()
        at = next(at for at, v in enumerate(values) if v is not None and not _is_number(v))
        hint = ""
        if re.fullmatch(r"[-+]?\d*,\d+", values[at]):
            hint = " Is the comma a decimal point? Then write points (or --decimal ,)."
        raise SourceError(
            f"Column {name!r}: {values[at]!r} in row {first_row + at:,} is not a number.{hint}"
        ) from None


def _is_number(text: str) -> bool:
    try:
        pc.cast(pa.array([text], pa.string()), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
