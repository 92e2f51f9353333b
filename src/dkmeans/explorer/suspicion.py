"""Rows whose label may be wrong, without those that a person has decided about."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.explorer.draft import KEPT
from dkmeans.explorer.session import Session


class Suspicion:
    """Suspects among the training rows, the most suspicious first."""

    def __init__(self, rows: Any, codes: Any, suggested: Any, scores: Any) -> None:
        self.rows, self.codes, self.suggested, self.scores = rows, codes, suggested, scores


def suspicion(session: Session) -> Suspicion:
    """List the suspects of the present draft; rows that are kept or dropped are none."""
    return session.cached(("suspects", session.version), lambda: _compute(session))


def suspect_rows(session: Session) -> npt.NDArray[np.intp]:
    """Return the suspects that have been found for the present draft; none before that."""
    key = ("suspects", session.version)
    return suspicion(session).rows if key in session._cache else np.zeros(0, dtype=np.intp)


def _compute(session: Session) -> Suspicion:
    draft = session.draft
    core, layer = draft.core, session.layers["training"]
    classes = {label: at for at, label in enumerate(draft.labels)}
    known = np.zeros(len(draft.labels), dtype=bool)
    known[[classes[label] for label in core.classes_.tolist()]] = True
    rows = np.flatnonzero(draft.used & known[draft.row_classes])
    if not len(rows):
        nothing = np.zeros(0, dtype=np.intp)
        return Suspicion(nothing, nothing, nothing, np.zeros(0))
    y = draft.label_array(draft.row_classes[rows])
    weight = None if layer.weight is None else layer.weight[rows]
    table = core.suspects(layer.X[rows], y, sample_weight=weight)
    found = rows[table.row]
    undecided = (draft.marks[found] & KEPT) == 0
    suggested = np.array([classes[label] for label in table.suggested.tolist()], dtype=np.intp)
    suggested = draft.counts_as[suggested] if len(suggested) else suggested
    return Suspicion(
        found[undecided],
        draft.row_classes[found][undecided],
        suggested[undecided],
        table.score[undecided],
    )
