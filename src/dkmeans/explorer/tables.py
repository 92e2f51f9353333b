"""Tables that rows come from: read as features and labels, and written again with new labels."""

import gzip
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dkmeans.explorer.layers import Rows

SHARE = 0.2  # of the rows that is held out if a table is fitted first
MAX_HELD_OUT = 50_000
_UINT64_SPAN = 2.0**64


@dataclass(frozen=True)
class Source:
    """A table on disk, and what is read from it."""

    path: Path
    label: str
    kinds: Mapping[str, str]  # kinds of the columns that are features, in order
    weight: str | None = None
    sep: str | None = None  # as they are found out from the file, if None
    decimal: str | None = None
    text_labels: bool = False  # whether labels are text even where they look like numbers
    skip_missing: bool = False
    skip_unlabelled: bool = False


@dataclass(frozen=True)
class Origin:
    """Where the rows and the model of a session come from, so that a script can start there."""

    source: Source | None = None  # the table of the training rows
    test: Source | None = None  # the table of the held-out rows
    share: float | None = None  # of the rows that was held out by a hash
    model: Path | None = None  # the model file
    estimator: Any = None  # with the parameters of the fit, if the table was fitted first
    impute: str = "median"
    features: Literal["table", "raw", "standardised"] = "table"  # what the fit makes of columns


def read_table(source: Source) -> Rows:
    """Read the rows of a table that have a label.

    Parameters
    ----------
    source : Source
        The table. Rows without a label or a weight are an error, unless `skip_unlabelled` is set,
        or `skip_missing`, which also leaves out rows with missing features.

    Returns
    -------
    rows : Rows
    """
    import pandas as pd

    frames, labels, weights, places, first, lost_rows = [], [], [], [], 0, 0
    for part in _selected(source).parts():
        frame: Any = part.X
        lost = part.missing_labels()
        if part.weight is not None:
            lost |= np.isnan(part.weight.astype(np.float64))
        if source.skip_missing:
            lost |= frame.isna().to_numpy().any(axis=1)
        elif lost.any() and not source.skip_unlabelled:
            row = first + int(np.flatnonzero(lost)[0]) + 1
            raise ValueError(
                f"{source.path.name}: row {row} has no label or weight: fill it in, or leave such "
                "rows out."
            )
        kept = part.take(~lost)
        if len(kept.X):
            frames.append(kept.X)
            labels.append(kept.labels(source.label))
            places.append(first + np.flatnonzero(~lost))
            if kept.weight is not None:
                weights.append(kept.weight.astype(np.float64))
        first += len(lost)
        lost_rows += int(lost.sum())
    if not frames:
        raise ValueError(f"{source.path.name} has no row with a label.")
    notes = [f"Left out: {lost_rows:,} of {first:,} rows have missing values."] if lost_rows else []
    return Rows(
        pd.concat(frames, ignore_index=True),
        np.concatenate(labels),
        np.concatenate(weights) if weights else None,
        np.concatenate(places),
        notes,
    )


def held_out_rows(X: Any, y: npt.NDArray[Any], share: float = SHARE) -> npt.NDArray[np.bool_]:
    """Choose rows to hold out, by a hash of their values: identical rows stay together.

    Parameters
    ----------
    X : array or dataframe of shape (n, d)
    y : array of shape (n,)
        Classes; at least one row of each is not held out.
    share : float
        Share of the rows, about; at most 50,000 are held out.

    Returns
    -------
    held_out : array of bool of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from dkmeans.explorer.tables import held_out_rows
    >>> X = np.arange(1000.0).reshape(500, 2)
    >>> int(held_out_rows(X, np.arange(500) % 2).sum())
    95
    """
    share = min(share, MAX_HELD_OUT / max(1, len(y)))
    chosen = _mixed(_hashes(X)) < np.uint64(min(share, 1.0) * (_UINT64_SPAN - 4096))
    labels, code = np.unique(y, return_inverse=True)
    left = np.bincount(code.ravel()[~chosen], minlength=len(labels))
    return np.asarray(chosen & (left > 0)[code.ravel()])


