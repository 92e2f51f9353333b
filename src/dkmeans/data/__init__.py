"""Data as users pass it: arrays, batches, memory maps, tables on disk and Dask collections."""

from typing import TYPE_CHECKING, Any

from dkmeans.data.blocks import SourceError

if TYPE_CHECKING:
    from dkmeans.data.tables import TableBlocks

__all__ = ["SourceError", "TableBlocks"]


def __getattr__(name: str) -> Any:
    """Import what needs pyarrow when it is asked for."""
    if name == "TableBlocks":
        from dkmeans.data.tables import TableBlocks

        return TableBlocks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
