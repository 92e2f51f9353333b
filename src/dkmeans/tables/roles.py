"""Columns that are no features: counters and ids, text that is unique, constants."""

import re
from collections.abc import Collection, Mapping

from dkmeans.tables.kinds import Kind
from dkmeans.tables.shapes import misread_text
from dkmeans.tables.statistics import LevelColumn, NumberColumn, TableStatistics
from dkmeans.text import shortened, visible

MIN_COUNTED_ROWS = 10  # consecutive numbers in fewer rows may be a feature as well
_NO_VALUES, _ONE_VALUE = _CLEAR = ("no values", "the same value in all rows")
_ID_NAME = re.compile(r"(?:.*[\W_])?(?:id|uuid|guid|idx|index|rowid|row_?nu?mber)", re.IGNORECASE)
_CAMEL_ID = re.compile(r".*[a-z](?:Id|ID)")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")
_UNNAMED = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?(\.\d+)?")  # the latter by pandas


class AmbiguousColumnError(ValueError):
    """A column may be a feature or not.

    Attributes
    ----------
    problem : str
        What is wrong, without what to do.
    column : str
    """

    short = "may be an identifier or a feature"

    def __init__(self, problem: str, column: str) -> None:
        remedy = "leave it out with `drop`, or name the features with `columns`"
        super().__init__(f"{problem}: {remedy}.")
        self.problem, self.column = problem, column


class DecimalCommaError(AmbiguousColumnError):
    """A column of text looks like numbers with decimal commas."""

    short = "may be numbers with a decimal comma"


def find_left_out(
    kinds: Mapping[str, Kind],
    statistics: TableStatistics,
    min_frequency: float,
    sure: Collection[str] = (),
) -> dict[str, str]:
    """Find the columns that are no features, and say why.

    Parameters
    ----------
    kinds : mapping from str to Kind
        Columns.
    statistics : TableStatistics
    min_frequency : float
        Share of the rows that a value of text needs to get a feature of its own.
    sure : collection of str
        Columns that are text even if they look like numbers.

    Returns
    -------
    reasons : dict from str to str

    Raises
    ------
    AmbiguousColumnError
        If a column is named like an identifier, but its values do not say that it is one.
    """
    reasons = {}
    for name, kind in kinds.items():
        if kind is Kind.UNKNOWN:
            reason: str | None = "neither numbers, text, Booleans nor dates"
        elif name in statistics.levels:
            if name not in sure:
                _check_no_numbers(statistics.levels[name])
            reason = _of_levels(statistics.levels[name], min_frequency)
        else:
            reason = _of_numbers(statistics.numbers[name], kind)
        if reason is not None:
            reasons[name] = reason
    return reasons


def describe_left_out(reasons: Mapping[str, str]) -> str:
    """Say in one line which columns are no features, and why."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(visible(name) or "''")
    return "; ".join(f"{_listed(names)} ({reason})" for reason, names in by_reason.items())


def is_unnamed(name: str) -> bool:
    """Tell whether a column has no name, as an index in CSV."""
    return _UNNAMED.fullmatch(name) is not None


def _of_numbers(column: NumberColumn, kind: Kind) -> str | None:
    name = column.name
    if column.n_missing == column.n_rows:
        return _NO_VALUES
    if column.low == column.high:
        return _ONE_VALUE
    if kind is not Kind.NUMBER or not column.is_whole:
        return None
    if column.counts_rows and (column.n_rows >= MIN_COUNTED_ROWS or is_unnamed(name)):
        return "counts the rows"
    is_ordered = column.is_increasing and not column.n_missing
    if is_unnamed(name):
        if is_ordered:
            return "a different number in every row"
        raise AmbiguousColumnError(
            f"Column {name!r} has no name, so it may be an index, but it does not count the rows",
            name,
        )
    if _ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name):
        if is_ordered:
            return "a different number in every row"
        raise AmbiguousColumnError(
            f"Column {name!r} is named like an identifier, but has the same number in several rows "
            "or is not in order, so it may be a feature",
            name,
        )
    return None


def _of_levels(column: LevelColumn, min_frequency: float) -> str | None:
    reason = _of_texts(column, min_frequency)
    if reason is None or reason in _CLEAR:
        return reason
    return misread_text(column) or reason


def _of_texts(column: LevelColumn, min_frequency: float) -> str | None:
    n_levels, n_present = len(column.counts), column.n_rows - column.n_missing
    if not n_present:
        return _NO_VALUES
    if column.has_too_many:
        return "more different texts than can be categories"
    if n_levels == n_present > 1:
        return "a different text in every row"
    if n_levels > n_present / 2 and n_present >= MIN_COUNTED_ROWS:
        return "a different text in most rows"
    if n_levels == 1 and not column.n_missing:
        return _ONE_VALUE
    most = max(max(column.counts.values()), column.n_missing)
    if most < min_frequency * column.n_rows:
        return "no text is frequent"
    return None


def _check_no_numbers(column: LevelColumn) -> None:
    """Refuse text that looks like numbers with decimal commas."""
    levels = column.counts
    if levels and all(_DECIMAL_COMMA.fullmatch(str(level)) for level in levels):
        raise DecimalCommaError(
            f"Column {column.name!r} has texts such as {next(iter(levels))!r}, which may be "
            "numbers with a decimal comma",
            column.name,
        )


def _listed(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shortened(name, 40) for name in names[:most]) + more
