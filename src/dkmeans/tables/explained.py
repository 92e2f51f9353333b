"""Explanations of pipelines, by the names of the original columns."""

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dkmeans.data.frames import row_index
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.medoid_estimator import DiscriminativeKMedoids
from dkmeans.results.answers import Explanation
from dkmeans.tables.pipeline import kinds_of_pipeline
from dkmeans.tables.units import columns_of_features


def explain(model: Any, X: Any, y: Any = None, *, features: bool = False) -> Explanation:
    """Explain the predictions of a model, or of a pipeline that ends in one.

    The rows are transformed by the steps before the model; distances and radii are those after
    them. With `features=True`, parts are by the columns of X: the parts of all features that are
    made of a column, such as the levels of a category, are added up.

    Parameters
    ----------
    model : DiscriminativeKMeans, DiscriminativeKMedoids, or Pipeline that ends in one
        The model; it must be fitted. A pipeline of `table_pipeline`, too.
    X : array-like, CSR matrix or DataFrame
        Rows as the model or pipeline takes them.
    y : array-like of shape (n_samples,), optional
        True labels of the rows, if they are known.
    features : bool, default=False
        Whether to split the margin over the columns; not for medoids.

    Returns
    -------
    explanation : Explanation
        As `DiscriminativeKMeans.explain` returns it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dkmeans import DiscriminativeKMeans, explain
    >>> iris = load_iris(as_frame=True)
    >>> pipeline = make_pipeline(StandardScaler(), DiscriminativeKMeans(6))
    >>> pipeline = pipeline.fit(iris.data, iris.target)
    >>> why = explain(pipeline, iris.data, iris.target, features=True)
    >>> why.features.tolist()[2:]
    ['petal length (cm)', 'petal width (cm)']
    """
    before = None
    core = model
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        core = model.steps[-1][1]
        before = model[:-1] if len(model.steps) > 1 else None
    if not isinstance(core, DiscriminativeKMeans | DiscriminativeKMedoids):
        raise TypeError(
            f"model is a {type(core).__name__}; explain needs a DiscriminativeKMeans, a "
            "DiscriminativeKMedoids, or a Pipeline that ends in one."
        )
    rows = X if before is None else before.transform(X)
    options = {"features": True} if features else {}
    found: Explanation = core.explain(rows, y, **options)
    if features and before is not None:
        found = found.by_column(_columns(model, before, core))
    return found.with_index(row_index(X, y))


def _columns(model: Pipeline, before: Pipeline, core: Any) -> list[str]:
    """Name the column of X that each feature of the model comes from, or the feature itself."""
    if kinds_of_pipeline(model) is not None and len(before.steps) == 1:
        return columns_of_features(before[0])
    given = [str(name) for name in getattr(model, "feature_names_in_", ())]
    try:
        made = [str(name) for name in before.get_feature_names_out()]
    except (AttributeError, ValueError):  # some steps do not name their outputs
        made = [f"x{j}" for j in range(core.n_features_in_)]
    return [_source(name, given) for name in made]


def _source(feature: str, columns: list[str]) -> str:
    """Return the column that a feature is named after, by scikit-learn's conventions."""
    for name in (feature, feature.partition("__")[2]):
        if name in columns:
            return name
        starts = [column for column in columns if name.startswith(f"{column}_")]
        if starts:
            return max(starts, key=len)
    return feature
