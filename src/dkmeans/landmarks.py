"""`Landmarks`: vectors from any metric or kernel, so that `DiscriminativeKMeans` can use it."""

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dkmeans.data.arguments import is_count, is_int, threads_of
from dkmeans.data.value_checks import InvalidParameterError, is_real
from dkmeans.kernels.block import Floats, Indices
from dkmeans.kernels.threads import single_threaded_blas, tiles
from dkmeans.medoid_estimator import DiscriminativeKMedoids
from dkmeans.medoid_fit import fit as fit_medoids
from dkmeans.metrics import pairwise
from dkmeans.metrics.kinds import PRECOMPUTED, Kind, MatrixKind, Options, kind_of, n_rows_of
from dkmeans.metrics.matrices import checked_matrix
from dkmeans.scale_warnings import warn_of_scale

RBF = "rbf"
KERNELS = ("chi2", "laplacian", "linear", "poly", RBF, "sigmoid")
_SPARSE_KERNELS = {"laplacian", "linear", "poly", RBF, "sigmoid"}
_OF_UNITS = _SPARSE_KERNELS  # kernels in which a feature counts more in a smaller unit
_GAMMA_SCALE = 2.0  # of gamma="scale": times the inverse of the mean squared distance
_MIN_EIGENVALUE = 1e-10  # relative to the largest; smaller ones are rounding errors
_BLOCK_ROWS = 1024  # whose kernel is computed at a time
_DIAGONAL_ROWS = 64  # whose kernel with themselves is computed at a time


