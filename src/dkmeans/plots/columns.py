"""Prototypes as rows of a table, in the units of its columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.plots.inputs import FittedModel, dense, take_rows
from dkmeans.tables import in_original_units
from dkmeans.tables.kinds import Kind
from dkmeans.tables.pipeline import kinds_of_pipeline

_SHARES = (Kind.BOOLEAN, Kind.CATEGORY)  # of rows that are true, or that have a level


@dataclass(frozen=True)
class Column:
    """Values of the prototypes in one column, and how they are written."""

    name: str
    values: npt.NDArray[np.float64]
    texts: list[str]


def prototype_columns(
    opened: FittedModel, estimator: Any, centers: npt.NDArray[np.floating]
) -> list[Column]:
    """Return the prototypes of a model, or other points for them, column by column.

    Parameters
    ----------
    opened : FittedModel
        The model, and the steps before it.
    estimator : DiscriminativeKMeans or Pipeline
        The same as the user passed it.
    centers : ndarray of shape (n_clusters, n_features)
        Features of the model.

    Returns
    -------
    columns : list of Column
        For a table pipeline, in the units of the table: dates are dates, and each level of a
        category has its share of the rows. For other pipelines, in the units of X if the steps
        can be undone. Else the features of the model.
    """
    kinds = kinds_of_pipeline(estimator)
    if kinds is not None:
        values = in_original_units(estimator[0], centers)
        # A name that is no column is that of a level.
        shares = {name for name in values if kinds.get(name, Kind.CATEGORY) in _SHARES}
        return [
            _share(name, found) if name in shares else _column(name, found)
            for name, found in values.items()
        ]
    undone = opened.undone(centers)
    names = getattr(opened.before, "feature_names_in_", None)
    if undone is centers or names is None or len(names) != undone.shape[1]:
        named = undone.shape[1] == opened.model.n_features_in_
        names = [opened.feature(j) if named else f"x{j}" for j in range(undone.shape[1])]
    return [_column(str(name), found) for name, found in zip(names, undone.T, strict=True)]


def cell_means(opened: FittedModel, X: Any) -> npt.NDArray[np.floating]:
    """Compute the means of the rows in each cell; prototypes stand in for cells without rows."""
    rows = opened.rows(X)
    cells = opened.model.predict_cluster(rows)
    means = np.array(opened.model.cluster_centers_, dtype=np.float64)
    for cell in np.unique(cells):
        means[cell] = dense(take_rows(rows, np.flatnonzero(cells == cell))).mean(axis=0)
    return means


def _column(name: str, values: npt.NDArray[Any]) -> Column:
    if values.dtype.kind == "U":  # dates
        days = values.astype("datetime64[s]").astype(np.float64)
        return Column(name, days, [str(value)[:10] for value in values])
    numbers = values.astype(np.float64)
    return Column(name, numbers, write_numbers(numbers))


def _share(name: str, values: npt.NDArray[Any]) -> Column:
    percent = (100 * values).round() + 0.0  # no negative zero
    return Column(name, values.astype(np.float64), [f"{value:.0f} %" for value in percent])


def write_numbers(values: npt.NDArray[np.float64]) -> list[str]:
    """Write numbers with as many digits as it takes to tell most of them apart.

    Examples
    --------
    >>> import numpy as np
    >>> write_numbers(np.array([5.0061, 3.428])), write_numbers(np.array([12345.6, 0.0]))
    (['5.01', '3.43'], ['12346', '0'])
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest and (largest >= 1e6 or largest < 1e-3):
        return [f"{value:.3g}" for value in values]
    spread = float(np.ptp(values)) if len(values) else 0.0
    scale = spread or largest
    digits = 0 if not scale else int(np.clip(2 - np.floor(np.log10(scale)), 0, 6))
    texts = [f"{value:.{digits}f}" for value in values]
    return [text[1:] if not float(text) and text.startswith("-") else text for text in texts]
