"""The algorithm over parts of rows.

`grow` runs the rounds, `update` is what one round does to the prototypes, `rows` makes the passes
over all data, `part` what one part of it does in a pass, `ending` has the guaranteed termination
and its argument.
"""
