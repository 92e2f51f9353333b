"""Baseline: conventional k-means, class by class."""

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
        Total number of centres, divided as evenly as possible among the classes, at least one for
        each.
    n_init : int
        Number of starts of each k-means; the one with the lowest inertia is kept.
    random_state : int
        Seed of the starts.
    init : {"k-means++", "random"}
        Method of initialisation.

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
        shares = np.maximum(shares, 1)
        centers, labels = [], []
        for label, share in zip(self.classes_, shares, strict=True):
            rows = X[y == label]
            k = int(share)
            if len(rows) < 100 * k:  # there may be fewer than k distinct rows
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
