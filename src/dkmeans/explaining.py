"""Why a fitted estimator predicts what it does."""

from typing import Any

import numpy as np

from dkmeans import fitting
from dkmeans.data import validation
from dkmeans.data.dask_collections import is_dask
from dkmeans.engine import certify, decide
from dkmeans.kernels.sphere import unit_rows
from dkmeans.model.explanation import Explanation, no_labels


class ExplainingMixin:
    """A method that explains predictions."""

    cluster_centers_: Any
    cluster_classes_: Any
    cluster_sizes_: Any
    cluster_ids_: Any
    exemplars_: Any
    classes_: Any
    n_clusters_: int
    metric: str

    def explain(self, X: Any) -> Explanation:
        """Tell of each row which prototype won, which came next, and how safe that is.

        The certified radius is a promise: a row that is moved by less, in whatever direction, gets
        the same class from `predict`. With C the predicted class, it is the largest distance, over
        the prototypes i of C, to the planes half-way between i and all prototypes of other
        classes; with `metric="cosine"` these planes go through the origin. Rounding is allowed for.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, in memory.

        Returns
        -------
        explanation : Explanation
            A column per thing told, with a value per row: `label`, `prototype`, `id`, `size`,
            `exemplar`, `distance`, `rival`, `rival_id`, `rival_label`, `rival_distance`, `margin`,
            `radius`. `to_pandas()` makes a table of it, `plot(image_shape=...)` a picture.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(max_clusters=6).fit(X, y)
        >>> why = model.explain(X[[0, 70]])
        >>> why.label.tolist(), why.rival_label.tolist()
        ([0, 2], [1, 1])
        >>> why.radius.round(2).tolist()
        [1.47, 0.09]
        """
        if is_dask(X):
            raise TypeError(
                "X is a Dask collection, which explain does not take: pass rows in memory, for "
                "instance X.compute(), or explain one partition at a time."
            )
        X = validation.check_raw_rows(self, X)
        unit, n = self.metric == "cosine", X.shape[0]
        prototypes = fitting.prototypes(self, self.classes_)
        found = certify.certify(X, prototypes, validation.threads_of(self), unit=unit)
        nearest, rival = found.nearest, found.rival
        alone = rival < 0
        rival_label = no_labels(n) if alone.any() else self.cluster_classes_[rival]
        return Explanation(
            rows=unit_rows(X) if unit else X,
            is_unit=unit,
            centers=self.cluster_centers_,
            label=self.cluster_classes_[nearest],
            prototype=nearest,
            id=self.cluster_ids_[nearest],
            size=self.cluster_sizes_[nearest],
            exemplar=self.exemplars_[nearest],
            distance=found.distances[:, 0],
            rival=rival,
            rival_id=np.where(alone, -1, self.cluster_ids_[rival]),
            rival_label=rival_label,
            rival_distance=found.distances[:, 1],
            margin=decide.margins(found.distances)[:, 0],
            radius=found.radii,
        )
