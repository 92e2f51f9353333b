"""The page's modules as one: notebooks take a single ES module and a single style sheet."""

import json
import re
from importlib.resources import files
from typing import Any

_ENTRY = "explorer.mjs"
_IMPORT = re.compile(r'(?m)^(import [^;]*? from )"([^"]+)";')

# Every module becomes an object URL; names that it imports from are replaced by their URLs.
_LOADER = """
const SOURCES = %s;
const urls = {};
for (const [name, source] of SOURCES) {
  const text = source.replace(/\\u0000([^\\u0000]+)\\u0000/g, (_, needed) => urls[needed]);
  urls[name] = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
}
const loaded = import(urls[%s]);
export default { render: async (context) => (await loaded).render(context) };
"""


def notebook_module() -> str:
    """Return the page as one ES module with a default export that has `render`.

    Examples
    --------
    >>> "export default" in notebook_module()
    True
    """
    sources: dict[str, str] = {}
    _collect(_ENTRY, sources)
    return _LOADER % (json.dumps(list(sources.items())), json.dumps(_ENTRY))


def notebook_style() -> str:
    """Return the page's style sheet."""
    return _text("style.css")


def _collect(name: str, sources: dict[str, str]) -> None:
    """Add a module after those that it imports, which are marked by NUL characters in its text."""
    text = _text(name)
    needed: list[str] = []

    def mark(found: re.Match[str]) -> str:
        needed.append(_resolve(name, found[2]))
        return f'{found[1]}"\0{needed[-1]}\0";'

    marked = _IMPORT.sub(mark, text)
    for each in needed:
        if each not in sources:
            _collect(each, sources)
    sources[name] = marked


def _resolve(importer: str, path: str) -> str:
    """Return the name of a module that another one imports by a relative path."""
    parts = importer.split("/")[:-1]
    for part in path.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _text(name: str) -> str:
    place: Any = files("dkmeans.explorer").joinpath("static")
    return str(place.joinpath(*name.split("/")).read_text(encoding="utf-8"))
