"""Models as files: to be loaded again, and for other programs."""
