"""Colours and markers that everyone can tell apart (Okabe and Ito's palette), and short names."""

from typing import Any

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SMALL = 8  # points, for text beside things


def color(number: int) -> str:
    """Colour of a class by number."""
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    """Marker of a class by number."""
    return MARKERS[(number + number // len(COLORS)) % len(MARKERS)]


def short(label: Any, most: int = 18) -> str:
    """Cut a class label in the middle, where it is too long to be written out.

    Examples
    --------
    >>> short("a rather long name of a class", 12)
    'a rath…class'
    """
    # A dollar sign would start a formula.
    text = " ".join(str(label).split())
    if len(text) > most:
        text = text[: most // 2] + "…" + text[len(text) - (most - most // 2 - 1) :]
    return text.replace("$", r"\$")


def plural(count: int, noun: str) -> str:
    """Count things in words.

    Examples
    --------
    >>> plural(1, "row"), plural(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}{'s' * (count != 1)}"


def weight(value: float) -> str:
    """Write a weight: whole numbers in full, others with four digits.

    Examples
    --------
    >>> weight(123456.0), weight(0.123456)
    ('123456', '0.1235')
    """
    return f"{value:.0f}" if value == round(value) else f"{value:.4g}"
