"""Inputs of displays: models, possibly at the end of a pipeline, and rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dkmeans.data.value_checks import check_index_arrays
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.medoid_estimator import DiscriminativeKMedoids
from dkmeans.tables.pipeline import kinds_of_pipeline
from dkmeans.tables.units import names_of_features


@dataclass(frozen=True)
class FittedModel:
    """A fitted model, and the pipeline steps before it."""

    model: Any
    before: Pipeline | None = None

    def rows(self, X: Any) -> Any:
        """Apply the pipeline steps before the model."""
        return X if self.before is None else self.before.transform(X)

    def undone(self, centers: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Undo the pipeline steps before the model, if they can be undone."""
        if self.before is None or not hasattr(self.before, "inverse_transform"):
            return centers
        return np.asarray(self.before.inverse_transform(centers))

    def feature(self, number: int) -> str:
        """Return the name of a feature of the model; "x0", "x1", ... if they have none."""
        before = self.before
        if before is not None and len(before) == 1 and kinds_of_pipeline(before) is not None:
            return names_of_features(before[0])[number]
        names = getattr(self.model, "feature_names_in_", None)
        if names is None and self.before is not None:
            try:
                names = self.before.get_feature_names_out()
            except (AttributeError, ValueError):  # some steps do not name their outputs
                names = None
        return f"x{number}" if names is None else str(names[number])

    @property
    def prototype_classes(self) -> npt.NDArray[Any]:
        """Class of each prototype, or medoid."""
        name = "medoid_classes_" if hasattr(self.model, "medoid_classes_") else "cluster_classes_"
        found: npt.NDArray[Any] = getattr(self.model, name)
        return found

    @property
    def steps(self) -> str:
        """Names of the pipeline steps before the model, for a title; may be empty."""
        if self.before is None:
            return ""
        if kinds_of_pipeline(self.before) is not None:
            return "after scaling the columns"
        return "after " + ", ".join(type(step).__name__ for _, step in self.before.steps)


def unwrap_pipeline(estimator: Any) -> FittedModel:
    """Return the fitted `DiscriminativeKMeans`, which may be the last step of a pipeline."""
    return _unwrap(estimator, (DiscriminativeKMeans,), "DiscriminativeKMeans")


def unwrap_any(estimator: Any) -> FittedModel:
    """Do the same for displays that draw medoids too."""
    kinds = (DiscriminativeKMeans, DiscriminativeKMedoids)
    return _unwrap(estimator, kinds, "DiscriminativeKMeans or DiscriminativeKMedoids")


def _unwrap(estimator: Any, kinds: tuple[type, ...], names: str) -> FittedModel:
    before = None
    model = estimator
    if isinstance(estimator, Pipeline):
        model = estimator.steps[-1][1]
        before = estimator[:-1] if len(estimator.steps) > 1 else None
    if not isinstance(model, kinds):
        raise TypeError(
            f"estimator is a {type(model).__name__}; this display needs a {names}, "
            "or a Pipeline that ends in one."
        )
    check_is_fitted(model)
    return FittedModel(model, before)


def check_labels(X: Any, y: Any, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Check that there is one label per row, of the same kind as the model's classes."""
    labels = np.asarray(y)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if labels.shape != (n_rows,):
        raise ValueError(
            f"y has shape {labels.shape}, but X has {n_rows} rows: pass one label for each."
        )
    kinds = ["text" if values.dtype.kind in "OUST" else "numbers" for values in (labels, classes)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"y holds {kinds[0]}, but the model was fitted on {kinds[1]}: pass labels of one kind."
        )
    return labels


def dense(X: Any) -> npt.NDArray[np.float64]:
    """Convert rows to a dense array."""
    if sp.issparse(X):
        check_index_arrays(X)
        X = X.toarray()
    return np.asarray(X, dtype=np.float64)


def evenly_spaced(n_rows: int, most: int) -> npt.NDArray[np.intp]:
    """Return the indices of at most `most` evenly spaced rows."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.linspace(0, n_rows - 1, most).round().astype(np.intp)


def take_rows(X: Any, which: npt.NDArray[np.intp]) -> Any:
    """Take rows of an array, a sparse matrix or a table."""
    if hasattr(X, "iloc"):
        return X.iloc[which]
    if sp.issparse(X):
        check_index_arrays(X)
        return X.tocsr()[which]
    if hasattr(X, "num_rows"):  # a pyarrow table
        return X.take(which)
    if hasattr(X, "shape"):
        return X[which]
    return np.asarray(X)[which]
