"""Check the built site: `python tools/check_site.py docs/_build/html`.

Checks that all links between pages are valid, including anchors, and that no page loads anything
from another server: scripts, styles, fonts and pictures are files of the site.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the links, files and anchors of a tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("next", "prev", "index", "search"):
            self.loads.append(given.get("href", ""))
        self.loads += [given[name] for name in ("src", "data") if given.get(name) and tag != "a"]
        self.loads += [entry.split()[0] for entry in given.get("srcset", "").split(",") if entry]


def problems(site: Path) -> list[str]:
    """List the problems of a site."""
    files = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path.read_text("utf-8")) for path in files}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for load in page.loads:
            parts = urlsplit(load)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                found.append(f"{where} loads {load} from elsewhere")
            elif not (path.parent / unquote(parts.path)).exists():
                found.append(f"{where} loads {load}, which is not there")
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{where} links to {link}, which is not there")
            elif parts.fragment and target.suffix == ".html":
                there = pages[path.parent / path.name if target == path else target]
                if unquote(parts.fragment) not in there.anchors:
                    found.append(f"{where} links to {link}, which has no such place")
    for path in sorted(site.rglob("*.css")):
        urls = re.findall(r"url\(\s*['\"]?((?:https?:)?//[^'\")]+)", path.read_text("utf-8"))
        found += [f"{path.relative_to(site)} loads {url} from elsewhere" for url in urls]
    return found


def main() -> None:
    """Check the site; print its size and its first page."""
    site = Path(sys.argv[1]).resolve()
    found = problems(site)
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} problems in {site}")
    made = ("search", "genindex", "webpack-macros")  # by Sphinx and its theme
    own = [path for path in site.rglob("*.html") if path.stem not in made]
    examples = list((site / "gallery").glob("plot_*.html"))
    names = list((site / "api").glob("*.html"))
    print(
        f"{len(own)} pages, {len(names)} of them of the reference and {len(examples)} examples "
        f"that were run. Open {site / 'index.html'}"
    )


if __name__ == "__main__":
    main()
