"""Exact arithmetic over groups of rows: sums that do not depend on the order of their terms."""
