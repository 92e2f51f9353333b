"""Types of columns in text files, such that all values fit them.

Parsing text with the types of its first block is fast, and fits most files. Where a later value
does not fit, all values are tried: integers, Booleans, floats, dates, in this order, or else text.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dkmeans.data.column_values import has_inexact_integers, is_text, with_points
from dkmeans.data.text_files import NULL_VALUES

_BOOLEANS = ("1", "True", "TRUE", "true", "0", "False", "FALSE", "false")


@dataclass(frozen=True)
class TextTypes:
    """Types of columns, and the number of rows that were read to find them."""

    types: dict[str, Any]
    n_rows: int


@dataclass(frozen=True)
class TypeGuess:
    """Types of columns in the first block of a text file."""

    found: dict[str, Any]
    exact: Collection[str]

    @property
    def columns(self) -> list[str]:
        """Columns to confirm; if all are text, one of them, to count the rows."""
        return list(self.types) or list(self.found)[:1]

    @property
    def types(self) -> dict[str, Any]:
        """What to parse these columns as."""
        chosen = {}
        for name, kind in self.found.items():
            is_plain = pa.types.is_boolean(kind) or pa.types.is_temporal(kind)
            if is_plain or (name in self.exact and not is_text(kind)):
                chosen[name] = kind
            elif _is_number(kind) or pa.types.is_null(kind):
                chosen[name] = pa.float64()
        return chosen

    def confirm(self, batches: Iterable[Any]) -> TextTypes:
        """Read the rest of the file; pyarrow raises an error if a value does not fit."""
        types = self.found | self.types
        exact = [name for name in self.types if name in self.exact]
        empty = {name for name, kind in self.found.items() if pa.types.is_null(kind)}
        n_rows = 0
        for batch in batches:
            n_rows += batch.num_rows
            empty = {name for name in empty if batch.column(name).null_count == batch.num_rows}
            for name in exact:
                if has_inexact_integers(batch.column(name)):
                    types[name] = pa.string()
        return TextTypes(types | dict.fromkeys(empty, pa.null()), n_rows)


def infer_types(first: Any, columns: Sequence[str], exact: Collection[str]) -> TypeGuess | None:
    """Take the types that pyarrow inferred for the first block.

    None if they say too little, as a column that must stay exact has no value in it.
    """
    if first is None:
        return TypeGuess(dict.fromkeys(columns, pa.null()), ())
    found = {name: first.schema.field(name).type for name in columns}
    if any(pa.types.is_null(found[name]) for name in columns if name in exact):
        return None
    return TypeGuess(found, exact)


def try_types(
    batches: Iterable[Any], columns: Sequence[str], exact: Collection[str], decimal: str = "."
) -> TextTypes:
    """Find the first type that fits all values of each column.

    Parameters
    ----------
    batches : iterable of record batches
        The whole file, with these columns as text.
    columns : sequence of str
    exact : collection of str
        Columns that are text if they would lose digits as numbers.
    decimal : str
        Decimal point.
    """
    fitting = {name: dict(_TRIED) for name in columns}
    empty, n_rows = set(columns), 0
    for batch in batches:
        n_rows += batch.num_rows
        for name in columns:
            text = pc.utf8_trim_whitespace(batch.column(name))
            values = text.filter(pc.invert(pc.is_in(text, pa.array(NULL_VALUES))))
            if not len(values):
                continue
            values = with_points(values, decimal)
            empty.discard(name)
            fits = fitting[name]
            for kind in [kind for kind, test in fits.items() if not test(values)]:
                del fits[kind]
            as_floats = name in exact and "integer" not in fits and "float" in fits
            if as_floats and has_inexact_integers(pc.cast(values, pa.float64())):
                del fits["float"]
    types = {name: _TYPES[next(iter(fits), "text")] for name, fits in fitting.items()}
    return TextTypes(types | dict.fromkeys(empty, pa.null()), n_rows)


def join_types(kinds: Iterable[Any]) -> Any:
    """Find the type that fits a column in several files."""
    known = [kind for kind in kinds if not pa.types.is_null(kind)]
    if not known:
        return pa.null()
    if all(kind == known[0] for kind in known):
        return known[0]
    return pa.float64() if all(map(_is_number, known)) else pa.string()


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _converts_to(kind: Any) -> Callable[[Any], bool]:
    def test(values: Any) -> bool:
        try:
            pc.cast(values, kind)
        except pa.ArrowInvalid:
            return False
        return True

    return test


def _are_booleans(values: Any) -> bool:
    return bool(np.all(pc.is_in(values, pa.array(_BOOLEANS))))


_TRIED: dict[str, Callable[[Any], bool]] = {
    "integer": _converts_to(pa.int64()),
    "Boolean": _are_booleans,
    "float": _converts_to(pa.float64()),
    "date": _converts_to(pa.timestamp("us")),
}
_TYPES = {
    "integer": pa.int64(),
    "Boolean": pa.bool_(),
    "float": pa.float64(),
    "date": pa.timestamp("us"),
    "text": pa.string(),
}
