"""The algorithm.

`grow` runs the rounds, `update` is what one round does to the prototypes, `ending` has the
guaranteed termination and its argument. `rows` and `margins` run passes over all rows (`passes`).
"""
