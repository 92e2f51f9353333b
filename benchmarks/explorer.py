"""First frame, pan and zoom of the explorer's map, beside Bokeh's scatter in the same browser.

    python benchmarks/explorer.py                    # 1e4, 1e5 and 1e6 rows: minutes
    python benchmarks/explorer.py --rows 10000       # one size

Needs Chromium and playwright (`make browser` installs the latter); Bokeh is compared with where it
is installed. Rows are ten overlapping blobs in eight features, the map shows two directions, and
Bokeh's scatter the same coordinates and colours, with its default backend. Both pages are driven by
the same mouse: `pan` is the median of the steps of a drag, `zoom` that of notches of the wheel,
each until the browser has drawn two more frames. Bokeh draws a tenth of the rows while something
moves (its default), and the rest half a second later; the explorer always draws all of them, as
points or, where points would take more than 100 ms, as a density. "First frame" is the time from
opening the address until the map is drawn, data included.

The browser draws without a graphics card, by the processor: compare the two, not the seconds.
"""

import argparse
import shutil
import statistics
import tempfile
import threading
import time
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from common import print_result
from packaging.requirements import Requirement
from playwright.sync_api import sync_playwright
from sklearn.datasets import make_blobs

from dkmeans import DiscriminativeKMeans
from dkmeans.explorer.answers import answer
from dkmeans.explorer.launch import bound, make_server
from dkmeans.explorer.layers import Rows
from dkmeans.explorer.session import Session
from dkmeans.plots.style import COLORS

FLAGS = ["--no-sandbox", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--enable-unsafe-swiftshader"]
SIZE = {"width": 1400, "height": 860}
STEPS = 8
PATIENCE_MS = 20_000
FIT_ROWS = 5000
TWO_FRAMES = "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"


def make_session(n):
    """Rows, and a model of some of them."""
    X, y = make_blobs(n, n_features=8, centers=10, cluster_std=3.0, random_state=0)
    X = X.astype(np.float32)
    some = np.linspace(0, n - 1, min(n, FIT_ROWS)).astype(int)
    model = DiscriminativeKMeans(20, refine=None, metric="euclidean").fit(X[some], y[some])
    return Session(model, Rows(X, y), title=f"{n} rows")


def milliseconds(page, action):
    """Time an action until the browser has drawn two more frames."""
    start = time.perf_counter()
    action()
    page.evaluate(TWO_FRAMES)
    return 1000 * (time.perf_counter() - start)


def drive(page, box):
    """Pan and zoom with the mouse."""
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.evaluate(TWO_FRAMES)
    page.mouse.down()
    page.mouse.move(x + 5, y)
    pan = median_step(page, lambda i: page.mouse.move(x + 12 * i, y))
    page.mouse.up()
    page.wait_for_timeout(1500)
    zoom = median_step(page, lambda i: page.mouse.wheel(0, -60))
    return {"pan_ms": pan, "zoom_ms": zoom}


def median_step(page, step):
    """Median milliseconds of some steps; fewer where they take long."""
    times = []
    while len(times) < STEPS and sum(times) < PATIENCE_MS:
        times.append(milliseconds(page, lambda: step(len(times) + 1)))
    return round(statistics.median(times))


def measure_explorer(browser, session):
    """Times of the explorer's page, and of the two ways to make a density."""
    with bound(0) as (listener, access):
        server = make_server(session, access)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        answer(session, "state", {})  # as at a start from the command line: the model is there
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(120_000)
        page.goto(access.address)
        page.wait_for_selector(".dkm-map[aria-busy=false]")
        mark = "performance.getEntriesByName('dkmeans-first-frame')[0].startTime"
        found = {"first_frame_ms": round(page.evaluate(mark))}
        page.wait_for_timeout(2000)
        found |= drive(page, page.locator(".dkm-surface").bounding_box())
        page.evaluate("document.querySelector('.dkm').explorer.map.fit()")
        page.evaluate(TWO_FRAMES)
        found["drawn_as"] = page.evaluate(
            "document.querySelector('.dkm').explorer.map.isDensity ? 'density' : 'points'"
        )
        found |= measure_densities(page)
        page.close()
        server.should_exit = True
        thread.join()
    session.close()
    return found


def measure_densities(page):
    """Time a density that the page counts beside one that it asks the server for."""
    return page.evaluate(
        """async () => {
          const { store, map } = document.querySelector('.dkm').explorer;
          const { drawDensity } = await import('/static/density.mjs');
          const { width, height } = map.densityCanvas;
          const classes = store.classNumbers;
          const best = async (action) => {
            let least = Infinity;
            for (let i = 0; i < 5; i++) {
              const start = performance.now();
              await action();
              least = Math.min(least, performance.now() - start);
            }
            return Math.round(least);
          };
          const context = new OffscreenCanvas(width, height).getContext('2d');
          const look = { classes: classes.length, hidden: new Set(), shown: 0 };
          const { id, x, y } = store.plane;
          const extent = map.view.extent();
          const grid = { plane: id, x, y, layer: 'training', extent, width, height, classes };
          const count = () => drawDensity(context, store.grid, map.view, width, height, look);
          return {
            density_page_ms: await best(count),
            density_server_ms: await best(() => store.transport.bytes('density', grid)),
          };
        }"""
    )


def measure_bokeh(browser, session, folder):
    """Times of a scatter of the same coordinates."""
    from bokeh.embed import file_html
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    n = len(session.layers["training"])
    raw = answer(session, "points", {"plane": "learned", "x": 0, "y": 1, "layer": "training"})
    x, y = np.frombuffer(raw, "<f4", 2 * n, 4).reshape(2, n)
    colors = np.array(COLORS)[np.frombuffer(raw, "<u2", n, 4 + 8 * n) % len(COLORS)]
    plot = figure(
        width=760, height=800, tools="pan,wheel_zoom,lasso_select",
        active_scroll="wheel_zoom", active_drag="pan",
    )  # fmt: skip
    plot.scatter(x, y, size=4, line_color=None, fill_color=colors, fill_alpha=0.7)
    place = folder / "bokeh.html"
    place.write_text(file_html(plot, INLINE, "scatter"))
    page = browser.new_page(viewport=SIZE)
    page.set_default_timeout(240_000)
    start = time.perf_counter()
    page.goto(place.as_uri(), wait_until="commit")
    page.wait_for_function("window.Bokeh?.documents.length && Bokeh.documents[0].is_idle")
    page.evaluate(TWO_FRAMES)
    found = {"first_frame_ms": round(1000 * (time.perf_counter() - start))}
    page.wait_for_timeout(1500)
    found |= drive(page, page.locator(".bk-Figure").bounding_box())
    page.close()
    return found


def installed_bytes(extra):
    """Bytes that an extra adds to an installation of the library, and names of its packages."""
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text())["project"]
    core = _closure(project["dependencies"])
    added = _closure(project["optional-dependencies"][extra]) - core
    sizes = {}
    for name in sorted(added):
        files = distribution(name).files or []
        places = [Path(file.locate()) for file in files]
        sizes[name] = sum(place.stat().st_size for place in places if place.is_file())
    return sizes


