"""Models that tests fit."""

from dkmeans import DiscriminativeKMeans


def grown(max_clusters=None, **settings):
    """Make an estimator whose prototypes are grown, and not refined, in the Euclidean metric.

    Most tests are about growth, which is fast and whose result can be worked out. Other settings
    can be given.
    """
    return DiscriminativeKMeans(
        max_clusters, **{"growth": "best", "refine": None, "metric": "euclidean"} | settings
    )
