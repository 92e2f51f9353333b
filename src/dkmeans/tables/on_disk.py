"""`fit_table`: a table pipeline fitted to a table on disk, block by block."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from dkmeans.tables.kinds import Kind, kinds_of
from dkmeans.tables.pipeline import MIN_FREQUENCY, Impute, build_pipeline, fit_preprocessing
from dkmeans.tables.roles import describe_left_out, find_left_out
from dkmeans.tables.statistics import TableStatistics


def fit_table(
    path: str | PathLike[str],
    label: str,
    estimator: Any = None,
    *,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    impute: Impute = "median",
    min_frequency: float = MIN_FREQUENCY,
    skip_unlabelled: bool = False,
    memory_mb: float | None = None,
) -> Pipeline:
    """Fit a `table_pipeline` to a table on disk, which may be larger than the memory.

    The table is read in blocks: once for the statistics of all columns, then again in every pass of
    the fit. Means, deviations and counts of categories are exact, and medians are those of a
    sample of the rows, chosen by a hash of their values; they are exact up to about a million rows
    of eight columns. The result does not depend on the size of blocks or the order of rows.

    Parameters
    ----------
    path : str or path
        A file (`.csv`, `.tsv`, `.parquet`, `.feather`; text may end in `.gz`), or a folder of files
        of one kind.
    label : str
        Column of the class labels.
    estimator : DiscriminativeKMeans, optional
        The last step. By default `DiscriminativeKMeans()`.
    weight : str, optional
        Column of weights of the rows.
    columns, drop, kinds, impute, min_frequency
        As in `table_pipeline`.
    skip_unlabelled : bool, default=False
        Whether rows without a label are left out, instead of an error.
    memory_mb : float, optional
        For blocks and what is made of them, in MiB.

    Returns
    -------
    pipeline : Pipeline
        Fitted, with the steps "columns" and "model".

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from dkmeans import DiscriminativeKMeans, fit_table
    >>> path = Path(tempfile.mkdtemp()) / "iris.csv"
    >>> load_iris(as_frame=True).frame.to_csv(path, index=False)
    >>> pipeline = fit_table(path, "target", DiscriminativeKMeans(6))
    >>> pipeline[-1].n_clusters_
    6
    """
    from dkmeans.data.tables import Selection, open_tables
    from dkmeans.tables.reading import MixedTable

    if not isinstance(path, str | PathLike):
        raise TypeError(
            f"path is a {type(path).__name__}, but fit_table reads a file: pass its path, or use "
            "table_pipeline for a table in memory."
        )
    given = kinds_of(dict(kinds or {}))
    selection = Selection(label, weight, columns, tuple(drop), skip_unlabelled=skip_unlabelled)
    table = MixedTable(open_tables(Path(path)), selection, memory_mb, given)
    statistics = TableStatistics(table.kinds)
    for batch in table:
        statistics.add(batch.X)
    if not statistics.n_rows:
        raise ValueError(f"No row of {path} has a label in column {label!r}.")
    used = _features(table, statistics, columns, given, min_frequency)
    pipeline = build_pipeline(used, estimator, impute=impute, min_frequency=min_frequency)
    preprocessing = fit_preprocessing(pipeline, statistics)

    def blocks() -> Iterator[tuple[Any, ...]]:
        for batch in table:
            more = () if batch.weight is None else (batch.weight,)
            yield preprocessing.transform(batch.X), batch.y, *more

    pipeline[-1].fit(blocks)
    return pipeline


def _features(
    table: Any,
    statistics: TableStatistics,
    columns: Sequence[str] | None,
    given: Mapping[str, Kind],
    min_frequency: float,
) -> dict[str, Kind]:
    """Choose the features, and warn of columns that are left out."""
    kinds: dict[str, Kind] = table.kinds
    if columns is not None:
        return kinds
    reasons = find_left_out(kinds, statistics, min_frequency, given)
    reasons |= dict.fromkeys(table.index, "the index that pandas stored")
    if reasons:
        warnings.warn(f"Left out: {describe_left_out(reasons)}.", stacklevel=3)
    return {name: kind for name, kind in kinds.items() if name not in reasons}
