"""Rows that are of none of the known classes."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dkmeans import fitting
from dkmeans.data import validation
from dkmeans.data.dask_collections import is_dask
from dkmeans.data.value_checks import InvalidParameterError, is_real
from dkmeans.engine import query, rejection
from dkmeans.lazy import lazily
from dkmeans.model.rejection import Rejection


class RejectingMixin:
    """Methods that tell rows of known classes from others."""

    classes_: Any
    cluster_centers_: Any
    cluster_classes_: Any
    cluster_ids_: Any
    rejection_: Rejection
    predict: Callable[[Any], npt.NDArray[Any]]

    def set_rejection(
        self, X: Any, *, false_alarm_rate: float = 0.05, per: rejection.Per = "class"
    ) -> Self:
        """Choose from where on a row is too strange to be of a known class.

        A row is the stranger the farther it is from its nearest prototype, and the more it is
        between two classes: with D the distance to the nearest prototype and R that to the nearest
        prototype of another class, its strangeness is D^2 / R (D if there is one class only).
        Thresholds are such that new rows of known classes are rejected at `false_alarm_rate` at
        most, on average over held-out rows and new ones that come from the same source (split
        conformal prediction). Nothing is known about rows of other classes, and so nothing is
        promised about how many of them are rejected.

        Any new fit, `partial_fit` or edit drops the thresholds, as they belong to the prototypes
        that there were: call it again.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of the known classes that the fit has **not** seen; labels are not needed.
            Prototypes are nearer to training rows than to new ones, so thresholds from training
            rows would be too low, and would reject more than promised.
        false_alarm_rate : float between 0 and 1, default=0.05
            Largest share of rows of known classes to be rejected. At least
            1 / false_alarm_rate - 1 rows are needed, 19 for 0.05.
        per : {"class", "prototype", "all"}, default="class"
            For whose rows the rate holds: those of each predicted class, those of each nearest
            prototype, or all together. Groups with too few rows share a threshold: prototypes with
            others of their class, classes with other classes. `rejection_` tells who does.

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
        >>> model = DiscriminativeKMeans(40).fit(X[:900][known[:900]], y[:900][known[:900]])
        >>> model = model.set_rejection(X[900:1300][known[900:1300]])
        >>> later = X[1300:]
        >>> bool(model.is_known(later[known[1300:]]).mean() > 0.9)
        True
        >>> bool(model.is_known(later[~known[1300:]]).mean() < 0.5)
        True
        """
        check_is_fitted(self)
        _check_rate(false_alarm_rate)
        if not isinstance(per, str) or per not in rejection.LEVELS:
            raise InvalidParameterError(
                f"per={per!r} is not accepted: it must be 'class', 'prototype' or 'all'."
            )
        _check_in_memory(X, "set_rejection")
        scores, cells = self._strangeness(X)
        least = rejection.least_rows(false_alarm_rate)
        if len(scores) < least:
            raise ValueError(
                f"false_alarm_rate={false_alarm_rate!r} needs at least {least} held-out rows, but "
                f"X has {len(scores)}: pass more rows, or accept more false alarms."
            )
        codes = np.searchsorted(self.classes_, self.cluster_classes_)
        chosen = rejection.choose(scores, cells, codes, false_alarm_rate, per)
        self.rejection_ = Rejection(
            id=self.cluster_ids_,
            label=self.cluster_classes_,
            threshold=chosen.values,
            rows=chosen.rows,
            rate=chosen.rates,
            per=np.array(rejection.LEVELS)[chosen.levels],
        )
        return self

    @lazily
    def unknown_score(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute how strange rows are, in terms of the threshold of their nearest prototype.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows. For a Dask array or dataframe, the result is a Dask array.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            From 0 up; rows above 1 are rejected. Where the threshold is 0, rows that are not on a
            prototype get the largest number there is.
        """
        self._check_rejection()
        scores, cells = self._strangeness(X)
        thresholds = self.rejection_.threshold.astype(scores.dtype)[cells]
        most = np.finfo(scores.dtype).max
        with np.errstate(over="ignore"):
            ratio = np.divide(
                scores,
                thresholds,
                out=np.where(scores > 0, most, scores),
                where=thresholds > 0,
            )
        return np.minimum(ratio, most)

    @lazily
    def is_known(self, X: Any) -> npt.NDArray[np.bool_]:
        """Tell whether rows may be of a known class: whether `unknown_score` is at most 1.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows. For a Dask array or dataframe, the result is a Dask array.

        Returns
        -------
        known : ndarray of bool of shape (n_samples,)
            False for rows that are rejected.
        """
        return self.unknown_score(X) <= 1

    def predict_or_reject(self, X: Any, rejected: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each row, or that it is of none of the known ones.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.
        rejected : None, number or text, default=None
            What stands for "none of the known classes". None gives an array of objects. Otherwise
            it is of the kind of the class labels and none of them, for instance -1 or "unknown",
            and labels stay numbers or text.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels as `predict` gives them, and `rejected`.

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
        self._check_rejection()
        kind = _kind(self.classes_, rejected)
        _check_in_memory(X, "predict_or_reject")
        known = self.is_known(X)
        labels = self.predict(X).astype(kind)
        labels[~known] = rejected
        return labels

    def _strangeness(self, X: Any) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.intp]]:
        """Compute how strange rows are, and find their nearest prototypes."""
        X = validation.check_rows(self, X)
        n_threads = validation.threads_of(self)
        prototypes = fitting.prototypes(self, self.classes_)
        near = query.class_distances(X, prototypes, len(self.classes_), n_threads)
        cells, _ = query.nearest(X, self.cluster_centers_, n_threads)
        return rejection.strangeness(near), cells

    def _check_rejection(self) -> None:
        check_is_fitted(self)
        if not hasattr(self, "rejection_"):
            raise NotFittedError(
                "There are no thresholds for these prototypes: call set_rejection with held-out "
                "rows first. A new fit or an edit drops them."
            )


def _check_rate(rate: Any) -> None:
    if not (is_real(rate) and 0 < rate < 1):
        raise InvalidParameterError(
            f"false_alarm_rate={rate!r} is not accepted: it must be a number between 0 and 1."
        )


def _check_in_memory(X: Any, method: str) -> None:
    if is_dask(X):
        raise TypeError(
            f"{method} takes rows in memory, not a Dask collection: compute it first; predict, "
            "unknown_score and is_known answer lazily."
        )


def _kind(classes: npt.NDArray[Any], rejected: Any) -> np.dtype[Any]:
    """Find the type of labels among which some are rejected; refuse what could be mistaken."""
    if rejected is None:
        return np.dtype(object)
    text = classes.dtype.kind not in "biuf"
    if text:
        fits = isinstance(rejected, str)
    else:
        whole = isinstance(rejected, int | np.integer)
        fits = is_real(rejected) and (
            whole if classes.dtype.kind in "iu" else classes.dtype != bool
        )
    if not fits:
        raise InvalidParameterError(
            f"rejected={rejected!r} is not accepted: it must be None, or of the kind of the class "
            f"labels, which are such as {classes[:1].tolist()[0]!r}."
        )
    if rejected in classes.tolist():
        raise ValueError(
            f"rejected={rejected!r} is one of the class labels: choose something that is not."
        )
    kind = np.promote_types(classes.dtype, np.asarray(rejected).dtype)
    # No number type has all of both: whole numbers must not be rounded.
    return np.dtype(object) if kind.kind != classes.dtype.kind and kind.kind == "f" else kind
