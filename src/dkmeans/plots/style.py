"""Looks of classes (colours, markers, hatches) and short names."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy.typing as npt

from dkmeans.plots.palette import FIRST, palette
from dkmeans.text import shortened, visible

COLORS = FIRST  # for lines and bars that are no classes
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "///", "...", "xxx", "|||")
SMALL_PT = 8  # for annotations
MIN_FONT_PT = 4.5  # smaller text is not legible and is left out


def color(number: int) -> str:
    """Return the colour of a class by index; no two of the first 40 are the same."""
    colors = palette()
    return colors[number % len(colors)]


def class_colors(n_classes: int, cmap: Any = None) -> list[Any]:
    """Return the colours of all classes, by default those of the palette."""
    if cmap is None:
        return [color(c) for c in range(n_classes)]
    from matplotlib import colormaps

    scale = colormaps[cmap] if isinstance(cmap, str) else cmap
    return [scale(c / max(n_classes - 1, 1)) for c in range(n_classes)]


def marker(number: int) -> str:
    """Return the marker of a class by index."""
    return MARKERS[(number + number // len(MARKERS)) % len(MARKERS)]


def hatch(number: int) -> str:
    """Return the hatch of a region by class index; none for the first, most distinct colours."""
    return HATCHES[number // len(COLORS) % len(HATCHES)]


def class_names(classes: npt.NDArray[Any], display_labels: Any, most: int = 18) -> list[str]:
    """Return short names of the classes: the labels to display (a list or a mapping), or their own.

    Examples
    --------
    >>> import numpy as np
    >>> class_names(np.array([0, 1]), ["cat", "dog"])
    ['cat', 'dog']
    """
    if display_labels is None:
        return names(classes, most)
    if isinstance(display_labels, Mapping):
        return names([display_labels.get(label, label) for label in classes], most)
    labels = list(display_labels)
    if len(labels) != len(classes):
        raise ValueError(
            f"display_labels has {len(labels)} names, but there are {len(classes)} classes: pass "
            "one for each, in the order of the sorted class labels."
        )
    return names(labels, most)


def label_mapping(classes: npt.NDArray[Any], display_labels: Any) -> Mapping[Any, str] | None:
    """Map each class label to the one to display; None if they are the same.

    Examples
    --------
    >>> import numpy as np
    >>> label_mapping(np.array([0, 1]), ["cat", "dog"])
    {0: 'cat', 1: 'dog'}
    """
    if display_labels is None or isinstance(display_labels, Mapping):
        return display_labels
    class_names(classes, display_labels)  # checks their number
    return dict(zip(classes.tolist(), display_labels, strict=True))


def displayed(label: Any, display_labels: Mapping[Any, str] | None, most: int = 18) -> str:
    """Return the short name of one class.

    Examples
    --------
    >>> displayed(1, {0: "cat", 1: "dog"}), displayed(2, None)
    ('dog', '2')
    """
    return short(label if display_labels is None else display_labels.get(label, label), most)


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
    """Shorten class labels; where they become equal, leave out their common beginning.

    Labels that are still equal are prefixed by their index.

    Examples
    --------
    >>> names(["the letter A of ours", "the letter B of ours"], 12)
    ['…A of ours', '…B of ours']
    >>> names(["left half", "right half", "north-east of X", "north-west of X"], 10)
    ['left half', 'right half', '2: north…of X', '3: north…of X']
    """
    labels = [str(label) for label in labels]
    texts = [short(label, most) for label in labels]
    if len(set(texts)) < len(texts):
        # Words that the first and the last in order begin with, all begin with.
        ends = zip(min(labels), max(labels), strict=False)
        n_common = next((i for i, (a, b) in enumerate(ends) if a != b), 0)
        start = labels[0].rfind(" ", 0, n_common) + 1
        if start:
            texts = [short(f"…{label[start:]}", most) for label in labels]
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


def length(value: float) -> str:
    """Format a distance: three digits, without an exponent where it is not needed.

    Examples
    --------
    >>> length(0.12345), length(1251.3), length(float("inf"))
    ('0.123', '1251', 'inf')
    """
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"
