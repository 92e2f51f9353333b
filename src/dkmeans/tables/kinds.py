"""Kinds of columns: what each becomes in a table pipeline."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What a column of a table holds."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"  # or time
    CATEGORY = "category"
    UNKNOWN = "unknown"  # nothing that a feature can be made of


_OBJECT_KINDS = {  # what pandas.api.types.infer_dtype finds in columns of Python objects
    "boolean": Kind.BOOLEAN,
    "decimal": Kind.NUMBER,
    "integer": Kind.NUMBER,
    "floating": Kind.NUMBER,
    "mixed-integer-float": Kind.NUMBER,
    "date": Kind.DATE,
    "datetime": Kind.DATE,
    "datetime64": Kind.DATE,
    "timedelta": Kind.DATE,
    "string": Kind.CATEGORY,
    "empty": Kind.NUMBER,
}
_POLARS_KINDS = {  # by the beginning of the name of the type
    "Boolean": Kind.BOOLEAN,
    "Date": Kind.DATE,  # Datetime, too
    "Duration": Kind.DATE,
    "String": Kind.CATEGORY,
    "Utf8": Kind.CATEGORY,
    "Categorical": Kind.CATEGORY,
    "Enum": Kind.CATEGORY,
    "Int": Kind.NUMBER,
    "UInt": Kind.NUMBER,
    "Float": Kind.NUMBER,
    "Decimal": Kind.NUMBER,
    "Null": Kind.NUMBER,
}


def kinds_of(table: Any) -> dict[str, Kind]:
    """Tell the kinds of the columns of a dataframe, of a pyarrow schema, or of a mapping."""
    if isinstance(table, Mapping):
        return {str(name): _named(name, kind) for name, kind in table.items()}
    if hasattr(table, "iloc"):
        return {str(name): _of_pandas(table[name]) for name in table.columns}
    if _module(table) == "polars":
        return {name: _of_polars(kind) for name, kind in table.schema.items()}
    if _module(table) == "pyarrow":
        schema = table if hasattr(table, "field") and not hasattr(table, "column") else table.schema
        return {name: of_arrow(schema.field(name).type) for name in schema.names}
    raise TypeError(
        "table must be a dataframe of pandas or polars, a pyarrow schema or table, or a dict from "
        f"names of columns to kinds, not {type(table).__name__}."
    )


def of_arrow(kind: Any) -> Kind:
    """Tell the kind of a type of pyarrow."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return Kind.BOOLEAN
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Kind.NUMBER
    if types.is_null(kind):
        return Kind.NUMBER
    if types.is_temporal(kind):
        return Kind.DATE
    is_text = str(kind) in ("string", "large_string", "string_view")
    return Kind.CATEGORY if is_text else Kind.UNKNOWN


def _named(name: Any, kind: Any) -> Kind:
    try:
        return Kind(kind)
    except ValueError:
        known = ", ".join(repr(str(k)) for k in Kind if k is not Kind.UNKNOWN)
        raise ValueError(
            f"Column {name!r} has the kind {kind!r}: it must be one of {known}."
        ) from None


def _of_pandas(series: Any) -> Kind:
    from pandas import CategoricalDtype, api

    dtype, types = series.dtype, api.types
    if isinstance(dtype, CategoricalDtype):
        return Kind.CATEGORY
    if types.is_bool_dtype(dtype):
        return Kind.BOOLEAN
    if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        return Kind.DATE
    if types.is_numeric_dtype(dtype):
        return Kind.UNKNOWN if types.is_complex_dtype(dtype) else Kind.NUMBER
    if hasattr(dtype, "pyarrow_dtype"):
        return of_arrow(dtype.pyarrow_dtype)
    return _OBJECT_KINDS.get(types.infer_dtype(series, skipna=True), Kind.UNKNOWN)


def _of_polars(dtype: Any) -> Kind:
    name = str(dtype)
    return next(
        (kind for start, kind in _POLARS_KINDS.items() if name.startswith(start)), Kind.UNKNOWN
    )


def _module(table: Any) -> str:
    return type(table).__module__.partition(".")[0]
