"""Escape and shorten names from untrusted data before they are displayed."""

import unicodedata

# Characters that change the direction of text, and could disguise the content of a line.
_DIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN = ("Cc", "Cs", "Zl", "Zp")  # Unicode categories: control, surrogate, separators


def visible(text: str) -> str:
    r"""Escape characters that would control a terminal, as in a Python literal.

    These are control characters, line breaks included, characters that change the direction of
    text, and surrogates, which cannot be encoded. Everything else is unchanged.

    Examples
    --------
    >>> print(visible("caf\u00e9\x1b[2J\nsecond line"))
    café\x1b[2J\nsecond line
    """
    if text.isprintable():
        return text
    return "".join(_escaped(c) if _is_hidden(c) else c for c in text)


def shortened(text: str, most: int) -> str:
    """Shorten a text in the middle if it is too long.

    Examples
    --------
    >>> shortened("a rather long name of a class", 12)
    'a rath…class'
    """
    if len(text) <= most:
        return text
    return text[: most // 2] + "…" + text[len(text) - (most - most // 2 - 1) :]


def _is_hidden(character: str) -> bool:
    return character in _DIRECTIONAL or unicodedata.category(character) in _HIDDEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
