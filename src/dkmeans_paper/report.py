"""Report: one self-contained HTML page that compares the paper's claims with measurements."""

import base64
import json
import math
from html import escape
from pathlib import Path
from typing import Any

import dkmeans
from dkmeans.atomic import write_atomically
from dkmeans_paper.sections import Section

ORDER = ("synthetic", "sequences", "faces")

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff;
       max-width: 70rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
table { border-collapse: collapse; font-size: .9rem; }
.wide { overflow-x: auto; }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top;
         border-bottom: 1px solid #ddd; }
table.numbers td:not(:first-child), table.numbers th:not(:first-child) { text-align: right;
         white-space: nowrap; }
img { max-width: 100%; height: auto; }
figure { margin: 1.5rem 0; } figcaption, .note { color: #444; font-size: .9rem; }
.verdict { white-space: nowrap; font-weight: 600; }
.confirmed { color: #00664a; } .in-part { color: #8a5a00; } .not-confirmed { color: #a33c00; }
"""
_SIGNS = {"confirmed": "✓", "in part": "~", "not confirmed": "✗", "too few queries": "?"}


def write_report(out: Path, sections: dict[str, Section]) -> Path:
    """Add sections to the results in a folder, and write them as JSON and HTML.

    Parameters
    ----------
    out : Path
        The folder; sections of earlier runs are kept unless replaced.
    sections : dict of Section
        New sections by name of the experiment.

    Returns
    -------
    page : Path
        Path of the HTML page.
    """
    results_path, page = out / "results.json", out / "report.html"
    results = {
        n: r
        for n, r in _read_sections(results_path).items()
        if n not in sections and _usable(r, out)
    }
    results |= {name: _json_value(section.to_json()) for name, section in sections.items()}
    results = {name: results[name] for name in ORDER if name in results}
    whole = {"dkmeans": dkmeans.__version__, "sections": results}
    text = json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False)
    write_atomically(results_path, text.encode())
    html = _page(results, out / "figures")
    write_atomically(page, html.encode())
    return page


def _read_sections(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8"))["sections"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {}


def _usable(section: Any, out: Path) -> bool:
    """Return whether a section of an earlier run can be rendered."""
    try:
        _section("", section, out / "figures")
    except (KeyError, TypeError, AttributeError, FileNotFoundError):
        return False
    return True


def _json_value(value: Any) -> Any:
    """Convert to JSON types; NaN and infinities become None."""
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _page(sections: dict[str, Any], figures: Path) -> str:
    body = "".join(_section(name, section, figures) for name, section in sections.items())
    links = " · ".join(f'<a href="#{n}">{escape(s["title"])}</a>' for n, s in sections.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Discriminative k-means: the paper's evaluation, reproduced</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Discriminative k-means: the paper's evaluation, reproduced</h1>
<p>O. Arandjelovic, “Discriminative k-means clustering”, IJCNN 2013, beside what dkmeans
{escape(dkmeans.__version__)} measures. Claims are in our words. All figures are in the folder
<code>figures</code> as PNG and SVG, all numbers in <code>results.json</code>.</p>
<p>{links}</p>
{body}</body>
</html>
"""


def _section(name: str, section: dict[str, Any], figures: Path) -> str:
    claims = "".join(
        f"<tr><td>{escape(c['paper'])}</td><td>{escape(c['measured'])}</td>"
        f'<td class="verdict {c["verdict"].replace(" ", "-")}">{_SIGNS[c["verdict"]]} '
        f"{escape(c['verdict'])}</td></tr>\n"
        for c in section["claims"]
    )
    parts = "".join(
        _picture(part, figures) if part["kind"] == "picture" else _table(part)
        for part in section["parts"]
    )
    return f"""<h2 id="{name}">{escape(section["title"])}</h2>
<p>{escape(section["data"])}</p>
<div class="wide"><table>
<tr><th>The paper</th><th>Measured</th><th>Verdict</th></tr>
{claims}</table></div>
{parts}"""


def _picture(part: dict[str, Any], figures: Path) -> str:
    data = base64.b64encode((figures / f"{part['name']}.png").read_bytes()).decode()
    return f"""<h3>{escape(part["title"])}</h3>
<figure><img src="data:image/png;base64,{data}" alt="{escape(part["title"])}">
<figcaption>{escape(part["caption"])}</figcaption></figure>
"""


def _table(part: dict[str, Any]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in part["columns"])
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>\n"
        for line in part["lines"]
    )
    note = f'<p class="note">{escape(part["note"])}</p>' if part["note"] else ""
    return f"""<h3>{escape(part["title"])}</h3>
<div class="wide"><table class="numbers">
<tr>{head}</tr>
{lines}</table></div>
{note}"""
