"""Matrices of distances in `.npy` files, and labels in files of their own."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.cli.errors import InputError, check_exists, suggestion

SUFFIX = ".npy"


def is_distance_file(path: Path) -> bool:
    """Tell by the name whether a file may hold a matrix of distances."""
    return path.suffix.lower() == SUFFIX


def open_distances(path: Path) -> npt.NDArray[np.floating]:
    """Open a matrix of distances as a memory map, so that it may be larger than the memory."""
    check_exists(path)
    if not is_distance_file(path):
        raise InputError(
            f"{path.name}: distances are read from {SUFFIX} files, which numpy.save writes."
        )
    try:
        D = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        text = str(error).strip().split("\n")[0]
        raise InputError(f"{path.name} cannot be read as {SUFFIX}: {text}") from error
    if D.ndim != 2 or not D.size:
        raise InputError(f"{path.name} has the shape {D.shape}; a matrix of distances is needed.")
    if D.dtype.kind not in "biuf":
        raise InputError(f"{path.name} is of type {D.dtype}, not numbers.")
    return D if D.dtype in (np.float32, np.float64) else D.astype(np.float64)


def read_labels(path: Path, column: str | None, n_rows: int) -> npt.NDArray[Any]:
    """Read one label per row, from `.npy` or from text with a label per line.

    A text file has one column, or `column` names one of several. A first line is a header if there
    is one line more than there are rows, or if a column is named.
    """
    check_exists(path)
    labels = _read_array(path) if is_distance_file(path) else _read_text(path, column, n_rows)
    if labels.shape != (n_rows,):
        raise InputError(
            f"{path.name} has {len(labels):,} labels, but there are {n_rows:,} rows of distances."
        )
    return labels


def _read_array(path: Path) -> npt.NDArray[Any]:
    try:
        found: npt.NDArray[Any] = np.load(path)
    except (ValueError, EOFError) as error:
        text = str(error).strip().split("\n")[0]
        raise InputError(f"{path.name} cannot be read as {SUFFIX}: {text}") from error
    if found.ndim != 1:
        raise InputError(f"{path.name} has the shape {found.shape}; one label per row is needed.")
    return found


def _read_text(path: Path, column: str | None, n_rows: int) -> npt.NDArray[Any]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file, delimiter=delimiter) if line]
    if not lines:
        raise InputError(f"{path.name} is empty.")
    at = 0
    if column is not None:
        if column not in lines[0]:
            raise InputError(
                f"--label: {path.name} has no column {column!r}; {suggestion(column, lines[0])}"
            )
        at = lines[0].index(column)
    elif len(lines[0]) > 1:
        raise InputError(
            f"{path.name} has {len(lines[0])} columns: name the one of the labels with --label."
        )
    if column is not None or len(lines) == n_rows + 1:
        lines = lines[1:]
    short = next((i for i, line in enumerate(lines, 1) if len(line) <= at), None)
    if short is not None:
        raise InputError(f"{path.name}: row {short:,} has no label.")
    values = [line[at].strip() for line in lines]
    if all(value.lstrip("+-").isdigit() for value in values):
        return np.array(values, dtype=np.int64)
    return np.array(values)
