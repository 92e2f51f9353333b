"""The explorer as a widget in JupyterLab, in a real browser."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from browsers import READY, running_browser

pytestmark = pytest.mark.browser

SLOW_S = 90
CELLS = (
    "from browsers import iris_model, iris_rows\n"
    "import dkmeans\n"
    "(X, y), (X_test, y_test) = iris_rows()\n"
    "explorer = dkmeans.explore(iris_model(), X, y, X_test=X_test, y_test=y_test)\n"
    "explorer",
    "print('edits:', [change.text for change in explorer.session.done])",
)


@contextlib.contextmanager
def running_lab(folder):
    """Start JupyterLab in a folder; yields the address of its server and its token."""
    pytest.importorskip("jupyterlab", reason="needs jupyterlab")
    pytest.importorskip("anywidget", reason="needs anywidget")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    places = {
        f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")
    }
    paths = os.pathsep.join(filter(None, sys.path))  # the kernel imports what the tests import
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={token}"]
    with (folder / "lab.log").open("wb") as log:
        server = subprocess.Popen(
            command, env=os.environ | places | {"PYTHONPATH": paths}, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/api/status?token={token}", server)
        yield address, token
    finally:
        server.terminate()
        server.wait(30)


def wait_for(address, server):
    end = time.monotonic() + SLOW_S
    while time.monotonic() < end:
        assert server.poll() is None, "JupyterLab has ended"
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.3)
    raise AssertionError("JupyterLab does not answer")


def write_notebook(place):
    cells = [
        {
            "cell_type": "code", "execution_count": None, "id": f"cell-{i}",
            "metadata": {}, "outputs": [], "source": source,
        }
        for i, source in enumerate(CELLS)
    ]  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = {
        "cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5
    }  # fmt: skip
    place.write_text(json.dumps(content))


def run_cell(page, cell):
    """Run a cell, and wait until it has started.

    JupyterLab shows the name of a kernel before it has connected to it, and drops what is run
    until then.
    """
    end = time.monotonic() + SLOW_S
    while cell.locator(".jp-InputPrompt").inner_text().strip() == "[ ]:":
        assert time.monotonic() < end, "JupyterLab does not run the cell"
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(2000)


def test_widget_in_jupyterlab(tmp_path):
    """Show a map, relabel a row on it, and find the change in the kernel."""
    write_notebook(tmp_path / "iris.ipynb")
    with running_lab(tmp_path) as (address, token), running_browser() as browser:
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        context.set_default_timeout(1000 * SLOW_S)
        outside = []
        context.on(
            "request",
            lambda request: (
                outside.append(request.url)
                if not request.url.startswith((address, "data:", "blob:"))
                else None
            ),
        )
        page = context.new_page()
        page.goto(f"{address}/lab/tree/iris.ipynb?token={token}")
        cells = page.locator(".jp-CodeCell")
        cells.first.wait_for()
        page.locator(".jp-NotebookPanel .jp-Toolbar-kernelName", has_text="Python 3").wait_for()
        run_cell(page, cells.first)
        page.wait_for_selector(READY)
        widget = page.locator(".dkm")
        widget.evaluate("(root) => root.explorer.store.chooseRow(40)")
        widget.get_by_role("heading", name="Row 40", exact=True).wait_for()
        widget.get_by_label("Relabel this row as").select_option("2")
        widget.locator(".dkm-message").get_by_text("Row 40 relabelled").wait_for()
        run_cell(page, cells.nth(1))
        page.get_by_text("edits: ['relabel").wait_for()
        assert outside == []
