"""Models that tests fit."""

from dkmeans import DiscriminativeKMeans
from dkmeans.growth import auto, best, first_metric, metric_choice


def grown(max_clusters=None, **settings):
    """Make an estimator whose prototypes are grown, and not refined, in the Euclidean metric.

    Most tests are about growth, which is fast and whose result can be worked out. Other settings
    can be given.
    """
    return DiscriminativeKMeans(
        max_clusters, **{"growth": "best", "refine": None, "metric": "euclidean"} | settings
    )


def draw_small_samples(patch, n_rows=20):
    """Let growth, the search for its budget and short fits draw samples of so few rows."""
    patch.setattr(auto, "SAMPLE_ROWS", n_rows)
    patch.setattr(auto, "GROWN_SAMPLE_ROWS", 3 * n_rows // 2)
    patch.setattr(auto, "MIN_CLASS_ROWS", 3)
    patch.setattr(best, "ROWS_PER_PROTOTYPE", 3)
    patch.setattr(best, "SAMPLE_ROWS", 3)
    patch.setattr(best, "MIN_SAMPLE_ROWS", 3)
    patch.setattr(best, "SAMPLE_ROWS_PER_CLASS", 1)
    for module in (first_metric, metric_choice):
        patch.setattr(module, "MIN_ROWS", 3 * n_rows // 2)
    patch.setattr(first_metric, "SAMPLE_ROWS", 5 * n_rows // 4)
    patch.setattr(first_metric, "MIN_WIDE_SAMPLE", 3 * n_rows // 4)
    patch.setattr(first_metric, "MIN_CLASS_ROWS", 5)
    patch.setattr(first_metric, "MIN_CHECKED_ROWS", 3 * n_rows // 2)
