"""Runners: who holds the parts of the rows, and runs passes over them.

They know passes only by what `passes.contract` says: whether rows are needed, the effect, and how
results are merged.
"""
