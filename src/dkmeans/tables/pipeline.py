"""`table_pipeline`: a scikit-learn pipeline from the columns of a table to classes."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.tables.kinds import Kind, kinds_of
from dkmeans.tables.roles import describe_left_out, find_left_out
from dkmeans.tables.statistics import TableStatistics
from dkmeans.tables.values import to_levels, to_numbers

Impute: TypeAlias = Literal["median", "mean"]
MIN_FREQUENCY = 0.01
_STEPS = {  # names of the transformers, by the kind of their columns
    Kind.NUMBER: "numbers",
    Kind.BOOLEAN: "booleans",
    Kind.DATE: "dates",
    Kind.CATEGORY: "categories",
}


def table_pipeline(
    table: Any,
    estimator: Any = None,
    *,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    impute: Impute = "median",
    min_frequency: float = MIN_FREQUENCY,
) -> Pipeline:
    """Make a pipeline that turns the columns of a table into features, and classifies them.

    It is an ordinary `Pipeline` of scikit-learn's own transformers, not yet fitted. Missing numbers
    are replaced, and numbers are scaled; categories are one-hot encoded, with rare values pooled
    in one feature and unknown values ignored; Booleans become 0 and 1; dates become days, which are
    scaled like numbers.

    Columns that are no features are left out, with a warning that says why: those that count the
    rows, text that is different in every row or never frequent, and columns of a single value.

    Parameters
    ----------
    table : DataFrame, pyarrow schema, or mapping from str to str
        The rows to fit, a dataframe of pandas or polars. Or only its schema: that of pyarrow, or a
        mapping from names of columns to kinds: "number", "boolean", "date" or "category". No column
        of a schema is left out, as its values are not known.
    estimator : estimator, optional
        The last step. By default `DiscriminativeKMeans()`.
    label : str, optional
        Column of the class labels, if the table has it; it is no feature.
    columns : sequence of str, optional
        Columns that are features, whatever their values. By default all that look like features.
    drop : sequence of str, default=()
        Columns that are no features.
    kinds : mapping from str to str, optional
        Kinds of some columns, such as `{"postcode": "category"}` for numbers that are codes.
    impute : {"median", "mean"}, default="median"
        What missing numbers are replaced by.
    min_frequency : float, default=0.01
        Share of the rows that a category needs to get a feature of its own; others are pooled.

    Returns
    -------
    pipeline : Pipeline
        The steps are "columns", a `ColumnTransformer`, and "model".

    Raises
    ------
    AmbiguousColumnError
        If a column may be an identifier or a feature.

    Examples
    --------
    >>> import pandas as pd
    >>> from dkmeans import DiscriminativeKMeans, table_pipeline
    >>> table = pd.DataFrame({
    ...     "height": [1.62, 1.75, None, 1.81] * 5,
    ...     "colour": ["red", "blue", "blue", None] * 5,
    ...     "member": [True, False, True, True] * 5,
    ... })
    >>> y = ["a", "b", "b", "a"] * 5
    >>> pipeline = table_pipeline(table, DiscriminativeKMeans(4)).fit(table, y)
    >>> pipeline[:-1].get_feature_names_out().tolist()
    ['height', 'member', 'colour_blue', 'colour_red', 'colour_nan']
    >>> float(pipeline.score(table, y))
    1.0
    """
    if impute not in ("median", "mean"):
        raise ValueError(f"impute={impute!r} is not accepted: it must be 'median' or 'mean'.")
    found = kinds_of(table)
    _check_names(table, found, [label] if label is not None else [], drop, columns, kinds)
    wanted = found if columns is None else {name: found[name] for name in columns}
    wanted = {name: kind for name, kind in wanted.items() if name != label and name not in drop}
    wanted |= {n: k for n, k in kinds_of(dict(kinds or {})).items() if n in wanted}
    if columns is None and hasattr(table, "columns") and not hasattr(table, "field"):
        statistics = TableStatistics(wanted)
        statistics.add(table)
        reasons = find_left_out(wanted, statistics, min_frequency, kinds or ())
        if reasons:
            warnings.warn(f"Left out: {describe_left_out(reasons)}.", stacklevel=2)
        wanted = {name: kind for name, kind in wanted.items() if name not in reasons}
    return build_pipeline(wanted, estimator, impute=impute, min_frequency=min_frequency)


def build_pipeline(
    kinds: Mapping[str, Kind],
    estimator: Any = None,
    *,
    impute: Impute = "median",
    min_frequency: float = MIN_FREQUENCY,
) -> Pipeline:
    """Make the pipeline for columns of these kinds, all of them features."""
    unknown = [name for name, kind in kinds.items() if kind is Kind.UNKNOWN]
    if unknown:
        raise ValueError(
            f"Column {unknown[0]!r} is neither numbers, text, Booleans nor dates: drop it, or "
            "convert it first."
        )
    if not kinds:
        raise ValueError("The table has no column that can be a feature.")
    steps = {
        Kind.NUMBER: _pipeline(imputer=_imputer(impute), scaler=StandardScaler()),
        Kind.BOOLEAN: _pipeline(numbers=_conversion(), imputer=_imputer("most_frequent")),
        Kind.DATE: _pipeline(
            numbers=_conversion(), imputer=_imputer(impute), scaler=StandardScaler()
        ),
        Kind.CATEGORY: _pipeline(levels=_conversion(to_levels), encoder=_encoder(min_frequency)),
    }
    groups = {kind: [n for n, found in kinds.items() if found is kind] for kind in steps}
    transformers = [(_STEPS[kind], steps[kind], names) for kind, names in groups.items() if names]
    preprocessing = ColumnTransformer(transformers, verbose_feature_names_out=False)
    model = DiscriminativeKMeans() if estimator is None else estimator
    return Pipeline([("columns", preprocessing), ("model", model)])


def kinds_of_pipeline(pipeline: Any) -> dict[str, Kind] | None:
    """Tell the kinds of the columns of a pipeline that `table_pipeline` made, else None."""
    first = pipeline.steps[0][1] if isinstance(pipeline, Pipeline) else None
    if not isinstance(first, ColumnTransformer):
        return None
    kinds = {step: kind for kind, step in _STEPS.items()}
    found: dict[str, Kind] = {}
    for step, _, names in first.transformers:
        if step not in kinds or isinstance(names, str) or not all(type(n) is str for n in names):
            return None
        found |= dict.fromkeys(names, kinds[step])
    return found


def fit_preprocessing(pipeline: Pipeline, statistics: TableStatistics) -> ColumnTransformer:
    """Fit the first step of a pipeline of `build_pipeline` to the statistics of a table.

    The result is the one of its `fit` on all rows, up to rounding, and does not depend on the order
    of the rows.

    Returns
    -------
    preprocessing : ColumnTransformer
        The fitted first step, which replaces the one of the pipeline.
    """
    preprocessing: ColumnTransformer = pipeline.steps[0][1]
    used = kinds_of_pipeline(pipeline)
    assert used is not None
    kinds = {name: used[name] for name in statistics.kinds if name in used}  # as in the table
    categories = {step: t for step, t, _ in preprocessing.transformers}.get("categories")
    encoder = None if categories is None else categories.named_steps["encoder"]
    frequency = MIN_FREQUENCY if encoder is None else encoder.min_frequency
    frame = _stand_in(kinds, statistics, frequency)
    if encoder is not None:
        encoder.set_params(min_frequency=2)  # the stand-in has rare levels once
    preprocessing.fit(frame)
    if encoder is not None:
        encoder.set_params(min_frequency=frequency)
        fitted = preprocessing.named_transformers_["categories"].named_steps["encoder"]
        fitted.set_params(min_frequency=frequency)
    medians = statistics.medians()
    for step, _, names in preprocessing.transformers:
        if step != "categories":
            _set_statistics(preprocessing.named_transformers_[step], names, statistics, medians)
    return preprocessing


def _set_statistics(
    steps: Pipeline, names: Sequence[str], statistics: TableStatistics, medians: dict[str, float]
) -> None:
    """Put means, medians and deviations into an imputer and a scaler, as their `fit` does."""
    imputer = steps.named_steps["imputer"]
    columns = [statistics.numbers[name] for name in names]
    if imputer.strategy == "median":
        values = [medians[name] for name in names]
    else:
        values = [column.moments.mean_and_variance()[0] for column in columns]
    if imputer.strategy == "most_frequent":  # of 0 and 1; the smaller of equals
        values = [float(value > 0.5) for value in values]
    imputer.statistics_ = np.array(values)
    if "scaler" not in steps.named_steps:
        return
    moments = [
        column.moments.mean_and_variance(column.n_missing, value)
        for column, value in zip(columns, values, strict=True)
    ]
    scaler = steps.named_steps["scaler"]
    scaler.mean_ = np.array([mean for mean, _ in moments])
    scaler.var_ = np.array([variance for _, variance in moments])
    scaler.scale_ = np.where(scaler.var_ > 0, np.sqrt(scaler.var_), 1.0)
    scaler.n_samples_seen_ = statistics.n_rows


def _stand_in(kinds: Mapping[str, Kind], statistics: TableStatistics, frequency: float) -> Any:
    """Make a small table with the same levels: frequent ones at least twice, others once."""
    import pandas as pd

    least = frequency * statistics.n_rows
    columns: dict[str, Any] = {}
    for name, kind in kinds.items():
        if kind is not Kind.CATEGORY:
            continue
        column = statistics.levels[name]
        counts: dict[Any, int] = dict(column.counts)
        if column.n_missing:
            counts[np.nan] = column.n_missing
        frequent = [level for level, count in counts.items() if count >= least]
        rare = [level for level, count in counts.items() if count < least]
        columns[name] = [*rare, *frequent, *frequent]
    n = max([2, *map(len, columns.values())])
    for name, kind in kinds.items():
        if kind is Kind.CATEGORY:
            levels = columns[name]
            values = np.empty(n, dtype=object)
            values[: len(levels)] = levels
            values[len(levels) :] = levels[-1:]  # frequent, as the column is a feature
            columns[name] = values
        else:
            columns[name] = np.arange(n) % 2.0
    return pd.DataFrame({name: columns[name] for name in kinds})


def _check_names(
    table: Any,
    found: Mapping[str, Kind],
    label: Sequence[str],
    drop: Sequence[str],
    columns: Sequence[str] | None,
    kinds: Mapping[str, str] | None,
) -> None:
    """Refuse names that are not those of columns."""
    if hasattr(table, "iloc") and not all(isinstance(name, str) for name in table.columns):
        raise ValueError("Names of columns must be text: rename them, as with columns.astype(str).")
    given = {"label": label, "drop": drop, "columns": columns or (), "kinds": kinds or ()}
    for parameter, names in given.items():
        for name in names:
            if name not in found:
                raise ValueError(
                    f"{parameter}: the table has no column {name!r}; it has {list(found)[:12]}."
                )


def _pipeline(**steps: Any) -> Pipeline:
    return Pipeline(list(steps.items()))


def _imputer(strategy: str) -> SimpleImputer:
    return SimpleImputer(strategy=strategy, keep_empty_features=True)


def _encoder(min_frequency: float) -> OneHotEncoder:
    return OneHotEncoder(handle_unknown="ignore", min_frequency=min_frequency, sparse_output=False)


def _conversion(function: Any = to_numbers) -> FunctionTransformer:
    return FunctionTransformer(function, feature_names_out="one-to-one")
