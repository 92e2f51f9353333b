"""Names from data, made fit to be shown: data may come from anywhere."""

import unicodedata

# They turn the direction of what follows, so that a name could make a line read as another one.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of characters, breaks of lines


def visible(text: str) -> str:
    r"""Escape what would steer a terminal instead of being shown, as Python does in a literal.

    Control characters, line breaks included, characters that turn the direction of text, and
    halves of characters, which cannot be written. Everything else stays as it is.

    Examples
    --------
    >>> print(visible("caf\u00e9\x1b[2J\nsecond line"))
    café\x1b[2J\nsecond line
    """
    if text.isprintable():
        return text
    return "".join(_escaped(c) if _is_hidden(c) else c for c in text)


def shortened(text: str, most: int) -> str:
    """Cut a text in the middle, where it is too long.

    Examples
    --------
    >>> shortened("a rather long name of a class", 12)
    'a rath…class'
    """
    if len(text) <= most:
        return text
    return text[: most // 2] + "…" + text[len(text) - (most - most // 2 - 1) :]


def _is_hidden(character: str) -> bool:
    return character in _TURNING or unicodedata.category(character) in _HIDDEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
