"""`dkmeans condense`: a small table that stands for a large one."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dkmeans.cli.array_files import is_array_file
from dkmeans.cli.console import plural, say, stderr, stdout
from dkmeans.cli.errors import InputError
from dkmeans.cli.fit_command import in_option_names
from dkmeans.cli.frame_rows import FrameRows
from dkmeans.cli.inputs import check_input, holds_images, resolve_input
from dkmeans.cli.labelled_rows import Labelled, Wanted
from dkmeans.cli.output_files import STDOUT, check_free, output_format, table_writer
from dkmeans.cli.rows import read_rows, whole
from dkmeans.cli.table_input import open_inputs
from dkmeans.condenser import Condensed, condense
from dkmeans.data.column_values import is_text, with_points
from dkmeans.tables.units import in_original_units


def run_condense(
    path: Path,
    wanted: Wanted,
    *,
    n: str,
    keep: str,
    out: Path,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Write a few rows, or prototypes in the units of the columns, and their weights."""
    path = resolve_input(path)
    check_free(out, path, force=force)
    output_format(out)
    check_input(path)
    if is_array_file(path) or holds_images(path):
        raise InputError(f"{path.name} is no table: only tables are condensed here.")
    rows = read_rows(path, wanted)
    columns: Any = rows.pipeline(None)[0] if isinstance(rows, FrameRows) else None
    if not quiet:
        for note in rows.notes:
            say(stderr(), note)
    data = whole(rows)
    if isinstance(rows, FrameRows):
        X = columns.transform(data.X[list(rows.kinds)])
    else:
        X = np.asarray(data.array())
    budget: Any = _budget(n)
    kind: Any = keep
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        small = condense(X, data.y, budget, keep=kind, sample_weight=data.weight)
    for warning in caught if not quiet else ():
        say(stderr(), f"Note: {in_option_names(str(warning.message))}")
    if small.indices is not None:
        table = _rows(path, wanted, data.in_table(small.indices), small.weight)
    else:
        table = _prototypes(columns, data, small, wanted)
    with table_writer(out) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    if out != STDOUT and not quiet:
        what = "rows" if small.indices is not None else "prototypes"
        say(
            stdout(),
            f"{plural(len(data.y), 'row')} condensed to {len(small.y):,} {what} in {out}, with "
            "their weights in the column weight.",
        )


def _budget(text: str) -> Any:
    if text == "auto":
        return text
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise InputError(
            f"--n {text}: it must be a number of rows, a share between 0 and 1, or auto."
        ) from None


def _rows(
    path: Path,
    wanted: Wanted,
    chosen: npt.NDArray[np.integer],
    weight: npt.NDArray[np.floating],
) -> Any:
    """Take rows of the table as they are written there, with points in decimals."""
    order = np.argsort(chosen)
    parts, start = [], 0
    for file in open_inputs(path, wanted.text):
        types = dict.fromkeys(file.names, pa.string()) if file.is_text else None
        for batch in file.batches(types=types):
            inside = (chosen >= start) & (chosen < start + batch.num_rows)
            which = np.sort(chosen[inside]) - start
            some = batch.take(pa.array(which))
            columns = [
                with_points(column, file.decimal) if is_text(column.type) else column
                for column in some.columns
            ]
            parts.append(pa.RecordBatch.from_arrays(columns, schema=some.schema))
            start += batch.num_rows
    table = pa.Table.from_batches(parts).combine_chunks()
    return table.append_column(_free(table.column_names), pa.array(weight[order]))


def _prototypes(columns: Any, data: Labelled, small: Condensed, wanted: Wanted) -> Any:
    assert wanted.label is not None
    centers: npt.NDArray[Any] = np.asarray(small.X)
    if columns is None:
        values: dict[str, Any] = dict(zip(data.X.column_names, centers.T, strict=True))
    else:
        values = in_original_units(columns, centers)
    values[wanted.label] = small.y.tolist()
    values[_free(list(values))] = small.weight
    return pa.table({name: pa.array(value) for name, value in values.items()})


def _free(names: list[str]) -> str:
    """Name the column of weights; a name that is taken gets a prefix."""
    name = "weight"
    while name in names:
        name = f"condensed_{name}"
    return name
