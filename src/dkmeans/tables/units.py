"""Rows of a table pipeline's features in the units of the table's columns."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.tables.values import MICROSECONDS_PER_DAY


def in_original_units(columns: Any, X: npt.NDArray[np.floating]) -> dict[str, npt.NDArray[Any]]:
    """Convert features back to numbers, dates and shares of categories.

    Parameters
    ----------
    columns : ColumnTransformer
        The fitted first step of a table pipeline.
    X : array of shape (n_rows, n_features)
        Features, such as the centres of prototypes.

    Returns
    -------
    values : dict from str to array
        For each feature, in order: numbers in the column's unit, dates as text, the share of true
        for Booleans, and the share of each level ("column=level") for categories.

    Examples
    --------
    >>> import pandas as pd
    >>> from dkmeans import DiscriminativeKMeans, table_pipeline
    >>> from dkmeans.tables import in_original_units
    >>> table = pd.DataFrame({"height": [1.5, 1.75, 1.75, 2.0], "colour": ["red", "blue"] * 2})
    >>> estimator = DiscriminativeKMeans(2, refine=None, metric="euclidean")
    >>> model = table_pipeline(table, estimator).fit(table, ["a", "a", "b", "b"])
    >>> for name, values in in_original_units(model[0], model[-1].cluster_centers_).items():
    ...     print(name, values)
    height [1.625 1.875]
    colour=blue [0.5 0.5]
    colour=red [0.5 0.5]
    """
    values: dict[str, npt.NDArray[Any]] = {}
    at = 0
    for step, transformer, names in columns.transformers_:
        if step == "remainder":
            continue
        width = len(transformer.get_feature_names_out(names))
        part = np.asarray(X[:, at : at + width], dtype=np.float64)
        at += width
        if step == "categories":
            values |= dict(
                zip(_levels(transformer.named_steps["encoder"], names), part.T, strict=True)
            )
            continue
        scaler = transformer.named_steps.get("scaler")
        part = part if scaler is None else part * scaler.scale_ + scaler.mean_
        for name, column in zip(names, part.T, strict=True):
            values[name] = _dates(column) if step == "dates" else column
    return values


def _levels(encoder: Any, names: Any) -> list[str]:
    """Name the features of a one-hot encoder."""
    found = []
    for name, levels, rare in zip(
        names, encoder.categories_, encoder.infrequent_categories_, strict=True
    ):
        pooled = set() if rare is None else {str(level) for level in rare}
        kept = [level for level in levels if str(level) not in pooled]
        found += [f"{name}={'missing' if level != level else level}" for level in kept]
        found += [f"{name}=other"] if pooled else []
    return found


def names_of_features(columns: Any) -> list[str]:
    """Name the features of a table pipeline's first step; levels are "column=level"."""
    found: list[str] = []
    for step, transformer, names in columns.transformers_:
        if step == "categories":
            found += _levels(transformer.named_steps["encoder"], names)
        elif step != "remainder":
            found += [str(name) for name in names]
    return found


def _dates(days: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    stamps = np.rint(days * MICROSECONDS_PER_DAY).astype("datetime64[us]").astype("datetime64[s]")
    whole = bool((stamps == stamps.astype("datetime64[D]")).all())
    return np.datetime_as_string(stamps, unit="D" if whole else "s")


def columns_of_features(columns: Any) -> list[str]:
    """Name the column that each feature of a table pipeline's first step comes from."""
    found: list[str] = []
    for step, transformer, names in columns.transformers_:
        if step == "remainder":
            continue
        for j, name in enumerate(names):
            width = 1
            if step == "categories":
                encoder = transformer.named_steps["encoder"]
                rare = encoder.infrequent_categories_[j]
                n_rare = 0 if rare is None else len(rare)
                width = len(encoder.categories_[j]) - n_rare + (n_rare > 0)
            found += [name] * width
    return found
