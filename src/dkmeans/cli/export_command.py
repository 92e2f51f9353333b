"""`dkmeans export`: a model for other programs."""

from pathlib import Path

from dkmeans.atomic import write_atomically
from dkmeans.cli.console import file_size, say, stderr, stdout
from dkmeans.cli.errors import InputError
from dkmeans.cli.loaded_model import load_model
from dkmeans.cli.output_files import check_free
from dkmeans.files.export import FORMATS


def run_export(path: Path, format: str | None, out: Path | None, *, force: bool = False) -> None:
    """Write a model in another format; without one, the extension of the file tells which."""
    if format is None:
        format = "" if out is None else out.suffix[1:].lower()
        if format not in FORMATS:
            raise InputError(f"Add --format: one of {', '.join(FORMATS)}.")
    out = out or path.with_suffix(f".{format}")
    check_free(out, path, force=force)
    model = load_model(path)
    if model.is_medoids:
        raise InputError(f"{path.name} is a model of medoids, which export does not write.")
    write_atomically(out, FORMATS[format].encode(model.whole))
    what, size = FORMATS[format].description, file_size(out.stat().st_size)
    say(stdout(), f"{what} saved: {out.resolve()} ({size})")
    if format == "csv" and model.core.metric_ == "learned":
        say(
            stderr(),
            "Note: they are points of the learned space, in the columns of the table: values may "
            "lie outside of the data, such as shares below 0 or above 1.",
        )
