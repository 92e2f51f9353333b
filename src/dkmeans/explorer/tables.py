"""Tables that rows come from, read as the explorer needs them, and written with new labels."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """Where the rows come from."""

    path: Path | None = None
    label: str | None = None
