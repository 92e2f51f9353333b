"""`Draft`: labels and model as edits have left them, and `Change`: the step between two drafts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.explorer.layers import Codes, label_text

DROPPED, KEPT = 1, 2  # marks of rows


@dataclass(frozen=True, eq=False)
class Draft:
    """Labels of the training rows and the model. It is never changed in place."""

    core: Any  # the DiscriminativeKMeans
    labels: tuple[Any, ...]  # class labels, by number; only ever appended to
    merged: tuple[int, ...]  # class that each class counts as, by number
    names: Mapping[int, str]  # names that a person gave to prototypes, by id
    codes: Codes  # class of each training row, by number
    marks: npt.NDArray[np.uint8]  # DROPPED and KEPT, for each training row

    @cached_property
    def counts_as(self) -> Codes:
        """Class that each class counts as, by number."""
        return np.array(self.merged, dtype=np.uint16)

    @cached_property
    def prototype_classes(self) -> Codes:
        """Class of each prototype, by number, merged classes as one."""
        return self.counts_as[self.model_classes[self.core._fitted.prototypes.classes]]

    @cached_property
    def model_classes(self) -> npt.NDArray[np.intp]:
        """Number of each class of the model."""
        place = {label: at for at, label in enumerate(self.labels)}
        return np.array([place[label] for label in self.core.classes_.tolist()], dtype=np.intp)

    @cached_property
    def row_classes(self) -> Codes:
        """Class of each training row, by number, merged classes as one."""
        return self.counts_as[self.codes]

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """Whether each training row is used, not dropped."""
        return (self.marks & DROPPED) == 0

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, as text."""
        return [label_text(label) for label in self.labels]

    def label_array(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return class labels for numbers of classes, in the type of labels."""
        return np.array(self.labels)[codes]


@dataclass(frozen=True, eq=False)
class Change:
    """An edit that was made: what it replaced, and by what."""

    edit: dict[str, Any]
    text: str
    before: Draft  # its arrays are not kept: they are those of `after` but for `rows`
    after: Draft
    rows: npt.NDArray[np.intp]  # training rows that differ
    old: tuple[npt.NDArray[Any], npt.NDArray[Any]]  # their codes and marks
    new: tuple[npt.NDArray[Any], npt.NDArray[Any]]

    @classmethod
    def between(cls, edit: dict[str, Any], text: str, before: Draft, after: Draft) -> "Change":
        """Compare two drafts; only what differs is kept."""
        differs = np.zeros(len(before.codes), dtype=bool)
        if before.codes is not after.codes:
            differs |= before.codes != after.codes
        if before.marks is not after.marks:
            differs |= before.marks != after.marks
        rows = np.flatnonzero(differs)
        old = before.codes[rows], before.marks[rows]
        new = after.codes[rows], after.marks[rows]
        return cls(edit, text, _without_rows(before), _without_rows(after), rows, old, new)

    def undone(self, draft: Draft) -> Draft:
        """Return the draft before this change."""
        return self._with_rows(self.before, draft, self.old)

    def redone(self, draft: Draft) -> Draft:
        """Return the draft after this change."""
        return self._with_rows(self.after, draft, self.new)

    def _with_rows(self, target: Draft, draft: Draft, values: tuple[Any, Any]) -> Draft:
        codes, marks = draft.codes, draft.marks
        if len(self.rows):
            codes, marks = codes.copy(), marks.copy()
            codes[self.rows], marks[self.rows] = values
        return replace(target, codes=codes, marks=marks)


def _without_rows(draft: Draft) -> Draft:
    nothing = np.zeros(0, dtype=np.uint16)
    return replace(draft, codes=nothing, marks=nothing.astype(np.uint8))
