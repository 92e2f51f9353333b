"""scikit-learn's own checks: all of them, none expected to fail."""

import os

import pytest

os.environ.setdefault(
    "SCIPY_ARRAY_API", "1"
)  # lets the array API check run; before SciPy is loaded

from sklearn.utils.estimator_checks import parametrize_with_checks

from dkmeans import DiscriminativeKMeans


@pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
@parametrize_with_checks(
    [
        DiscriminativeKMeans(),
        DiscriminativeKMeans(max_clusters=10, growth="paper", repulsion=0.25),
        DiscriminativeKMeans(prune=True),
        DiscriminativeKMeans(min_cluster_size=2),
        DiscriminativeKMeans(growth="paper"),
        DiscriminativeKMeans(max_clusters=10, refine="margin"),
        DiscriminativeKMeans(max_clusters="auto"),
        DiscriminativeKMeans(metric="cosine"),
        DiscriminativeKMeans(metric="learned"),
    ]
)
def test_estimator_check(estimator, check):
    check(estimator)
