"""`dkmeans export`: a model for other programs."""

from pathlib import Path

from dkmeans.atomic import write_atomically
from dkmeans.cli.console import file_size, say, stdout
from dkmeans.cli.loaded_model import load_model
from dkmeans.cli.output_files import check_free
from dkmeans.export.write import contents

_WHAT = {
    "onnx": "Graph for ONNX runtimes",
    "json": "Prototypes",
    "csv": "Prototypes",
}


def run_export(path: Path, format: str, out: Path | None, *, force: bool = False) -> None:
    """Write a model in another format."""
    out = out or path.with_suffix(f".{format}")
    check_free(out, path, force=force)
    model = load_model(path).whole
    write_atomically(out, contents(model, format))
    say(stdout(), f"{_WHAT[format]} saved: {out.resolve()} ({file_size(out.stat().st_size)})")
