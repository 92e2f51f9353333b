"""Report of an experiment: claims of the paper, measurements, tables, pictures, numbers."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["confirmed", "in part", "not confirmed", "too few queries"]


def verdict(distance: float, good: float, fair: float) -> Verdict:
    """Judge a claim by the distance between measurement and claim."""
    return "confirmed" if distance <= good else "in part" if distance <= fair else "not confirmed"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and its measurement."""

    paper: str
    measured: str
    verdict: Verdict


@dataclass(frozen=True)
class ReportTable:
    """A table of text cells; the first column holds the row names."""

    title: str
    columns: list[str]
    lines: list[list[str]]
    note: str = ""
    kind: str = "table"


@dataclass(frozen=True)
class Picture:
    """A saved figure, by name."""

    name: str
    title: str
    caption: str
    kind: str = "picture"


@dataclass(frozen=True)
class Section:
    """The report of one experiment."""

    title: str
    data: str  # description of the data
    claims: list[Claim]
    parts: list[ReportTable | Picture]
    numbers: dict[str, Any] = field(default_factory=dict)  # for programs

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON types."""
        return asdict(self)
