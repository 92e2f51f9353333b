"""Colour-blind safe colours (Okabe and Ito's palette), markers and short names."""

import textwrap
from collections import Counter
from collections.abc import Iterable
from typing import Any

from dkmeans.text import shortened, visible

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "///", "...", "xxx", "|||")  # for regions, when colours repeat
SMALL_PT = 8  # for annotations


def color(number: int) -> str:
    """Return the colour of a class by index."""
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    """Return the marker of a class by index."""
    return MARKERS[(number + number // len(COLORS)) % len(MARKERS)]


def short(label: Any, most: int = 18) -> str:
    """Shorten a name to one line, and escape characters that would start a formula.

    Examples
    --------
    >>> short("a rather long name of a class", 12)
    'a rath…class'
    """
    text = shortened(visible(" ".join(str(label).split())), most)
    return text.replace("$", r"\$")  # a dollar sign would start a formula


def wrapped(text: str, width: int) -> str:
    r"""Wrap text with names from `short`, without separating a dollar sign from its backslash.

    Examples
    --------
    >>> print(wrapped(short("US$$$$"), 5))
    US\$\$\$
    \$
    """
    lines = textwrap.wrap(text.replace(r"\$", "$"), width)
    return "\n".join(lines).replace("$", r"\$")


def names(labels: Iterable[Any], most: int = 18) -> list[str]:
    """Shorten class labels; labels that become equal are prefixed by their index.

    Examples
    --------
    >>> names(["left half", "right half", "north-east of X", "north-west of X"], 10)
    ['left half', 'right half', '2: north…of X', '3: north…of X']
    """
    texts = [short(label, most) for label in labels]
    counts = Counter(texts)
    return [f"{i}: {text}" if counts[text] > 1 else text for i, text in enumerate(texts)]


def plural(count: int, noun: str) -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}{'s' * (count != 1)}"


def weight(value: float) -> str:
    """Format a weight: integers in full, others with four digits.

    Examples
    --------
    >>> weight(123456.0), weight(0.123456)
    ('123456', '0.1235')
    """
    return f"{value:.0f}" if value == round(value) else f"{value:.4g}"
