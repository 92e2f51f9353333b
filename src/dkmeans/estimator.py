"""`DiscriminativeKMeans`, the estimator: parameters, documentation, and methods that delegate."""

import os
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from dkmeans.calibration import CalibrationMixin
from dkmeans.callbacks import CallbackSupportMixin, with_callbacks
from dkmeans.dask_prediction import (
    accepts_sources,
    computed_score,
    with_lazy_labels,
    without_lazy_values,
)
from dkmeans.data import arguments, validation
from dkmeans.data.arguments import threads_of
from dkmeans.data.dask_collections import is_dask
from dkmeans.data.frames import row_index
from dkmeans.data.validation import Training, check_rows
from dkmeans.data.value_checks import (
    as_labels,
    check_sample_weight,
    check_weights,
    require_labels,
)
from dkmeans.exact.shares import WeightShare
from dkmeans.fit import fit
from dkmeans.fit_warnings import OverfittingWarning, warn_about
from dkmeans.fitted import Fitted, Predictor
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Matrix
from dkmeans.questions import (
    edit,
    label_errors,
    memberships,
    nearest_prototype,
    prediction,
    reject,
)
from dkmeans.questions.class_adjacency import class_borders
from dkmeans.questions.explain import explain, prototype_names
from dkmeans.results.answers import ClassBorders, Explanation, Rejection, Suspects
from dkmeans.scale_warnings import ScaleWarning
from dkmeans.sources.stored_rows import (
    labelled_blocks,
    labelled_rows,
    score_blocks,
    unlabelled_rows,
)
from dkmeans.summary import to_html

__all__ = ["DiscriminativeKMeans", "OverfittingWarning", "ScaleWarning"]


