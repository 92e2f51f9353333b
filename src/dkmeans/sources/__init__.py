"""Where the rows of a fit are: in memory, read block by block, or on a Dask cluster."""
