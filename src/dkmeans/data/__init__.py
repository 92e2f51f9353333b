"""Data that is read block by block: memory maps, tables on disk, batches of one's own."""

from dkmeans.data.blocks import SourceError
from dkmeans.data.tables import TableBlocks

__all__ = ["SourceError", "TableBlocks"]
