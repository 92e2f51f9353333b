"""Tables as text: the names of their columns, how much to parse at a time, and their encoding."""

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

PART = 1 << 22  # bytes of text that are parsed at a time
_NUMBER = 32  # bytes that a number takes at most, with what is between it and the next
_MOST = (1 << 31) - 1  # bytes that pyarrow can parse at a time


def is_text(path: Path) -> bool:
    """Tell by the name of a file whether it is CSV or TSV, compressed or not."""
    return Path(path.name.lower().removesuffix(".gz")).suffix in (".csv", ".tsv")


def first_line(path: Path) -> str:
    """Read the first line; bytes that are not UTF-8 become lone surrogates."""
    with _decoded(path) as text:
        return text.readline()


def header(path: Path, delimiter: str) -> list[str]:
    """Read the names of the columns, however long they are."""
    with _decoded(path) as text:
        names = next((row for row in csv.reader(text, delimiter=delimiter) if row), [])
    "".join(names).encode()  # an error if they are not UTF-8
    return names


def bytes_at_once(names: Sequence[str]) -> int:
    """Tell how much text to parse at a time: no less than the header, or a row of numbers."""
    row = sum(len(name.encode()) + _NUMBER for name in names)
    return min(max(PART, row), _MOST)


def not_utf8(path: Path) -> str | None:
    """Say where a file has bytes that are not UTF-8; None if it has none."""
    try:
        with _opened(path) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f"line {number:,} has the byte 0x{line[error.start]:02X}"
    except (OSError, EOFError, zlib.error):
        pass  # something else is wrong with it
    return None


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb"))


def _decoded(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(_opened(path), "utf-8-sig", "surrogateescape", newline="")
