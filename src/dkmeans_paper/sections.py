"""What an experiment reports: the paper's claims, measurements, tables, pictures, numbers."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["confirmed", "in part", "not confirmed", "too few queries"]


def verdict(distance: float, good: float, fair: float) -> Verdict:
    """Judge by how far a measurement is from what was claimed."""
    return "confirmed" if distance <= good else "in part" if distance <= fair else "not confirmed"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what was measured."""

    paper: str
    measured: str
    verdict: Verdict


@dataclass(frozen=True)
class Table:
    """A table; cells are text, the first column names the line."""

    title: str
    columns: list[str]
    lines: list[list[str]]
    note: str = ""
    kind: str = "table"


@dataclass(frozen=True)
class Picture:
    """A figure by the name it was saved under."""

    name: str
    title: str
    caption: str
    kind: str = "picture"


@dataclass(frozen=True)
class Section:
    """The report of one experiment."""

    title: str
    data: str  # what it ran on
    claims: list[Claim]
    parts: list[Table | Picture]
    numbers: dict[str, Any] = field(default_factory=dict)  # what programs read

    def to_json(self) -> dict[str, Any]:
        """Turn into what JSON can hold."""
        return asdict(self)
