"""Rows whose label may be wrong, without those that a person has decided about.

They are searched for once for each model, as that takes long for many rows. Rows that have been
kept, dropped or relabelled since leave the list; the next fit makes a new one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.arguments import threads_of
from dkmeans.explorer.draft import DROPPED, KEPT, Draft
from dkmeans.explorer.layers import Codes
from dkmeans.explorer.session import Session
from dkmeans.explorer.views import View
from dkmeans.questions import label_errors


@dataclass(frozen=True)
class Suspicion:
    """Suspects among the training rows, the most suspicious first."""

    rows: npt.NDArray[np.intp]
    codes: Codes  # their labels, by number
    suggested: Codes  # by number
    scores: npt.NDArray[np.float64]

    def undecided(self, draft: Draft) -> "Suspicion":
        """Leave out rows about which a decision has been made."""
        merged = draft.counts_as
        stays = (draft.marks[self.rows] & (KEPT | DROPPED)) == 0
        stays &= draft.codes[self.rows] == self.codes
        stays &= merged[self.codes] != merged[self.suggested]
        columns = (self.rows, merged[self.codes], merged[self.suggested], self.scores)
        return Suspicion(*(column[stays] for column in columns))


def suspicion(session: Session) -> Suspicion:
    """List the suspects of the present draft.

    The session is locked before and after the search only, so that other requests are answered
    meanwhile.
    """
    with session.searching:
        with session.lock:
            key, draft = _key(session), session.draft
            found = session.peek(key)
            view = session.view(draft, "training")
        if found is None:
            found = _search(draft, view)
        with session.lock:
            session.cached(key, lambda: found)
            return found.undecided(session.draft)


def suspect_rows(session: Session) -> npt.NDArray[np.intp]:
    """Return the suspects, if they have been searched for; else none."""
    found: Suspicion | None = session.peek(_key(session))
    return np.zeros(0, dtype=np.intp) if found is None else found.undecided(session.draft).rows


def _key(session: Session) -> tuple[Any, ...]:
    return "suspects", session.serial(session.draft.core)


def _search(draft: Draft, view: View) -> Suspicion:
    layer, model = view.layer, draft.core._fitted
    places = draft.model_classes
    number = np.full(len(draft.labels), -1)  # of each class, among those of the model
    number[places] = np.arange(len(places))
    rows = np.flatnonzero(draft.used & (number[draft.row_classes] >= 0))
    if not len(rows):
        nothing = np.zeros(0, dtype=np.uint16)
        return Suspicion(rows, nothing, nothing, np.zeros(0))
    mapped = view.rows if len(rows) == len(layer) else view.rows[rows]
    weight = None if layer.weight is None else layer.weight[rows]
    codes = number[draft.row_classes[rows]].astype(np.intp)
    scored = label_errors.score_rows(model, mapped, codes, weight, threads_of(draft.core))
    doubtful = scored.listed(float(scored.wrong(len(model.classes)).sum()))
    order = np.argsort(-scored.scores, kind="stable")
    order = order[doubtful[order]]
    found = rows[order]
    suggested = places[scored.suggested[order]].astype(np.uint16)
    return Suspicion(found, draft.codes[found], suggested, scored.scores[order])
