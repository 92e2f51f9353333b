"""What a fitted estimator says about rows: the nearest prototypes, classes, distances."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, TransformerMixin

from dkmeans import fitting
from dkmeans.data import validation
from dkmeans.data.dask_collections import is_dask
from dkmeans.data.value_checks import as_labels
from dkmeans.engine import decide, query
from dkmeans.lazy import computed_score, lazily


class AnsweringMixin(ClassifierMixin, TransformerMixin):
    """Methods that answer row by row; Dask collections are answered lazily.

    It is a transformer itself, as scikit-learn's `set_output` heeds `transform` only there, and a
    classifier, as it has a `score`.
    """

    cluster_centers_: Any
    cluster_classes_: Any
    classes_: Any
    n_features_in_: int

    @lazily
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class of the nearest prototype of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows. For a Dask array or dataframe, the result is a Dask array.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels.
        """
        nearest = self.predict_cluster(X)
        return self.cluster_classes_[nearest]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Tell what share of rows gets the right class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or a Dask collection.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.

        Returns
        -------
        accuracy : float
        """
        if is_dask(X):
            return computed_score(self, X, y, sample_weight)
        return super().score(X, as_labels(y), sample_weight)

    @lazily
    def predict_cluster(self, X: Any) -> npt.NDArray[np.intp]:
        """Find the nearest prototype of each row; a tie goes to the lowest index.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows. For a Dask array or dataframe, the result is a Dask array.

        Returns
        -------
        index : ndarray of shape (n_samples,)
            Index into `cluster_centers_` and `cluster_ids_`.
        """
        X = validation.convert_rows(self, X)
        labels, finite = query.nearest(X, self.cluster_centers_, validation.threads_of(self))
        if not finite:  # seen where they are read, so that large data are read only once
            validation.check_values(self, X)
        return labels

    @lazily
    def transform(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the Euclidean distance of each row to each prototype.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows. For a Dask array or dataframe, the result is a Dask array.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters_)
            Distances.
        """
        X = validation.check_rows(self, X)
        return query.distances(X, self.cluster_centers_, validation.threads_of(self))

    @lazily
    def decision_function(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the relative margin of each class, between -1 and 1.

        With D_c the distance to the nearest prototype of class c and R_c that of the nearest
        prototype of any other class, the margin is (R_c^2 - D_c^2) / (R_c^2 + D_c^2). It does
        not change with the scale of the data.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows. For a Dask array or dataframe, the result is a Dask array.

        Returns
        -------
        margins : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes, the margin of the second.
        """
        near = self._class_distances(X)
        margins = decide.margins(near)
        return margins[:, 1] if len(self.classes_) == 2 else margins

    @lazily
    def predict_proba(self, X: Any) -> npt.NDArray[np.floating]:
        """Estimate the probability of each class.

        It is in proportion to 1 / D_c^p, with D_c the distance to the nearest prototype of class
        c and p = min(2 sqrt(d), 16) for d features: certain on a prototype, undecided far from
        all. The exponent grows with d because distances differ less and less there. A class
        without a prototype gets 0. For calibrated probabilities use scikit-learn's
        `CalibratedClassifierCV`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows. For a Dask array or dataframe, the result is a Dask array.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        near = self._class_distances(X)
        return decide.probabilities(near, power=min(2 * np.sqrt(self.n_features_in_), 16.0))

    def _class_distances(self, X: Any) -> npt.NDArray[np.floating]:
        X = validation.check_rows(self, X)
        prototypes = fitting.prototypes(self, self.classes_)
        return query.class_distances(X, prototypes, len(self.classes_), validation.threads_of(self))
