"""The explorer's page in a real browser. All but the first test run by `make browser`."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from browsers import READY, iris_model, iris_rows, running_browser, served
from sklearn.datasets import load_digits, make_blobs

from dkmeans import DiscriminativeKMeans, load

pytest.importorskip("starlette", reason="needs starlette and uvicorn: the extra explore")
pytest.importorskip("uvicorn", reason="needs starlette and uvicorn: the extra explore")

from dkmeans.explorer.answers import answer
from dkmeans.explorer.layers import Rows
from dkmeans.explorer.session import Session

SLOW_MS = 30_000  # what a busy machine may take
EVIL = "<img src=x onerror=window.pwned=1>"


@pytest.fixture(scope="module")
def browser():
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def fitted():
    return iris_model()


@pytest.fixture
def session(fitted, tmp_path):
    return iris_session(fitted, tmp_path / "iris.journal")


@pytest.fixture
def open_page(browser):
    """Open explorers; what their pages complain of fails the test."""
    contexts, servers = [], []

    def open_one(session, **options):
        server = served(session)
        address = server.__enter__()
        servers.append(server)
        options = {"viewport": {"width": 1400, "height": 860}, "accept_downloads": True} | options
        context = browser.new_context(**options)
        context.set_default_timeout(SLOW_MS)
        contexts.append(context)
        return Explorer(context, session, address)

    yield open_one
    for context in contexts:
        context.close()
    for server in servers:
        server.__exit__(None, None, None)


def iris_session(model, journal=None):
    training, held_out = iris_rows()
    return Session(model, Rows(*training), Rows(*held_out), title="iris", journal=journal)


class Explorer:
    """One page, what it has asked for, and what went wrong on it."""

    def __init__(self, context, session, address):
        self.context, self.session = context, session
        self.origin = address.split("/?")[0]
        self.requests, self.answered, self.complaints = [], [], []
        context.on("request", lambda request: self.requests.append(request.url))
        for event in ("requestfinished", "requestfailed"):
            context.on(event, lambda request: self.answered.append(request.url))
        self.page = self.open_tab(address)

    def open_tab(self, address=None):
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)
        page.goto(address or self.origin)
        page.wait_for_selector(READY)
        return page

    def _hear(self, message):
        if message.type in ("error", "warning") and "GPU stall" not in message.text:
            self.complaints.append(message.text)

    def settle(self):
        """Wait until nothing is asked for any more."""
        quiet = 0
        while quiet < 3:
            self.page.wait_for_timeout(30)
            quiet = quiet + 1 if len(self.answered) == len(self.requests) else 0

    def ask(self, name, **params):
        """Ask the session itself."""
        return answer(self.session, name, params)

    def js(self, body, *arguments):
        """Run code that sees `store` and `map` of the page."""
        code = "(given) => { const { store, map } = document.querySelector('.dkm').explorer; "
        return self.page.evaluate(code + body + "}", list(arguments))

    def tab(self, title):
        self.page.get_by_role("tab", name=title, exact=True).click()

    def panel(self):
        return self.page.get_by_role("tabpanel")

    def says(self, text):
        self.page.locator(".dkm-message").get_by_text(text).wait_for()

    def places(self):
        """Pixels of all rows of the shown layer, in order of row, and of the prototypes."""
        rows, prototypes = self.js(
            """const box = map.surface.getBoundingClientRect(); const { view } = map;
            const at = (x, y) => [box.left + view.pixelX(x), box.top + view.pixelY(y)];
            const { grid, onPlane } = store;
            return [Array.from(grid.place, (i) => at(grid.x[i], grid.y[i])),
                    onPlane.prototypes.map(([x, y]) => at(x, y))];"""
        )
        return np.array(rows), np.array(prototypes)

    def lone_row(self):
        """A row that nothing lies over, and its pixel."""
        rows, prototypes = self.places()
        gaps = np.linalg.norm(rows[:, None] - np.vstack([rows, prototypes])[None], axis=2)
        gaps[np.arange(len(rows)), np.arange(len(rows))] = np.inf
        row = int(gaps.min(axis=1).argmax())
        return row, rows[row]

    def lasso(self, corners):
        mouse = self.page.mouse
        self.page.keyboard.down("Shift")
        mouse.move(*corners[0])
        mouse.down()
        for corner in [*corners[1:], corners[0]]:
            mouse.move(*corner, steps=12)
        mouse.up()
        self.page.keyboard.up("Shift")


def box_around(points):
    (x0, y0), (x1, y1) = points.min(axis=0) - 6, points.max(axis=0) + 6
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def inside(points, corners):
    (x0, y0), (x1, y1) = corners[0], corners[2]
    return np.flatnonzero(((points >= (x0, y0)) & (points <= (x1, y1))).all(axis=1)).tolist()


def test_open_and_click_a_row(open_page, session):
    explorer = open_page(session)
    page = explorer.page
    state = explorer.ask("state")
    assert page.get_by_role("heading", level=1).inner_text() == "iris"
    wrong, n = state["error"]["training"].values()
    assert f"{wrong} of {n}" in page.locator(".dkm-errors").inner_text()
    legend = page.locator(".dkm-legend").inner_text()
    assert all(each["name"] in legend for each in state["classes"])

    row, pixel = explorer.lone_row()
    page.mouse.click(*pixel)
    page.get_by_role("heading", name=f"Row {row}", exact=True).wait_for()
    told = explorer.ask("row", row=row, layer="training")
    text = explorer.panel().inner_text()
    assert state["classes"][told["class"]]["name"] in text
    assert "Certified radius" in text
    assert "What decides" in text
    assert explorer.complaints == []
    assert {url.startswith(explorer.origin) for url in explorer.requests} == {True}


@pytest.mark.browser
def test_no_request_leaves_the_machine(open_page, session):
    """Every part of the page, and what the browser is told not to load, on all tabs."""
    explorer = open_page(session)
    explorer.page.mouse.click(*explorer.lone_row()[1])
    for title in ("Row", "Prototype", "Classes", "Suspects", "Growth", "Rejection"):
        explorer.tab(title)
        explorer.settle()
    assert len(explorer.requests) > 20
    assert [url for url in explorer.requests if not url.startswith(explorer.origin)] == []
    assert explorer.complaints == []


@pytest.mark.browser
def test_planes_layers_and_filters(open_page, session):
    explorer = open_page(session)
    page = explorer.page
    for plane in explorer.ask("state")["planes"]:
        page.get_by_label("Plane").select_option(plane["id"])
        explorer.settle()
        assert explorer.js("return store.plane.id") == plane["id"]
    assert explorer.js("return [map.scene().axes[0], store.state.features[0]]")[0] == "x0"
    page.get_by_label("Feature up").select_option("3")
    explorer.settle()
    flat = np.frombuffer(
        explorer.ask("points", plane="features", x=0, y=3, layer="training"), "<f4", 112, 4 + 448
    )
    shown = explorer.js("return Array.from(store.grid.place, (i) => store.grid.y[i])")
    np.testing.assert_array_equal(np.float32(shown), flat)

    page.get_by_label("Rows", exact=True).select_option("held_out")
    explorer.settle()
    assert explorer.js("return store.grid.n") == 38

    before = explorer.js("return Array.from({ length: store.grid.n }, (_, i) => store.visible(i))")
    page.get_by_role("button", name=re.compile("^setosa: .*show or hide")).click()
    after = explorer.js("return Array.from({ length: store.grid.n }, (_, i) => store.visible(i))")
    assert (sum(before), sum(after)) == (
        38,
        38 - explorer.ask("state")["classes"][0]["held_out_count"],
    )
    assert explorer.complaints == []


@pytest.mark.browser
def test_lasso_selects_what_is_inside_and_relabels_it(open_page, session):
    explorer = open_page(session)
    page = explorer.page
    classes = explorer.ask("state")["classes"]
    rows, _ = explorer.places()
    codes = session.classes(session.draft, "training")
    corners = box_around(rows[codes == 0])
    expected = inside(rows, corners)
    explorer.lasso(corners)
    explorer.says(f"{len(expected)} rows selected.")
    assert explorer.js("return store.selection") == expected

    bar = page.get_by_role("region", name="Selected rows")
    bar.get_by_label("Relabel the selected rows as").select_option("1")
    bar.get_by_role("button", name="Relabel").click()
    explorer.says(f"{len(expected)} rows relabelled as {classes[1]['name']}.")
    assert set(session.classes(session.draft, "training")[expected]) == {1}
    assert explorer.js("return store.selection") == []

    page.get_by_role("button", name=re.compile("^Undo")).click()
    explorer.says("Undone")
    np.testing.assert_array_equal(session.classes(session.draft, "training"), codes)
    page.get_by_role("button", name=re.compile("^Redo")).click()
    explorer.says("Done again")
    assert set(session.classes(session.draft, "training")[expected]) == {1}
    assert explorer.complaints == []


@pytest.mark.browser
def test_cells_of_the_confusion_matrix_select_rows(open_page, session):
    explorer = open_page(session)
    explorer.tab("Classes")
    counts = np.array(explorer.ask("confusion", layer="training")["counts"])
    off = counts - np.diag(np.diag(counts))
    actual, predicted = np.unravel_index(off.argmax(), off.shape)
    explorer.page.locator(f"[data-key=cell-{actual}-{predicted}]").click()
    chosen = explorer.js("return store.selection")
    assert len(chosen) == off[actual, predicted] > 0
    assert set(session.classes(session.draft, "training")[chosen]) == {actual}
    assert set(session.predicted(session.draft, "training")[chosen]) == {predicted}


@pytest.mark.browser
def test_many_classes_have_a_list_of_confusions(open_page):
    X, y = make_blobs(1200, centers=60, n_features=2, cluster_std=1.5, random_state=0)
    model = DiscriminativeKMeans(60, refine=None, metric="euclidean").fit(X, y)
    session = Session(model, Rows(X, y))
    explorer = open_page(session)
    explorer.tab("Classes")
    counts = np.array(explorer.ask("confusion", layer="training")["counts"])
    np.fill_diagonal(counts, 0)
    actual, predicted = np.unravel_index(counts.argmax(), counts.shape)
    first = explorer.panel().locator("[data-key^=cell-]").first
    assert first.inner_text() == str(counts.max())
    first.click()
    chosen = explorer.js("return store.selection")
    assert set(session.classes(session.draft, "training")[chosen]) == {actual}
    assert set(session.predicted(session.draft, "training")[chosen]) == {predicted}
    assert explorer.complaints == []


@pytest.mark.browser
def test_merge_and_add_classes(open_page, session):
    explorer = open_page(session)
    page = explorer.page
    explorer.tab("Classes")
    page.get_by_label("Merge this class").select_option("1")
    page.get_by_label("into this class").select_option("2")
    page.get_by_role("button", name="Merge …").click()
    effect = page.get_by_role("group", name=re.compile("^Effect"))
    preview = explorer.ask("preview", edit={"kind": "merge_classes", "from": 1, "into": 2})
    assert (
        f"{preview['training']['before']} → {preview['training']['after']} of"
        in effect.inner_text()
    )
    assert explorer.ask("state")["edits"] == 0
    effect.get_by_role("button", name="Accept").click()
    page.get_by_role("heading", name="2 classes").wait_for()
    assert explorer.ask("state")["error"]["training"]["wrong"] == preview["training"]["after"]

    page.get_by_label("New class").fill("other")
    page.get_by_role("button", name="Add").click()
    page.get_by_role("heading", name="3 classes").wait_for()
    assert explorer.ask("state")["classes"][-1]["name"] == "other"
    page.get_by_role("tab", name="Classes").press("Control+z")
    page.get_by_role("heading", name="2 classes").wait_for()
    assert explorer.complaints == []


@pytest.mark.browser
def test_prototypes_are_renamed_moved_merged_and_dropped(open_page, session):
    explorer = open_page(session)
    page = explorer.page
    _, prototypes = explorer.places()
    page.mouse.click(*prototypes[2])
    page.get_by_label("Name").fill("wide petals")
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("heading", name="wide petals").wait_for()
    assert explorer.ask("state")["prototypes"][2]["name"] == "wide petals"

    def make(button, kind):
        k, edits = len(explorer.ask("state")["prototypes"]), explorer.ask("state")["edits"]
        page.get_by_role("button", name=button).click()
        effect = page.get_by_role("group", name=re.compile("^Effect"))
        assert "Held-out error" in effect.inner_text()
        assert explorer.ask("state")["edits"] == edits  # only told so far
        effect.get_by_role("button", name="Accept").click()
        explorer.says(f"{kind}.")
        return k - len(explorer.ask("state")["prototypes"])

    def choose(index):
        explorer.settle()
        page.mouse.click(*explorer.places()[1][index])
        id = explorer.ask("state")["prototypes"][index]["id"]
        page.get_by_role("heading", name=f"Prototype {id}", exact=True).wait_for()

    assert make("Drop …", "dropped") == 1
    choose(1)
    assert make("Merge …", "merged") == 1
    row, pixel = explorer.lone_row()
    page.mouse.click(*pixel)
    page.get_by_role("heading", name=f"Row {row}", exact=True).wait_for()
    choose(0)
    assert make(f"Move to row {row} …", "moved") == 0
    assert explorer.complaints == []


@pytest.mark.browser
def test_growth_slider_and_film(open_page, session):
    explorer = open_page(session)
    page = explorer.page
    explorer.tab("Growth")
    ks = [each["k"] for each in explorer.ask("state")["path"]]
    slider = page.get_by_role("slider", name="Number of prototypes")
    slider.press("Home")
    slider.press("ArrowRight")
    page.get_by_text(f"shown: {ks[1]} prototypes").wait_for()
    assert session.shown_k == ks[1]
    explorer.settle()
    assert explorer.js("return store.onPlane.prototypes.length") == ks[1]
    page.get_by_role("button", name="Back to the current model").click()
    page.get_by_text("shown:").wait_for(state="detached")
    assert session.shown_k is None

    version = session.version
    slider.press("Home")
    page.get_by_text(f"shown: {ks[0]} prototypes").wait_for()
    page.get_by_role("button", name="Play the growth").click()
    page.get_by_role("button", name="Stop").wait_for()
    page.get_by_role("button", name="Play the growth").wait_for()  # it has ended
    assert explorer.js("return store.film") is None
    assert session.version == version + 1  # the slider's

    slider.press("End")
    slider.press("ArrowLeft")
    page.get_by_text(f"shown: {ks[-2]} prototypes").wait_for()
    page.get_by_role("button", name="Use this model …").click()
    page.get_by_role("button", name="Accept").click()
    explorer.says(f"The model has {ks[-2]} prototypes now.")
    assert session.draft.core.n_clusters_ == ks[-2]
    assert explorer.complaints == []


@pytest.mark.browser
def test_suspects_are_decided_by_keyboard(open_page, session):
    explorer = open_page(session)
    explorer.tab("Suspects")
    queue = explorer.page.get_by_role("listbox", name="Suspect rows")
    queue.wait_for()
    listed = explorer.ask("suspects", limit=10)["rows"]
    assert len(listed) >= 3
    codes = session.classes(session.draft, "training").copy()

    queue.press("r")
    explorer.says("1 row relabelled as suggested.")
    assert session.classes(session.draft, "training")[listed[0]["row"]] == listed[0]["suggested"]
    queue.press("k")
    explorer.says("1 row kept.")
    left = [each["row"] for each in explorer.ask("suspects", limit=10)["rows"]]
    assert listed[0]["row"] not in left
    assert listed[1]["row"] not in left
    explorer.settle()
    queue.press("x")
    queue.press("ArrowDown")
    queue.press("d")  # the ticked row, not the one that the arrow went to
    explorer.says("1 row dropped.")
    dropped = np.flatnonzero(~session.draft.used).tolist()
    assert dropped == [left[0]]

    queue.press("a")
    queue.press("r")  # all at once is one edit
    explorer.says("relabelled as suggested.")
    edits = explorer.ask("state")["edits"]
    assert edits == 4
    for _ in range(edits):
        explorer.page.get_by_role("tab", name="Suspects").press("Control+z")
        explorer.settle()
    np.testing.assert_array_equal(session.classes(session.draft, "training"), codes)
    assert explorer.complaints == []


@pytest.mark.browser
def test_refit_tells_the_error_before_and_after(open_page, session):
    explorer = open_page(session)
    before = explorer.ask("state")["error"]["training"]["wrong"]
    explorer.tab("Suspects")
    queue = explorer.page.get_by_role("listbox", name="Suspect rows")
    queue.press("r")
    explorer.says("relabelled")
    relabelled = explorer.ask("state")["error"]["training"]["wrong"]
    assert relabelled != before
    explorer.page.get_by_role("button", name="Refit").click()
    explorer.says("Refit done")
    after = explorer.ask("state")["error"]["training"]["wrong"]
    explorer.says(f"({relabelled} → {after} of 112 rows)")
    assert explorer.complaints == []


@pytest.mark.browser
def test_refit_is_stopped(open_page):
    """A fit that takes long shows its progress and can be stopped; the model stays."""
    X, y = make_blobs(6000, centers=12, n_features=10, cluster_std=9, random_state=0)
    model = DiscriminativeKMeans(12, refine=None, metric="euclidean").fit(X, y)
    session = Session(model.set_params(max_clusters=2000), Rows(X, y))
    explorer = open_page(session)
    version = session.version
    explorer.page.get_by_role("button", name="Refit").click()
    explorer.page.get_by_role("progressbar").wait_for()
    explorer.page.get_by_role("button", name="Stop").click()
    explorer.says("The refit was stopped")
    assert session.version == version
    assert explorer.complaints == []


@pytest.mark.browser
def test_rejection_slider(open_page):
    """Digits: rejection needs some held-out rows of every class."""
    X, y = load_digits(return_X_y=True)
    model = DiscriminativeKMeans(20, refine=None, metric="euclidean").fit(X[:900], y[:900])
    session = Session(model, Rows(X[:900], y[:900]), Rows(X[900:], y[900:]), image_shape=(8, 8))
    explorer = open_page(session)
    page = explorer.page
    page.get_by_label("Rows", exact=True).select_option("held_out")
    explorer.tab("Rejection")
    slider = page.get_by_role("slider", name="False-alarm rate")
    for rate in (0.05, 0.3):
        if rate == 0.3:
            slider.press("End")
        rejected = explorer.ask("rejected", rate=rate, layer="held_out")["n_rejected"]
        explorer.panel().get_by_text(f"{rejected} rows of 897").wait_for()
    page.get_by_role("button", name="Use this rate").click()
    explorer.says("Rejection at a rate of 30.0 %.")
    assert explorer.ask("state")["rejection"]["rate"] == pytest.approx(0.3)
    assert explorer.complaints == []


@pytest.mark.browser
def test_edits_survive_a_reload_and_a_new_start(open_page, session, fitted):
    explorer = open_page(session)
    page = explorer.page
    row, pixel = explorer.lone_row()
    page.mouse.click(*pixel)
    page.get_by_label("Relabel this row as").select_option("2")
    explorer.says("relabelled")
    page.reload()
    page.wait_for_selector(READY)
    page.get_by_role("button", name=re.compile("^Undo: ")).wait_for()
    assert explorer.js("return store.state.edits") == 1
    session.close()

    again = open_page(iris_session(fitted, session.journal.path))
    again.page.get_by_role("button", name=re.compile("^Undo: ")).wait_for()
    assert again.session.classes(again.session.draft, "training")[row] == 2


@pytest.mark.browser
def test_exports(open_page, session, tmp_path):
    explorer = open_page(session)
    page = explorer.page

    def export(label):
        page.get_by_label("Export", exact=True).click()
        with page.expect_download() as found:
            page.get_by_role("button", name=label).click()
        place = tmp_path / found.value.suggested_filename
        found.value.save_as(place)
        return place

    for what, label in (
        ("table", "Corrected table"),
        ("model", "Model"),
        ("script", "Python script"),
    ):
        place = export(label)
        assert place.name == explorer.ask("export_name", what=what)["name"]
        if what == "model":
            assert load(place).n_clusters_ == session.draft.core.n_clusters_
        else:
            assert place.read_bytes() == explorer.ask("export", what=what)

    png = export("Picture (PNG)").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    assert [width, height] > explorer.js("return [map.view.width, map.view.height]")

    root = ET.fromstring(export("Picture (SVG)").read_text())
    paths = root.findall(".//{http://www.w3.org/2000/svg}path")
    drawn = explorer.js("return store.grid.countIn(map.view.extent())")
    assert len(paths) == drawn + session.draft.core.n_clusters_ + 3  # rows, prototypes, legend
    assert explorer.complaints == []


@pytest.mark.browser
def test_keyboard_alone(open_page, session):
    """From opening the page to a relabelled selection and back, without a pointer."""
    explorer = open_page(session)
    page = explorer.page

    def focused():
        name = "(document.activeElement.ariaLabel ?? document.activeElement.textContent)"
        return page.evaluate(name)

    def tab_to(start, most=80):
        for _ in range(most):
            page.keyboard.press("Tab")
            if focused().startswith(start):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline == "solid"  # one sees where one is
                return
        raise AssertionError(f"{start!r} cannot be reached")

    tab_to("Map of rows")
    extent = explorer.js("return map.view.extent()")
    for key in ("ArrowRight", "ArrowUp", "+", "+"):
        page.keyboard.press(key)
    moved = explorer.js("return map.view.extent()")
    assert moved[1] - moved[0] < extent[1] - extent[0]
    page.keyboard.press("0")
    np.testing.assert_allclose(explorer.js("return map.view.extent()"), extent)

    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile(r"^Row \d+$")).wait_for()
    for _ in range(6):
        page.keyboard.press("]")
    page.keyboard.press("s")
    chosen = explorer.js("return store.selection")
    rows, _ = explorer.places()
    box = page.locator(".dkm-surface").bounding_box()
    centre = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    far = np.linalg.norm(rows - centre, axis=1)
    radius = explorer.js("return map.radius")
    assert set(np.flatnonzero(far < 0.99 * radius)) <= set(chosen)
    assert set(chosen) <= set(np.flatnonzero(far < 1.01 * radius))
    assert chosen

    tab_to("Relabel the selected rows as")
    page.keyboard.press("End")
    tab_to("Relabel", 2)
    page.keyboard.press("Enter")
    explorer.says("relabelled as virginica.")
    assert set(session.classes(session.draft, "training")[chosen]) == {2}
    tab_to("Row")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Prototype").get_attribute("aria-selected") == "true"
    page.keyboard.press("Control+z")
    explorer.says("Undone")
    assert explorer.ask("state")["edits"] == 0
    assert explorer.complaints == []


@pytest.mark.browser
def test_text_from_data_is_text(open_page, tmp_path):
    """Names of classes, features and prototypes that would run as HTML."""
    (X, y), _ = iris_rows()
    y = np.where(y == "setosa", EVIL, y)
    import pandas as pd

    frame = pd.DataFrame(X, columns=[EVIL, "b", "c", "d"])
    model = DiscriminativeKMeans(6, refine=None, metric="euclidean").fit(frame, y)
    session = Session(model, Rows(frame, y), title=EVIL)
    explorer = open_page(session)
    page = explorer.page
    assert page.get_by_role("heading", level=1).inner_text() == EVIL
    page.get_by_label("Plane").select_option("features")
    row = int(np.flatnonzero(y == EVIL)[0])
    explorer.js("return store.chooseRow(given[0])", row)
    page.get_by_role("heading", name=f"Row {row}", exact=True).wait_for()
    explorer.js("return store.edit({ kind: 'rename_prototype', index: 0, name: given[0] })", EVIL)
    explorer.js("store.choosePrototype(0)")
    page.get_by_role("heading", name="<img").first.wait_for()
    for title in ("Classes", "Suspects", "Growth"):
        explorer.tab(title)
        explorer.settle()
    page.get_by_label("Export", exact=True).click()
    with page.expect_download() as found:
        page.get_by_role("button", name="Picture (SVG)").click()
    found.value.save_as(tmp_path / "map.svg")
    texts = ET.parse(tmp_path / "map.svg").getroot().itertext()
    assert any("<img" in text for text in texts)
    assert page.evaluate("window.pwned") is None
    assert page.locator(".dkm img").count() == 0
    assert explorer.complaints == []


@pytest.mark.browser
def test_errors_are_told_and_the_page_lives_on(open_page, session):
    explorer = open_page(session)
    page = explorer.page
    explorer.js("return store.edit({ kind: 'relabel', rows: [10000], class: 0 })")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "10000" in alert.inner_text() or "rows" in alert.inner_text()
    page.route("**/api/row", lambda route: route.fulfill(status=502, body="<html>"))
    explorer.js("return store.chooseRow(1)")
    assert "502" in alert.inner_text()
    page.unroute("**/api/row")
    page.route("**/api/row", lambda route: route.abort())
    explorer.js("return store.chooseRow(1)")
    assert "does not answer" in alert.inner_text()
    page.unroute("**/api/row")
    explorer.js("return store.chooseRow(1)")
    page.get_by_role("heading", name="Row 1", exact=True).wait_for()
    assert all("Failed to load resource" in each for each in explorer.complaints)


@pytest.mark.browser
def test_two_tabs_show_the_same_session(open_page, session):
    explorer = open_page(session)
    other = explorer.open_tab()
    explorer.js("return store.edit({ kind: 'relabel', rows: [0, 1], class: 2 })")
    other.evaluate("window.dispatchEvent(new Event('focus'))")
    other.get_by_role("button", name=re.compile("^Undo: ")).wait_for()
    other.get_by_role("button", name=re.compile("^Undo: ")).click()
    other.get_by_role("button", name=re.compile("^Redo: ")).wait_for()
    assert explorer.ask("state")["edits"] == 0
    explorer.page.evaluate("window.dispatchEvent(new Event('focus'))")
    explorer.page.get_by_role("button", name=re.compile("^Redo: ")).wait_for()
    assert explorer.complaints == []


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 900, 1400])
def test_no_sideways_scrolling(open_page, session, width, scheme):
    explorer = open_page(session, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = explorer.page
    explorer.js("return store.chooseRow(5)")
    for title in ("Row", "Prototype", "Classes", "Suspects", "Growth", "Rejection"):
        explorer.tab(title)
        explorer.settle()
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, title
    assert page.locator(".dkm").get_attribute("data-theme") == scheme
    ground = page.evaluate("getComputedStyle(document.querySelector('.dkm-map')).backgroundColor")
    brightness = np.mean([int(part) for part in re.findall(r"\d+", ground)[:3]])
    assert (brightness > 128) == (scheme == "light")
    assert page.locator(".dkm-surface").bounding_box()["height"] > 250
    assert explorer.complaints == []


@pytest.mark.browser
def test_printing(open_page, session):
    """On paper: light, the map and the panel that is open, no controls."""
    explorer = open_page(session, color_scheme="dark")
    page = explorer.page
    explorer.js("return store.chooseRow(5)")
    page.emulate_media(media="print", color_scheme="dark")
    page.locator(".dkm[data-theme=light]").wait_for()
    assert not page.get_by_role("button", name="Refit").is_visible()
    assert page.locator(".dkm-map").is_visible()
    assert page.get_by_role("heading", name="Row 5", exact=True).is_visible()
    assert page.locator("canvas:visible").count() == 1
    blue = explorer.js(
        """const { width, height } = map.printCanvas;
        const { data } = map.printCanvas.getContext("2d").getImageData(0, 0, width, height);
        let found = 0;
        for (let i = 0; i < data.length; i += 4) {
          found += data[i] < 40 && data[i + 1] > 90 && data[i + 1] < 140 && data[i + 2] > 150;
        }
        return found;"""
    )
    assert blue > 500  # rows of the first class, drawn by WebGL
    assert page.pdf()[:5] == b"%PDF-"


def many_rows(n=30_000):
    X, y = make_blobs(n, centers=5, n_features=3, cluster_std=4, random_state=0)
    X = X.astype(np.float32)
    model = DiscriminativeKMeans(5, refine=None, metric="euclidean").fit(X[::30], y[::30])
    return Session(model, Rows(X, y))


@pytest.mark.browser
def test_density_where_points_would_be_slow(open_page):
    """The image has a colour wherever the server counts rows, and points return on zooming in."""
    explorer = open_page(many_rows())
    page = explorer.page
    explorer.js("map.points.pointsPerMs = 100; map.redraw()")  # 300 ms for all rows
    page.get_by_text("Density of 30\u202f000 rows").wait_for()
    width, height, extent, alpha = explorer.js(
        """const { width, height } = map.densityCanvas;
        const image = map.densityCanvas.getContext("2d").getImageData(0, 0, width, height);
        const alpha = Array.from(image.data.filter((_, i) => i % 4 === 3));
        return [width, height, map.view.extent(), alpha];"""
    )
    plane = explorer.js("return store.plane")
    params = {"plane": plane["id"], "x": plane["x"], "y": plane["y"], "layer": "training"}
    grid = {"extent": extent, "width": width, "height": height, "classes": [0, 1, 2, 3, 4]}
    counts = np.frombuffer(explorer.ask("density", **params, **grid), "<u2").reshape(5, -1).sum(0)
    drawn = np.array(alpha) > 0
    assert counts.sum() == 30_000
    # Pixels are computed in other types: rows near an edge of a pixel may be in the next one.
    assert (drawn != (counts > 0)).mean() < 1e-3
    many = counts >= np.quantile(counts[counts > 0], 0.99)
    assert np.array(alpha)[many].mean() > np.array(alpha)[counts == 1].mean() + 30

    for _ in range(8):
        page.get_by_role("button", name="Zoom in").click()
    page.get_by_text("Density of").wait_for(state="hidden")
    assert explorer.js("return map.isDensity") is False
    assert explorer.complaints == []


@pytest.mark.browser
def test_without_webgl(open_page, session):
    """Browsers without WebGL2 show the density of the rows."""
    explorer = open_page(session)
    explorer.page.add_init_script(
        """const real = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
          return kind === "webgl2" ? null : real.call(this, kind, ...more);
        };"""
    )
    explorer.page.reload()
    explorer.page.wait_for_selector(READY)
    explorer.page.get_by_text("Density of 112 rows").wait_for()
    row, pixel = explorer.lone_row()
    explorer.page.mouse.click(*pixel)
    explorer.page.get_by_role("heading", name=f"Row {row}", exact=True).wait_for()
    assert explorer.complaints == []


@pytest.mark.browser
def test_symbols_and_colours_of_points(open_page, session):
    """The pixel in the middle of a row's symbol has the colour of its class."""
    explorer = open_page(session)
    explorer.js("store.look({ prototypes: false, cellsShown: false, borders: false })")
    row, _ = explorer.lone_row()
    category = int(session.classes(session.draft, "training")[row])
    found = explorer.js(
        """map.layers(); const { grid } = store; const i = grid.place[given[0]];
        const canvas = new OffscreenCanvas(1, 1); const context = canvas.getContext("2d");
        const [x, y] = [map.view.pixelX(grid.x[i]) | 0, map.view.pixelY(grid.y[i]) | 0];
        context.drawImage(map.pointCanvas, x, y, 1, 1, 0, 0, 1, 1);
        return Array.from(context.getImageData(0, 0, 1, 1).data);""",
        row,
    )
    from dkmeans.plots.style import color

    expected = [int(color(category)[at : at + 2], 16) for at in (1, 3, 5)]
    assert found[3] > 200
    np.testing.assert_allclose(found[:3], expected, atol=6)


@pytest.mark.browser
def test_certified_radius_is_drawn_for_two_features(open_page):
    (X, y), _ = iris_rows()
    model = DiscriminativeKMeans(6, refine=None, metric="euclidean").fit(X[:, :2], y)
    explorer = open_page(Session(model, Rows(X[:, :2], y)))
    explorer.page.get_by_label("Plane").select_option("features")
    explorer.settle()
    explorer.js("return store.chooseRow(7)")
    told = explorer.ask("row", row=7, layer="training")
    ellipse = explorer.js("return map.scene().ellipse")
    assert ellipse == pytest.approx([told["radius"], told["radius"]])
    assert explorer.js("return store.cells") == "cut"  # exact, as there are no other features
