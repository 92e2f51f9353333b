"""Passes over the rows: one class per pass.

A `Part` holds some of the rows and never changes. What is kept of each row is a frozen `RowState`,
which a pass maps to the next one. Who holds the parts, and where, is up to a runner (`runners`).
"""
