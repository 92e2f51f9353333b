"""Data that is read block by block: memory maps, tables on disk, batches of one's own."""
