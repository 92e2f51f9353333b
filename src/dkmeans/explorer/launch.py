"""Run the explorer: choose a port, tell the address, open the browser, end at Ctrl-C."""

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator

import uvicorn

from dkmeans.explorer.server import Access, make_app
from dkmeans.explorer.session import Session

HOST = "127.0.0.1"


def serve(
    session: Session,
    *,
    port: int = 0,
    open_browser: bool = True,
    announce: Callable[[str], None],
) -> None:
    """Serve a session until Ctrl-C.

    Parameters
    ----------
    session : Session
    port : int
        0 chooses one that is free.
    open_browser : bool
    announce : callable
        Told the address.
    """
    with bound(port) as (listener, access):
        server = make_server(session, access)
        announce(access.address)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(access.address,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
        session.close()


def make_server(session: Session, access: Access) -> uvicorn.Server:
    """Make the server; it says nothing but errors."""
    return uvicorn.Server(
        uvicorn.Config(
            make_app(session, access),
            log_level="critical",  # the page is told of errors
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=0,
            timeout_keep_alive=30,
        )
    )


@contextlib.contextmanager
def bound(port: int) -> Iterator[tuple[socket.socket, Access]]:
    """Listen on the loopback interface, and on no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise ValueError(f"Port {port} cannot be used ({error.strerror}): name another.") from (
                error
            )
        listener.listen()  # from here on a browser is not refused
        yield listener, Access(listener.getsockname()[1])
