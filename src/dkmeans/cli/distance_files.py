"""Matrices of distances in `.npy` files, and labels in files of their own."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.cli.errors import InputError, check_exists, suggestion

SUFFIX = ".npy"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def open_distances(path: Path) -> npt.NDArray[np.floating]:
    """Open a matrix of distances; `.npy` files as memory maps, which may exceed the memory."""
    check_exists(path)
    suffix = path.suffix.lower()
    if suffix in _DELIMITERS:
        return _read_matrix(path, _DELIMITERS[suffix])
    if suffix != SUFFIX:
        raise InputError(
            f"{path.name}: distances are read from {SUFFIX}, .csv and .tsv files, not from others."
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


def _read_matrix(path: Path, delimiter: str) -> npt.NDArray[np.floating]:
    """Read numbers. A first line with names is skipped, and with it a first column of names."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file, delimiter=delimiter) if line]
    has_header = bool(lines) and not all(map(_is_number, lines[0]))
    start = int(has_header and (lines[0][0] == "" or not _is_number((lines[1:] or lines)[0][0])))
    values = [line[start:] for line in lines[has_header:]]
    if not values:
        raise InputError(f"{path.name} has no distances.")
    width = len(values[0])
    D = np.empty((len(values), width))
    for i, line in enumerate(values):
        if len(line) != width:
            raise InputError(
                f"{path.name}: row {i + 1:,} has {len(line):,} distances, but the first one has "
                f"{width:,}."
            )
        wrong = next((value for value in line if not _is_number(value)), None)
        if wrong is not None:
            raise InputError(f"{path.name}: row {i + 1:,} has {wrong!r}, where a number is needed.")
        D[i] = line
    return D


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_labels(path: Path, column: str | None, n_rows: int) -> npt.NDArray[Any]:
    """Read one label per row, from `.npy` or from text with a label per line.

    A text file has one column, or `column` names one of several. A first line is a header if there
    is one line more than there are rows, or if a column is named.
    """
    check_exists(path)
    labels = (
        _read_array(path) if path.suffix.lower() == SUFFIX else _read_text(path, column, n_rows)
    )
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
