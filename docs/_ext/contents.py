"""The table of contents of the site, made of the tables of docs/index.md.

Pages are listed once, in tables that code hosts show as well: a row of a table whose first cell is
a link is an entry of the site's contents, below the heading of its section. Links out of this
folder go to the page of the site that stands for them.
"""

import posixpath
import re
from pathlib import Path

# Files elsewhere in the repository, and the page of the site that stands for each.
STAND_INS = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "examples/README.rst": "gallery/index.rst",
}
_EXAMPLE = re.compile(r"examples/(plot_\w+)\.py")
_LINK = re.compile(r"(?<=\]\()[^)#\s]+")
_ENTRY = re.compile(r"^\| \[[^]]+\]\(([^)]+)\) \|", re.MULTILINE)


def on_site(target: str, folder: str = "") -> str:
    """Turn the target of a link on a page of a folder into what it is on the site."""
    outside = posixpath.relpath(posixpath.normpath(posixpath.join("docs", folder, target)))
    page = STAND_INS.get(outside, _EXAMPLE.sub(r"gallery/\1.rst", outside))
    return target if page == outside else posixpath.relpath(page, folder or ".")


def sections(index: str) -> dict[str, list[str]]:
    """List the pages in each section of the index, by their names without an extension."""
    _, *parts = re.split(r"^## (.*)\n", index, flags=re.MULTILINE)
    found = {
        heading: [str(Path(on_site(target)).with_suffix("")) for target in _ENTRY.findall(text)]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {heading: pages for heading, pages in found.items() if pages}


def toctrees(index: str) -> str:
    """Write the sections of the index as hidden tables of contents."""
    return "".join(
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```", ""])
        for heading, pages in sections(index).items()
    )


def _read(app, docname, source):
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".md":
        return
    folder = posixpath.dirname(docname)
    text = _LINK.sub(lambda link: on_site(link[0], folder), source[0])
    text = text.replace("\n\n```\n", "\n```\n")  # doctest needs the empty line, readers do not
    if docname == app.config.root_doc:
        text += toctrees(text)
    notebook = f"notebooks/{Path(docname).name}.ipynb"
    if folder == "tutorials" and (Path(app.srcdir) / notebook).exists():
        text += f"\n{{download}}`Download this page as a notebook </{notebook}>`\n"
    source[0] = text


def setup(app):
    """Connect with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
