"""A fit in a thread of its own, whose progress can be seen and which can be stopped."""

import threading
from dataclasses import replace
from typing import Any

from dkmeans.explorer.refit import fit_again
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import Session
from dkmeans.progress import Step


class StoppedError(Exception):
    """The fit was stopped by a person."""


class RefitJob:
    """Fits the present draft again. The session gets the model only when it is complete.

    Parameters
    ----------
    session : Session
    max_clusters : int, "auto" or None
    """

    def __init__(self, session: Session, max_clusters: Any) -> None:
        self._session, self._max_clusters = session, max_clusters
        self._draft = session.draft
        self._stop = threading.Event()
        self._text, self._done = "starting", 0
        self._total: int | None = None
        self._error: str | None = None
        self._ended = self._succeeded = False
        self._thread = threading.Thread(target=self._run, name="dkmeans-refit", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the fit has not ended."""
        return self._thread.is_alive() and not self._ended

    def told(self) -> dict[str, Any] | None:
        """Tell how far it is; None when it has ended well."""
        if self._succeeded:
            return None
        return {
            "name": "refit",
            "text": self._text,
            "done": self._done,
            "total": self._total,
            "error": self._error,
            "running": self.is_running,
        }

    def stop(self) -> None:
        """Stop the fit after the present round."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            core = fit_again(
                self._draft, self._session.layers["training"], self._max_clusters, self
            )
            with self._session.lock:
                if self._stop.is_set():
                    raise StoppedError
                self._ended = True
                edit = {"kind": "refit", "max_clusters": self._max_clusters}
                self._session.put(edit, replace(self._draft, core=core))
                self._succeeded = True
        except StoppedError:
            self._text = "stopped"
        except Exception as error:  # shown on the page; the session stays as it was
            self._error = str(error) or type(error).__name__
        finally:
            self._ended = True

    def announce(self, text: str) -> None:
        """Show what comes next; the fit may be stopped here."""
        if self._stop.is_set():
            raise StoppedError
        self._text = text

    def __call__(self, step: Step) -> None:
        """Show how far the fit is; it may be stopped after every round."""
        if self._stop.is_set():
            raise StoppedError
        record = step.record
        verb = "refining" if record["phase"] == "refine" else "growing"
        verb = "choosing the number of prototypes" if step.is_trial else verb
        self._text = f"{verb}: round {record['round']}, {record['clusters']} prototypes"
        self._done, self._total = int(record["clusters"]), step.budget


def start_refit(session: Session, params: dict[str, Any]) -> None:
    """Start to fit the present draft again."""
    session.require_idle()
    budget = params.get("max_clusters")
    if budget is None:
        budget = session.draft.core.max_clusters
    elif budget != "auto" and (type(budget) is not int or budget < 1):
        raise RequestError("max_clusters must be a whole number >= 1, auto, or nothing.")
    session.job = RefitJob(session, budget)
