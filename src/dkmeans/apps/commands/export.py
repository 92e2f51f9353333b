"""`dkmeans export`: a model for other programs."""

from pathlib import Path

from dkmeans.apps.models import load_model
from dkmeans.apps.screen import file_size, say, stdout
from dkmeans.apps.writing import check_free, replacing

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
    with replacing(out) as part:
        if format == "onnx":
            from dkmeans.export.onnx import to_onnx

            part.write_bytes(to_onnx(model).SerializeToString())
        else:
            from dkmeans.export import tables

            writer = tables.to_json if format == "json" else tables.to_csv
            part.write_text(writer(model), encoding="utf-8")
    say(stdout(), f"{_WHAT[format]} saved: {out.resolve()} ({file_size(out.stat().st_size)})")
