"""The explorer in a notebook: the page as a widget, its requests as messages.

Long answers travel in pieces, as the servers of notebooks refuse messages of more than about 10 MB.
"""

from typing import Any

import anywidget

from dkmeans.explorer.answers import answer
from dkmeans.explorer.bundle import notebook_module, notebook_style
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import Session

PIECE_BYTES = 2 << 20


class ExplorerWidget(anywidget.AnyWidget):
    """The page of a session.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    session : Session
        With `model`, the edited model, `labels()`, the corrected labels, and `dropped()`.
    """

    _esm = notebook_module()
    _css = notebook_style()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.on_msg(self._receive)

    def _receive(self, widget: Any, content: Any, buffers: Any) -> None:
        """Answer a message of the page."""
        if not isinstance(content, dict) or not isinstance(content.get("id"), str | int):
            return
        id, before = content["id"], self.session.version
        try:
            found = answer(self.session, str(content.get("name")), content.get("params"))
        except RequestError as error:
            self.send({"id": id, "error": str(error)})
            return
        except Exception as error:  # the page tells it, and the kernel goes on
            self.send({"id": id, "error": f"Unexpected error: {type(error).__name__}: {error}"})
            return
        if isinstance(found, bytes):
            self._send_pieces(id, found)
        else:
            self.send({"id": id, "answer": found})
        if self.session.version != before:
            self.send({"changed": True})  # for other views of this widget

    def _send_pieces(self, id: Any, data: bytes) -> None:
        pieces = max(1, -(-len(data) // PIECE_BYTES))
        for piece in range(pieces):
            part = data[piece * PIECE_BYTES : (piece + 1) * PIECE_BYTES]
            self.send({"id": id, "piece": piece, "pieces": pieces}, [part])
