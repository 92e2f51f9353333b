"""The requests that the page can make, by name."""

import threading
from collections.abc import Callable
from typing import Any

from dkmeans.explorer import details, exports, listings, map_answers, state_answers
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import Session

Answer = dict[str, Any] | bytes

ANSWERS: dict[str, Callable[[Session, dict[str, Any]], Answer]] = {
    "state": state_answers.state,
    "edit": state_answers.edit,
    "preview": state_answers.preview,
    "undo": state_answers.undo,
    "redo": state_answers.redo,
    "at": state_answers.at,
    "refit": state_answers.refit,
    "stop": state_answers.stop,
    "points": map_answers.points,
    "on_plane": map_answers.on_plane,
    "regions": map_answers.regions,
    "density": map_answers.density,
    "film": map_answers.film,
    "row": details.row,
    "prototype": details.prototype,
    "images": details.images,
    "confusion": listings.confusion,
    "borders": listings.borders,
    "suspects": listings.suspects,
    "table": listings.table,
    "rejected": listings.rejected,
    "export": exports.export,
    "export_name": exports.export_name,
}
_UNLOCKED = ("suspects",)  # they take long, and lock the session themselves


def answer(session: Session, name: str, params: Any) -> Answer:
    """Answer a request; `RequestError` says what is wrong with it."""
    if name not in ANSWERS:
        raise RequestError(f"There is no request {name[:40]!r}.")
    if not isinstance(params, dict):
        raise RequestError("Parameters must be a JSON object.")
    thread = threading.get_ident()
    session.answering.add(thread)
    try:
        if name in _UNLOCKED:
            return ANSWERS[name](session, params)
        with session.lock:
            return ANSWERS[name](session, params)
    finally:
        session.answering.discard(thread)
