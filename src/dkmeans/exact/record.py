"""Base class of the dataclasses that passes return."""

from collections.abc import Callable
from typing import ClassVar


class Record:
    """A dataclass of numbers, arrays and other records, which a checkpoint can store.

    Subclasses are registered by name, so checkpoints need no list of result types.
    """

    _by_name: ClassVar[dict[str, type["Record"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Record._by_name[cls.__name__] = cls

    @staticmethod
    def named(name: str) -> Callable[..., "Record"]:
        """Return the record class with a name."""
        return Record._by_name[name]
