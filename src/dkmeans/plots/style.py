"""Colours and markers that everyone can tell apart (Okabe and Ito's palette), and short names."""

import textwrap
from collections import Counter
from collections.abc import Iterable
from typing import Any

from dkmeans.text import shortened, visible

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "///", "...", "xxx", "|||")  # for regions, once all colours are used up
SMALL = 8  # points, for text beside things


def color(number: int) -> str:
    """Colour of a class by number."""
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    """Marker of a class by number."""
    return MARKERS[(number + number // len(COLORS)) % len(MARKERS)]


def short(label: Any, most: int = 18) -> str:
    """Make a name from data fit for a picture: on one line, not too long, and no formula.

    Examples
    --------
    >>> short("a rather long name of a class", 12)
    'a rath…class'
    """
    text = shortened(visible(" ".join(str(label).split())), most)
    return text.replace("$", r"\$")  # a dollar sign would start a formula


def wrapped(text: str, width: int) -> str:
    r"""Break text with names from `short` into lines; no dollar sign loses its backslash.

    Examples
    --------
    >>> print(wrapped(short("US$$$$"), 5))
    US\$\$\$
    \$
    """
    lines = textwrap.wrap(text.replace(r"\$", "$"), width)
    return "\n".join(lines).replace("$", r"\$")


def names(labels: Iterable[Any], most: int = 18) -> list[str]:
    """Shorten class labels; those that would read the same get their numbers in front.

    Examples
    --------
    >>> names(["left half", "right half", "north-east of X", "north-west of X"], 10)
    ['left half', 'right half', '2: north…of X', '3: north…of X']
    """
    texts = [short(label, most) for label in labels]
    counts = Counter(texts)
    return [f"{i}: {text}" if counts[text] > 1 else text for i, text in enumerate(texts)]


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
