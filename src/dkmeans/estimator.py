"""`DiscriminativeKMeans`, the estimator."""

import os
from os import PathLike
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, clone
from sklearn.utils import Tags

from dkmeans import fitting, journey, progress
from dkmeans.advice import OverfittingWarning, advise
from dkmeans.answering import AnsweringMixin
from dkmeans.bordering import BorderingMixin
from dkmeans.callbacks import Callbacks, CallbackSupportMixin, with_callbacks
from dkmeans.data import validation
from dkmeans.editing import EditingMixin
from dkmeans.engine.threads import calm_blas
from dkmeans.explaining import ExplainingMixin
from dkmeans.rejecting import RejectingMixin
from dkmeans.summary import HTMLSummaryMixin
from dkmeans.suspecting import SuspectingMixin

__all__ = ["DiscriminativeKMeans", "OverfittingWarning"]


class DiscriminativeKMeans(
    HTMLSummaryMixin,
    CallbackSupportMixin,
    AnsweringMixin,
    EditingMixin,
    ExplainingMixin,
    SuspectingMixin,
    BorderingMixin,
    RejectingMixin,
    ClassNamePrefixFeaturesOutMixin,
    BaseEstimator,
):
    """Cluster labelled data into prototypes that tell the classes apart.

    All rows start in one cluster. A cluster that holds more than one class splits, one child per
    class, and the children push each other apart; a cluster of one class moves to its mean. What
    remains is a small set of labelled prototypes, dense where classes meet and sparse where they
    do not, and at once a nearest-prototype classifier. There is nothing random in it.

    Parameters
    ----------
    max_clusters : int, "auto" or None, default=None
        Budget of clusters, at least the number of classes; every class gets one, unless it weighs
        nothing or less than `min_cluster_size`, or all its rows are identical to rows of another
        class that weigh more. None grows until converged. "auto" chooses it: a fifth of each class
        is held out, by a hash of the rows' values, models grow on the others, and the fewest
        clusters count with which held-out rows err hardly more than at best (by one standard
        error); then all rows are fitted. `path_` shows what was tried. Going on from an earlier fit
        keeps the number once chosen.
    repulsion : float >= 0 or "size", default="size"
        Where growth follows the paper: how far children push each other apart, as a multiple of
        the distance between their class's mean and the mean of the cell's other rows. "size" takes
        the share of the cell's weight that belongs to other classes.
    growth : {"best", "paper"}, default="best"
        How clusters are added. "best" is after the most accuracy: it splits the clusters that cost
        most, lets the prototypes settle between splits, and is wary of wrong labels. "paper"
        follows the rounds of the paper to the letter and stops at the budget. Going on from an
        earlier fit follows the paper either way.
    refine : {"margin", None}, default=None
        "margin" goes on, once the clusters are grown, to move them so that rows lie farther from
        the border of their class: up to 60 passes over the rows, at the same number of clusters.
        `partial_fit` refines on its first call only, as it needs all rows.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" scales rows and prototypes to length one, so that only directions count. Distances
        are then those between vectors of length one: D^2 = 2 - 2 cos. Rows of zeros have no
        direction; they are equally far from all.
    min_cluster_size : float or None, default=None
        Sum of `sample_weight` that a class needs in a cell to earn a cluster of its own.
    max_iter : int, default=300
        Largest number of rounds.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of each class's rows. "balanced" gives all classes the same total.
        A class with less than a millionth of the largest factor counts as weight 0.
    prune : bool, default=False
        Whether to drop, at the end, prototypes that no training label needs.
    half_life : float or None, default=None
        For `partial_fit` on data that drift: the weight of new rows after which earlier rows
        count half, which is their number if they have no weights. None never forgets.
    memory_mb : float or None, default=None
        Bound on the memory for work arrays and blocks that are read, in MiB. It changes the speed,
        never the result.
    checkpoint : path or None, default=None
        File in which a fit notes every now and then how far it is. If it is ended by force, the
        same call goes on from there, with the same result; at the end the file is removed.
    warm_start : bool, default=False
        Whether `fit` starts from the prototypes of an earlier fit instead of one cluster.
    n_threads : int or None, default=None
        Number of threads; None takes all cores this process may use, or `OMP_NUM_THREADS`.
        No more than four for each core are started. It changes the speed, never the result.
    verbose : int, default=0
        1 logs a line per round as information of the logger "dkmeans", on stderr where logging is
        not set up; 2 also logs every pass of refinement, and the trials of "auto".

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
    exemplars_ : ndarray of shape (n_clusters_,)
        Index of the training row that is nearest to each prototype, among those of its cell and
        class; after `partial_fit`, among the rows of that call. -1 if there is none, or none is
        known: in a model that `at(k)` gives, for a prototype that was moved or merged by hand, and
        in files without it.
    labels_ : ndarray of shape (n_samples,)
        Index of the nearest prototype of each training row; after `partial_fit`, of each row of
        that call. Not there after an edit by hand.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_clusters_ : int
        Number of prototypes.
    n_iter_ : int
        Number of rounds.
    converged_ : bool
        Whether no cell is mixed and nothing moves any more.
    inertia_ : float
        Weighted sum of squared distances to the assigned prototypes, over the same rows as
        `labels_`.
    conflicts_ : list of ndarray
        Row numbers of each group of identical rows that carry different labels. The heaviest
        class of a group counts as its label, the lowest on a tie.
    history_ : History
        One row per round.
    path_ : Path
        One row per number of clusters on the way: training error, held-out error (with "auto"),
        cost. `path_.plot()` draws it, `at(k)` gives the model. If it would take too much memory,
        some numbers in between are left out. Not there after an edit by hand.
    tree_ : Tree
        Who split from whom, over all calls.
    changes_ : Changes
        What the last call did to each prototype.
    rejection_ : Rejection
        Thresholds of `set_rejection`, one row per prototype. Not there before it, and gone after
        the next fit or edit.
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
        max_clusters: int | Literal["auto"] | None = None,
        *,
        repulsion: float | Literal["size"] = "size",
        growth: Literal["best", "paper"] = "best",
        refine: Literal["margin"] | None = None,
        metric: Literal["euclidean", "cosine"] = "euclidean",
        min_cluster_size: float | None = None,
        max_iter: int = 300,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        prune: bool = False,
        half_life: float | None = None,
        memory_mb: float | None = None,
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
        self.min_cluster_size = min_cluster_size
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.prune = prune
        self.half_life = half_life
        self.memory_mb = memory_mb
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow prototypes for labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows; float32 stays float32. Or data that is read block by block: the path of a table
            or folder, a `TableBlocks`, a function that makes batches (X, y), or a Dask array or
            dataframe.
        y : array-like of shape (n_samples,)
            Class labels: text or integers. For a path or a Dask dataframe, the name of the label
            column; left out where X brings its own.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0. A weight of 3 is the same as the row three times; a row of weight 0
            takes no part, but gets a label. For a path, the name of the weight column.

        Returns
        -------
        self : DiscriminativeKMeans
            The fitted estimator. If anything goes wrong it stays as it was.
        """
        again = self.warm_start and hasattr(self, "cluster_centers_")
        return self._fit(X, y, sample_weight, "again" if again else "afresh")

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Go on with new rows only; the first call is like `fit`.

        Earlier rows take part as the weight and sum that each prototype remembers of each class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,)
            Their class labels; classes not seen before may appear.
        classes : array-like, optional
            Class labels to know of beforehand. They need not be announced.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0 of the new rows.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator. If anything goes wrong it stays as it was.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once, which partial_fit does not see: "
                "pass a dict, or weights as sample_weight."
            )
        fitted = hasattr(self, "cluster_centers_")
        return self._fit(X, y, sample_weight, "on" if fitted else "afresh", classes)

    def at(self, k: int) -> Self:
        """Give the model that the fit passed through with the most clusters that are at most k.

        Nothing is fitted again.

        Parameters
        ----------
        k : int
            Most clusters; `path_` lists those that there are.

        Returns
        -------
        model : DiscriminativeKMeans
            A new estimator with `max_clusters=k`. It has no `labels_`, unless k is the number of
            clusters of this one.
        """
        validation.check_at(self, k)
        model = clone(self).set_params(max_clusters=k)
        model._publish(journey.at(self, k))
        return model

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a file, whole or not at all; `dkmeans.load` reads it.

        Parameters
        ----------
        path : str or path
            Where to; an earlier file is replaced.
        """
        from dkmeans.export.files import save

        save(self, path)

    def to_onnx(self) -> Any:
        """Turn the fitted model into an ONNX graph (onnx must be installed).

        Returns
        -------
        graph : onnx.ModelProto
            From rows to "label" and "probabilities"; see `dkmeans.export.onnx.to_onnx`.
        """
        from dkmeans.export.onnx import to_onnx

        return to_onnx(self)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what is supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, how: fitting.How, classes: Any = None
    ) -> Self:
        self._run(X, y, sample_weight, how, classes)
        finished = self.converged_ or self.n_iter_ < self.max_iter
        advise(self, finished=finished, all_rows=how != "on")
        return self

    @with_callbacks
    def _run(self, X: Any, y: Any, sample_weight: Any, how: fitting.How, classes: Any) -> None:
        audience = progress.listeners(self.verbose)
        with (
            calm_blas,
            fitting.prepare(self, X, y, sample_weight, how, classes, audience) as fit,
        ):
            callbacks = Callbacks(self, X, y, sample_weight)

            def hear(step: progress.Step) -> bool:
                return callbacks.hear(lambda: fitting.usable(fit, step.prototypes))

            fitted = fitting.complete(self, fit, [*audience, hear])
            callbacks.end(fitted)
        self._publish(fitted)

    def _publish(self, fitted: dict[str, Any]) -> None:
        """Replace all fitted attributes at once."""
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        self.__dict__ = kept | fitted