class Landmarks(TransformerMixin, ClassNamePrefixFeaturesOutMixin, BaseEstimator):
    """Turn rows into vectors by their similarity to a few of them, for any metric or kernel.

    Inner products of the new vectors approximate a kernel (the Nystroem method), so that a linear
    method, or one that needs means such as `DiscriminativeKMeans`, works in the space of the
    kernel. Distances become a kernel by exp(-gamma D^2). The landmarks are chosen without random
    numbers.

    Parameters
    ----------
    n_landmarks : int, default=100
        Largest number of landmarks; there are fewer if there are fewer distinct rows.
    metric : str or callable, default="rbf"
        Kernel "rbf", "laplacian", "linear", "poly", "sigmoid" or "chi2"; or the name of a metric of
        scikit-learn or SciPy; "precomputed" if X is a matrix of distances or of a kernel; or a
        function of two objects.
    values : {"distance", "kernel"}, default="distance"
        What "precomputed" or a function tells.
    gamma : float or "scale", default="scale"
        In exp(-gamma D^2), for "rbf" and distances. "scale" is 2 divided by the mean squared
        distance between landmarks.
    selection : {"farthest", "medoids"}, default="farthest"
        "farthest" takes the row that is farthest from all landmarks so far, again and again.
        "medoids" takes the medoids of `DiscriminativeKMedoids`, which needs y and the distances
        between all rows.
    metric_params : dict or None, default=None
        Keyword arguments of the metric or kernel.
    n_threads : int or None, default=None
        Number of threads; None uses all cores this process may use. It affects the speed, never
        the landmarks.

    Attributes
    ----------
    landmark_indices_ : ndarray of shape (n_landmarks_,)
        Training rows that are landmarks.
    landmarks_ : array, CSR matrix or list
        The landmarks themselves. Does not exist with "precomputed".
    n_landmarks_ : int
        Number of landmarks.
    gamma_ : float
        Value of gamma. Does not exist for other kernels.
    normalization_ : ndarray of shape (n_landmarks_, n_components)
        Matrix that turns similarities to the landmarks into features.
    n_features_in_ : int
        Number of features, or of rows for "precomputed"; does not exist for a callable.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, if X was a table with text column names.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from sklearn.pipeline import make_pipeline
    >>> from dkmeans import DiscriminativeKMeans, Landmarks
    >>> X, y = make_circles(200, factor=0.5, noise=0.05, random_state=0)
    >>> plain = DiscriminativeKMeans(max_clusters=2, refine=None, metric="euclidean").fit(X, y)
    >>> kernel = make_pipeline(Landmarks(20), DiscriminativeKMeans(max_clusters=2)).fit(X, y)
    >>> round(plain.score(X, y), 2), round(kernel.score(X, y), 2)
    (0.5, 1.0)
    """

    n_landmarks_: int
    landmark_indices_: Indices
    normalization_: npt.NDArray[np.floating]

    def __init__(
        self,
        n_landmarks: int = 100,
        *,
        metric: str | Callable[[Any, Any], float] = RBF,
        values: Literal["distance", "kernel"] = "distance",
        gamma: float | Literal["scale"] = "scale",
        selection: Literal["farthest", "medoids"] = "farthest",
        metric_params: dict[str, Any] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.metric = metric
        self.values = values
        self.gamma = gamma
        self.selection = selection
        self.metric_params = metric_params
        self.n_threads = n_threads

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose landmarks.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or sequence of objects
            Rows. With `metric="precomputed"`, a matrix of shape (n_samples, n_samples). With a
            callable, any objects.
        y : array-like of shape (n_samples,), optional
            Class labels, for `selection="medoids"`.

        Returns
        -------
        self : Landmarks
            The fitted transformer.
        """
        self._check_parameters()
        kind = self._kind()
        found: dict[str, Any] = {}
        scratch = type(self)(**self.get_params(deep=False))
        given, X = X, kind.read(scratch, X)
        similarity = _Similarity(self, kind)
        if self.metric == PRECOMPUTED and similarity.is_distance:
            checked_matrix(X, None, threads_of(self))
        if self.selection == "medoids":
            which = self._medoids(X, y)
        else:
            which = _farthest_first(similarity, X, kind.order(X), self.n_landmarks)
        kept = kind.keep(X, which)
        if similarity.is_distance:
            square = np.square(similarity.raw(_take(X, which), which, kept), dtype=np.float64)
            similarity.gamma = found["gamma_"] = self._gamma(square)
        between = similarity(_take(X, which), which, kept).astype(np.float64)
        names = ("n_features_in_", "feature_names_in_")
        found |= {name: getattr(scratch, name) for name in names if hasattr(scratch, name)}
        found |= {
            "landmark_indices_": which,
            "n_landmarks_": len(which),
            "normalization_": _inverse_root((between + between.T) / 2),
            "_kept": kept,
        }
        if kept is not None:
            found["landmarks_"] = kept
        old = {*found, "landmarks_", "gamma_", *names}
        self.__dict__ = {n: v for n, v in vars(self).items() if n not in old} | found
        if isinstance(self.metric, str) and self.metric in {*pairwise.OF_UNITS, *_OF_UNITS}:
            warn_of_scale(self, given, stacklevel=2)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.floating]:
        """Compute the features of rows.

        Parameters
        ----------
        X : as in `fit`
            With `metric="precomputed"`, a matrix with a column for each training row, or for each
            landmark only.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            Features; float32 for float32 rows.
        """
        check_is_fitted(self)
        kind = self._kind(getattr(self, "n_features_in_", None))
        X = kind.read_new(self, X, self.n_landmarks_)
        similarity = _Similarity(self, kind, getattr(self, "gamma_", None))
        n = n_rows_of(X)
        dtype = getattr(X, "dtype", None)
        dtype = np.dtype(np.float32) if dtype == np.float32 else np.dtype(np.float64)
        features = np.empty((n, self.normalization_.shape[1]), dtype=dtype)
        with single_threaded_blas:
            for start in range(0, n, _BLOCK_ROWS):
                part = slice(start, start + _BLOCK_ROWS)
                near = similarity(X[part], self.landmark_indices_, self._kept)
                features[part] = near.astype(np.float64) @ self.normalization_
        return features

    def __sklearn_tags__(self) -> Tags:
        """Declare what is supported, for scikit-learn."""
        tags = super().__sklearn_tags__()
        named = isinstance(self.metric, str)
        tags.input_tags.pairwise = named and self.metric == PRECOMPUTED
        tags.input_tags.sparse = named and self.metric in {*pairwise.SPARSE, *_SPARSE_KERNELS}
        tags.input_tags.positive_only = self.metric == "chi2" or (
            tags.input_tags.pairwise and self.values == "distance"
        )
        tags.target_tags.required = self.selection == "medoids"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.normalization_.shape[1])

    def _kind(self, n_fitted: int | None = None) -> Kind:
        """Return how rows are read, and their distances if they have any."""
        metric = "euclidean" if self.metric in KERNELS else self.metric
        n_threads = threads_of(self)
        return kind_of(
            Options(metric, self.metric_params or {}, n_threads=n_threads, n_fitted=n_fitted)
        )

    def _gamma(self, squares: Floats) -> float:
        if self.gamma != "scale":
            return float(self.gamma)
        mean = squares.sum() / max(1, len(squares) * (len(squares) - 1))
        return _GAMMA_SCALE / mean if mean > 0 else 1.0

    def _medoids(self, X: Any, y: Any) -> Indices:
        """Return the medoids of the classes, by distances in the space of the kernel."""
        if y is None:
            raise ValueError(
                "selection='medoids' requires y to be passed, but the target y is None: pass class "
                "labels, or use selection='farthest'."
            )
        metric: Any = "euclidean" if self.metric == RBF else self.metric
        if self.values == "kernel" or metric in KERNELS:
            similarity = _Similarity(self, self._kind())
            everyone = np.arange(n_rows_of(X))
            K = similarity(X, everyone, self._kind().keep(X, everyone)).astype(np.float64)
            X, metric = _kernel_distances(K), PRECOMPUTED
        model = DiscriminativeKMedoids(
            max(self.n_landmarks, len(np.unique(np.asarray(y)))),
            metric=metric,
            metric_params=None if metric == PRECOMPUTED else self.metric_params,
            n_threads=self.n_threads,
        )
        return fit_medoids(model, X, y, None).medoids  # which warns of nothing

    def _check_parameters(self) -> None:
        def require(name: str, ok: bool, accepted: str) -> None:
            if not ok:
                value = getattr(self, name)
                raise InvalidParameterError(f"{name}={value!r} is not accepted: {accepted}.")

        m = self.n_landmarks
        require("n_landmarks", is_int(m) and m >= 1, "it must be an integer >= 1")
        known = (*KERNELS, *pairwise.NAMES, PRECOMPUTED)
        named = isinstance(self.metric, str) and self.metric in known
        require(
            "metric",
            named or callable(self.metric),
            f"it must be a function of two objects, or one of {', '.join(known)}",
        )
        for name, accepted in (
            ("values", ("distance", "kernel")),
            ("selection", ("farthest", "medoids")),
        ):
            value = getattr(self, name)
            ok = isinstance(value, str) and value in accepted
            require(name, ok, f"it must be {' or '.join(map(repr, accepted))}")
        g = self.gamma
        require(
            "gamma",
            g == "scale" if isinstance(g, str) else is_real(g) and 0 < g < np.inf,
            "it must be a number > 0 or 'scale'",
        )
        extra = self.metric_params
        ok = extra is None or isinstance(extra, dict)
        require("metric_params", ok, "it must be a dict or None")
        require("n_threads", is_count(self.n_threads), "it must be None or an integer >= 1")


class _Similarity:
    """The kernel of a transformer, between rows and landmarks."""

    def __init__(self, owner: Landmarks, kind: Kind, gamma: float | None = None) -> None:
        self.kind, self.gamma = kind, gamma
        self._metric: Any = owner.metric
        self._params = owner.metric_params or {}
        named_kernel = owner.metric in KERNELS and owner.metric != RBF
        is_given = callable(owner.metric) or owner.metric == PRECOMPUTED
        self.is_distance = not named_kernel and not (is_given and owner.values == "kernel")

    def raw(self, X: Any, which: Indices, kept: Any) -> npt.NDArray[np.floating]:
        """Return distances if there are any, or else the kernel itself, shape (n, m)."""
        if self.is_distance:
            return self.kind.to_medoids(X, which, kept)
        if callable(self._metric):
            values = [[float(self._metric(x, z, **self._params)) for z in kept] for x in X]
            return np.array(values, dtype=np.float64).reshape(len(X), len(kept))
        if isinstance(self.kind, MatrixKind):
            return np.asarray(self.kind.columns(X, which))
        X, kept = pairwise.with_short_indices(X), pairwise.with_short_indices(kept)
        return np.asarray(pairwise_kernels(X, kept, metric=self._metric, **self._params))

    def __call__(self, X: Any, which: Indices, kept: Any) -> npt.NDArray[np.floating]:
        """Return the kernel between rows and landmarks, shape (n, m)."""
        values = self.raw(X, which, kept)
        if not self.is_distance:
            if not np.isfinite(values).all():
                raise ValueError("The kernel is NaN or infinite between some rows of X.")
            return values
        assert self.gamma is not None
        return np.exp(-self.gamma * np.square(values, dtype=np.float64))

    def lengths(self, X: Any) -> Floats:
        """Return the kernel of each row with itself."""
        if self._metric == PRECOMPUTED:
            return np.diagonal(X).astype(np.float64)
        found = np.empty(n_rows_of(X))
        size = 1 if callable(self._metric) else _DIAGONAL_ROWS
        for part in tiles(len(found), size):
            which = np.arange(part.start, part.stop)
            found[part] = np.diagonal(self.raw(X[part], which, self.kind.keep(X, which)))
        return found


def _farthest_first(similarity: _Similarity, X: Any, order: Indices, most: int) -> Indices:
    """Choose rows, each the farthest from those before it; the first in `order` on a tie."""
    lengths = None if similarity.is_distance else similarity.lengths(X)
    chosen = [int(order[0])]
    nearest = np.full(len(order), np.inf)
    while len(chosen) < most:
        squares = _squares_to(similarity, X, chosen[-1], lengths)
        np.minimum(nearest, squares[order], out=nearest)
        best = int(nearest.argmax())
        if not nearest[best] > 0:
            break
        chosen.append(int(order[best]))
    return np.array(chosen, dtype=np.intp)


def _squares_to(similarity: _Similarity, X: Any, one: int, lengths: Floats | None) -> Floats:
    """Return the squared distances of all rows to one of them, in the space of the kernel."""
    which = np.array([one])
    values = similarity.raw(X, which, similarity.kind.keep(X, which))[:, 0].astype(np.float64)
    if lengths is None:
        return np.square(values)
    return np.maximum(lengths + lengths[one] - 2 * values, 0.0)


def _kernel_distances(K: Floats) -> Floats:
    lengths = np.diagonal(K)
    D = np.sqrt(np.maximum(lengths[:, None] + lengths - K - K.T, 0.0))
    np.fill_diagonal(D, 0.0)
    return D


def _inverse_root(K: Floats) -> Floats:
    """Return the matrix that turns similarities into features: the inverse root of the kernel.

    Directions without a positive eigenvalue are left out. The sign of each feature is that of its
    largest coefficient, so that it does not depend on the library that computes it.
    """
    with single_threaded_blas:
        values, vectors = np.linalg.eigh(K)
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > _MIN_EIGENVALUE * max(float(values.max()), 0.0)]
    vectors, values = vectors[:, order], values[order]
    if not len(values):
        raise ValueError(
            "The kernel between the landmarks has no positive eigenvalue: check metric and values."
        )
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
    return vectors * signs / np.sqrt(values)


def _take(X: Any, which: Indices) -> Any:
    if sp.issparse(X) or isinstance(X, np.ndarray):
        return X[which]
    return [X[i] for i in which.tolist()]
