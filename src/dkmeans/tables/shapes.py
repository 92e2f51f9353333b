"""What columns look like that are not read as what they are: dates, amounts, codes."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from dkmeans.tables.kinds import Kind
from dkmeans.tables.statistics import LevelColumn, NumberColumn, TableStatistics

_MOST = 0.9  # of the texts of a column that have the shape; others may stand for missing ones
_MIN_TEXTS = 3
_TIME = r"(?:[ T]+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
_DAY_FIRST = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(?:\d{{4}}|\d{{2}}){_TIME}")  # or month
_YEAR_FIRST = re.compile(rf"\d{{4}}([./])(\d{{1,2}})\1(\d{{1,2}}){_TIME}")
_NUMBER = r"[-+]?\d+(?:[.,' ]\d+)*"
_UNIT = (
    r"%|\u2030|[$\u20ac\xa3\xa5]|\xb0?[^\W\d_]{1,6}[23\xb2\xb3]?(?:/[^\W\d_]{1,4}[23\xb2\xb3]?)?"
)
_WITH_UNIT = re.compile(rf"{_NUMBER}\s?({_UNIT})|([$\u20ac\xa3\xa5] ?|[A-Z]{{3}} ){_NUMBER}")
_CODE_NAME = re.compile(
    r"(?:.*[\W_])?(?:zip|zip[ _-]?code|plz|post[ _-]?code|postal[ _-]?code|postleitzahl|code)",
    re.IGNORECASE,
)
_LOWEST_CODE, _HIGHEST_CODE = 501, 99_999  # postcodes of five digits may have lost a zero
_FOUR_DIGITS = 1000


def misread_text(column: LevelColumn) -> str | None:
    """Say what to do with text that looks like dates or like amounts with a unit.

    The order of day and month is not guessed.
    """
    texts = [str(level).strip() for level in column.examples]
    if _are(map(_is_date, texts), len(texts)):
        example = next(text for text in texts if _is_date(text))
        return f"text such as {example!r}: convert it to dates such as 2024-12-31"
    found = {text: _unit(text) for text in texts}
    units = Counter(unit for unit in found.values() if unit is not None)
    unit, count = units.most_common(1)[0] if units else ("", 0)
    if _are([True] * count, len(texts)):
        example = next(text for text in texts if found[text] == unit)
        return f"text such as {example!r}: remove the unit, to make it numbers"
    return None


def hints(
    kinds: Mapping[str, Kind], statistics: TableStatistics, sure: Collection[str] = ()
) -> dict[str, str]:
    """Find features that may not be what they are taken for, and say what to do.

    Parameters
    ----------
    kinds : mapping from str to Kind
        Features.
    statistics : TableStatistics
    sure : collection of str
        Columns whose kind the user has named.
    """
    found = {}
    for name, kind in kinds.items():
        hint = None
        if name in sure:
            continue
        if kind is Kind.CATEGORY:
            hint = misread_text(statistics.levels[name])
        elif kind is Kind.NUMBER and _may_be_codes(statistics.numbers[name]):
            hint = f"numbers that may be codes: if so, add --category {name}"
        if hint is not None:
            found[name] = hint
    return found


def _may_be_codes(column: NumberColumn) -> bool:
    """Tell whether whole numbers of four or five digits are named like codes."""
    named = _CODE_NAME.fullmatch(column.name) is not None
    inside = column.low >= _LOWEST_CODE and _FOUR_DIGITS <= column.high <= _HIGHEST_CODE
    return named and column.is_whole and inside


def _is_date(text: str) -> bool:
    match = _DAY_FIRST.fullmatch(text)
    if match is not None:
        return _is_day(int(match[1]), int(match[3]))
    match = _YEAR_FIRST.fullmatch(text)
    return match is not None and _is_day(int(match[2]), int(match[3]))


def _is_day(a: int, b: int) -> bool:
    """Tell whether two numbers may be a day and a month, in any order."""
    return 1 <= min(a, b) <= 12 and max(a, b) <= 31


def _unit(text: str) -> str | None:
    match = _WITH_UNIT.fullmatch(text)
    return None if match is None else match[1] or match[2]


def _are(which: Iterable[bool], n: int) -> bool:
    return n >= _MIN_TEXTS and sum(which) >= _MOST * n