class DiscriminativeKMeans(
    CalibrationMixin,
    CallbackSupportMixin,
    ClassifierMixin,
    TransformerMixin,
    ClassNamePrefixFeaturesOutMixin,
    BaseEstimator,
):
    """Cluster labelled data into prototypes that separate the classes.

    Prototypes grow from a single one: clusters that hold several classes split, so there are many
    where classes meet and few elsewhere. By default their number is chosen on held-out rows. Then
    they are refined: moved so that rows lie farther from the border of their class. Where it
    helps, a metric is learned with them, in which neither units nor irrelevant features matter. The
    result is a small set of labelled prototypes, which is also a nearest-prototype classifier. The
    method is deterministic.

    It is based on a paper, in which a cluster that holds more than one class splits, one child per
    class, and the children push each other apart, while a cluster of one class moves to its mean,
    until every cluster is of one class. `DiscriminativeKMeans.paper()` does exactly this.

    Parameters
    ----------
    max_clusters : int, "auto" or None, default="auto"
        Largest number of clusters, at least the number of classes. Every class gets a cluster,
        unless its weight is 0 or below `min_cluster_size`, or all its rows are identical to heavier
        rows of another class. None grows until every label is fitted. "auto" chooses the number: a
        fifth of each class is held out, by a hash of the rows' values, models grow on the other
        rows, and the smallest number is chosen whose held-out error is within one standard error of
        the lowest; then all rows are fitted. With many rows, the models grow on a sample, and the
        number is scaled to all rows. `path_` lists what was tried. Continuing an earlier fit keeps
        the number once chosen.
    repulsion : float >= 0 or "size", default="size"
        How far children push each other apart in rounds of the paper, as a multiple of the distance
        between their class's mean and the mean of the cell's other rows. "size" uses the share of
        the cell's weight that belongs to other classes. `growth="best"` does not use it, but
        fits that continue an earlier one do.
    growth : {"best", "paper"}, default="best"
        How clusters are added. "best" aims at the highest accuracy: it splits the clusters that
        cost most, lets the prototypes settle between splits, and is robust to wrong labels. "paper"
        follows the rounds of the paper exactly and stops at the budget. Continuing an earlier fit
        always follows the paper.
    refine : {"margin", None}, default="margin"
        "margin" moves the prototypes after growth so that rows lie farther from the border of their
        class: up to 60 passes over the rows, with the same number of clusters. `partial_fit`
        refines on its first call only, as it needs all rows.
    metric : {"auto", "euclidean", "cosine", "learned"}, default="auto"
        "auto" chooses between "euclidean" and "learned" on held-out rows: "learned" if it makes
        clearly fewer errors in a short fit, if one feature has most of the variance, or if there
        are fewer than 200 rows. It is "euclidean" if learning would take too long: with more than
        256 features and more than 8 million values in distinct rows, or more than 4096 features.
        "cosine" scales rows and prototypes to length one, so that only directions count. Distances
        are then D^2 = 2 - 2 cos. Rows of zeros have no direction; they are equally far from all
        prototypes. "learned" standardises the features and learns a linear projection of them
        together with the prototypes, so that the units of features do not matter and irrelevant
        ones hardly count. With 1,000 rows or more of up to 256 features, it only divides features
        by their range unless learning makes clearly fewer errors in a short fit. `components_` has
        the projection, `feature_importances_` what each feature counts. `partial_fit` chooses or
        learns the metric in its first call, and then keeps it; if that call has few rows, "auto" is
        "euclidean" unless one feature has most of the variance.
    n_components : int or None, default=None
        Largest rank of the projection of `metric="learned"`; other metrics ignore it. None chooses
        it. A low rank makes predictions faster.
    min_cluster_size : float or None, default=None
        Sum of `sample_weight` that a class needs in a cell to get a cluster of its own.
    max_iter : int, default=300
        Largest number of rounds.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of each class's rows. "balanced" gives all classes the same total.
        A class with less than a millionth of the largest factor counts as weight 0.
    prune : bool, default=False
        Whether to remove, at the end, prototypes that no training label needs.
    half_life : float or None, default=None
        For `partial_fit` on drifting data: the weight of new rows (their number if they have no
        weights) after which earlier rows count half. None keeps their full weight.
    memory_mb : float or None, default=None
        Bound on the memory for work arrays and for blocks of data, in MiB. It affects the speed,
        never the result.
    disk_mb : float or None, default=None
        Bound on the temporary files of data that are read block by block, in MiB: of what is kept
        of each row between passes, as far as it does not fit into a quarter of `memory_mb`, and of
        rows, which are kept once they are decoded. None allows half of the free space. Rows beyond
        the bound are read again in every pass. It affects the speed, never the result.
    checkpoint : path or None, default=None
        File in which a fit saves its progress from time to time. If it is interrupted, the same
        call resumes from there, with the same result; at the end the file is removed.
    warm_start : bool, default=False
        Whether `fit` starts from the prototypes of an earlier fit instead of one cluster.
    n_threads : int or None, default=None
        Number of threads; None uses all cores this process may use, or `OMP_NUM_THREADS`.
        At most four per core are started. It affects the speed, never the result.
    verbose : int, default=0
        1 logs a line per round to the logger "dkmeans" at level INFO, or writes it to stderr if
        logging is not set up, the trials of "auto" first; 2 also logs every pass of refinement.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters_, n_features_in_)
        Prototypes, in the type of X. With `metric="learned"` prototypes are points of the projected
        space, and these are rows that are projected there: of all such rows those nearest to the
        mean of the training rows, in standard deviations.
    metric_ : {"euclidean", "cosine", "learned"}
        The metric of the model; with `metric="auto"`, the one that was chosen.
    components_ : ndarray of shape (n_components, n_features_in_)
        Learned projection, only with `metric="learned"`: the distance of two rows x and z is
        the length of `(x - z) @ components_.T`, but for rounding.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Diagonal of the learned metric over standardised features, normalised to a sum of 1; all
        zeros if all training rows are equal. Only with `metric="learned"`.
    cluster_classes_ : ndarray of shape (n_clusters_,)
        Class label of each prototype.
    cluster_sizes_ : ndarray of shape (n_clusters_,)
        Sum of `sample_weight` over each prototype's rows.
    cluster_ids_ : ndarray of shape (n_clusters_,)
        Permanent id of each prototype; see `tree_`.
    exemplars_ : ndarray of shape (n_clusters_,)
        Index of the training row that is nearest to each prototype, among those of its cell and
        class; after `partial_fit`, among the rows of that call. -1 if there is none, or if it is
        not known: in a model that `at(k)` returns, for a prototype that was moved or merged by
        hand, and in files without it.
    labels_ : ndarray or Dask array of shape (n_samples,)
        Index of the nearest prototype of each training row; after `partial_fit`, of each row of
        that call. Does not exist after an edit by hand. For Dask collections it is a lazy Dask
        array, which is not part of pickles, copies and files.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_clusters_ : int
        Number of prototypes.
    n_iter_ : int
        Number of rounds.
    converged_ : bool
        Whether no cell is mixed and no row changes its cell any more.
    inertia_ : float
        Weighted sum of squared distances to the assigned prototypes, over the same rows as
        `labels_`.
    conflicts_ : list of ndarray or LazyConflicts
        Indices of each group of identical rows that have different labels. The heaviest class of
        a group counts as its label, the lowest on a tie. In a learned metric, rows with the same
        image are identical. For Dask collections it is a sequence that knows its length, and reads
        the rows again to find the groups (`compute()` returns the list); it is not part of pickles,
        copies and files.
    history_ : History
        One row per round.
    path_ : Path
        One row per number of clusters during growth: training error, held-out error (with "auto"),
        cost. `path_.plot()` plots it, `at(k)` returns the model. If it would take too much memory,
        some numbers in between are left out. Does not exist after an edit by hand.
    tree_ : Tree
        Parent of each prototype, over all calls.
    changes_ : Changes
        What the last call changed.
    rejection_ : Rejection
        Thresholds of `set_rejection`, one row per prototype. Does not exist before it, nor after
        the next fit or edit.
    temperature_ : float
        Temperature of calibrated probabilities, of `calibrate` or of a fit with
        `max_clusters="auto"` that held out 6 distinct rows or more. Does not exist without them,
        nor after the next fit or edit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, if X was a table with text column names.

    Notes
    -----
    The method is O. Arandjelovic, "Discriminative k-means clustering", IJCNN 2013. It is not
    "Discriminative K-means" (DisKmeans, Ye, Zhao & Wu, NIPS 2007), which is unsupervised.

    With `max_clusters=None` growth ends when every training label is fitted, noise included: set a
    number or `min_cluster_size` if labels are uncertain. Refinement moves the prototypes again, so
    the model fits all of them only with `refine=None` and a metric that is not learned. If
    `metric_` is "euclidean", features that have different units must be scaled.

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

    # Everything that was fitted; attributes with a trailing underscore are derived from it.
    _fitted: Fitted
    classes_: npt.NDArray[Any]
    n_clusters_: int
    cluster_classes_: npt.NDArray[Any]
    cluster_ids_: npt.NDArray[np.int64]

    def __init__(
        self,
        max_clusters: int | Literal["auto"] | None = "auto",
        *,
        repulsion: float | Literal["size"] = "size",
        growth: Literal["best", "paper"] = "best",
        refine: Literal["margin"] | None = "margin",
        metric: Literal["auto", "euclidean", "cosine", "learned"] = "auto",
        n_components: int | None = None,
        min_cluster_size: float | None = None,
        max_iter: int = 300,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        prune: bool = False,
        half_life: float | None = None,
        memory_mb: float | None = None,
        disk_mb: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        warm_start: bool = False,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.max_clusters = max_clusters
        self.repulsion = repulsion
        self.growth = growth
        self.refine = refine
        self.metric = metric
        self.n_components = n_components
        self.min_cluster_size = min_cluster_size
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.prune = prune
        self.half_life = half_life
        self.memory_mb = memory_mb
        self.disk_mb = disk_mb
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.n_threads = n_threads
        self.verbose = verbose

    @classmethod
    def paper(cls, max_clusters: int | Literal["auto"] | None = None, **settings: Any) -> Self:
        """Make an estimator that follows the paper: its growth, and nothing after it.

        It stands for `DiscriminativeKMeans(max_clusters, growth="paper", refine=None,
        metric="euclidean")`.

        Parameters
        ----------
        max_clusters : int, "auto" or None, default=None
            None grows until convergence, as the paper does.
        **settings
            Other parameters, such as `repulsion`.

        Returns
        -------
        estimator : DiscriminativeKMeans
            An estimator that is not fitted.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> model = DiscriminativeKMeans.paper().fit(*load_iris(return_X_y=True))
        >>> model.converged_, model.score(*load_iris(return_X_y=True))
        (True, 1.0)
        """
        settings = {"growth": "paper", "refine": None, "metric": "euclidean"} | settings
        return cls(max_clusters, **settings)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow prototypes for labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows; float32 stays float32. Or data that is read block by block: the path of a table,
            a folder or a .npy file, a list of paths of tables, a `TableBlocks`, a function that
            returns batches (X, y), or a Dask array or dataframe.
        y : array-like of shape (n_samples,)
            Class labels: text or integers. For a path or a Dask dataframe, the name of the label
            column; not given if X has labels of its own.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0. A weight of 3 is the same as the row three times; a row of weight 0
            takes no part, but gets a label. For a path, the name of the weight column.

        Returns
        -------
        self : DiscriminativeKMeans
            The fitted estimator. After an error it is as it was before.
        """
        warm = self.warm_start and hasattr(self, "_fitted")
        how = Continuation.WARM if warm else Continuation.FRESH
        return self._fit(X, y, sample_weight, how)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Continue with new rows only; the first call is like `fit`.

        Earlier rows count by the weight and sum that each prototype keeps for each class. The first
        call chooses the metric, and the number of clusters with ``max_clusters="auto"``. Later
        calls keep both, so it should have many rows, of all kinds that will come. For small
        batches, set `max_clusters` to the number that all of them together need.

        If the first call has too few rows to compare metrics, ``metric="auto"`` is "euclidean",
        unless one feature has most of the variance: then it is "learned", as `fit` chooses for few
        rows. It takes 200 distinct rows to compare, or about 400 with ``max_clusters="auto"``, as
        half of them are held out. `metric_` tells which metric it is.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,)
            Their class labels; classes not seen before may appear.
        classes : array-like, optional
            Class labels known in advance; they are not required.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0 of the new rows.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator. After an error it is as it was before.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once, which partial_fit does not see: "
                "pass a dict, or weights as sample_weight."
            )
        how = Continuation.NEW_ROWS if hasattr(self, "_fitted") else Continuation.FIRST_ROWS
        return self._fit(X, y, sample_weight, how, classes)

    def at(self, k: int, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Return the largest model with at most k clusters that the fit passed through.

        Nothing is fitted again. So the model is as growth left it, unless `path_` says that it was
        refined. If the rows are given, its prototypes are refined on them, and a learned metric
        with them; a model of a single class has no borders, so it stays as it is.

        After `max_clusters="auto"`, only the model with the chosen number of clusters was fitted on
        all rows. The others were fitted without the held-out rows, and those that were refined were
        refined in a few passes; `at(k, X, y)` refines them on all rows.

        Parameters
        ----------
        k : int
            Largest number of clusters; `path_` lists the available ones.
        X : array-like or CSR matrix of shape (n_samples, n_features), optional
            The rows of the fit, to refine the model on them.
        y : array-like of shape (n_samples,), optional
            Their class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights.

        Returns
        -------
        model : DiscriminativeKMeans
            A new estimator with `max_clusters` set to its number of clusters, or to that of classes
            if there are more of them, so that it can be fitted again; and with `refine=None` if it
            was not refined. It has `labels_` if it was refined here, or if it has as many
            clusters as this one.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_digits(return_X_y=True)
        >>> model = DiscriminativeKMeans(40, metric="euclidean").fit(X, y)
        >>> model.at(20).refine, model.at(20, X, y).refine
        (None, 'margin')
        >>> bool(model.at(20, X, y).score(X, y) > model.at(20).score(X, y))
        True
        """
        arguments.check_at(self, k, X, y, sample_weight)
        fitted = self._fitted.at(k)
        budget = max(fitted.n_clusters, len(fitted.classes))  # with less, it could not be fitted
        model: Self = clone(self).set_params(max_clusters=budget)
        model._publish(fitted)
        if X is not None:
            model.set_params(refine=self.refine or "margin")
            model._fit(X, y, sample_weight, Continuation.REFINE)
            refined = model._fitted.refined_at(k)
        else:
            refined = fitted is self._fitted or self._fitted.refined_at(k)
        return model if refined else model.set_params(refine=None)

    @accepts_sources
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class of the nearest prototype of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes; labels are not needed. For a Dask array or
            dataframe, the result is a Dask array.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels.
        """
        nearest = self.predict_cluster(X)
        return self._fitted.cluster_classes.take(nearest)  # faster than brackets

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows whose predicted class is correct.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes, which is read block by block.
        y : array-like of shape (n_samples,)
            Class labels, or what `fit` takes in their place.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, or what `fit` takes in their place.

        Returns
        -------
        accuracy : float
        """
        check_is_fitted(self)
        if is_dask(X):
            return computed_score(self, X, y, sample_weight)
        blocks = labelled_blocks(self, X, y, sample_weight)
        if blocks is not None:
            return score_blocks(self, blocks)
        from sklearn.metrics import accuracy_score

        require_labels(y, "score")
        predicted, y = self.predict(X), as_labels(y)
        share = float(accuracy_score(y, predicted))  # it checks y, too
        if sample_weight is None:
            return share
        weights = check_weights(sample_weight, len(predicted), signed=True)
        return WeightShare.of(predicted == np.ravel(y), weights).value

    @accepts_sources
    def predict_cluster(self, X: Any) -> npt.NDArray[np.intp]:
        """Find the nearest prototype of each row; a tie goes to the lowest index.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes; labels are not needed. For a Dask array or
            dataframe, the result is a Dask array.

        Returns
        -------
        index : ndarray of shape (n_samples,)
            Index into `cluster_centers_` and `cluster_ids_`.
        """
        X = validation.convert_rows(self, X)
        nearest, finite = nearest_prototype.nearest(
            X, self._fitted.prototypes.centers, threads_of(self)
        )
        if not finite:  # found during the search, so that large data are read only once
            validation.check_values(self, X)
        return nearest

    @accepts_sources
    def transform(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the distance of each row to each prototype, in the metric of the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes; labels are not needed. For a Dask array or
            dataframe, the result is a Dask array.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters_)
            Distances.
        """
        X = check_rows(self, X)
        return nearest_prototype.distances(X, self._fitted.prototypes.centers, threads_of(self))

    @accepts_sources
    def decision_function(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the relative margin of each class, between -1 and 1.

        With D_c the distance to the nearest prototype of class c and R_c that of the nearest
        prototype of any other class, the margin is (R_c^2 - D_c^2) / (R_c^2 + D_c^2). It does
        not change with the scale of the data.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes; labels are not needed. For a Dask array or
            dataframe, the result is a Dask array.

        Returns
        -------
        margins : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes, the margin of the second.
        """
        X = check_rows(self, X)
        return prediction.class_margins(self._fitted, X, threads_of(self))

    @accepts_sources
    def predict_proba(self, X: Any) -> npt.NDArray[np.floating]:
        """Estimate the probability of each class.

        If there is a `temperature_`, as after `calibrate` and most fits with `max_clusters="auto"`,
        it is the softmax of `decision_function` divided by that. Otherwise it is a rule of thumb:
        proportional to 1 / D_c^p, with D_c the distance to the nearest prototype of class c and
        p = min(2 sqrt(d), 16) for d features, or d learned components. The exponent grows with d
        because distances differ less in many dimensions. A class without a prototype gets 0.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes; labels are not needed. For a Dask array or
            dataframe, the result is a Dask array.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        X = check_rows(self, X)
        return prediction.class_probabilities(self._fitted, X, threads_of(self))

    @accepts_sources
    def memberships(
        self, X: Any, fuzzifier: float = 2.0, *, per: memberships.Per = "prototype"
    ) -> npt.NDArray[np.floating]:
        """Compute soft memberships of rows, by the formula of fuzzy c-means.

        The membership in a prototype at distance D is proportional to D^(-2 / (fuzzifier - 1)). A
        row on a prototype belongs to it alone.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes, which is read block by block; labels are not
            needed. For a Dask array or dataframe, the result is a Dask array.
        fuzzifier : float >= 1, default=2.0
            1 gives each row to its nearest prototype; the larger it is, the more evenly rows are
            shared, up to infinity.
        per : {"prototype", "class"}, default="prototype"
            "class" adds up the memberships in the prototypes of each class.

        Returns
        -------
        memberships : ndarray of shape (n_samples, n_clusters_) or (n_samples, n_classes)
            Rows sum to 1.

        Examples
        --------
        >>> from dkmeans import DiscriminativeKMeans
        >>> model = DiscriminativeKMeans.paper().fit([[0.0], [2.0], [6.0]], ["a", "a", "b"])
        >>> model.memberships([[1.0], [2.0]]).round(3).tolist()
        [[1.0, 0.0], [0.941, 0.059]]
        """
        memberships.check_options(fuzzifier, per)
        shares = memberships.memberships(self.transform(X), fuzzifier)
        if per == "prototype":
            return shares
        return memberships.by_class(shares, self._fitted.prototypes.classes, len(self.classes_))

    predict_set = accepts_sources(CalibrationMixin.predict_set)

    def explain(self, X: Any, y: Any = None, *, features: bool = False) -> Explanation:
        """Explain predictions: the nearest prototype, its rival, and the certified radius.

        The certified radius is a guarantee: a row that moves by less, in any direction, gets the
        same class from `predict`. With C the predicted class, it is the maximum over the prototypes
        i of C of the distance to the nearest plane halfway between i and a prototype of another
        class; with `metric="cosine"` these planes go through the origin. It accounts for rounding.

        With `features=True`, the margin R^2 - D^2 is split over the features, with D the distance
        to the nearest prototype w and R that to its rival r: the part of a feature is
        (x - r)^2 - (x - w)^2, of unit vectors with `metric="cosine"`. With `metric="learned"` it is
        the row's distance from the point midway between w and r along that feature, in standard
        deviations, times what the feature counts in the direction from r to w. Parts add up
        exactly.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes, which is read block by block; labels are not
            needed.
        y : array-like of shape (n_samples,), optional
            True labels of the rows, if they are known, or the name of their column.
        features : bool, default=False
            Whether to split the margin over the features.

        Returns
        -------
        explanation : Explanation
            A table with one row per row of X and the columns `label`, `prototype`, `id`, `size`,
            `exemplar`, `distance`, `rival`, `rival_id`, `rival_label`, `rival_distance`, `margin`
            and `radius`; with y also `true` and `right`; with `features=True` also
            `squared_margin`, and the array `parts`. It keeps the index of a frame. It has
            `to_frame()` and `plot(image_shape=...)`. For a pipeline, use `dkmeans.explain`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(6, refine=None, metric="euclidean").fit(X, y)
        >>> why = model.explain(X[[0, 70]])
        >>> why.label.tolist(), why.rival_label.tolist()
        ([0, 2], [1, 1])
        >>> why.radius.round(2).tolist()
        [1.47, 0.09]
        >>> why = model.explain(X[[0, 70]], features=True)
        >>> why.parts.round(1).tolist()
        [[0.2, 0.8, 6.3, 1.0], [0.2, -0.2, -0.0, 0.1]]
        >>> bool((why.parts.sum(axis=1) == why.squared_margin).all())
        True
        """
        check_is_fitted(self)
        index = row_index(X, y)
        if isinstance(y, str):  # a column of X
            given = labelled_rows(self, validation.check_raw_rows, X, y, None)
        else:
            given = replace(unlabelled_rows(self, validation.check_raw_rows, X), y=y)
        found = explain(self._fitted, given.X, threads_of(self), features=features, y=given.y)
        return found.with_index(index)

    def suspects(
        self, X: Any = None, y: Any = None, *, sample_weight: Any = None, n: int | None = None
    ) -> Suspects:
        """List training rows whose label may be wrong, the most suspicious first.

        The score compares the distances within which there are t rows of the row's own class (O)
        and of other classes (R), the row itself left out: it is the mean of O^2 / (O^2 + R^2) over
        t = 1, 2, 4, 8 and 16.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), optional
            The rows, or other data that `fit` takes, which is read block by block. Without them,
            the last call must have been `fit`, and each row is assumed to lie at the mean of the
            rows of its class in its cell. With them the list is more precise, and any model can be
            used: loaded, edited, `at(k)`, or after `partial_fit`.
        y : array-like of shape (n_samples,), optional
            Their labels, if X is given, or what `fit` takes in their place.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0, if X is given; without X, those of the fit are used.
        n : int, optional
            Number of rows to list, whatever their score. By default as many as are estimated to
            have a wrong label, with a score above 0.5; and conflicts.

        Returns
        -------
        suspects : Suspects
            A table with the columns row, label, suggested, cluster, score and reason; equal
            scores are in the order of rows. `suspects.noise` is the estimate for each class, and
            `suspects.index` has the labels of the rows if X or y is a frame.

        Examples
        --------
        >>> from dkmeans import DiscriminativeKMeans
        >>> X = [[0.1 * i] for i in range(20)] + [[5 + 0.1 * i] for i in range(20)]
        >>> y = ["low"] * 20 + ["high"] * 20
        >>> y[10] = "high"
        >>> model = DiscriminativeKMeans(None, refine=None, metric="euclidean").fit(X, y)
        >>> model.suspects(X, y)
        1 suspect; about 1 of 40 labels are wrong
        row  label  suggested  cluster   score              reason
         10   high        low        3  0.9939  small foreign cell
        """
        check_is_fitted(self)
        label_errors.check_arguments(X, y, sample_weight, n)
        index = row_index(X, y)
        if X is None:
            rows = label_errors.score_remembered_rows(self._fitted, threads_of(self))
        else:
            given = labelled_rows(self, check_rows, X, y, sample_weight)
            X = given.X
            classes = label_errors.known_classes(self._fitted.classes, given.y, X.shape[0])
            weights = check_sample_weight(given.sample_weight, X.shape[0])
            rows = label_errors.score_rows(self._fitted, X, classes, weights, threads_of(self))
        found = label_errors.list_suspects(self._fitted, rows, n)
        return found.with_index(None if index is None else index[found.row])

    def class_borders(self) -> ClassBorders:
        """List the pairs of classes that meet, the one that cost the most prototypes first.

        Two prototypes *face* each other if no third one is nearer to both than they are to each
        other; the point midway between them is then on the border of their cells. Classes meet
        if their prototypes face each other, if one cost the other a prototype, or if rows of one
        lie in cells of the other.

        Every class needs one prototype, so its oldest one does not count. Every further one counts
        for the pair of its class and the class of its parent in `tree_`, if the two differ, as in
        the paper's splits. If they are the same, as `growth="best"` splits clusters of one class,
        it counts for the class of the nearest prototype of another class (the lowest class on a
        tie). So the column `prototypes` sums to `n_clusters_` minus the number of classes that
        have prototypes.

        Returns
        -------
        borders : ClassBorders
            A table with the columns a, b, prototypes, facing, gap, a_in_b and b_in_a; it has
            `to_pandas()` and `plot()`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> iris = load_iris()
        >>> names = iris.target_names[iris.target]
        >>> model = DiscriminativeKMeans(10, refine=None, metric="euclidean")
        >>> model.fit(iris.data, names).class_borders()
        Borders between 2 pairs of classes
                 a           b  prototypes  facing     gap  a_in_b  b_in_a
        versicolor   virginica           7       1  0.5022    0.02    0.02
            setosa  versicolor           0       1   2.389       0       0
        """
        check_is_fitted(self)
        return class_borders(self._fitted, threads_of(self))

    def set_rejection(
        self, X: Any, *, false_alarm_rate: float = 0.05, per: reject.Per = "class"
    ) -> Self:
        """Choose the thresholds above which rows are rejected as of no known class.

        The strangeness of a row is sqrt(D N) D / R, with D the distance to the nearest prototype, R
        that to the nearest prototype of another class, and N that to the nearest reference, one of
        some held-out rows that are kept: it grows with the distance to what is known, and is larger
        between two classes. With one class the factor D / R is left out. Thresholds are chosen by
        split conformal prediction: new rows of known classes are rejected at a rate of at most
        `false_alarm_rate`, on average over held-out and new rows from the same distribution.
        Nothing is known about rows of other classes, so there is no guarantee on how many of them
        are rejected.

        A new fit, `partial_fit` or edit drops the thresholds, as they belong to the earlier
        prototypes: call it again.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of the known classes that were **not** used in the fit, or other data that `fit`
            takes, which is read block by block; labels are not needed.
            Prototypes are nearer to training rows than to new ones, so thresholds from training
            rows would be too low, and would reject too many rows.
        false_alarm_rate : float between 0 and 1, default=0.05
            Largest share of rows of known classes to reject. At least 1 / false_alarm_rate - 1
            rows are needed, 19 for 0.05.
        per : {"class", "prototype", "all"}, default="class"
            Rows for which the rate holds: those of each predicted class, those of each nearest
            prototype, or all together. Groups with too few rows share a threshold: prototypes with
            others of their class, classes with other classes. `rejection_` shows which ones.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator, with the table `rejection_`.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_digits(return_X_y=True)
        >>> known = y != 7
        >>> model = DiscriminativeKMeans(40, refine=None, metric="euclidean")
        >>> model = model.fit(X[::3][known[::3]], y[::3][known[::3]])
        >>> model = model.set_rejection(X[1::3][known[1::3]])
        >>> later, is_digit_known = X[2::3], known[2::3]
        >>> bool(model.is_known(later[is_digit_known]).mean() > 0.9)
        True
        >>> bool(model.is_known(later[~is_digit_known]).mean() < 0.5)
        True
        """
        check_is_fitted(self)
        reject.check_options(false_alarm_rate, per)
        X = unlabelled_rows(self, check_rows, X).X
        table = reject.choose_rejection(self._fitted, X, false_alarm_rate, per, threads_of(self))
        return self._publish(replace(self._fitted, rejection=table))

    @accepts_sources
    def unknown_score(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the strangeness of rows, divided by the threshold of their nearest prototype.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes; labels are not needed. For a Dask array or
            dataframe, the result is a Dask array.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            At least 0; rows above 1 are rejected. If the threshold is 0, rows that are not on a
            prototype get the largest finite number of the type.
        """
        rejection = self._rejection()
        X = check_rows(self, X)
        return reject.unknown_scores(self._fitted, rejection, X, threads_of(self))

    @accepts_sources
    def is_known(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return whether rows may be of a known class: whether `unknown_score` is at most 1.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows, or other data that `fit` takes; labels are not needed. For a Dask array or
            dataframe, the result is a Dask array.

        Returns
        -------
        known : ndarray of bool of shape (n_samples,)
            False for rows that are rejected.
        """
        return np.asarray(self.unknown_score(X) <= 1)

    @accepts_sources
    def predict_or_reject(self, X: Any, rejected: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each row, or reject it as of no known class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.
        rejected : None, number or text, default=None
            Value for rejected rows. None gives an array of objects. Otherwise it must have the
            kind of the class labels and not be one of them, for instance -1 or "unknown"; then
            labels stay numbers or text.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels as `predict` returns them, or `rejected`.

        Examples
        --------
        >>> from dkmeans import DiscriminativeKMeans
        >>> model = DiscriminativeKMeans().fit([[0.0], [1.0], [8.0], [9.0]], ["a", "a", "b", "b"])
        >>> model = model.set_rejection([[0.2], [1.2], [8.4], [9.3]], false_alarm_rate=0.2)
        >>> model.predict_or_reject([[0.4], [5.0], [8.9]])
        array(['a', None, 'b'], dtype=object)
        >>> model.predict_or_reject([[0.4], [5.0], [8.9]], rejected="neither").tolist()
        ['a', 'neither', 'b']
        """
        self._rejection()
        dtype = reject.label_dtype(self.classes_, rejected)
        known = self.is_known(X)
        labels = self.predict(X).astype(dtype)
        labels[~known] = rejected
        return labels

    def drop(self, ids: Any) -> Self:
        """Remove prototypes by id, with what they keep of their rows.

        Parameters
        ----------
        ids : int or array-like of int
            Entries of `cluster_ids_`. At least one prototype must remain.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator, without the attributes that describe training rows, such as `labels_`.
        """
        ids = arguments.check_ids_to_drop(self, ids)
        return self._publish(edit.drop(self._fitted, ids))

    def merge(self, ids: Any) -> Self:
        """Merge prototypes of one class into the heaviest, which keeps its id.

        Parameters
        ----------
        ids : array-like of int
            Two or more entries of `cluster_ids_`.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator, without the attributes that describe training rows, such as `labels_`.
        """
        ids = arguments.check_ids_to_merge(self, ids)
        return self._publish(edit.merge(self._fitted, ids))

    def set_center(self, id: int, center: Any) -> Self:
        """Move a prototype.

        Parameters
        ----------
        id : int
            Entry of `cluster_ids_`.
        center : array-like of shape (n_features_in_,)
            Its new position, in the space of X.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator, without the attributes that describe training rows, such as `labels_`.
        """
        ids = arguments.check_ids(self, id)
        if len(ids) > 1:
            raise ValueError(
                f"set_center moves one prototype, but id has {len(ids)} of them: call it for each."
            )
        row = check_rows(self, np.reshape(center, (1, -1)))[0]
        return self._publish(edit.set_center(self._fitted, ids[0], row))

    def save(
        self, path: str | PathLike[str], *, with_labels: bool = True, with_path: bool = False
    ) -> None:
        """Write the fitted model to a file, completely or not at all; `dkmeans.load` reads it.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.
        with_labels : bool, default=True
            Whether to include `labels_` and `conflicts_` (unless they are lazy) and `exemplars_`.
        with_path : bool, default=False
            Whether to include the models with fewer clusters, for `at`.
        """
        from dkmeans.files.model_file import save

        save(self, path, with_labels=with_labels, with_path=with_path)

    def to_onnx(self) -> Any:
        """Convert the fitted model to an ONNX graph (onnx must be installed).

        Returns
        -------
        graph : onnx.ModelProto
            From rows to "label" and "probabilities"; see `dkmeans.files.to_onnx`.
        """
        from dkmeans.files.onnx_graph import to_onnx

        return to_onnx(self)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Name the columns of `transform` by the class and the id of each prototype.

        Parameters
        ----------
        input_features : ignored
            It is there by scikit-learn's convention.

        Returns
        -------
        names : ndarray of shape (n_clusters_,)
            Such as "setosa_0"; `set_output(transform="pandas")` makes a frame with these columns.
        """
        check_is_fitted(self)
        return prototype_names(self.cluster_classes_, self.cluster_ids_)

    def __sklearn_tags__(self) -> Tags:
        """Declare what is supported, for scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """Weights of the features in the learned metric."""
        check_is_fitted(self)
        found = self._fitted.geometry.importances
        if found is None:
            raise AttributeError(
                "feature_importances_ exists after a fit with metric='learned' only: this metric "
                "weighs all features alike."
            )
        return found

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    @property
    def _repr_html_(self) -> Callable[[], str]:
        if get_config()["display"] != "diagram":
            raise AttributeError("there is no HTML with sklearn.set_config(display='text')")
        return self._html

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._html()
        return bundle

    def _html(self) -> str:
        return str(estimator_html_repr(self)) + to_html(self)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        how: Continuation,
        classes: Any = None,
    ) -> Self:
        before = self._fitted if hasattr(self, "_fitted") else None
        training = self._run(X, y, sample_weight, how, classes)
        warn_about(self, before, training, how, stacklevel=3)
        return self

    @with_callbacks
    def _run(self, X: Any, y: Any, sample_weight: Any, how: Continuation, classes: Any) -> Training:
        fitted, training = fit(self, X, y, sample_weight, how, classes)
        self._publish(with_lazy_labels(self, fitted, X, y, sample_weight))
        return training

    def __getstate__(self) -> dict[str, Any]:
        return without_lazy_values(super().__getstate__())

    def _publish(self, fitted: Predictor) -> Self:
        """Replace all fitted attributes at once."""
        old = self._fitted.attributes() if hasattr(self, "_fitted") else {}
        kept = {name: value for name, value in vars(self).items() if name not in old}
        self.__dict__ = kept | fitted.attributes()
        return self

    def _class_distances(self, X: Any) -> npt.NDArray[np.floating]:
        return self._checked_class_distances(check_rows(self, X))

    def _labelled_class_distances(self, X: Any, y: Any) -> tuple[npt.NDArray[np.floating], Any]:
        given = labelled_rows(self, check_rows, X, y, None)
        return self._checked_class_distances(given.X), given.y

    def _checked_class_distances(self, X: Matrix) -> npt.NDArray[np.floating]:
        return nearest_prototype.class_distances(
            X, self._fitted.prototypes, len(self.classes_), threads_of(self)
        )

    def _rejection(self) -> Rejection:
        """Return the thresholds of `set_rejection`."""
        check_is_fitted(self)
        if self._fitted.rejection is None:
            raise NotFittedError(
                "There are no thresholds for these prototypes: call set_rejection with held-out "
                "rows first. A new fit or an edit drops them."
            )
        return self._fitted.rejection
