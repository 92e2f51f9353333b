"""Lists of rows: confusions, borders between classes, suspects, a table, rejected rows."""

from typing import Any

import numpy as np

from dkmeans.data.arguments import threads_of
from dkmeans.explorer import requests as r
from dkmeans.explorer.draft import Draft
from dkmeans.explorer.edits import held_out_of_known_classes
from dkmeans.explorer.layers import value_text
from dkmeans.explorer.lookup import layer_of
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import Session
from dkmeans.explorer.suspicion import suspicion
from dkmeans.questions import reject
from dkmeans.questions.references import keep_references

_MAX_ROWS = 1000  # of a table, or of suspects, at once
_MAX_CLASSES = 500  # of a confusion matrix
_MAX_LISTED = 10_000  # rejected rows
_TABLE_VALUES = 12  # columns of the table
_SORTS = ("row", "margin", "class", "predicted")


def confusion(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Count rows by true and predicted class."""
    layer, draft = layer_of(session, params), session.shown
    n = len(draft.labels)
    if n > _MAX_CLASSES:
        raise RequestError(f"{n} classes are too many for a matrix: at most {_MAX_CLASSES}.")
    used = session.used(draft, layer)
    true = session.classes(draft, layer)[used].astype(np.int64)
    found = session.predicted(draft, layer)[used].astype(np.int64)
    counts = np.bincount(true * n + found, minlength=n * n).reshape(n, n)
    return {"counts": counts.tolist()}


def borders(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Pairs of classes that meet, those with the most wrong rows first."""
    return session.cached(("borders", session.version), lambda: {"borders": _borders(session)})


def suspects(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Rows whose label may be wrong, the most suspicious first."""
    limit = r.integer(params, "limit", _MAX_ROWS + 1, 100)
    offset = r.integer(params, "offset", 1 << 31, 0)
    found = suspicion(session)
    some = slice(offset, offset + limit)
    lines = zip(
        found.rows[some], found.codes[some], found.suggested[some], found.scores[some], strict=True
    )
    return {
        "total": len(found.rows),
        "rows": [
            {"row": int(row), "class": int(code), "suggested": int(other), "score": float(score)}
            for row, code, other, score in lines
        ],
    }


def table(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Rows with their values: some rows, or a page of all rows in some order."""
    layer, draft = layer_of(session, params), session.shown
    data = session.layers[layer]
    order = _chosen(session, params, layer)
    margins = session.view(draft, layer).margins_of(order)
    classes, found = session.classes(draft, layer), session.predicted(draft, layer)
    names = session.units.names
    columns: list[str] = []
    rows = []
    for row, margin in zip(order, margins, strict=True):
        values = data.values(int(row), names)[:_TABLE_VALUES]
        columns = columns or [name for name, _ in values]
        rows.append(
            {
                "row": int(row),
                "name": data.place(int(row)) + 1,
                "class": int(classes[row]),
                "predicted": int(found[row]),
                "margin": float(margin),
                "values": [value for _, value in values],
            }
        )
    return {"columns": columns, "total": len(data), "rows": rows}


def rejected(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Rows that would be rejected at a rate, by thresholds from held-out rows."""
    rate, draft = r.rate(params, "rate"), session.shown
    known = held_out_of_known_classes(draft, session.material)
    layer = layer_of(session, {"layer": "held_out", **params})
    model = draft.core._fitted
    scores, cells = _strangeness(session, draft, "held_out")
    prototypes = model.prototypes
    try:
        thresholds = reject.rejection_table(
            scores[known],
            cells[known],
            prototypes.ids,
            prototypes.classes,
            model.classes,
            rate,
            "class",
        )
    except ValueError as error:
        raise RequestError(str(error).replace("X has", "there are")) from error
    scores, cells = _strangeness(session, draft, layer)
    unknown = np.flatnonzero(reject.relative_scores(scores, cells, thresholds) > 1)
    strangest = unknown[np.argsort(-scores[unknown], kind="stable")][:_MAX_LISTED]
    return {
        "threshold": float(thresholds.threshold.max()),
        "thresholds": [value_text(float(value)) for value in np.unique(thresholds.threshold)][:20],
        "n_rejected": len(unknown),
        "rows": strangest.tolist(),
    }


def _strangeness(session: Session, draft: Draft, layer: str) -> Any:
    """Return the strangeness and the nearest prototype of each row of a layer."""
    rows, model = session.view(draft, layer).rows, draft.core._fitted

    def compute() -> Any:
        known = held_out_of_known_classes(draft, session.material)
        held_out = session.view(draft, "held_out").rows[known]
        references = keep_references(held_out, model.prototypes.centers)
        return reject.score_strangeness(model, rows, threads_of(draft.core), references)

    return session.cached(("strangeness", session.version, layer), compute)


def _borders(session: Session) -> list[dict[str, Any]]:
    draft = session.shown
    place = {label: at for at, label in enumerate(draft.labels)}
    used = draft.used
    true, found = draft.row_classes[used], session.predicted(draft, "training")[used]
    told: dict[tuple[int, int], dict[str, Any]] = {}
    wrong = np.flatnonzero(true != found)
    margins = session.view(draft, "training").margins_of(np.flatnonzero(used)[wrong])
    n = len(draft.labels)
    low, high = np.minimum(true, found)[wrong], np.maximum(true, found)[wrong]
    pairs, index = np.unique(low.astype(np.int64) * n + high, return_inverse=True)
    counts = np.bincount(index.ravel(), minlength=len(pairs))
    totals = np.bincount(index.ravel(), margins, minlength=len(pairs))
    meeting = draft.core.class_borders()
    for a, b, cost, gap in zip(
        meeting.a.tolist(), meeting.b.tolist(), meeting.prototypes, meeting.gap, strict=True
    ):
        one, two = sorted((draft.merged[place[a]], draft.merged[place[b]]))
        if one != two:
            told[one, two] = {"wrong": 0, "margin": None, "cost": int(cost), "gap": float(gap)}
    for pair, count, total in zip(pairs.tolist(), counts.tolist(), totals.tolist(), strict=True):
        entry = told.setdefault(divmod(pair, n), {"cost": 0, "gap": None})
        entry |= {"wrong": count, "margin": total / count}
    sizes = np.bincount(true, minlength=n)
    lines = [
        {"classes": list(pair), "rows": int(sizes[list(pair)].sum()), **entry}
        for pair, entry in told.items()
    ]
    return sorted(lines, key=lambda line: (-line["wrong"], -line["cost"], line["classes"]))


def _chosen(session: Session, params: dict[str, Any], layer: str) -> Any:
    """Read which rows are asked for, in which order."""
    data, draft = session.layers[layer], session.shown
    sort = r.choice(params, "sort", _SORTS, "row")
    rows = r.integers(params, "rows", len(data)) if "rows" in params else np.arange(len(data))
    if sort == "margin":
        rows = rows[np.argsort(session.view(draft, layer).margins[rows], kind="stable")]
    elif sort != "row":
        by = session.classes if sort == "class" else session.predicted
        rows = rows[np.argsort(by(draft, layer)[rows], kind="stable")]
    offset = r.integer(params, "offset", 1 << 31, 0)
    return rows[offset : offset + r.integer(params, "limit", _MAX_ROWS + 1, 100)]
