"""Conflicts among rows that are not in the memory of this process."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]


class LazyConflicts(Sequence[Rows]):
    """Groups of identical rows with different labels, which are found when they are needed.

    A fit of Dask collections knows only their number, so that its memory does not grow with the
    rows: `len(conflicts)` and `if conflicts` cost nothing. Everything else reads the training rows
    once more, and keeps the groups from then on.

    Parameters
    ----------
    n_groups : int
    find : callable
        Returns the groups.
    """

    def __init__(self, n_groups: int, find: Callable[[], list[Rows]]) -> None:
        self._n_groups, self._find = n_groups, find
        self._groups: list[Rows] | None = None

    def compute(self) -> list[Rows]:
        """Find the groups.

        Returns
        -------
        groups : list of ndarray
            Indices of the rows of each group, as a fit in memory lists them.
        """
        if self._groups is None:
            groups = self._find()
            if len(groups) != self._n_groups:
                raise ValueError(
                    f"The training rows have {len(groups)} groups of identical rows with different "
                    f"labels now, but had {self._n_groups} during the fit: they have changed."
                )
            self._groups = groups
        return list(self._groups)

    def __len__(self) -> int:
        return self._n_groups

    @overload
    def __getitem__(self, index: int) -> Rows: ...

    @overload
    def __getitem__(self, index: slice) -> list[Rows]: ...

    def __getitem__(self, index: Any) -> Any:
        return self.compute()[index]

    def __iter__(self) -> Iterator[Rows]:
        return iter(self.compute())

    def __repr__(self) -> str:
        state = "not computed" if self._groups is None else "computed"
        return f"<LazyConflicts: {self._n_groups} groups, {state}>"
