"""Blocks of the tutorials that need a cluster, and the notebooks that are made of the tutorials."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"


def text(name):
    return (TUTORIALS / name).read_text(encoding="utf-8")


@pytest.mark.faults
def test_the_cluster_tutorial_runs():
    pytest.importorskip("distributed")
    blocks = re.findall(r"^```python\n(.*?)^```", text("cluster.md"), re.S | re.M)
    assert len(blocks) > 2
    exec("\n".join(blocks), {"__name__": "tutorial"})


def test_notebooks_hold_all_text_and_code_of_a_tutorial():
    pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    notebook_of = runpy.run_path(str(ROOT / "tools" / "make_notebooks.py"))["notebook_of"]
    for page in TUTORIALS.glob("*.md"):
        notebook = notebook_of(text(page.name))
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        assert len(code) == text(page.name).count("\n```python\n")
        for source in code:
            compile(source, page.name, "exec")
            assert ">>>" not in source
        assert notebook.cells[0].source.startswith("# Tutorial")
