"""Sources of the rows of a fit: in memory, read block by block, or on a Dask cluster."""
