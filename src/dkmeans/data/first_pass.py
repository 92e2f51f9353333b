"""The first pass over blocks: check them, and keep their labels and weights."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from dkmeans.data import arguments, validation
from dkmeans.data.blocks import Batch, BlockSource, Digest, SourceError, as_floats
from dkmeans.data.row_sample import RowSample
from dkmeans.data.row_weights import WeightFacts, WeightsElsewhere
from dkmeans.data.value_checks import (
    as_labels,
    check_same_kind,
    check_sample_weight,
    check_weights,
    class_weights,
    finite_range,
)
from dkmeans.growth.rules import Continuation
from dkmeans.kernels.block import Floats, Matrix


@dataclass(frozen=True)
class BlockSummary:
    """What the first pass keeps of one block."""

    where: str
    shape: tuple[int, int]
    sparse: bool
    n_values: int
    labels: npt.NDArray[Any]  # distinct
    codes: npt.NDArray[np.integer]  # index of the label of each row among these
    weight: npt.NDArray[Any] | None
    largest: float  # largest magnitude of a value
    facts: WeightFacts | None = None  # of the labels, if the rows are not here

    @classmethod
    def of(cls, batch: Batch, X: Matrix, largest: float) -> "BlockSummary":
        """Summarise a block whose converted rows are X."""
        try:
            labels, codes = distinct_labels(batch.y)
        except TypeError as error:  # None among text, or text among numbers
            raise SourceError(
                f"In {batch.where}: labels must be all text or all numbers, with none missing "
                f"({error}): drop or rename the others."
            ) from error
        labels = labels.astype(batch.label_dtype or labels.dtype, copy=False)
        sparse = sp.issparse(X)
        n_values = X.nnz if sparse else X.size
        small = labels, codes.astype(np.int32, copy=False).ravel(), batch.weight
        return cls(batch.where, X.shape, sparse, n_values, *small, largest)

    def by_label(self) -> tuple["BlockSummary", npt.NDArray[np.integer]]:
        """Keep one entry per label, of its heaviest row; return the entry of each row, too."""
        facts = WeightFacts.of(self.codes, self.weight, len(self.labels))
        weight = None if self.weight is None else facts.high
        codes = np.arange(len(self.labels), dtype=np.int32)
        return replace(self, codes=codes, weight=weight, facts=facts), self.codes


def distinct_labels(y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Return distinct labels, ascending, and the index of that of each row, as `np.unique` does.

    Integers in a small range are not sorted, which takes a tenth of the time.
    """
    if y.dtype.kind in "iu" and y.ndim == 1 and len(y):
        low, high = int(y.min()), int(y.max())
        if high - low < len(y):
            # Differences may wrap around in a short type, and back in the sums below.
            least = y.dtype.type(low)
            offsets = (y - least).view(f"u{y.dtype.itemsize}").astype(np.intp)
            there = np.zeros(high - low + 1, dtype=bool)
            there[offsets] = True
            labels = (np.flatnonzero(there).astype(y.dtype) + least).astype(y.dtype)
            return labels, (np.cumsum(there) - 1)[offsets]
    labels, codes = np.unique(y, return_inverse=True)
    return labels, codes


