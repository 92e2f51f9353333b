"""What commands read: files, folders of tables or images, and the standard input."""

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

from dkmeans.atomic import replacing
from dkmeans.cli.errors import InputError, check_exists
from dkmeans.cli.image_folders import is_image_folder
from dkmeans.cli.table_input import check_format

STDIN = Path("-")
_SIGNATURES = {  # first bytes of a file, and its extension
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"PK\x03\x04": ".npz",
    b"\x1f\x8b": ".csv.gz",
}


def resolve_input(path: Path) -> Path:
    """Copy the standard input to a file that is removed at the end; other paths stay as they are.

    It is read several times, and its first bytes tell the format: text is CSV.
    """
    if path != STDIN:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("-: the standard input is no table: pipe one into the command.")
    folder = Path(tempfile.mkdtemp(prefix="dkmeans-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    stream = sys.stdin.buffer
    start = stream.read(8)
    ending = next((e for s, e in _SIGNATURES.items() if start.startswith(s)), ".csv")
    copy = folder / f"standard-input{ending}"
    with replacing(copy) as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return copy


def check_input(path: Path) -> None:
    """Raise an error unless there is a table, a folder, or an array file."""
    if path.is_dir():
        return
    check_exists(path)
    check_format(path)


def holds_images(path: Path) -> bool:
    """Tell whether a path is a folder of images."""
    return path.is_dir() and is_image_folder(path)
