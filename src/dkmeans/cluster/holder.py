"""What lives on a worker: the parts of the rows that it holds."""

from typing import Any

import numpy as np

from dkmeans.data.blocks import Batch
from dkmeans.data.first_pass import BlockSummary
from dkmeans.data.value_checks import finite_range
from dkmeans.engine.margin_part import Part
from dkmeans.engine.merging import merge
from dkmeans.engine.threads import calm_blas
from dkmeans.kernels.sphere import unit_rows

_MANY = 16  # results that are put together before there are more of them


class Holder:
    """Parts of the rows on one worker; one call does a pass over all of them.

    Parameters
    ----------
    numbers : list of int
        Which partitions these are.
    batches : list of Batch
    """

    def __init__(self, numbers: list[int], batches: list[Batch]) -> None:
        self._batches = dict(zip(numbers, batches, strict=True))
        self._sets: dict[int, dict[int, Part]] = {}

    def run(self, method: str, *arguments: Any) -> tuple[Any, Any]:
        """Call a method of this object, and return what it raises, if anything, and returns.

        So whatever a call raises where it was made is about the worker, not about the rows.
        """
        try:
            return None, getattr(self, method)(*arguments)
        except Exception as error:
            return error, None

    def look(self, n_threads: int, names: Any) -> list[tuple[int, Any]]:
        """Tell what must be known of each partition before parts can be made of it.

        `names` are those of the features, or None.
        """
        found = []
        for number, batch in self._batches.items():
            error, largest = "", 0.0
            try:
                largest = finite_range(batch.X, names, n_threads) if batch.X.shape[0] else 0.0
            except ValueError as problem:
                error = str(problem)
            found.append((number, (BlockSummary.of(batch, batch.X, largest), batch.X.dtype, error)))
        return found

    def build(self, parts: dict[int, tuple[int, Any, Any]], about: dict[str, Any]) -> None:
        """Make parts of the partitions.

        Parameters
        ----------
        parts : dict
            Number of the first row, classes and weights, by partition.
        about : dict
            Further parameters of all parts; `dtype` of the rows, and whether they are made `unit`.
        """
        more = {name: value for name, value in about.items() if name not in ("dtype", "unit")}
        made = {}
        for number, (start, y, weights) in parts.items():
            X = self._batches[number].X.astype(about["dtype"], copy=False)
            X = unit_rows(X) if about["unit"] else X
            made[number] = Part(X, y.astype(np.intp), weights, start=start, **more)
        self._sets = {0: made}
        self._batches.clear()

    def derive(
        self,
        source: int,
        target: int,
        method: str,
        arguments: tuple[Any, ...],
        unused: tuple[int, ...] = (),
    ) -> None:
        """Make another set of parts: those that a method of every part returns.

        Sets that are `unused` are dropped first.
        """
        for old in unused:
            self._sets.pop(old, None)
        parts = self._sets[source].items()
        self._sets[target] = {n: getattr(part, method)(*arguments) for n, part in parts}

    def call(self, source: int, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Do a pass over all parts of a set.

        Returns pairs of a number and a result, the number None where results were put together.
        """
        numbers: list[int] = []
        results: list[Any] = []
        with calm_blas:
            for number, part in self._sets[source].items():
                numbers.append(number)
                results.append(getattr(part, method)(*arguments))
                if len(numbers) % _MANY == 0:
                    results = merge(method, results)
        results = merge(method, results)
        if len(results) < len(numbers):
            return [(None, results[0])]
        return list(zip(numbers, results, strict=True))
