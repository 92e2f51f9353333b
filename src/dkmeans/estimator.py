"""`DiscriminativeKMeans`, the estimator."""

import warnings
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from dkmeans import sources, validate
from dkmeans.engine import query
from dkmeans.engine.grow import grow
from dkmeans.engine.run import Run, State
from dkmeans.engine.threads import default_threads
from dkmeans.engine.update import Rules
from dkmeans.model.history import History
from dkmeans.model.prototypes import Prototypes

_MANY = 20  # fewer prototypes than this are not worth a warning
_LARGE_SHARE = 0.25  # of the rows


class OverfittingWarning(UserWarning):
    """A converged fit has kept a large share of the rows as prototypes."""


class DiscriminativeKMeans(
    ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    """Cluster labelled data into prototypes that tell the classes apart.

    All rows start in one cluster. A cluster that holds more than one class splits, one child per
    class, and the children push each other apart; a cluster of one class moves to its mean. What
    remains is a small set of labelled prototypes, dense where classes meet and sparse where they
    do not, and at once a nearest-prototype classifier. There is nothing random in it.

    Parameters
    ----------
    max_clusters : int or None, default=None
        Budget of clusters, at least the number of classes. None grows until converged.
    repulsion : float >= 0 or "size", default="size"
        How far children push each other apart, as a multiple of the distance between their
        class's mean and the mean of the cell's other rows. "size" takes the share of the cell's
        weight that belongs to other classes.
    growth : {"paper"}, default="paper"
        How clusters are added. "paper" follows the rounds of the paper and stops at the budget.
    min_cluster_size : float or None, default=None
        Sum of `sample_weight` that a class needs in a cell to earn a cluster of its own.
    max_iter : int, default=300
        Largest number of rounds.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of each class's rows. "balanced" gives all classes the same total.
        A class with less than a millionth of the largest factor counts as weight 0.
    prune : bool, default=False
        Whether to drop, at the end, prototypes that no training label needs.
    memory_mb : float or None, default=None
        Bound on the memory for work arrays, in MiB. It changes the speed, never the result.
    n_threads : int or None, default=None
        Number of threads; None takes all cores this process may use, or `OMP_NUM_THREADS`.
        It changes the speed, never the result.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters_, n_features_in_)
        Prototypes, in the type of X.
    cluster_classes_ : ndarray of shape (n_clusters_,)
        Class label of each prototype.
    cluster_sizes_ : ndarray of shape (n_clusters_,)
        Sum of `sample_weight` over each prototype's rows.
    cluster_ids_ : ndarray of shape (n_clusters_,)
        Lasting identity of each prototype; see `tree_`.
    labels_ : ndarray of shape (n_samples,)
        Index of the nearest prototype of each training row.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_clusters_ : int
        Number of prototypes.
    n_iter_ : int
        Number of rounds.
    converged_ : bool
        Whether no cell is mixed and nothing moves any more.
    inertia_ : float
        Weighted sum of squared distances to the assigned prototypes.
    conflicts_ : list of ndarray
        Row numbers of each group of identical rows that carry different labels. The heaviest
        class of a group counts as its label, the lowest on a tie.
    history_ : History
        One row per round.
    tree_ : Tree
        Who split from whom.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, if X was a table with text column names.

    Notes
    -----
    The method is O. Arandjelovic, "Discriminative k-means clustering", IJCNN 2013. It is not
    "Discriminative K-means" (DisKmeans, Ye, Zhao & Wu, NIPS 2007), which is unsupervised.

    Run to convergence, it fits every training label, and so it fits noise too: set `max_clusters`
    or `min_cluster_size` where labels are uncertain. Distances are Euclidean, so scale features
    that have different units.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dkmeans import DiscriminativeKMeans
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DiscriminativeKMeans(max_clusters=6).fit(X, y)
    >>> model.n_clusters_
    6
    >>> model.cluster_classes_.tolist()
    [0, 1, 1, 2, 2, 2]
    >>> model.predict(X[:3]).tolist()
    [0, 0, 0]
    """

    def __init__(
        self,
        max_clusters: int | None = None,
        *,
        repulsion: float | Literal["size"] = "size",
        growth: Literal["paper"] = "paper",
        min_cluster_size: float | None = None,
        max_iter: int = 300,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        prune: bool = False,
        memory_mb: float | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.max_clusters = max_clusters
        self.repulsion = repulsion
        self.growth = growth
        self.min_cluster_size = min_cluster_size
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.prune = prune
        self.memory_mb = memory_mb
        self.n_threads = n_threads

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow prototypes for labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,)
            Class labels: text or integers.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0. A weight of 3 is the same as the row three times; a row of weight 0
            takes no part, but gets a label.

        Returns
        -------
        self : DiscriminativeKMeans
            The fitted estimator. If anything goes wrong it stays as it was.
        """
        training, source, run = self._prepare(X, y, sample_weight)
        records = []
        for state in grow(run):
            if state.round:
                records.append(state.record(source.weight_unit))
        source.rows.label_all(state.prototypes)
        self._publish(training, source, run, state, records)
        self._advise()
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class of the nearest prototype of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels.
        """
        nearest = self.predict_cluster(X)
        return self.cluster_classes_[nearest]

    def predict_cluster(self, X: Any) -> npt.NDArray[np.intp]:
        """Find the nearest prototype of each row; a tie goes to the lowest index.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        index : ndarray of shape (n_samples,)
            Index into `cluster_centers_` and `cluster_ids_`.
        """
        X = validate.check_rows(self, X)
        return query.nearest(X, self.cluster_centers_, self._threads())

    def transform(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the Euclidean distance of each row to each prototype.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters_)
            Distances.
        """
        X = validate.check_rows(self, X)
        return query.distances(X, self.cluster_centers_, self._threads())

    def decision_function(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the relative margin of each class, between -1 and 1.

        With D_c the distance to the nearest prototype of class c and R_c that of the nearest
        prototype of any other class, the margin is (R_c^2 - D_c^2) / (R_c^2 + D_c^2). It does
        not change with the scale of the data.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        margins : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes, the margin of the second.
        """
        near = self._class_distances(X)
        margins = _margins(near)
        return margins[:, 1] if len(self.classes_) == 2 else margins

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
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        near = self._class_distances(X)
        return _probabilities(near, power=min(2 * np.sqrt(self.n_features_in_), 16.0))

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what is supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def _threads(self) -> int:
        return self.n_threads or default_threads()

    def _class_distances(self, X: Any) -> npt.NDArray[np.floating]:
        X = validate.check_rows(self, X)
        codes = np.asarray(np.searchsorted(self.classes_, self.cluster_classes_))
        prototypes = Prototypes(self.cluster_centers_, codes, self.cluster_ids_)
        return query.class_distances(X, prototypes, len(self.classes_), self._threads())

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[validate.Training, sources.Source, Run]:
        """Check everything and set up a run, without changing the estimator."""
        params = self.get_params(deep=False)
        validate.check_parameters(params)
        push = 1.0 if self.repulsion == "size" else self.repulsion
        training = validate.check_training(self, X, y, sample_weight, reach=1 + 2 * push)
        source = sources.from_arrays(training, self.n_threads, self.memory_mb)
        least = None
        if self.min_cluster_size is not None:
            factor = 1.0 if training.class_weight is None else training.class_weight
            least = (
                np.full(len(training.classes), self.min_cluster_size / source.weight_unit) * factor
            )
            least *= 1 - 1e-12  # so that ten weights of 0.1 make a size of 1
        rules = Rules(self.repulsion, self.max_clusters, self.max_iter, least, self.prune)
        return training, source, Run(source.rows, rules)

    def _publish(
        self,
        training: validate.Training,
        source: sources.Source,
        run: Run,
        state: State,
        records: list[dict[str, Any]],
    ) -> None:
        """Replace all fitted attributes at once."""
        prototypes, labels = state.prototypes, source.rows.labels
        sizes = np.bincount(labels, training.sample_weight, len(prototypes))
        fitted = {
            "cluster_centers_": prototypes.centers,
            "cluster_classes_": training.classes[prototypes.classes],
            "cluster_sizes_": sizes.astype(np.float64),
            "cluster_ids_": prototypes.ids,
            "labels_": labels,
            "classes_": training.classes,
            "n_clusters_": len(prototypes),
            "n_iter_": state.round,
            "converged_": run.converged,
            "inertia_": state.inertia * source.weight_unit,
            "conflicts_": source.conflicts,
            "history_": History.from_records(records),
            "tree_": run.tree.to_tree(training.classes),
            **training.names,
        }
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.__dict__.update(fitted)

    def _advise(self) -> None:
        """Warn about results that people may not want."""
        n_rows = len(self.labels_)
        many = max(_MANY, 2 * len(self.classes_), _LARGE_SHARE * n_rows)
        if self.max_clusters is None and self.n_clusters_ > many:
            warnings.warn(
                f"{self.n_clusters_} of {n_rows} rows' worth of prototypes "
                f"({self.n_clusters_ / n_rows:.0%}) were needed to fit every label, so noise is "
                "probably fitted too: set max_clusters (a budget) or min_cluster_size.",
                OverfittingWarning,
                stacklevel=3,
            )
        spent = self.max_clusters is not None and self.n_clusters_ >= self.max_clusters
        if not self.converged_ and not spent:
            warnings.warn(
                f"No convergence in max_iter={self.max_iter} rounds: raise max_iter, or set "
                "max_clusters to stop at a budget.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _margins(near: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Relative margins from distances to the nearest prototype of each class."""
    distances = near.astype(np.float64)
    order = np.argsort(distances, axis=1, kind="stable")
    best = np.take_along_axis(distances, order[:, :1], axis=1)
    second = np.full_like(best, np.inf)
    if distances.shape[1] > 1:
        second = np.take_along_axis(distances, order[:, 1:2], axis=1)
    rival = np.where(np.arange(distances.shape[1]) == order[:, :1], second, best)
    smaller, larger = np.minimum(distances, rival), np.maximum(distances, rival)
    q = _ratio(smaller, larger) ** 2
    return (np.where(distances <= rival, 1 - q, q - 1) / (1 + q)).astype(near.dtype)


def _probabilities(near: npt.NDArray[np.floating], power: float) -> npt.NDArray[np.floating]:
    """Probabilities in proportion to 1 / D^power."""
    distances = near.astype(np.float64)
    best = distances.argmin(axis=1)[:, None]
    q = _ratio(np.take_along_axis(distances, best, axis=1), distances) ** power
    p = (q / q.sum(axis=1, keepdims=True)).astype(near.dtype)
    # Rounding must not make another class catch up with the nearest one.
    top = np.take_along_axis(p, best, axis=1)
    beaten = distances > np.take_along_axis(distances, best, axis=1)
    return np.where(beaten, np.minimum(p, np.nextafter(top, 0)), p)


def _ratio(
    smaller: npt.NDArray[np.float64], larger: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Divide; 1 for 0 / 0 and 0 for anything / infinity."""
    return np.divide(smaller, larger, out=np.ones_like(larger), where=larger > 0)
