"""Data that is read block by block: memory maps, tables on disk, batches of one's own."""

from dkmeans.readers.blocks import SourceError
from dkmeans.readers.tables import TableBlocks

__all__ = ["SourceError", "TableBlocks"]