def write_table(source: Source, labels: npt.NDArray[Any], used: npt.NDArray[np.bool_]) -> bytes:
    """Write the table again, in its format, with other labels and without some rows.

    Parameters
    ----------
    source : Source
    labels : array of objects of shape (n_rows_of_the_table,)
        New label of each row; None for those that stay as they are.
    used : array of bool of shape (n_rows_of_the_table,)
        Rows to write.
    """
    from dkmeans.data.tables import open_tables

    files = open_tables(source.path, _text(source))
    buffer, first = io.BytesIO(), 0
    writer: Any = None
    new = {label for label in labels.tolist() if label is not None}
    for file in files:
        for batch in _raw_batches(file):
            rows = slice(first, first + batch.num_rows)
            first += batch.num_rows
            if new:
                batch = _relabelled(batch, source.label, labels[rows], new)
            batch = batch.filter(_mask(used[rows]))
            if writer is None:
                writer = _writer(file, buffer, batch.schema)
            writer.write_batch(batch)
    if writer is not None:
        writer.close()
    data = buffer.getvalue()
    is_compressed = source.path.suffix.lower() == ".gz"
    return gzip.compress(data, mtime=0) if is_compressed else data


def _selected(source: Source) -> Any:
    from dkmeans.data.tables import LabelKind, Selection, open_tables
    from dkmeans.tables.kinds import Kind
    from dkmeans.tables.reading import MixedTable

    kind = LabelKind.TEXT if source.text_labels else LabelKind.AS_STORED
    selection = Selection(source.label, source.weight, list(source.kinds), label_kind=kind)
    kinds = {name: Kind(kind) for name, kind in source.kinds.items()}
    return MixedTable(open_tables(source.path, _text(source)), selection, None, kinds)


def _text(source: Source) -> Any:
    from dkmeans.data.text_files import TextFormat

    return TextFormat(source.sep, source.decimal)


def _raw_batches(file: Any) -> Iterator[Any]:
    """Read all columns; those of text files as the text that they are."""
    import pyarrow as pa

    types = {name: pa.string() for name in file.names} if file.is_text else None
    return file.batches(file.names, types)


def _writer(file: Any, buffer: Any, schema: Any) -> Any:
    if file.is_text:
        from dkmeans.data.text_files import CsvWriter

        return CsvWriter(buffer, schema, file.delimiter)
    return file.writer(buffer, schema)


def _relabelled(
    batch: Any, name: str, labels: npt.NDArray[np.object_], new: Collection[Any]
) -> Any:
    """Replace labels that are not None; `new` are all labels of the table that are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = batch.schema.get_field_index(name)
    column, field = batch.column(at), batch.schema.field(at)
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    kind = _label_type(column.type, new)
    column = column if column.type == kind else pc.cast(column, kind)
    mask = np.array([label is not None for label in labels], dtype=bool)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    values = [str(label) if is_text else label for label in labels[mask]]
    columns = [*batch.columns]
    columns[at] = pc.replace_with_mask(column, pa.array(mask), pa.array(values, type=kind))
    schema = batch.schema.set(at, field.with_type(kind))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _label_type(kind: Any, new: Collection[Any]) -> Any:
    """Choose a type for labels: the one that the column has, if it holds the new ones."""
    import pyarrow as pa

    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return kind
    try:
        pa.array(list(new), type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.int64() if all(type(label) is int for label in new) else pa.string()
    return kind


def _mask(used: npt.NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.array(used)


def _hashes(X: Any) -> npt.NDArray[np.uint64]:
    if hasattr(X, "iloc"):
        import pandas as pd

        return np.asarray(pd.util.hash_pandas_object(X, index=False), dtype=np.uint64)
    from dkmeans.questions.nearest_prototype import hashes

    return np.asarray(hashes(X))


def _mixed(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread hashes evenly over all numbers of 64 bits (the finaliser of SplitMix64)."""
    z = hashes.copy()
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
