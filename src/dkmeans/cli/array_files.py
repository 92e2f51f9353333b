"""Arrays in `.npz` files."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.cli.errors import InputError, check_exists, suggestion

SUFFIX = ".npz"


def is_array_file(path: Path) -> bool:
    """Tell by the name whether a file holds arrays."""
    return path.suffix.lower() == SUFFIX


def read_arrays(path: Path, names: list[str]) -> list[npt.NDArray[Any]]:
    """Read arrays by name from an `.npz` file."""
    check_exists(path)
    try:
        with np.load(path) as file:
            for name in names:
                if name not in file:
                    raise InputError(
                        f"{path.name} has no array {name!r}; {suggestion(name, file.files)}"
                    )
            return [file[name] for name in names]
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        text = str(error).strip().split("\n")[0]
        if "allow_pickle" in text:
            text = "it has Python objects; save arrays of numbers, and of text for labels."
        raise InputError(f"{path.name} cannot be read as .npz: {text}") from error
