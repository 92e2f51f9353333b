"""The explorer's server: nobody but its person reaches it, and nothing brings it down."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from explorers import ask, iris_session, serving

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from dkmeans.explorer import server as server_module
from dkmeans.explorer.launch import bound


@pytest.fixture(scope="module")
def client():
    with serving(iris_session()) as client:
        client.headers = client.enter()
        yield client


def error_of(answer):
    status, _, body = answer
    return status, json.loads(body)["error"]


def test_the_token_is_exchanged_once_for_a_strict_cookie():
    with serving(iris_session()) as client:
        token = client.access.token
        assert client.get("/")[0] == 403
        assert client.get("/?token=wrong")[0] == 403
        assert client.get("/?token=%C3%A9")[0] == 403
        headers = client.enter()
        flags = {part.strip().lower() for part in headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= flags
        assert headers["location"] == "/"
        assert client.get("/")[0] == 200
        assert client.get(f"/?token={token}")[0] == 303  # the person again
        client.cookie = None
        assert client.get(f"/?token={token}")[0] == 403  # somebody else
        assert client.access.token is None


@pytest.mark.parametrize("path", ["/", "/static/page.mjs", "/api/state"])
def test_nothing_is_answered_without_the_cookie(client, path):
    wrong = f"{client.access.cookie_name}=wrong"
    for cookie in (None, wrong, "dkmeans=1"):
        if path.startswith("/api"):
            status = client.post("state", Cookie=cookie)[0]
        else:
            status = client.get(path, Cookie=cookie)[0]
        assert status == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1:{port}.x"],
)
def test_other_hosts_are_refused_even_with_the_cookie(client, host):
    host = host.format(port=client.access.port)
    origin = f"http://{host}"
    assert client.get("/", Host=host)[0] == 421
    status, headers, _ = client.post("state", Host=host, Origin=origin)
    assert status == 421
    assert headers["x-frame-options"] == "DENY"


def test_hosts_of_this_machine_are_served(client):
    name = f"localhost:{client.access.port}"
    assert client.get("/", Host=name)[0] == 200
    assert client.post("state", Host=name, Origin=f"http://{name}")[0] == 200


def test_a_request_needs_the_header_and_the_origin(client):
    for header in (None, "2"):
        status, message = error_of(client.post("state", X_Dkmeans=header))
        assert (status, message) == (403, "The header X-Dkmeans is missing.")
    others = (None, "null", "http://evil.example", f"https://{client.host}", "http://127.0.0.1")
    for origin in others:
        status, message = error_of(client.post("state", Origin=origin))
        assert (status, message) == (403, "The request comes from another origin.")


def test_requests_are_posts_only(client):
    assert client.get("/api/state")[0] == 405
    assert client._send("OPTIONS", "/api/state", None, {})[0] == 405


def test_every_answer_has_the_security_headers(client):
    answers = [client.get("/"), client.get("/static/no"), client.post("state"), client.post("no")]
    answers.append(client.get("/", Cookie=None))
    for _, headers, _ in answers:
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


@pytest.mark.parametrize(
    "name",
    [
        "../server.py",
        "..%2fserver.py",
        "%2e%2e/server.py",
        "panels/../../server.py",
        "/etc/passwd",
        "",
        "panels",
        ".gitkeep",
        "no.mjs",
    ],
)
def test_only_the_files_of_the_page_are_served(client, name):
    assert client.get(f"/static/{name}")[0] == 404


def test_modules_have_the_type_of_scripts(client):
    status, headers, body = client.get("/static/page.mjs")
    assert status == 200
    assert headers["content-type"].startswith("text/javascript")
    assert body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('{"row": NaN}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        ('{"row": 1e99}', "row must be a whole number"),
        ('{"row": {}}', "row must be a whole number"),
    ],
)
def test_broken_messages_get_a_sentence_and_the_server_lives_on(client, body, message):
    status, found = error_of(client.post("row", body=body))
    assert status == 400
    assert message in found
    assert client.post("state")[0] == 200


def test_an_unknown_request_is_refused(client):
    status, message = error_of(client.post("__class__"))
    assert status == 400
    assert "no request" in message


def test_large_messages_are_refused(client, monkeypatch):
    monkeypatch.setattr(server_module, "MAX_BODY", 100)
    status, message = error_of(client.post("state", body=" " * 101 + "{}"))
    assert status == 413
    assert "more than 100 bytes" in message


def test_unforeseen_errors_are_told_and_the_server_lives_on(client, monkeypatch):
    def broken(*args):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(server_module, "answer", broken)
    assert error_of(client.post("state")) == (500, "Unexpected error: ZeroDivisionError: oh")
    monkeypatch.undo()
    assert client.post("state")[0] == 200


def test_names_from_data_stay_data(client):
    name = "<img src=x onerror=alert(1)>"
    status, headers, body = client.post("edit", {"edit": {"kind": "add_class", "name": name}})
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["classes"][-1]["name"] == name


def test_bytes_are_those_of_the_session(client):
    status, headers, body = client.post("points", {"plane": "pca"})
    assert status == 200
    assert headers["content-type"] == "application/octet-stream"
    assert body == ask(iris_session(), "points", plane="pca")


def test_the_server_listens_on_this_machine_only():
    with bound(0) as (listener, access):
        assert listener.getsockname() == ("127.0.0.1", access.port)
        with (
            pytest.raises(ValueError, match=f"Port {access.port} cannot be used"),
            bound(access.port),
        ):
            pass


CODE = """
import sys, pathlib
sys.path.insert(0, sys.argv[2])
from explorers import iris_session, make
from dkmeans.explorer.launch import serve
session = iris_session(pathlib.Path(sys.argv[1]))
make(session, "keep", rows=[4])
serve(session, open_browser=False, announce=lambda address: print(address, flush=True))
print("ended", flush=True)
"""


@pytest.mark.faults
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to one process")
def test_ctrl_c_ends_it_at_once_and_leaves_the_journal(tmp_path):
    journal, tests = tmp_path / "j.jsonl", os.path.dirname(__file__)
    command = [sys.executable, "-c", CODE, str(journal), tests]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline()
        assert address.startswith("http://127.0.0.1:")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ended\n"
        assert process.wait(20) == 0
    assert len(journal.read_text().splitlines()) == 2
    session = iris_session(journal)
    assert ask(session, "state")["edits"] == 1
    session.close()