class FirstPass:
    """Checks blocks one after the other, and collects their summaries."""

    def __init__(self, estimator: Any, names: list[str] | None, how: Continuation) -> None:
        self._estimator = estimator
        self._how, self._is_fresh = how, how.is_fresh
        self._feature_names = None if names is None else np.array(names, dtype=object)
        self.sizes: list[int] = []
        self.n_features = len(names) if names is not None else 0
        self._dtype = None if self._is_fresh else estimator._fitted.prototypes.centers.dtype
        self.sparse = False
        self._codes: dict[Any, int] = {}  # of labels, in the order in which they come
        self._label_dtypes: set[np.dtype[Any]] = set()
        self._y: list[npt.NDArray[np.int32]] = []
        self._weights: list[Floats] = []
        self._digests: list[Digest] = []
        self._largest, self._n_values = 0.0, 0
        self._sample = RowSample()

    def at(self, batch: Batch) -> Matrix | None:
        """Check and summarise one block; return its converted rows, or None if it has none."""
        X = batch.X
        if not X.shape[0]:
            return None
        if not self.sizes:
            self.begin(X.shape, sp.issparse(X))
        X = self.converted(batch)
        try:
            threads = arguments.threads_of(self._estimator)
            largest = finite_range(X, self._feature_names, threads)
        except ValueError as error:
            raise SourceError(f"In {batch.where}: {error}") from error
        self.note(BlockSummary.of(batch, X, largest))
        if self._is_fresh:
            self._sample.add(X)
        return X

    def remember(self, batch: Batch, X: Matrix) -> None:
        """Keep checksums of a block and its converted rows, if it will be read `again`."""
        self._digests.append(Digest.of(batch, X))

    def again(self, blocks: BlockSource) -> Iterator[Matrix]:
        """Read the rows again in a later pass; raise an error if they have changed."""
        number = 0
        for batch in blocks:
            if not batch.X.shape[0]:
                continue
            X = self.converted(batch)
            if number == len(self.sizes):
                _raise_changed(f"{batch.where} was not there in the first pass")
            if X.shape[0] != self.sizes[number]:
                _raise_changed(
                    f"{batch.where} has {X.shape[0]} rows, but had {self.sizes[number]} in the "
                    "first pass"
                )
            odd = Digest.of(batch, X).differs_in(self._digests[number])
            if odd:
                _raise_changed(
                    f"{batch.where} has other {' and '.join(odd)} than in the first pass"
                )
            yield X
            number += 1
        if number < len(self.sizes):
            _raise_changed(
                f"there were {len(self.sizes)} blocks in the first pass, and now there are {number}"
            )

    def begin(self, shape: tuple[int, int], sparse: bool) -> None:
        """Take the number of features and the format from the first block that is not empty."""
        self.n_features, self.sparse = shape[1], sparse
        if not self.n_features:
            raise SourceError("X has no features: at least one is needed.")
        self._check_features()

    def note(self, seen: BlockSummary) -> None:
        """Keep the summary of a block that is not empty."""
        if self.sizes and (seen.weight is None) != (not self._weights):
            raise SourceError(f"{seen.where}: all blocks need weights, or none may have them.")
        if seen.weight is not None:
            try:
                self._weights.append(check_weights(seen.weight, len(seen.codes)))
            except ValueError as error:
                raise SourceError(f"In {seen.where}: {error}") from error
        self._label_dtypes.add(seen.labels.dtype)
        labels = seen.labels.tolist()
        codes = [self._codes.setdefault(label, len(self._codes)) for label in labels]
        self._y.append(np.array(codes, dtype=np.int32)[seen.codes])
        self._largest = max(self._largest, seen.largest)
        self._n_values += seen.n_values
        self.sizes.append(seen.shape[0])

    def converted(self, batch: Batch) -> Matrix:
        """Convert a block to the type of the first."""
        X = batch.X
        self.check_alike(batch.where, X.shape, X.dtype, sp.issparse(X))
        try:
            return X.astype(self._dtype, copy=False)
        except (TypeError, ValueError) as error:
            raise SourceError(f"In {batch.where}: {validation.describe_text(X)}") from error

    def check_alike(
        self, where: str, shape: tuple[int, int], dtype: np.dtype[Any], sparse: bool
    ) -> None:
        """Refuse a block that differs from the first."""
        if shape[1] != self.n_features or sparse != self.sparse:
            kind = "sparse" if self.sparse else "dense"
            raise SourceError(
                f"{where}: {shape[1]} features, but the first block has {self.n_features}, {kind}: "
                "all must be alike."
            )
        if np.dtype(dtype).kind == "c":
            raise SourceError(
                f"In {where}: X must be real numbers, but is of type {dtype}: pass real and "
                "imaginary parts as features of their own."
            )
        if self._dtype is None:
            self._dtype = as_floats([dtype])
        elif self._is_fresh and as_floats([dtype]) != self._dtype:
            raise SourceError(
                f"{where} is of type {dtype}, but the first block is {self._dtype}: all must be "
                "alike."
            )

    def training(
        self,
        reach: float,
        classes: Any,
        weights_of: Callable[[npt.NDArray[np.int32], int], WeightsElsewhere] | None = None,
        sample: Matrix | None = None,
    ) -> validation.Training:
        """Combine the summaries of all blocks.

        Parameters
        ----------
        reach, classes : as in `validation.check_training`
        weights_of : callable, optional
            Given the class of each entry and the number of classes, returns the weights of rows
            that are not here.
        sample : matrix, optional
            Some of the rows that are not here, of any type of numbers.
        """
        if not self.sizes:
            raise SourceError("Found no rows: at least one is needed.")
        estimator, dtype = self._estimator, self._dtype
        assert dtype is not None
        seen = as_labels(list(self._codes))
        # Labels that are few beside the rows are there more than once, and so are they here.
        check_classification_targets(np.tile(seen, 1 if 2 * len(seen) > sum(self.sizes) else 2))
        # The type that an array of all labels would have.
        found = np.unique(seen).astype(np.result_type(*self._label_dtypes))
        known = [] if self._is_fresh else [estimator.classes_]
        if classes is not None:
            known.append(np.unique(as_labels(classes)))
        for labels in known:
            check_same_kind(labels, found)
            found = np.union1d(found, labels)
        place = np.searchsorted(found, seen).astype(np.int32)
        y: Any = np.concatenate(self._y)  # short numbers, as there are many
        self._y.clear()
        np.take(place, y, out=y, mode="clip")  # without a copy
        weights = np.concatenate(self._weights) if self._weights else None
        weights = check_sample_weight(weights, len(y))
        shape = sum(self.sizes), self.n_features
        allows_euclidean = validation.check_reach(
            estimator, shape, dtype, self._largest, reach, self._how
        )
        elsewhere = None if weights_of is None else weights_of(y, len(found))
        sums = None if elsewhere is None else elsewhere.sums
        by_class = class_weights(estimator.class_weight, found, y, weights, sums)
        names: dict[str, Any] = {"n_features_in_": self.n_features}
        if self._feature_names is not None:
            names["feature_names_in_"] = self._feature_names
        about = names, dtype, self._n_values
        sample = self._sample.rows() if sample is None else sample.astype(dtype, copy=False)
        training = validation.Training(
            None, y, found, weights, by_class, *about, elsewhere, allows_euclidean, sample
        )
        validation.check_budget(estimator, training)
        return training

    def _check_features(self) -> None:
        estimator = self._estimator
        if self._is_fresh:
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


def _raise_changed(how: str) -> NoReturn:
    raise SourceError(
        f"The data changed while it was read: {how}; every pass must give the same blocks in the "
        "same order, so do not shuffle, fix the seed of what is random, and leave files alone "
        "during a fit."
    )
