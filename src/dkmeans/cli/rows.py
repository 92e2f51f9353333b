"""Labelled rows for commands, from whatever a path names."""

from pathlib import Path
from typing import Any

from dkmeans.cli.array_files import is_array_file
from dkmeans.cli.errors import InputError
from dkmeans.cli.frame_rows import FrameRows, open_frames
from dkmeans.cli.image_folders import ImageShape, image_frame, labelled_images, shape_for
from dkmeans.cli.inputs import check_input, holds_images
from dkmeans.cli.labelled_rows import (
    Labelled,
    LargeTable,
    Template,
    Wanted,
    open_numbers,
    read_numbers,
)
from dkmeans.cli.table_input import open_inputs

Rows = Labelled | LargeTable | FrameRows


def open_rows(path: Path, wanted: Wanted, like: Template | None = None) -> Rows:
    """Read labelled rows into memory, or prepare to read them in blocks if they are many.

    Parameters
    ----------
    path : Path
        A table, a folder of tables or of images, or an `.npz` file.
    wanted : Wanted
        What to take from it.
    like : Template, optional
        What the rows must be like.
    """
    check_input(path)
    if holds_images(path):
        return _read_images(path, wanted, like)
    if _are_numbers(path, wanted, like):
        return open_numbers(path, wanted, like)
    return open_frames(path, open_inputs(path, wanted.text), wanted, like)


def read_rows(path: Path, wanted: Wanted, like: Template | None = None) -> Labelled | FrameRows:
    """Read labelled rows into memory."""
    check_input(path)
    if holds_images(path):
        return _read_images(path, wanted, like)
    if _are_numbers(path, wanted, like):
        return read_numbers(path, wanted, like)
    return open_frames(path, open_inputs(path, wanted.text), wanted, like)


def whole(rows: Any) -> Labelled:
    """Give all rows at once."""
    found: Labelled = rows.whole() if isinstance(rows, FrameRows) else rows
    return found


def _are_numbers(path: Path, wanted: Wanted, like: Template | None) -> bool:
    if is_array_file(path):
        return True
    return wanted.raw if like is None else like.kinds is None


def _read_images(folder: Path, wanted: Wanted, like: Template | None) -> Labelled:
    files, y = labelled_images(folder)
    if like is None:
        shape = shape_for(files, wanted.size)
    else:
        found = ImageShape.of_names(like.names)
        if found is None:
            raise InputError(f"{folder} has images, but the model was not fitted on images.")
        shape = found
    return Labelled(image_frame(files, shape), y, None)
