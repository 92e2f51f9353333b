"""Tables on disk as dataframes with columns of all kinds, block by block."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dkmeans.data.blocks import SourceError
from dkmeans.data.column_values import as_numbers, describe_type, is_text
from dkmeans.data.table_formats import TableFile
from dkmeans.data.tables import SelectedTable, Selection, TablePart
from dkmeans.data.text_types import join_types
from dkmeans.tables.kinds import Kind, of_arrow
from dkmeans.tables.values import MICROSECONDS_PER_DAY


class MixedTable(SelectedTable):
    """Labelled rows of one or more files of one format, with columns of all kinds.

    Its parts have dataframes instead of arrays: numbers, Booleans and dates are floats, and
    categories are Python text, with NaN where values are missing.

    Parameters
    ----------
    files : sequence of TableFile
    selection : Selection
    memory_mb : float, optional
        For blocks and what is made of them.
    kinds : mapping from str to Kind, optional
        Kinds of some columns; others are as the table has them.

    Attributes
    ----------
    kinds : dict from str to Kind
        Kinds of the features.
    """

    _skipping = ", or pass `skip_unlabelled=True`"

    def __init__(
        self,
        files: Sequence[TableFile],
        selection: Selection,
        memory_mb: float | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        self.kinds: dict[str, Kind] = dict(kinds or {})
        super().__init__(files, selection, memory_mb)

    def _choose(self, candidates: list[str]) -> list[str]:
        """Take all columns, and find out what kind each is."""
        for name in candidates:
            joined = join_types(types[name] for types in self._types)
            self.kinds.setdefault(name, of_arrow(joined))
        self.kinds = {name: self.kinds[name] for name in candidates}
        if not candidates:
            raise SourceError(
                f"{self._first.path} has no column beside {self._selection.label!r}: features are "
                "needed, too."
            )
        return candidates

    def _batches(self, file: TableFile, types: dict[str, Any]) -> Iterator[Any]:
        if not file.is_text:
            return super()._batches(file, types)
        parsed = {name: _parsed_as(types[name], self.kinds[name]) for name in self.names}
        if self._selection.weight is not None:
            parsed[self._selection.weight] = pa.float64()
        parsed[self._selection.label] = self._label_type
        return file.batches(self._used, parsed, self._step)

    def _part(self, batches: list[Any], file: TableFile, first: int) -> TablePart:
        frames, labels, weights, row = [], [], [], first + 1
        for batch in batches:
            frames.append(to_frame(batch, self.kinds, row, file.decimal))
            with file.readable():
                labels.append(self._plain_labels(batch))
            if self._selection.weight is not None:
                name = self._selection.weight
                numbers = as_numbers(batch.column(name), name, row, file.decimal)
                weights.append(numbers.to_numpy(zero_copy_only=False))
            row += batch.num_rows
        frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
        weight = np.concatenate(weights) if weights else None
        return TablePart(frame, pa.concat_arrays(labels), weight, file, first)


def read_frames(
    files: Sequence[TableFile], names: Sequence[str], given: Mapping[str, Kind] | None = None
) -> tuple[dict[str, Kind], Iterator[pd.DataFrame]]:
    """Read columns of files of one format, without labels, block by block.

    Parameters
    ----------
    files : sequence of TableFile
    names : sequence of str
        Columns.
    given : mapping from str to Kind, optional
        Kinds of some of them.

    Returns
    -------
    kinds : dict from str to Kind
    frames : iterator of DataFrame
        Those of known kind.
    """
    found = [file.types(list(names)) for file in files]
    joined = {name: join_types(types[name] for types in found) for name in names}
    kinds = {name: (given or {}).get(name, of_arrow(kind)) for name, kind in joined.items()}

    def frames() -> Iterator[pd.DataFrame]:
        for file, types in zip(files, found, strict=True):
            parsed = {name: _parsed_as(types[name], kinds[name]) for name in names}
            first = 1
            for batch in file.batches(names, parsed if file.is_text else None):
                yield to_frame(batch, kinds, first, file.decimal)
                first += batch.num_rows

    return kinds, frames()


def to_frame(
    batch: Any, kinds: Mapping[str, Kind], first_row: int = 1, decimal: str = "."
) -> pd.DataFrame:
    """Make a dataframe of columns of a record batch, as a table pipeline takes them.

    Parameters
    ----------
    batch : RecordBatch
    kinds : mapping from str to Kind
        Columns, in order.
    first_row : int
        Number of the first row in its file, for messages.
    decimal : str
        Decimal point of numbers that are text.
    """
    columns = {
        name: to_values(batch.column(name), kind, name, first_row, decimal)
        for name, kind in kinds.items()
        if kind is not Kind.UNKNOWN
    }
    return pd.DataFrame(columns, copy=False)


def to_values(
    column: Any, kind: Kind, name: str, first_row: int = 1, decimal: str = "."
) -> npt.NDArray[Any]:
    """Make an array of a column: floats, or for categories text, with NaN for missing values."""
    if kind is Kind.CATEGORY:
        return _levels(column)
    if kind is Kind.DATE and not _is_plain_number(column.type):
        return _days(column, name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    numbers = as_numbers(column, name, first_row, decimal)
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def _levels(column: Any) -> npt.NDArray[np.object_]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_text(column.type):
        column = pc.cast(column, pa.string())
    values = column.to_numpy(zero_copy_only=False).astype(object)
    values[pc.equal(column, "").fill_null(True).to_numpy(zero_copy_only=False)] = np.nan
    return values


def _days(column: Any, name: str) -> npt.NDArray[np.float64]:
    """Convert dates to days since 1970, times of day and durations to days."""
    kind = column.type
    try:
        if is_text(kind):
            # Take rows by number: `if_else` of pyarrow 15 makes invalid text of parts of arrays.
            rows = pa.array(np.arange(len(column)))
            column = column.take(pc.if_else(pc.equal(column, ""), pa.scalar(None, rows.type), rows))
            column = _parsed_dates(column)
        elif pa.types.is_time(kind):
            column = pc.cast(column, pa.time64("us"), safe=False)
        elif pa.types.is_duration(kind):
            column = pc.cast(column, pa.duration("us"), safe=False)
        else:
            column = pc.cast(column, pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        numbers = pc.cast(pc.cast(column, pa.int64()), pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SourceError(
            f"Column {name!r} is {describe_type(kind)}, where dates such as 2024-05-31 are needed."
        ) from None
    return np.asarray(numbers.to_numpy(zero_copy_only=False)) / MICROSECONDS_PER_DAY


def _parsed_dates(column: Any) -> Any:
    try:
        return pc.cast(column, pa.timestamp("us"))
    except pa.ArrowInvalid:  # with a time zone, or a time alone
        try:
            return pc.cast(column, pa.timestamp("us", "UTC"))
        except pa.ArrowInvalid:
            return pc.cast(column, pa.time64("us"))


def _parsed_as(found: Any, kind: Kind) -> Any:
    """Choose what to parse a column of text as."""
    if kind in (Kind.NUMBER, Kind.BOOLEAN):
        plain = pa.types.is_boolean(found) or _is_plain_number(found) or pa.types.is_null(found)
        if plain:
            return pa.bool_() if pa.types.is_boolean(found) else pa.float64()
    return pa.string()


def _is_plain_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
