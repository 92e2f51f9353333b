"""Labelled rows that are read block by block: a first look at all of them, then passes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from dkmeans import validate
from dkmeans.checks import check_same_kind, check_sample_weight, class_weights, finite_range
from dkmeans.engine.prefetch import ahead
from dkmeans.kernels.block import Matrix
from dkmeans.kernels.sphere import unit_rows
from dkmeans.readers.arrays import MappedBlocks, is_mapped
from dkmeans.readers.batches import OwnBatches, are_batches
from dkmeans.readers.blocks import Batch, Blocks, SourceError, as_floats
from dkmeans.readers.tables import TableBlocks, is_path


@dataclass(frozen=True)
class Stream:
    """Blocks that have been looked through once."""

    training: validate.Training
    sizes: list[int]  # rows of each block
    read: Callable[[], Iterator[Matrix]]  # starts to read them again


def open_blocks(X: Any, y: Any, sample_weight: Any, memory_mb: float | None) -> Blocks | None:
    """Find out how to read X block by block; None if it is an array or table in memory."""
    if isinstance(X, TableBlocks | OwnBatches):
        _refuse_columns(y, sample_weight)
        return X
    if is_path(X):
        if not isinstance(y, str):
            raise SourceError(f"X is a path, so y must be the name of the label column, not {y!r}.")
        return TableBlocks(X, y, sample_weight, memory_mb=memory_mb)
    if is_mapped(X, memory_mb):
        return MappedBlocks(X, y, sample_weight, memory_mb)
    if are_batches(X):
        _refuse_columns(y, sample_weight)
        return OwnBatches(X)
    return None


def look_through(
    estimator: Any, blocks: Blocks, *, reach: float, afresh: bool, classes: Any = None
) -> Stream:
    """Read all blocks once, check them, and keep what is small: labels and weights.

    Parameters are those of `validate.check_training`.
    """
    look = _Look(estimator, blocks.names, afresh)
    with ahead(blocks) as batches:
        for batch in batches:
            look.at(batch)
    training = look.training(reach, classes)
    unit = estimator.metric == "cosine"

    def read() -> Iterator[Matrix]:
        number = -1
        for number, X in enumerate(_full(blocks, look)):
            if number >= len(look.sizes) or X.shape != (look.sizes[number], look.n_features):
                raise SourceError(
                    f"The data changed while it was read: block {number} has the shape {X.shape} "
                    "now, which is not what it had at first."
                )
            yield unit_rows(X) if unit else X
        if number + 1 < len(look.sizes):
            raise SourceError(
                f"The data changed while it was read: there were {len(look.sizes)} blocks at "
                f"first, and now there are {number + 1}."
            )

    return Stream(training, look.sizes, read)


def _full(blocks: Blocks, look: "_Look") -> Iterator[Matrix]:
    for batch in blocks:
        if batch.X.shape[0]:
            yield look.converted(batch)


class _Look:
    """What a first look at all blocks finds."""

    def __init__(self, estimator: Any, names: list[str] | None, afresh: bool) -> None:
        self._estimator, self._afresh = estimator, afresh
        self._feature_names = None if names is None else np.array(names, dtype=object)
        self.sizes: list[int] = []
        self.n_features = len(names) if names is not None else 0
        self._dtype = None if afresh else estimator.cluster_centers_.dtype
        self._sparse = False
        self._codes: dict[Any, int] = {}  # of labels, in the order in which they come
        self._y: list[npt.NDArray[np.intp]] = []
        self._weights: list[npt.NDArray[np.float64]] = []
        self._largest, self._n_values = 0.0, 0

    def at(self, batch: Batch) -> None:
        """Look at one block."""
        X = batch.X
        if not X.shape[0]:
            return
        if not self.sizes:
            self.n_features, self._sparse = X.shape[1], sp.issparse(X)
            self._check_features()
        X = self.converted(batch)
        try:
            threads = validate.threads_of(self._estimator)
            largest = finite_range(X, self._feature_names, threads)
        except ValueError as error:
            raise SourceError(f"In {batch.where}: {error}") from error
        if self.sizes and (batch.weight is None) != (not self._weights):
            raise SourceError(f"{batch.where}: all blocks need weights, or none may have them.")
        if batch.weight is not None:
            self._weights.append(np.asarray(batch.weight, dtype=np.float64))
        labels, inverse = np.unique(batch.y, return_inverse=True)
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise SourceError(f"In {batch.where}: labels are missing (NaN): drop these rows.")
        codes = [self._codes.setdefault(label, len(self._codes)) for label in labels.tolist()]
        self._y.append(np.array(codes, dtype=np.intp)[inverse.ravel()])
        self._largest = max(self._largest, largest)
        self._n_values += X.nnz if sp.issparse(X) else X.size
        self.sizes.append(X.shape[0])

    def converted(self, batch: Batch) -> Matrix:
        """Bring a block to the type of all."""
        X = batch.X
        if X.shape[1] != self.n_features or sp.issparse(X) != self._sparse:
            kind = "sparse" if self._sparse else "dense"
            raise SourceError(
                f"{batch.where}: {X.shape[1]} features, but the first block has "
                f"{self.n_features}, {kind}: all must be alike."
            )
        if self._dtype is None:
            self._dtype = as_floats([X.dtype])
        elif self._afresh and as_floats([X.dtype]) != self._dtype:
            raise SourceError(
                f"{batch.where} is of type {X.dtype}, but the first block is {self._dtype}: all "
                "must be alike."
            )
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return X.astype(self._dtype, copy=False)

    def training(self, reach: float, classes: Any) -> validate.Training:
        """Put together what was found."""
        if not self.sizes:
            raise SourceError("Found no rows: at least one is needed.")
        estimator, dtype = self._estimator, self._dtype
        assert dtype is not None
        seen = np.array(list(self._codes))
        check_classification_targets(seen)
        found = np.unique(seen)
        known = [] if self._afresh else [estimator.classes_]
        if classes is not None:
            known.append(np.unique(classes))
        for labels in known:
            check_same_kind(labels, found)
            found = np.union1d(found, labels)
        place = np.searchsorted(found, seen)
        y = place[np.concatenate(self._y)].astype(np.intp)
        weights = np.concatenate(self._weights) if self._weights else None
        weights = check_sample_weight(weights, len(y))
        if estimator.metric != "cosine":
            largest = self._largest
            if not self._afresh:
                largest = max(largest, float(np.abs(estimator.cluster_centers_).max()))
            validate.check_reach(estimator, (len(y), self.n_features), dtype, largest, reach)
        validate.check_budget(estimator, found)
        by_class = class_weights(estimator.class_weight, found, y, weights)
        names: dict[str, Any] = {"n_features_in_": self.n_features}
        if self._feature_names is not None:
            names["feature_names_in_"] = self._feature_names
        return validate.Training(None, y, found, weights, by_class, names, dtype, self._n_values)

    def _check_features(self) -> None:
        estimator = self._estimator
        if self._afresh:
            return
        if self.n_features != estimator.n_features_in_:
            raise SourceError(
                f"X has {self.n_features} features, but the estimator was fitted on "
                f"{estimator.n_features_in_}."
            )
        before = getattr(estimator, "feature_names_in_", None)
        now = self._feature_names
        if before is not None and now is not None and before.tolist() != now.tolist():
            raise SourceError(
                "The columns are not those that the estimator was fitted on, or in another order."
            )


def _refuse_columns(y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise SourceError("X brings its own labels and weights: leave y and sample_weight out.")
