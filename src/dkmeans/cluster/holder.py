"""What lives on a worker: the parts of the rows that it holds."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from dkmeans.checks import finite_range
from dkmeans.engine.margin_part import Part
from dkmeans.engine.merging import merge
from dkmeans.kernels.sphere import unit_rows
from dkmeans.readers.blocks import Batch


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
        self._parts: dict[int, Part] = {}

    def look(self, n_threads: int) -> list[tuple[int, Any]]:
        """Tell what must be known of each partition before parts can be made of it."""
        found = []
        for number, batch in self._batches.items():
            X = batch.X
            labels, codes = np.unique(batch.y, return_inverse=True)
            error, largest = "", 0.0
            try:
                largest = finite_range(X, None, n_threads) if X.shape[0] else 0.0
            except ValueError as problem:
                error = str(problem)
            small = labels, codes.astype(np.int32).ravel(), batch.weight
            shape = X.shape, X.dtype, sp.issparse(X), X.nnz if sp.issparse(X) else X.size
            found.append((number, (*small, *shape, largest, error)))
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
        for number, (start, y, weights) in parts.items():
            X = self._batches[number].X.astype(about["dtype"], copy=False)
            X = unit_rows(X) if about["unit"] else X
            self._parts[number] = Part(X, y, weights, start=start, **more)
        self._batches.clear()

    def derive(self, method: str, arguments: tuple[Any, ...]) -> "Holder":
        """Make a holder of the parts that a method of every part returns."""
        other = Holder([], [])
        other._parts = {n: getattr(p, method)(*arguments) for n, p in self._parts.items()}
        return other

    def call(self, method: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
        """Do a pass over all parts; what goes wrong in it is returned, not raised."""
        try:
            numbers, results = [], []
            for number, part in self._parts.items():
                numbers.append(number)
                results.append(getattr(part, method)(*arguments))
            merged = merge(method, results)
            if len(merged) < len(results):
                return "merged", merged[0]
            return "by part", list(zip(numbers, results, strict=True))
        except Exception as error:
            return "error", error
