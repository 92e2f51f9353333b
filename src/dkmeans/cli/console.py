"""Consoles that people read, in a terminal or in a pipe."""

import json
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dkmeans.text import shortened, visible

_ENOUGH = 1000  # columns for any table
_LONGEST = 120  # letters of a cell
_LEAST = 6  # columns of the screen that text keeps, however narrow it is


def stdout() -> Console:
    """Open the console for results; brackets in names are no markup."""
    return Console(highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    """Open the console for progress, notes and errors."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


class Grid(Table):
    """A table whose cells hold names from data: each on a line of its own, and not too long."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row of text."""
        super().add_row(*(shortened(visible(cell), _LONGEST) for cell in cells), **options)


def grid(*columns: str, left: int = 1) -> Grid:
    """Begin a table whose first columns are text and whose others are numbers."""
    table = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for at, name in enumerate(columns):
        is_text = at < left
        table.add_column(
            name,
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
            min_width=_LEAST if is_text else None,
        )
    return table


def show(console: Console, table: Table) -> None:
    """Print a table; one that does not fit is printed whole all the same, never cut off."""
    options = console.options.update(width=_ENOUGH)
    least, width = console.measure(table, options=options).minimum, console.width
    console.width = max(least, width)
    try:
        console.print(table, crop=False)
    finally:
        console.width = width


def say(console: Console, text: str, **options: Any) -> None:
    """Print a sentence, wherever it breaks; what could steer the terminal is escaped."""
    console.print(visible(text), **{"soft_wrap": not console.is_terminal} | options)


def print_json(console: Console, document: Any) -> None:
    """Print values as JSON; all that could steer the terminal is escaped."""
    console.print(json.dumps(document, indent=1), soft_wrap=True)


def plural(count: int, noun: str) -> str:
    """Count things.

    >>> plural(1, "row"), plural(2000, "class")
    ('1 row', '2,000 classes')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def label_text(label: Any) -> str:
    """Write a class label; floats that are whole numbers without a point.

    >>> label_text("oak"), label_text(2.0), label_text(True)
    ('oak', '2', 'True')
    """
    return f"{label:.0f}" if isinstance(label, float | np.floating) else str(label)


def percent(share: float) -> str:
    """Write a share in per cent.

    >>> percent(0.0312)
    '3.12'
    """
    return "-" if share != share else f"{100 * share:.2f}"


def file_size(n_bytes: int) -> str:
    """Write the size of a file.

    >>> file_size(834), file_size(84_300)
    ('834 bytes', '84 kB')
    """
    if n_bytes < 1000:
        return f"{n_bytes} bytes"
    return f"{n_bytes / 1000:.0f} kB" if n_bytes < 1e6 else f"{n_bytes / 1e6:.1f} MB"
