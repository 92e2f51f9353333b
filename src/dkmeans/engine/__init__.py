"""The algorithm over blocks of rows.

`grow` runs the rounds, `update` is what one round does to the prototypes, `rows` holds the data
and makes the passes over it, `ending` has the guaranteed termination and its argument.
"""
