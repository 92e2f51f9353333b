"""Trials: fit models on some rows of a table, and count their errors on the others."""

import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans.cli.console import label_text
from dkmeans.cli.errors import InputError
from dkmeans.cli.fit_command import warning_text
from dkmeans.cli.frame_rows import FrameRows
from dkmeans.cli.labelled_rows import Labelled, take_rows
from dkmeans.cli.loaded_model import LoadedModel
from dkmeans.cli.rows import whole
from dkmeans.tables.pipeline import build_pipeline

_RARE = "leave out the classes that have fewer"
_SEED = 0  # of the rows that are held out


@dataclass(frozen=True)
class Split:
    """How rows are held out: in turn in `cv` parts, or a share of them once."""

    cv: int | None = 5
    test_size: float | None = None

    def __str__(self) -> str:
        if self.test_size is not None:
            return f"{100 * self.test_size:g} % of the rows held out"
        return f"{self.cv}-fold cross-validation"

    def parts(self, y: npt.NDArray[Any]) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Choose rows to fit and rows to test, by class."""
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) < 2:
            raise InputError(f"All rows have the label {labels[0]!s}; two classes are needed.")
        rarest = int(counts.argmin())
        if self.test_size is not None:
            if not 0 < self.test_size < 1:
                raise InputError(f"--test-size {self.test_size:g}: it must be between 0 and 1.")
            least, option = 2, "--test-size"
            splitter: Any = StratifiedShuffleSplit(1, test_size=self.test_size, random_state=_SEED)
        else:
            assert self.cv is not None
            least, option = self.cv, f"--cv {self.cv}"
            splitter = StratifiedKFold(self.cv, shuffle=True, random_state=_SEED)
        if counts[rarest] < least:
            found = self._few(labels, counts)
            raise InputError(f"{option} needs at least {least} rows of each class, but {found}")
        try:
            return list(splitter.split(np.zeros(len(y)), y))
        except ValueError as error:  # a share that leaves a class without rows
            raise InputError(f"{option}: {error}") from error

    def _few(self, labels: npt.NDArray[Any], counts: npt.NDArray[np.intp]) -> str:
        """Name a class that has too few rows, and say what helps."""
        least = 2 if self.test_size is not None else self.cv or 2
        rarest, n_enough = int(counts.argmin()), int((counts >= least).sum())
        what = f"{label_text(labels[rarest])} has {counts[rarest]}"
        remedies = []
        if n_enough >= 2:
            remedies.append("leave this class out" if n_enough == len(labels) - 1 else _RARE)
        elif len(labels) > 2:
            what += f", and {'only one class has' if n_enough else 'no class has'} enough"
        if self.test_size is None and counts[rarest] >= 2:
            remedies.append(f"add --cv {counts[rarest]}")
        elif n_enough < 2:
            remedies.append("add more rows, or check that --label names the column of classes")
        return f"{what}: {', or '.join(remedies)}."


@dataclass(frozen=True)
class Trial:
    """What a model predicted for rows that it was not fitted on."""

    y: npt.NDArray[Any]
    predicted: npt.NDArray[Any]
    weight: npt.NDArray[np.float64]
    fold_errors: list[float]
    seconds: float  # to fit, on average
    sizes: list[int]  # prototypes of each fold, if the model has any
    notes: list[str]
    noun: str = "cluster"  # what a prototype is called

    @property
    def error(self) -> float:
        """Share of the rows that are wrong."""
        return float(np.average(self.y != self.predicted, weights=self.weight))

    @property
    def balanced_error(self) -> float:
        """Mean of the errors of the classes."""
        return float(np.mean([self.error_of(label) for label in np.unique(self.y)]))

    @property
    def deviation(self) -> float:
        """Standard deviation of the errors of the folds; nan if there is one."""
        many = len(self.fold_errors) > 1
        return float(np.std(self.fold_errors, ddof=1)) if many else float("nan")

    def error_of(self, label: Any) -> float:
        """Share of a class's rows that are wrong."""
        mine = self.y == label
        return float(np.average(self.predicted[mine] != label, weights=self.weight[mine]))

    def precision_of(self, label: Any) -> float:
        """Share of the rows predicted as a class that are of it; nan if there are none."""
        mine = self.predicted == label
        if not mine.any():
            return float("nan")
        return float(np.average(self.y[mine] == label, weights=self.weight[mine]))

    def confusion(self, labels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Weight of the rows by true class (rows) and predicted class (columns)."""
        true, found = np.searchsorted(labels, self.y), np.searchsorted(labels, self.predicted)
        table = np.zeros((len(labels), len(labels)))
        np.add.at(table, (true, found), self.weight)
        return table


class Candidates:
    """Rows to try models on, and what is put before each model.

    Parameters
    ----------
    rows : Labelled or FrameRows
    standardise : bool
        Whether numbers in arrays are scaled.
    """

    def __init__(self, rows: Labelled | FrameRows, *, standardise: bool = False) -> None:
        if isinstance(rows, FrameRows) and rows.statistics is None:
            rows.study()
        self._rows, self._standardise = rows, standardise
        self.data = whole(rows)
        if isinstance(rows, FrameRows):
            self.data = Labelled(
                self.data.X[list(rows.kinds)], self.data.y, self.data.weight, self.data.notes
            )

    def model(self, estimator: Any) -> Any:
        """Put an estimator behind what makes features of the rows; nothing is fitted."""
        estimator = clone(estimator)
        if isinstance(self._rows, FrameRows):
            impute: Any = self._rows.wanted.impute
            return build_pipeline(self._rows.kinds, estimator, impute=impute)
        if self._standardise:
            return make_pipeline(StandardScaler(), estimator)
        return make_pipeline(estimator)

    def sample(self, most: int) -> str | None:
        """Keep at most so many rows, by class; say so if there are more."""
        n = len(self.data.y)
        if not most or n <= most:
            return None
        split = StratifiedShuffleSplit(1, train_size=most, random_state=_SEED)
        which = np.sort(next(iter(split.split(np.zeros(n), self.data.y)))[0])
        self.data = self._take(which)
        return f"{most:,} of {n:,} rows are used, chosen by class; --rows 0 uses all."

    def run(
        self,
        make: Callable[[int], Any],
        parts: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    ) -> Trial:
        """Fit the estimator that `make` returns for each fold, and predict the rest."""
        y, found, weights, errors, seconds = [], [], [], [], 0.0
        sizes: list[int] = []
        notes: dict[str, str] = {}  # folds differ in their numbers only
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            for number, (train, test) in enumerate(parts):
                mine, theirs = self._take(train), self._take(test)
                model = self.model(make(number))
                start = time.perf_counter()
                model.fit(mine.X, mine.y, **self._weights(model, mine))
                seconds += time.perf_counter() - start
                for text in (warning_text(warning, model) for warning in caught):
                    notes.setdefault(_without_numbers(text), text)
                caught.clear()
                predicted = model.predict(theirs.X)
                weight = np.ones(len(test)) if theirs.weight is None else theirs.weight
                errors.append(float(np.average(predicted != theirs.y, weights=weight)))
                centers = getattr(model[-1], "cluster_centers_", None)
                prototypes = getattr(model[-1], "medoid_indices_", centers)
                if prototypes is not None:
                    sizes.append(len(prototypes))
                y.append(theirs.y)
                found.append(predicted)
                weights.append(weight)
        return Trial(
            np.concatenate(y),
            np.concatenate(found),
            np.concatenate(weights),
            errors,
            seconds / len(parts),
            sizes,
            list(notes.values()),
            LoadedModel(model).noun,
        )

    def _take(self, which: npt.NDArray[Any]) -> Labelled:
        data = self.data
        weight = None if data.weight is None else data.weight[which]
        X = np.asarray(data.X) if isinstance(data.X, np.ndarray) else data.X
        return Labelled(take_rows(X, which), data.y[which], weight, data.notes)

    def _weights(self, model: Any, data: Labelled) -> dict[str, Any]:
        return {} if data.weight is None else {f"{model.steps[-1][0]}__sample_weight": data.weight}


def _without_numbers(text: str) -> str:
    """Leave out numbers that are not part of a name."""
    return re.sub(r"(?<![\w'])\d[\d.e+-]*", "", text)


def most_confused(trial: Trial, labels: npt.NDArray[Any]) -> Iterator[tuple[Any, Any, float]]:
    """List pairs of classes that are confused, the most frequent first."""
    table = trial.confusion(labels)
    np.fill_diagonal(table, 0)
    for at in np.argsort(-table, axis=None, kind="stable"):
        true, found = divmod(int(at), len(labels))
        if not table[true, found]:
            return
        yield labels[true], labels[found], float(table[true, found])
