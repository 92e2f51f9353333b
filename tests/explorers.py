"""What the tests of the explorer share."""

import functools
import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np
from models import grown
from sklearn.datasets import load_iris

from dkmeans.explorer.answers import answer
from dkmeans.explorer.layers import Rows
from dkmeans.explorer.session import Session

IRIS, CODES = load_iris(return_X_y=True)
NAMES = load_iris().target_names[CODES]
LABELS = NAMES.copy()
LABELS[[1, 70]] = "virginica"
HELD_OUT = np.arange(len(CODES)) % 3 == 0


def iris_session(journal=None, max_clusters=8, metric="euclidean", **options):
    """Open a session on iris, with a third of the rows held out and two wrong labels."""
    training = Rows(IRIS[~HELD_OUT], LABELS[~HELD_OUT])
    held_out = Rows(IRIS[HELD_OUT], LABELS[HELD_OUT])
    model = iris_model(max_clusters, metric)
    return Session(model, training, held_out, journal=journal, title="iris", **options)


@functools.cache
def iris_model(max_clusters, metric="euclidean"):
    return iris_estimator(max_clusters, metric).fit(IRIS[~HELD_OUT], LABELS[~HELD_OUT])


def iris_estimator(max_clusters, metric="euclidean"):
    return grown(max_clusters, metric=metric, n_threads=1)


def ask(session, name, **params):
    return answer(session, name, params)


def make(session, kind, **edit):
    """Make an edit as the page does; the state after it."""
    return ask(session, "edit", edit={"kind": kind, **edit})


@contextmanager
def serving(session):
    """Serve a session on a real port; gives a client that has the cookie."""
    from dkmeans.explorer.launch import bound, make_server

    with bound(0) as (listener, access):
        server = make_server(session, access)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield Client(access)
        finally:
            server.should_exit = True
            thread.join(10)


class Client:
    """A browser of a few lines."""

    def __init__(self, access):
        self.access = access
        self.host = f"127.0.0.1:{access.port}"
        self.cookie = None

    def enter(self):
        status, headers, _ = self.get(f"/?token={self.access.token}")
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]
        return headers

    def get(self, path, **headers):
        return self._send("GET", path, None, headers)

    def post(self, name, params=None, body=None, **headers):
        usual = {"X-Dkmeans": "1", "Origin": f"http://{self.host}"}
        body = json.dumps(params or {}) if body is None else body
        return self._send("POST", f"/api/{name}", body, usual | headers)

    def _send(self, method, path, body, headers):
        given = {"Host": self.host} | ({"Cookie": self.cookie} if self.cookie else {})
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.access.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            data = body.encode() if isinstance(body, str) else body
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, found, response.read()
        finally:
            connection.close()
