"""Rules that the explorer's page keeps, read off its files; no browser is needed."""

import json
import re
from importlib.resources import files

import pytest

from dkmeans.explorer.bundle import notebook_module
from dkmeans.plots import style

STATIC = files("dkmeans.explorer").joinpath("static")
MODULES = sorted(
    (entry for folder in (STATIC, STATIC.joinpath("panels")) for entry in folder.iterdir()),
    key=str,
)
MODULES = [entry for entry in MODULES if entry.name.endswith(".mjs")]

# Ways to make HTML or code out of text.
UNSAFE = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "srcdoc",
    "createContextualFragment", "setHTML", "eval(", "new Function", "javascript:",
)  # fmt: skip
NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_modules_are_small_say_their_purpose_and_make_no_html_of_text(module):
    text = module.read_text(encoding="utf-8")
    assert re.match(r"// [A-Z].*[.:]", text), "begin with a sentence on the purpose"
    assert text.count("\n") < 400
    assert [word for word in UNSAFE if word in text] == []
    assert re.findall(r"https?://[^\s\"'`]+", text.replace(NAMESPACE, "")) == []


def test_page_runs_only_its_own_script_and_loads_nothing_from_outside():
    page = STATIC.joinpath("index.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script[^>]*>([^<]*)</script>", page)
    assert scripts == [""]
    assert not re.search(r"\son\w+=|style=|https?:", page)
    sheet = STATIC.joinpath("style.css").read_text(encoding="utf-8")
    assert not re.search(r"@import|url\(", sheet)


def test_colours_and_symbols_are_those_of_the_plots():
    text = STATIC.joinpath("colours.mjs").read_text(encoding="utf-8")
    colours = json.loads(re.search(r"const COLOURS = (\[.*?\]);", text, re.DOTALL)[1])
    assert tuple(colours) == style.COLORS
    sheet = STATIC.joinpath("style.css").read_text(encoding="utf-8")
    for i, colour in enumerate(style.COLORS):
        found = re.search(rf"^(?:.*}} )?\.dkm-colour-{i} {{ fill: (#\w+); }}", sheet, re.MULTILINE)
        digits = found[1][1:]
        full = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
        assert full.lower() == colour[1:].lower()


def test_notebook_module_imports_nothing():
    """All modules are within it, each after those that it needs."""
    sources = dict(json.loads(re.search(r"const SOURCES = (.*);\n", notebook_module())[1]))
    order = list(sources)
    count = 0
    for name, source in sources.items():
        for needed in re.findall(r'^import .*? from "(.*?)";', source, re.MULTILINE | re.DOTALL):
            assert order.index(needed.strip("\0")) < order.index(name)
            count += 1
    assert count > 20
    assert "page.mjs" not in sources  # starts the page of the server
