"""Runners hold the parts of the rows, and run passes over them.

They know passes only by the interface in `passes.contract`: whether rows are needed, the effect,
and how results are merged.
"""
