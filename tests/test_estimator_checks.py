"""scikit-learn's own checks: all of them, none expected to fail."""

import os

import pytest

os.environ.setdefault(
    "SCIPY_ARRAY_API", "1"
)  # lets the array API check run; before SciPy is loaded

from models import grown
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from dkmeans import DiscriminativeKMeans, DiscriminativeKMedoids, Landmarks

QUICK = [
    DiscriminativeKMeans(),
    grown(),
    grown(10, growth="paper", repulsion=0.25),
    grown(prune=True, min_cluster_size=2),
    DiscriminativeKMeans.paper(),
    grown(metric="cosine"),
    DiscriminativeKMedoids(),
    DiscriminativeKMedoids(max_medoids=None),
    DiscriminativeKMedoids(max_medoids=10, metric="manhattan"),
    Landmarks(),
    Landmarks(10, metric="laplacian"),
    Landmarks(10, metric="cityblock", selection="medoids"),
    Landmarks(10, metric="precomputed"),
]
# What the defaults consist of; `make studies` runs the checks of each part alone.
PARTS = [
    grown(10, refine="margin"),
    grown("auto"),
    grown(metric="learned"),
]


def checks():
    """Yield every estimator with each of its checks."""
    for estimator in (*QUICK, *PARTS):
        marks = [pytest.mark.study] if any(estimator is part for part in PARTS) else []
        for instance, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            yield pytest.param(instance, check, marks=marks, id=f"{estimator!r}-{name}")


@pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
@pytest.mark.parametrize(("estimator", "check"), checks())
def test_estimator_check(estimator, check):
    check(estimator)


# They pass rows, a kernel or random numbers where an estimator with the pairwise tag gets a matrix
# of distances, also to scikit-learn's own estimators.
NO_DISTANCES = {
    "check_classifiers_one_label_sample_weights",
    "check_class_weight_classifiers",
    "check_decision_proba_consistency",
}


@parametrize_with_checks([DiscriminativeKMedoids(max_medoids=10, metric="precomputed")])
def test_estimator_check_of_given_distances(estimator, check):
    if check.func.__name__ in NO_DISTANCES:
        with pytest.raises((ValueError, AssertionError), match=r"precomputed|itself|explicit"):
            check(estimator)
    else:
        check(estimator)
