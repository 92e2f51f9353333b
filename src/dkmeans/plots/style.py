"""Colours and markers that everyone can tell apart (Okabe and Ito's palette)."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def color(number: int) -> str:
    """Colour of a class by number."""
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    """Marker of a class by number."""
    return MARKERS[(number + number // len(COLORS)) % len(MARKERS)]