def _closure(requirements):
    """Names of all packages that requirements bring."""
    found, todo = set(), [(text, None) for text in requirements]
    while todo:
        text, wanted = todo.pop()
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not marker.evaluate({"extra": wanted or ""}):
            continue
        name = requirement.name.lower().replace("_", "-")
        if name in found:
            continue
        try:
            more = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        todo += [(each, None) for each in more]
        todo += [(each, wish) for wish in requirement.extras for each in more]
    return found


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    arguments = parser.parse_args()
    result = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        print(f"{'rows':>9} {'page':<10} {'first frame':>11} {'pan':>8} {'zoom':>8}  drawn as")
        for n in arguments.rows:
            session = make_session(n)
            found = {"explorer": measure_explorer(browser, session)}
            if find_spec("bokeh") is not None:
                found["bokeh"] = measure_bokeh(browser, session, Path(folder))
            for name, times in found.items():
                first, pan, zoom = (times[key] for key in ("first_frame_ms", "pan_ms", "zoom_ms"))
                drawn = times.get("drawn_as", "points")
                print(f"{n:>9} {name:<10} {first:>8} ms {pan:>5} ms {zoom:>5} ms  {drawn}")
            times = found["explorer"]
            page, server = times["density_page_ms"], times["density_server_ms"]
            print(f"{n:>9} a density: {page} ms counted by the page, {server} ms by the server")
            result[str(n)] = found
        browser.close()
    for extra in ("explore", "notebook"):
        sizes = installed_bytes(extra)
        total = sum(sizes.values())
        print(f"extra {extra!r}: {total / 1e6:.1f} MB installed ({', '.join(sizes)})")
        result[f"{extra}_bytes"] = total
    print_result(result)


if __name__ == "__main__":
    main()
