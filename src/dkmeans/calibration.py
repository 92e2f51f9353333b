"""Methods of both estimators: calibrated probabilities and prediction sets."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dkmeans.data.dask_collections import is_dask
from dkmeans.data.value_checks import require_labels
from dkmeans.questions import prediction_sets
from dkmeans.questions.calibration import calibrate
from dkmeans.questions.label_errors import known_classes


class CalibrationMixin:
    """Calibration on held-out rows, for classifiers by distances to prototypes."""

    _fitted: Any

    def calibrate(self, X: Any, y: Any = None) -> Self:
        """Calibrate `predict_proba` and `predict_set` on held-out rows.

        `predict_proba` then is the softmax of `decision_function`, divided by the temperature that
        has the least log-loss on these rows. `predict` does not change. Their margins are kept,
        for `predict_set`. A new fit, `partial_fit` or edit drops all that, as it belongs to the
        earlier prototypes: call it again.

        After a fit with `max_clusters="auto"`, probabilities are calibrated already, on the rows
        that were held out to choose the number of clusters; `predict_set` needs other rows, as
        the final model has seen these.

        Parameters
        ----------
        X : as in `fit`
            Rows that were **not** used in the fit. Training rows are nearer to prototypes than new
            ones, so probabilities from them would be overconfident.
        y : array-like of shape (n_samples,)
            Their class labels, all of them in `classes_`, or what `fit` takes in their place.

        Returns
        -------
        self : object
            The estimator, with the attribute `temperature_`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(6, refine=None, metric="euclidean").fit(X[::2], y[::2])
        >>> model.predict_proba(X[[70]]).round(2).tolist()
        [[0.0, 0.23, 0.77]]
        >>> model.calibrate(X[1::2], y[1::2]).predict_proba(X[[70]]).round(2).tolist()
        [[0.02, 0.15, 0.83]]
        """
        check_is_fitted(self)
        near, y = self._labelled_class_distances(X, y)
        require_labels(y, "calibrate")
        classes = known_classes(self._fitted.classes, y, len(near))
        return self._publish(replace(self._fitted, calibration=calibrate(near, classes)))

    def predict_set(
        self, X: Any, alpha: float = 0.1, *, per: prediction_sets.Per = "all"
    ) -> npt.NDArray[np.bool_]:
        """Return the classes that each row may be of: sets that hold the true class.

        By split conformal prediction, the set of a new row lacks its true class with a probability
        of at most `alpha`, on average over held-out rows of `calibrate` and new rows from the same
        distribution. A set can be empty: then no class is near enough for a row of it.

        Parameters
        ----------
        X : as in `predict`
            Rows. Of `DiscriminativeKMeans`, also a Dask array or dataframe; then the result is a
            Dask array.
        alpha : float between 0 and 1, default=0.1
            Largest share of rows whose set may lack their class.
        per : {"all", "class"}, default="all"
            Rows for which the share holds: all together, or those of each true class. A class
            with fewer than 1 / alpha - 1 held-out rows then is in all sets.

        Returns
        -------
        sets : ndarray of bool of shape (n_samples, n_classes)
            Whether each class of `classes_` is in the set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DiscriminativeKMeans(6).fit(X[::2], y[::2]).calibrate(X[1::2], y[1::2])
        >>> model.predict_set(X[[0, 70]], alpha=0.02).tolist()
        [[True, False, False], [False, True, True]]
        """
        check_is_fitted(self)
        prediction_sets.check_options(alpha, per)
        _check_in_memory(X, "predict_set")
        calibration = self._fitted.calibration
        if calibration is None or calibration.scores is None:
            raise NotFittedError(
                "There are no held-out margins for these prototypes: call calibrate with held-out "
                "rows and their labels first. A new fit or an edit drops them."
            )
        near = self._class_distances(X)
        return prediction_sets.prediction_sets(near, calibration.scores, alpha, per)

    def _class_distances(self, X: Any) -> npt.NDArray[np.floating]:
        """Return the distance of rows to the nearest prototype of each class."""
        raise NotImplementedError

    def _labelled_class_distances(self, X: Any, y: Any) -> tuple[npt.NDArray[np.floating], Any]:
        """Return these distances of labelled rows, and their labels."""
        _check_in_memory(X, "calibrate")
        return self._class_distances(X), y

    def _publish(self, fitted: Any) -> Self:
        """Replace all fitted attributes at once."""
        raise NotImplementedError


def _check_in_memory(X: Any, method: str) -> None:
    if is_dask(X):
        raise TypeError(
            f"{method} takes rows in memory, not a Dask collection: compute it first; predict and "
            "predict_proba answer lazily."
        )
