"""Conventional k-means, class by class: what people do today."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted, validate_data


class ClasswiseKMeans(ClassifierMixin, BaseEstimator):
    """Run k-means in every class and classify by the nearest centre.

    Parameters
    ----------
    n_clusters : int
        Centres in all; classes share them as evenly as they go.
    n_init : int
        Starts of each k-means, of which the one with the least inertia counts.
    random_state : int
        Seed of the starts.
    init : {"k-means++", "random"}
        How starts are chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dkmeans.baselines import ClasswiseKMeans
    >>> X, y = load_iris(return_X_y=True)
    >>> ClasswiseKMeans(6).fit(X, y).cluster_classes_.tolist()
    [0, 0, 1, 1, 2, 2]
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        n_init: int = 3,
        random_state: int = 0,
        init: str = "k-means++",
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state
        self.init = init

    def fit(self, X: Any, y: Any) -> Self:
        """Fit one k-means per class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : ClasswiseKMeans
            The fitted estimator.
        """
        X, y = validate_data(self, X, y)
        self.classes_ = np.unique(y)
        shares = np.full(len(self.classes_), self.n_clusters // len(self.classes_))
        shares[: self.n_clusters % len(self.classes_)] += 1
        centers, labels = [], []
        for label, share in zip(self.classes_, shares, strict=True):
            rows = X[y == label]
            k = int(share)
            if len(rows) < 100 * k:  # few rows may be fewer still without repetitions
                k = min(k, len(np.unique(rows, axis=0)))
            found = KMeans(
                k, init=self.init, n_init=self.n_init, random_state=self.random_state
            ).fit(rows)
            centers.append(found.cluster_centers_)
            labels += [label] * k
        self.cluster_centers_ = np.concatenate(centers)
        self.cluster_classes_ = np.array(labels)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class of the nearest centre.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return self.cluster_classes_[pairwise_distances_argmin(X, self.cluster_centers_)]
