"""Fits that can be taken up again: what every pass returned, on disk."""
