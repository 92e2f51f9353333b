"""One block of rows in, arrays out: distances, assignment and exact sums.

Kernels are serial. They know nothing about class labels, threads or estimators.
"""
