"""Make a notebook of every tutorial of the guide, and run it.

    python tools/make_notebooks.py FOLDER

Text becomes Markdown cells, blocks of Python become code cells: with prompts, without their output,
which running writes again. A notebook that fails is an error.
"""

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).parent.parent / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[([^]]*)\]\((?!https?:)[^)]*\)")
_SKIPPED = re.compile(r"^(.*)  # doctest: \+SKIP$", re.MULTILINE)


def code_of(block: str) -> str:
    """Return what to type: lines behind prompts, or the whole block if there are none."""
    if ">>>" not in block:
        return block.rstrip()
    lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", block, re.MULTILINE)
    return _SKIPPED.sub(r"# \1", "\n".join(lines))  # what is not run in the guide, is not run here


def notebook_of(page: str) -> nbformat.NotebookNode:
    """Turn a page into a notebook. Links within the guide become plain text."""
    cells = []
    for number, part in enumerate(_BLOCK.split(page)):
        if number % 2:
            cells.append(nbformat.v4.new_code_cell(code_of(part)))
        elif part.strip():
            cells.append(nbformat.v4.new_markdown_cell(_LINK.sub(r"\1", part).strip()))
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"  # the same every time
    return nbformat.v4.new_notebook(cells=cells)


def main(folder: Path) -> None:
    """Write and run all notebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted((DOCS / "tutorials").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "```python" not in text:
            continue
        notebook = notebook_of(text)
        path = folder / f"{page.stem}.ipynb"
        print(path)
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
