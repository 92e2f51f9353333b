"""The console blocks of the guide: every command is run, and prints what the page says."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import invoke

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "command-line.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)


def console():
    """Commands of the page with what they print, in order."""
    text = "".join(blocks("console"))
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M)
    assert len(found) == text.count("\n$ ") + 1
    return found


def test_commands_print_what_the_guide_says(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    script = next(block for block in blocks("python") if ">>>" not in block)
    subprocess.run([sys.executable, "-c", script], check=True)
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for command, expected in console():
        name, *words = shlex.split(command)
        assert name == "dkmeans"
        result = invoke("", *words)
        assert (result.exit_code == 0) == (not expected.startswith("Error")), result.output
        assert checker.check_output(expected, result.output, flags), (
            f"$ {command}\n{result.output}\nbut the guide says\n{expected}"
        )


def test_the_guide_names_every_command_and_every_kind_of_plot():
    from dkmeans.cli.app import PictureKind, app

    text = PAGE.read_text(encoding="utf-8")
    for command in app.registered_commands:
        name = command.callback.__name__
        assert (
            name in ("demo", "reproduce")
            or f"$ dkmeans {name}" in text
            or f"`dkmeans {name}" in text
        )
    for kind in PictureKind:
        assert f"| `{kind.value}` |" in text
