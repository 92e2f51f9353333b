"""One block of rows in, arrays out: distances, assignment and exact sums.

Everything here is serial and knows nothing of classes' names, threads or estimators.
"""
