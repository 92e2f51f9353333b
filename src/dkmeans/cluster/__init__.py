"""Fits on a Dask cluster: rows stay on the workers, and so does what is kept of each."""
