"""Discriminative k-medoids: prototypes that are rows, for any distance.

In reading order:

- `problem`: the rows, as a matrix of distances, classes and integer weights
- `search`: the medoids of the moment, and what additions and swaps change
- `swaps`: swap until no swap lowers the cost
- `grow`: one medoid per class, then more of them in stages, with swaps after each
- `waypoints`: the medoids at each number of them, for `at(k)`
- `choose`: the number of medoids, chosen on held-out rows

The cost, and how all swaps with a candidate are evaluated in one pass over its distances, is in
`kernels.medoid_costs`. Every accepted swap lowers the cost by at least one unit of an integer, and
there are finitely many sets of medoids, so the search ends.
"""
