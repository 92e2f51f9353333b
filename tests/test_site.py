"""The guide as a whole: no page is left out, no link is dead, nothing in it goes without a test."""

import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# Examples that take less than a second; `make docs` runs all of them.
QUICK = [
    "plot_02_repulsion",
    "plot_05_refinement",
    "plot_07_incremental",
    "plot_08_big_data",
    "plot_10_export",
    "plot_11_explain_and_reject",
]
SECTIONS = {"Parameters", "Returns", "Yields", "Raises", "Warns", "Attributes", "See Also"}
SECTIONS |= {"Notes", "Examples", "References", "Warnings", "Other Parameters"}
KINDS = ("tutorials", "how-to", "explanation", "benchmarks")
PAGES = sorted(
    [*DOCS.glob("*.md"), *(page for kind in KINDS for page in DOCS.glob(f"{kind}/*.md"))]
)
# Blocks of Python without prompts, and the test that runs them.
RUN_ELSEWHERE = {
    "command-line.md": "test_guide",
    "big-data.md": "test_dask",
    "cluster.md": "test_tutorials",
}


def text(path):
    return path.read_text(encoding="utf-8")


def listed_in_reference():
    """Public names with the modules that the reference has them in."""
    for module, block in re.findall(
        r"currentmodule:: (\S+)\n(.*?)```", text(DOCS / "reference.md"), re.S
    ):
        yield from ((module, entry) for entry in re.findall(r"^   ([A-Za-z]\S*)$", block, re.M))


@pytest.fixture
def contents(monkeypatch):
    """The extension that makes the contents of the site."""
    monkeypatch.syspath_prepend(DOCS / "_ext")
    yield importlib.import_module("contents")
    sys.modules.pop("contents")


def test_every_page_is_in_the_contents_once(contents):
    sections = contents.sections(text(DOCS / "index.md"))
    listed = [page for pages in sections.values() for page in pages]
    assert len(listed) == len(set(listed))
    there = {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES} - {"index"}
    assert set(listed) - {"gallery/index"} == there
    trees = contents.toctrees(text(DOCS / "index.md"))
    assert trees.count("{toctree}") == len(sections) > 1
    assert "\ntutorials/images\n" in trees


def test_links_out_of_the_docs_have_a_page_that_stands_for_them(contents):
    for page in PAGES:
        folder = page.parent.relative_to(DOCS).as_posix()
        for target in re.findall(r"\]\((\.\./[^)#]+)", text(page)):
            on_site = (page.parent / contents.on_site(target, folder)).resolve()
            assert on_site.is_relative_to(DOCS.resolve()), f"{page.name}: {target}"
            assert on_site.parent.name == "gallery" or on_site.exists()


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_links_and_pictures_are_there(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", text(page)):
        if "://" in target:
            continue
        path, _, place = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name}: {target}"
        if place:
            assert place in headings(file), f"{page.name}: {target}"


def headings(page):
    """Places in a page, as code hosts and the site name them."""
    titles = re.findall(r"^#+ (.*)$", text(page), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("module", ["dkmeans", "dkmeans.plots", "dkmeans.data"])
def test_every_public_name_is_in_the_reference(module):
    listed = {f"{where}.{name}" for where, name in listed_in_reference()}
    public = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert public - listed <= {"dkmeans.__version__"}


def test_what_the_reference_lists_is_there_and_documented():
    for module, entry in listed_in_reference():
        *inner, name = entry.split(".")
        if inner == ["onnx"]:
            pytest.importorskip("onnx")
        found = getattr(importlib.import_module(".".join([module, *inner])), name)
        for documented in (found, *vars(found).values()) if isinstance(found, type) else (found,):
            sections = set(re.findall(r"^ *(.+)\n *---+$", documented.__doc__ or "", re.M))
            assert sections <= SECTIONS, f"{entry}: numpydoc leaves out sections of other names"
        assert found.__doc__


def test_every_block_of_python_is_run_by_a_test():
    for page in [*PAGES, ROOT / "README.md"]:
        for block in re.findall(r"^```python\n(.*?)^```", text(page), re.S | re.M):
            assert ">>>" in block or page.name in RUN_ELSEWHERE, f"{page.name}:\n{block}"


def test_the_built_site_is_checked(tmp_path):
    problems = runpy.run_path(str(ROOT / "tools" / "check_site.py"))["problems"]
    (tmp_path / "other.html").write_text('<h1 id="place">A page</h1>')
    good = '<a href="other.html#place">x</a> <a href="https://example.org">y</a> <p id="here">'
    page = tmp_path / "index.html"
    page.write_text(good + '<a href="#here">z</a> <img src="data:image/png;base64,AAAA">')
    assert problems(tmp_path) == []
    for bad, complaint in {
        '<script src="https://example.org/x.js"></script>': "from elsewhere",
        '<link rel="stylesheet" href="//example.org/x.css">': "from elsewhere",
        '<img src="missing.png">': "which is not there",
        '<img srcset="missing.png 2x">': "which is not there",
        '<a href="missing.html">x</a>': "which is not there",
        '<a href="other.html#nowhere">x</a>': "no such place",
        '<a href="#nowhere">x</a>': "no such place",
    }.items():
        page.write_text(good + bad)
        (problem,) = problems(tmp_path)
        assert problem.startswith("index.html ")
        assert complaint in problem


@pytest.mark.parametrize("name", QUICK)
def test_quick_examples_run_and_draw(name, monkeypatch, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(len(plt.get_fignums())))
    try:
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
        assert shown
        assert shown[-1] > 0
    finally:
        plt.close("all")
