"""Former paths of `dkmeans.prototypes` and `dkmeans.results`, for engine modules."""
