"""Distances between rows for any metric: named, a function of two objects, or a given matrix.

- `kinds`: what a `metric` parameter stands for, and the distances of new rows to medoids
- `matrices`: matrices of distances, in memory or mapped, and their checks
- `pairwise`: named metrics between vectors
"""
