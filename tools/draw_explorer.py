"""Take the pictures of the explorer: `python tools/draw_explorer.py` writes them to docs/images.

Needs Chromium, and what `make browser` installs.
"""

import shutil
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits

from dkmeans import DiscriminativeKMeans
from dkmeans.explorer.launch import bound, make_server
from dkmeans.explorer.layers import Rows
from dkmeans.explorer.session import Session

IMAGES = Path(__file__).parent.parent / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-background-networking", "--enable-unsafe-swiftshader"]
STORE = "document.querySelector('.dkm').explorer.store"


def digits() -> Session:
    """Digits, every fifth held out; some threes carry the label of what they resemble."""
    X, y = load_digits(return_X_y=True)
    y = y.astype(str)
    y[np.flatnonzero(y == "3")[::12]] = "8"
    fit = np.arange(len(y)) % 5 != 0
    model = DiscriminativeKMeans(30).fit(X[fit], y[fit])
    training, held_out = Rows(X[fit], y[fit]), Rows(X[~fit], y[~fit])
    return Session(model, training, held_out, title="digits", image_shape=(8, 8))


def save(page: Any, name: str) -> None:
    """Write a small file, with a palette."""
    page.mouse.move(2, 2)
    page.wait_for_timeout(1500)  # until cells and pictures have arrived
    with Image.open(BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").quantize(160).save(IMAGES / f"{name}.png", optimize=True)


def open_page(browser: Any, address: str, **options: Any) -> Any:
    """Open the page in a window of its own."""
    page = browser.new_context(**options).new_page()
    page.goto(address)
    page.wait_for_selector(".dkm-map[aria-busy=false]")
    page.evaluate(f"{STORE}.setPlane({{ id: 'lda', x: 0, y: 1 }})")
    return page


def draw(browser: Any, address: str) -> None:
    """Take all pictures: the map with a row, the suspects, an edit, and a narrow dark page."""
    page = open_page(browser, address, viewport={"width": 1280, "height": 800})
    wrong = f"{STORE}.transport.call('suspects', {{ limit: 1 }}).then((found) => found.rows[0].row)"
    row = page.evaluate(wrong)
    page.evaluate(f"{STORE}.chooseRow({row})")
    save(page, "explorer")
    page.evaluate(f"{STORE}.showTab('suspects')")
    save(page, "explorer-suspects")
    page.evaluate(f"{STORE}.choosePrototype(3)")
    page.get_by_role("button", name="Drop …").click()
    page.get_by_role("button", name="Accept").wait_for()
    save(page, "explorer-edit")
    state = page.context.storage_state()
    narrow = browser.new_context(
        viewport={"width": 400, "height": 860}, color_scheme="dark", storage_state=state
    ).new_page()
    narrow.goto(address.split("/?")[0])
    narrow.wait_for_selector(".dkm-map[aria-busy=false]")
    save(narrow, "explorer-narrow")


def main() -> None:
    """Serve a session and take the pictures."""
    session = digits()
    with bound(0) as (listener, access), sync_playwright() as playwright:
        server = make_server(session, access)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        draw(browser, access.address)
        browser.close()
        server.should_exit = True
        thread.join()
    session.close()


if __name__ == "__main__":
    main()
