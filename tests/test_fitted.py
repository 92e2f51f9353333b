"""The fitted value of an estimator, and the attributes that are derived from it."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from models import grown
from sklearn.base import clone
from sklearn.datasets import load_iris

X, y = load_iris(return_X_y=True)
OF_ROWS = ("labels_", "inertia_", "conflicts_", "path_", "rejection_")


@pytest.fixture
def model():
    return grown(8).fit(X, y)


def fitted_attributes(model):
    return {name for name in vars(model) if name.endswith("_")}


def test_attributes_are_those_of_the_fitted_value(model):
    published = model._fitted.attributes()
    assert set(published) == fitted_attributes(model) | {"_fitted"}
    assert model.cluster_centers_ is model._fitted.prototypes.centers
    with pytest.raises(FrozenInstanceError):
        model._fitted.n_iter = 0


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m.drop(m.cluster_ids_[1]),
        lambda m: m.merge(m.cluster_ids_[m.cluster_classes_ == 1][:2]),
        lambda m: m.set_center(m.cluster_ids_[0], X[0]),
    ],
)
def test_an_edit_drops_what_describes_training_rows(model, edit):
    before = fitted_attributes(model.set_rejection(X))
    assert edit(model) is model
    assert before - fitted_attributes(model) == set(OF_ROWS)
    for name in OF_ROWS:
        with pytest.raises(AttributeError):
            getattr(model, name)


def test_smaller_models_have_no_labels(model):
    small = model.at(5)
    assert not hasattr(small, "labels_")
    assert fitted_attributes(model) - fitted_attributes(small) == {"labels_"}
    assert small.at(8).n_clusters_ == 8
    assert fitted_attributes(model.at(8)) == fitted_attributes(model)


def test_a_new_fit_replaces_all_attributes():
    model = grown(8).fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert model.set_rejection(pd.DataFrame(X, columns=list("abcd"))).rejection_ is not None
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "rejection_")


def test_a_fit_that_fails_changes_nothing(model):
    before = dict(vars(model))
    with pytest.raises(ValueError, match="max_clusters"):
        model.set_params(max_clusters=0).fit(X, y)
    assert vars(model) == before | {"max_clusters": 0}


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_go_on_as_the_original(model, copied):
    other = copied(model)
    assert fitted_attributes(other) == fitted_attributes(model)
    assert other.cluster_centers_ is other._fitted.prototypes.centers
    other.partial_fit(X[:50], y[:50])
    assert model.n_clusters_ == 8
    model.partial_fit(X[:50], y[:50])
    np.testing.assert_array_equal(other.cluster_centers_, model.cluster_centers_)
    assert not fitted_attributes(clone(model))
