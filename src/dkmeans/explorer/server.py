"""The web application: the page, and the requests that it makes, for one person on this machine.

It must be reachable by nobody else, whatever other sites the browser has open:

- It is bound to the loopback interface, and answers only if the host it is called by is that one.
  That stops sites whose name is made to point here (DNS rebinding).
- A token, which is printed, can be exchanged once for a cookie that only the server can read and
  that browsers never send on requests from other sites.
- Requests need that cookie, a header that no form can send, and an origin that is the server's.
- The page may load scripts from here only, none that are written in it, and no site may frame it.
"""

import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dkmeans.explorer.answers import answer
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import Session

HEADER = "x-dkmeans"
MAX_BODY = 32 << 20  # bytes of a request: a lasso around some millions of rows
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Access:
    """Who may use the server: the token, which is good for one use, and the cookie.

    Parameters
    ----------
    port : int
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.token: str | None = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self.cookie_name = f"dkmeans-{port}"  # cookies are shared by the ports of a host
        self.hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))

    @property
    def address(self) -> str:
        """The address to open in a browser, once."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def exchange(self, token: str) -> str | None:
        """Return the cookie for the token, the first time only."""
        if self.token is None or not _equal(token, self.token):
            return None
        self.token = None
        return self._cookie

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Return whether a request carries the cookie."""
        return _equal(cookies.get(self.cookie_name, ""), self._cookie)


def make_app(session: Session, access: Access) -> ASGIApp:
    """Make the application."""

    async def page(request: Request) -> Response:
        token = request.query_params.get("token")
        if token is not None and not access.knows(request.cookies):
            cookie = access.exchange(token)
            if cookie is None:
                raise HTTPException(403, "This address was used before: see the terminal.")
            response = RedirectResponse("/", 303)
            response.set_cookie(access.cookie_name, cookie, httponly=True, samesite="strict")
            return response
        _require(access, request)
        return RedirectResponse("/", 303) if token is not None else _file("index.html")

    async def static(request: Request) -> Response:
        _require(access, request)
        return _file(request.path_params["name"])

    async def api(request: Request) -> Response:
        _require(access, request)
        _check_origin(access, request)
        params = _parse(await _body(request))
        found = await run_in_threadpool(answer, session, request.path_params["name"], params)
        if isinstance(found, bytes):
            return Response(found, media_type="application/octet-stream")
        return JSONResponse(found)

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name:path}", static),
            Route("/api/{name}", api, methods=["POST"]),
        ],
        exception_handlers={
            RequestError: _refused,
            HTTPException: _http_error,
            Exception: _unexpected,
        },
    )
    return Guard(app, access.hosts)


class Guard:
    """Refuses requests to other hosts, and puts the security headers on all answers.

    Parameters
    ----------
    app : ASGI application
    hosts : set of str
        Hosts with ports that the server is called by.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
                return
            raise RuntimeError(f"{scope['type']} is not supported")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in SECURITY_HEADERS.items()
                        if name.encode() not in given
                    ),
                ]
            await send(message)

        found = [value for name, value in scope["headers"] if name == b"host"]
        if len(found) != 1 or found[0].decode("latin-1").lower() not in self._hosts:
            refused = PlainTextResponse("This host is not served here.", 421)
            await refused(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)


def _require(access: Access, request: Request) -> None:
    if not access.knows(request.cookies):
        raise HTTPException(403, "Open the address that the terminal shows.")


def _check_origin(access: Access, request: Request) -> None:
    """Refuse requests that a page of another site could make."""
    if request.headers.get(HEADER) != "1":
        raise HTTPException(403, "The header X-Dkmeans is missing.")
    if request.headers.get("origin") != f"http://{request.headers['host'].lower()}":
        raise HTTPException(403, "The request comes from another origin.")


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise HTTPException(413, f"The request has more than {MAX_BODY} bytes.")
        parts.append(part)
    return b"".join(parts)


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body or b"{}", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise RequestError("The request is not valid JSON.") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _file(name: str) -> Response:
    """Return one of the files of the page; nothing else can be named."""
    known = dict(_page_files(files("dkmeans.explorer").joinpath("static")))
    ending = name[name.rfind(".") :]
    if name not in known or ending not in _TYPES:
        raise HTTPException(404, "There is no such file.")
    return Response(known[name].read_bytes(), media_type=_TYPES[ending])


def _page_files(folder: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """List the files of a folder and of the folders in it, by their paths."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _page_files(entry, f"{before}{entry.name}/")
        else:
            yield before + entry.name, entry


async def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
    return PlainTextResponse(error.detail, error.status_code, headers=error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    """Tell of an error that nobody foresaw; the server goes on."""
    return JSONResponse({"error": f"Unexpected error: {type(error).__name__}: {error}"}, 500)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
