"""Tables on disk as blocks of rows without labels, for questions about a model."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.blocks import Paths, SourceError, as_floats, rows_per_block
from dkmeans.data.column_values import to_array
from dkmeans.data.table_formats import TableFile
from dkmeans.data.tables import open_tables, parsed_as


def read_features(
    path: Paths, names: Sequence[str] | None, memory_mb: float | None
) -> Iterator[tuple[npt.NDArray[np.floating], str]]:
    """Read some columns of files, or of all files of folders, and say where each block is from.

    Parameters
    ----------
    path : str, Path, or sequence of them
    names : sequence of str or None
        Columns, which are read as numbers; None for all.
    memory_mb : float or None
    """
    for file in open_tables(path):
        wanted = list(file.names if names is None else names)
        missing = [name for name in wanted if name not in set(file.names)]
        if missing:
            raise SourceError(
                f"{file.path} has no column {missing[0]!r}, which the model was fitted on."
            )
        first = 0
        for batch in _batches(file, wanted, memory_mb):
            columns = [to_array(batch.column(name), name, first + 1) for name in wanted]
            dtype = as_floats([column.dtype for column in columns])
            rows = np.empty((batch.num_rows, len(columns)), dtype)
            for j, column in enumerate(columns):
                rows[:, j] = column
            yield rows, f"{file.path}, rows from {first}"
            first += batch.num_rows


def _batches(file: TableFile, names: list[str], memory_mb: float | None) -> Iterator[Any]:
    step = rows_per_block(memory_mb, len(names), 8)
    if not file.is_text:
        return file.batches(names, rows=step)
    types = file.types(names, [])
    return file.batches(names, {name: parsed_as(types[name]) for name in names}, step)
