"""Rows whose label may be wrong, without those that a person has decided about."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.validation import threads_of
from dkmeans.explorer.draft import KEPT, Draft
from dkmeans.explorer.session import Session
from dkmeans.explorer.views import View
from dkmeans.questions import label_errors
from dkmeans.questions.label_errors import DOUBTFUL_SCORE


class Suspicion:
    """Suspects among the training rows, the most suspicious first."""

    def __init__(self, rows: Any, codes: Any, suggested: Any, scores: Any) -> None:
        self.rows, self.codes, self.suggested, self.scores = rows, codes, suggested, scores


def suspicion(session: Session) -> Suspicion:
    """List the suspects of the present draft; rows that are kept or dropped are none.

    That takes long for many rows, so the session is locked before and after it only, and other
    requests are answered meanwhile.
    """
    with session.searching:
        with session.lock:
            key, draft = _key(session), session.draft
            known = session.peek(key)
            view = session.view(draft, "training")
        if known is not None:
            return known
        found = _compute(draft, view)
        with session.lock:
            return session.cached(key, lambda: found)


def suspect_rows(session: Session) -> npt.NDArray[np.intp]:
    """Return the suspects that have been found for the present draft; none before that."""
    known = session.peek(_key(session))
    return np.zeros(0, dtype=np.intp) if known is None else known.rows


def _key(session: Session) -> tuple[str, int]:
    return "suspects", session.version


def _compute(draft: Draft, view: View) -> Suspicion:
    layer, model = view.layer, draft.core._fitted
    places = draft.model_classes
    number = np.full(len(draft.labels), -1)  # of each class, among those of the model
    number[places] = np.arange(len(places))
    rows = np.flatnonzero(draft.used & (number[draft.row_classes] >= 0))
    if not len(rows):
        nothing = np.zeros(0, dtype=np.intp)
        return Suspicion(nothing, nothing, nothing, np.zeros(0))
    everyone = len(rows) == len(layer)
    mapped = view.rows
    weight = None if layer.weight is None else layer.weight[rows]
    codes = number[draft.row_classes[rows]].astype(np.intp)
    scored = label_errors.score_rows(
        model, mapped if everyone else mapped[rows], codes, weight, threads_of(draft.core)
    )
    doubtful = (scored.scores > DOUBTFUL_SCORE) | scored.conflicting
    order = np.argsort(-scored.scores, kind="stable")
    order = order[doubtful[order] & ((draft.marks[rows[order]] & KEPT) == 0)]
    found = rows[order]
    suggested = draft.counts_as[places[scored.suggested[order]]]
    return Suspicion(found, draft.row_classes[found], suggested, scored.scores[order])
