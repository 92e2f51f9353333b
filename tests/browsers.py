"""A headless browser, and explorers for it to look at."""

import contextlib
import shutil
import threading

import numpy as np
import pytest
from models import grown
from sklearn.datasets import load_iris

# As root there is no sandbox; everything else keeps the browser from calling home.
FLAGS = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-unsafe-swiftshader",  # WebGL2 without a graphics card
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
READY = ".dkm-map[aria-busy=false]"  # the first frame is drawn


def find_browser():
    """Return the path of an installed browser; the test is skipped where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("needs Chromium: install the package chromium")
    return found


@contextlib.contextmanager
def running_browser():
    """Start a browser."""
    executable = find_browser()
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def served(session):
    """Serve a session from a thread; yields the address to open."""
    from dkmeans.explorer.launch import bound, make_server

    with bound(0) as (listener, access):
        server = make_server(session, access)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield access.address
        finally:
            server.should_exit = True
            thread.join(20)
    session.close()
    assert not thread.is_alive()


def iris_rows():
    """Iris with two wrong labels: rows to fit on, and rows held out."""
    data = load_iris()
    y = data.target_names[data.target].astype(object)
    y[[3, 81]] = "virginica"
    fit = np.arange(len(y)) % 4 != 0
    return (data.data[fit], y[fit]), (data.data[~fit], y[~fit])


def iris_model():
    """A model of those rows."""
    (X, y), _ = iris_rows()
    return grown(8, growth="best").fit(X, y)
