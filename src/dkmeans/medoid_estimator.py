"""`DiscriminativeKMedoids`: prototypes that are rows, for any metric."""

from collections.abc import Callable
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dkmeans.calibration import CalibrationMixin
from dkmeans.data.arguments import check_at
from dkmeans.data.frames import row_index
from dkmeans.data.value_checks import as_labels, check_sample_weight, require_labels
from dkmeans.fitted_medoids import FittedMedoids, class_distances
from dkmeans.medoid_fit import fit, kind_for, settle_medoids
from dkmeans.metrics import pairwise
from dkmeans.metrics.kinds import PRECOMPUTED, n_rows_of
from dkmeans.questions import label_errors, medoid_answers, memberships, prediction, reject
from dkmeans.questions.explain import prototype_names
from dkmeans.results.answers import Explanation, Rejection, Suspects
from dkmeans.scale_warnings import warn_of_scale

_UNKNOWN_FEATURES = 16  # number of features that probabilities assume where there are none


class DiscriminativeKMedoids(
    CalibrationMixin,
    ClassifierMixin,
    TransformerMixin,
    ClassNamePrefixFeaturesOutMixin,
    BaseEstimator,
):
    """Choose rows of labelled data as prototypes that separate the classes, for any metric.

    A prototype is a row (a medoid), so nothing but distances is needed: for vectors with a named
    metric, for any objects with a function that tells the distance of two, or for a given matrix
    of distances. Growth starts from the medoid of each class, and adds medoids where that lowers
    the cost most. Then medoids are swapped for other rows as long as that lowers the cost. The
    method is deterministic.

    Parameters
    ----------
    max_medoids : int, "auto" or None, default="auto"
        Largest number of medoids, at least the number of classes; every class has one. "auto"
        chooses the number: a fifth of each class is held out in turn, and the smallest number is
        chosen whose held-out error is within one standard error of the lowest. None adds medoids
        as long as that lowers the cost.
    metric : str or callable, default="euclidean"
        Name of a metric of scikit-learn or SciPy between vectors; "precomputed" if X is a matrix of
        distances; or a function of two objects that returns a number >= 0.
    metric_params : dict or None, default=None
        Keyword arguments of the metric.
    symmetrize : {"mean", "min", "max"} or None, default=None
        How to make one distance of both directions, for a given matrix or a function that is not
        symmetric. None refuses a matrix that is not symmetric, and calls a function once per pair.
    is_metric : bool or None, default=None
        Whether distances satisfy the triangle inequality, which certified radii need. None knows
        it of named metrics, and does not assume it of other ones.
    max_iter : int, default=300
        Largest number of passes over the rows.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of each class's rows. "balanced" gives all classes the same total.
    memory_mb : float or None, default=None
        Bound on the memory for distances that are computed, in MiB; None is the memory of the
        machine. A matrix that is larger can be given as a memory map, which is read in blocks.
    n_threads : int or None, default=None
        Number of threads; None uses all cores this process may use. It affects the speed, never
        the result.
    verbose : int, default=0
        1 logs a line per pass to the logger "dkmeans"; 2 also logs the trials of "auto".

    Attributes
    ----------
    medoid_indices_ : ndarray of shape (n_medoids_,)
        Training rows that are medoids, in the order of their classes.
    medoid_classes_ : ndarray of shape (n_medoids_,)
        Class label of each medoid.
    medoid_sizes_ : ndarray of shape (n_medoids_,)
        Sum of `sample_weight` over each medoid's rows.
    medoids_ : array, CSR matrix or list
        The medoids themselves. Does not exist with "precomputed".
    labels_ : ndarray of shape (n_samples,)
        Index of the nearest medoid of each training row.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_medoids_ : int
        Number of medoids.
    n_iter_ : int
        Number of rounds: additions and passes of swaps.
    converged_ : bool
        Whether no swap of a medoid for a row lowers the cost any more.
    cost_ : float
        Mean cost of the rows, between 0 and 1.
    inertia_ : float
        Weighted sum of squared distances to the nearest medoids.
    history_ : History
        One row per round.
    path_ : Path
        One row per number of medoids during growth: training error, held-out error (with "auto"),
        cost, and `refined`: whether medoids were swapped until no swap lowers the cost. `at(k)`
        returns the model, and `path_.plot()` plots it.
    rejection_ : Rejection
        Thresholds of `set_rejection`, one row per medoid. Does not exist before it.
    temperature_ : float
        Temperature of calibrated probabilities. Does not exist before `calibrate`.
    n_features_in_ : int
        Number of features, or of rows for "precomputed"; does not exist for a callable.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, if X was a table with text column names.

    Notes
    -----
    For a row at distance D from the nearest medoid of its class and R from the nearest of another
    class, the margin is (D^2 - R^2) / (D^2 + R^2), as in generalized learning vector quantization
    (GLVQ). Its cost is 0 up to a margin of -0.2, 1 from 0.2 on, and linear in between. All swaps of
    one row with any medoid are evaluated in one pass over its distances, as in FasterPAM (Schubert
    and Rousseeuw, 2021).

    With a named metric, neither the order of rows nor copies of rows in place of integer weights
    make a difference. With "precomputed" and callables, ties follow the order of rows.

    Examples
    --------
    >>> from dkmeans import DiscriminativeKMedoids
    >>> def length_difference(a, b):
    ...     return abs(len(a) - len(b))
    >>> words = ["a", "to", "the", "wonderful", "marvellous", "incredible"]
    >>> kind = ["short", "short", "short", "long", "long", "long"]
    >>> model = DiscriminativeKMedoids(2, metric=length_difference).fit(words, kind)
    >>> model.medoids_
    ['marvellous', 'to']
    >>> model.predict(["of", "extraordinary"]).tolist()
    ['short', 'long']
    """

    # Everything that was fitted; attributes with a trailing underscore are derived from it.
    _fitted: FittedMedoids
    classes_: npt.NDArray[Any]
    n_medoids_: int
    medoid_classes_: npt.NDArray[Any]
    medoid_indices_: npt.NDArray[np.intp]

    def __init__(
        self,
        max_medoids: int | Literal["auto"] | None = "auto",
        *,
        metric: str | Callable[[Any, Any], float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        symmetrize: Literal["mean", "min", "max"] | None = None,
        is_metric: bool | None = None,
        max_iter: int = 300,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        memory_mb: float | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.max_medoids = max_medoids
        self.metric = metric
        self.metric_params = metric_params
        self.symmetrize = symmetrize
        self.is_metric = is_metric
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.memory_mb = memory_mb
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose medoids of labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or sequence of objects
            Rows; float32 stays float32. With `metric="precomputed"`, distances between all rows,
            shape (n_samples, n_samples), which may be a memory map. With a callable, any objects.
        y : array-like of shape (n_samples,)
            Class labels: text or integers.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0. A row of weight 0 is no medoid, but gets a label.

        Returns
        -------
        self : DiscriminativeKMedoids
            The fitted estimator. After an error it is as it was before.
        """
        self._publish(fit(self, X, y, sample_weight))
        if isinstance(self.metric, str) and self.metric in pairwise.OF_UNITS:
            warn_of_scale(self, X, stacklevel=2)
        return self

    def at(self, k: int, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Return the largest model with at most k medoids that the fit passed through.

        Nothing is fitted again. So the medoids are as growth left them, after one pass of swaps,
        unless `path_.refined` says that they were swapped until no swap lowers the cost. If the
        rows are given, that is done.

        Parameters
        ----------
        k : int
            Largest number of medoids; `path_` lists the available ones.
        X : as in `fit`, optional
            The rows of the fit, in the same order, to swap medoids.
        y : array-like of shape (n_samples,), optional
            Their class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights.

        Returns
        -------
        model : DiscriminativeKMedoids
            A new estimator with `max_medoids` set to its number of medoids. It has `labels_` if
            medoids were swapped, or if it has as many medoids as this one.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkmeans import DiscriminativeKMedoids
        >>> X, y = load_digits(return_X_y=True)
        >>> X, y = X[:500], y[:500]
        >>> model = DiscriminativeKMedoids(40).fit(X, y)
        >>> model.at(20).converged_, model.at(20, X, y).converged_
        (False, True)
        >>> bool(model.at(20, X, y).cost_ < model.at(20).cost_)
        True
        """
        check_at(self, k, X, y, sample_weight)
        fitted = self._fitted.at(k)
        model: Self = clone(self).set_params(max_medoids=len(fitted.medoids))
        model._publish(fitted)
        return model if X is None else model._publish(settle_medoids(model, X, y, sample_weight))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class of the nearest medoid of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or sequence of objects
            Rows. With `metric="precomputed"`, distances to all training rows, shape (n_samples,
            n_samples_fit), or to the medoids only, shape (n_samples, n_medoids_).

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels.
        """
        nearest = self.predict_medoid(X)
        return self._fitted.medoid_classes[nearest]

    def predict_medoid(self, X: Any) -> npt.NDArray[np.intp]:
        """Find the nearest medoid of each row; a tie goes to the lowest index.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        index : ndarray of shape (n_samples,)
            Index into `medoid_indices_`.
        """
        return self.transform(X).argmin(axis=1)

    def transform(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the distance of each row to each medoid.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        distances : ndarray of shape (n_samples, n_medoids_)
            Distances.
        """
        check_is_fitted(self)
        kind = kind_for(self, self._fitted)
        X = kind.read_new(self, X, self.n_medoids_)
        return kind.to_medoids(X, self._fitted.medoids, self._fitted.kept)

    def decision_function(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the relative margin of each class, between -1 and 1.

        With D_c the distance to the nearest medoid of class c and R_c that of the nearest medoid of
        any other class, the margin is (R_c^2 - D_c^2) / (R_c^2 + D_c^2).

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        margins : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes, the margin of the second.
        """
        found = prediction.margins(self._class_distances(X))
        return found[:, 1] if len(self.classes_) == 2 else found

    def predict_proba(self, X: Any) -> npt.NDArray[np.floating]:
        """Estimate the probability of each class.

        After `calibrate` it is the softmax of `decision_function` divided by `temperature_`.
        Otherwise it is proportional to 1 / D_c^p, with D_c the distance to the nearest medoid of
        class c. The power p is min(2 sqrt(d), 16) for vectors with d features, and 8 for other
        objects.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        near = self._class_distances(X)
        if self._fitted.calibration is not None:
            temperature = self._fitted.calibration.temperature
            return prediction.calibrated_probabilities(near, temperature)
        vectors = isinstance(self.metric, str) and self.metric != PRECOMPUTED
        n_features = self._fitted.n_features if vectors else None
        power = prediction.distance_power(n_features or _UNKNOWN_FEATURES)
        return prediction.probabilities(near, power)

    def memberships(
        self, X: Any, fuzzifier: float = 2.0, *, per: memberships.Per = "prototype"
    ) -> npt.NDArray[np.floating]:
        """Compute soft memberships of rows, by the formula of fuzzy c-means.

        The membership in a medoid at distance D is proportional to D^(-2 / (fuzzifier - 1)). A row
        on a medoid belongs to it alone.

        Parameters
        ----------
        X : as in `predict`
        fuzzifier : float >= 1, default=2.0
            1 gives each row to its nearest medoid; the larger it is, the more evenly rows are
            shared, up to infinity.
        per : {"prototype", "class"}, default="prototype"
            "class" adds up the memberships in the medoids of each class.

        Returns
        -------
        memberships : ndarray of shape (n_samples, n_medoids_) or (n_samples, n_classes)
            Rows sum to 1.
        """
        memberships.check_options(fuzzifier, per)
        shares = memberships.memberships(self.transform(X), fuzzifier)
        if per == "prototype":
            return shares
        return memberships.by_class(shares, self._fitted.codes, len(self.classes_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows whose predicted class is correct.

        Parameters
        ----------
        X : as in `predict`
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.

        Returns
        -------
        accuracy : float
        """
        require_labels(y, "score")
        return float(super().score(X, as_labels(y), sample_weight))

    def explain(self, X: Any, y: Any = None) -> Explanation:
        """Explain predictions: the nearest medoid, its rival, and the certified radius.

        With D the distance to the nearest medoid and R that of the nearest medoid of another class,
        the certified radius is (R - D) / 2, less what rounding may have changed: any row at a
        smaller distance gets the same class, by the triangle inequality. It is NaN unless the
        metric is known, or declared with `is_metric=True`, to satisfy that.

        Parameters
        ----------
        X : as in `predict`
        y : array-like of shape (n_samples,), optional
            True labels of the rows, if they are known.

        Returns
        -------
        explanation : Explanation
            A table with one row per row of X. `prototype` and `rival` are indices into
            `medoid_indices_`; `id`, `exemplar` and `rival_id` are training rows.

        Examples
        --------
        >>> from dkmeans import DiscriminativeKMedoids
        >>> X, y = [[0.0], [1.0], [8.0], [9.0]], ["a", "a", "b", "b"]
        >>> model = DiscriminativeKMedoids(2).fit(X, y)
        >>> why = model.explain([[2.0]])
        >>> why.exemplar.tolist(), why.rival_label.tolist(), why.radius.round(6).tolist()
        ([0], ['b'], [2.0])
        """
        D, certified = self.transform(X), kind_for(self).is_true_metric
        found = medoid_answers.explain(self._fitted, D, certified=certified, y=y)
        return found.with_index(row_index(X, y))

    def suspects(
        self, X: Any, y: Any, *, sample_weight: Any = None, n: int | None = None
    ) -> Suspects:
        """List training rows whose label may be wrong, the most suspicious first.

        The score compares the distances within which there are t rows of the row's own class (O)
        and of other classes (R), the row itself left out: it is the mean of O^2 / (O^2 + R^2) over
        t = 1, 2, 4, 8 and 16.

        Parameters
        ----------
        X : as in `fit`
            With `metric="precomputed"`, the distances between all training rows.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights >= 0.
        n : int, optional
            Number of rows to list, whatever their score. By default as many as are estimated to
            have a wrong label, with a score above 0.5; and conflicts.

        Returns
        -------
        suspects : Suspects
            A table with the columns row, label, suggested, cluster (the medoid's row), score and
            reason. `suspects.noise` is the estimate for each class.
        """
        check_is_fitted(self)
        label_errors.check_arguments(X, y, sample_weight, n)
        model, index = self._fitted, row_index(X, y)
        kind = kind_for(self, model)
        X = kind.read_new(self, X, self.n_medoids_)
        n_rows = n_rows_of(X)
        classes = label_errors.known_classes(model.classes, y, n_rows)
        weights = check_sample_weight(sample_weight, n_rows)
        cells = kind.to_medoids(X, model.medoids, model.kept).argmin(axis=1)
        rows = medoid_answers.score_rows(
            model, lambda at: kind.between(X, at), cells, classes, weights
        )
        found = label_errors.suspects_table(
            rows, model.classes, model.codes, model.medoids, model.sizes, n
        )
        return found.with_index(None if index is None else index[found.row])

    def set_rejection(
        self, X: Any, *, false_alarm_rate: float = 0.05, per: reject.Per = "class"
    ) -> Self:
        """Choose the thresholds above which rows are rejected as of no known class.

        See `DiscriminativeKMeans.set_rejection`.

        Parameters
        ----------
        X : as in `predict`
            Rows of the known classes that were **not** used in the fit; labels are not needed.
        false_alarm_rate : float between 0 and 1, default=0.05
            Largest share of rows of known classes to reject.
        per : {"class", "prototype", "all"}, default="class"
            Rows for which the rate holds: those of each predicted class, those of each nearest
            medoid, or all together.

        Returns
        -------
        self : DiscriminativeKMedoids
            The estimator, with the table `rejection_`.
        """
        check_is_fitted(self)
        reject.check_options(false_alarm_rate, per)
        model = self._fitted
        scores, cells = self._strangeness(X)
        table = reject.rejection_table(
            scores, cells, model.medoids, model.codes, model.classes, false_alarm_rate, per
        )
        return self._publish(model.with_rejection(table))

    def unknown_score(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the strangeness of rows, divided by the threshold of their nearest medoid.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            At least 0; rows above 1 are rejected.
        """
        rejection = self._rejection()
        return reject.relative_scores(*self._strangeness(X), rejection)

    def is_known(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return whether rows may be of a known class: whether `unknown_score` is at most 1.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        known : ndarray of bool of shape (n_samples,)
            False for rows that are rejected.
        """
        return np.asarray(self.unknown_score(X) <= 1)

    def predict_or_reject(self, X: Any, rejected: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each row, or reject it as of no known class.

        Parameters
        ----------
        X : as in `predict`
        rejected : None, number or text, default=None
            Value for rejected rows. None gives an array of objects. Otherwise it must have the
            kind of the class labels and not be one of them.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels as `predict` returns them, or `rejected`.
        """
        self._rejection()
        dtype = reject.label_dtype(self.classes_, rejected)
        labels = self.predict(X).astype(dtype)
        labels[~self.is_known(X)] = rejected
        return labels

    def save(
        self, path: str | PathLike[str], *, with_labels: bool = True, with_path: bool = False
    ) -> None:
        """Write the fitted model to a file, completely or not at all; `dkmeans.load` reads it.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.
        with_labels : bool, default=True
            Whether to include `labels_`.
        with_path : bool, default=False
            Whether to include the models with other numbers of medoids, for `at`.
        """
        from dkmeans.files.model_file import save

        save(self, path, with_labels=with_labels, with_path=with_path)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Name the columns of `transform` by the class and the training row of each medoid.

        Parameters
        ----------
        input_features : ignored
            It is there by scikit-learn's convention.

        Returns
        -------
        names : ndarray of shape (n_medoids_,)
            Such as "setosa_12".
        """
        check_is_fitted(self)
        return prototype_names(self.medoid_classes_, self.medoid_indices_)

    def __sklearn_tags__(self) -> Tags:
        """Declare what is supported, for scikit-learn."""
        tags = super().__sklearn_tags__()
        named = isinstance(self.metric, str)
        tags.input_tags.pairwise = named and self.metric == PRECOMPUTED
        tags.input_tags.positive_only = tags.input_tags.pairwise
        tags.input_tags.sparse = named and self.metric in pairwise.SPARSE
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_medoids_

    def _publish(self, fitted: FittedMedoids) -> Self:
        """Replace all fitted attributes at once."""
        old = self._fitted.attributes() if hasattr(self, "_fitted") else {}
        kept = {name: value for name, value in vars(self).items() if name not in old}
        self.__dict__ = kept | fitted.attributes()
        return self

    def _class_distances(self, X: Any) -> npt.NDArray[np.floating]:
        D = self.transform(X)
        return class_distances(D, self._fitted.codes, len(self._fitted.classes))

    def _strangeness(self, X: Any) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.intp]]:
        D = self.transform(X)
        near = class_distances(D, self._fitted.codes, len(self._fitted.classes))
        return reject.strangeness(near), D.argmin(axis=1)

    def _rejection(self) -> Rejection:
        """Return the thresholds of `set_rejection`."""
        check_is_fitted(self)
        if self._fitted.rejection is None:
            raise NotFittedError(
                "There are no thresholds for these medoids: call set_rejection with held-out rows "
                "first. A new fit drops them."
            )
        return self._fitted.rejection
