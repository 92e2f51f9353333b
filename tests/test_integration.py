"""The estimator among scikit-learn's tools, tables and label types."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from models import grown
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans, fit
from dkmeans.growth import grow, refine
from dkmeans.progress import listening
from dkmeans.results import fit_record

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
X, Y = load_iris(return_X_y=True)


def test_pipeline_and_grid_search_in_two_processes():
    pipeline = make_pipeline(StandardScaler(), grown())
    grid = {
        "discriminativekmeans__max_clusters": [3, 6, 9],
        "discriminativekmeans__repulsion": [0.25, "size"],
    }
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2, error_score="raise").fit(X, Y)
    assert search.best_score_ > 0.9
    alone = GridSearchCV(pipeline, grid, cv=3).fit(X, Y)
    assert (search.cv_results_["mean_test_score"] == alone.cv_results_["mean_test_score"]).all()


def test_calibration():
    calibrated = CalibratedClassifierCV(grown(max_clusters=6), cv=3).fit(X, Y)
    assert calibrated.score(X, Y) > 0.9


def test_cross_val_predict():
    for method in ("predict", "predict_proba", "decision_function"):
        assert len(cross_val_predict(grown(6), X, Y, cv=3, method=method)) == len(Y)


@pytest.mark.parametrize("module", [pickle, joblib], ids=lambda module: module.__name__)
def test_pickle_and_joblib_round_trips(module, tmp_path):
    model = grown(max_clusters=6).fit(X, Y)
    with open(tmp_path / "model", "wb") as file:
        module.dump(model, file)
    with open(tmp_path / "model", "rb") as file:
        again = module.load(file)
    assert again.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
    assert (again.predict(X) == model.predict(X)).all()
    assert repr(again.history_) == repr(model.history_)
    assert again.tree_.ancestors(3) == model.tree_.ancestors(3)


def test_clone_keeps_parameters_and_drops_the_fit():
    model = grown(max_clusters=6, repulsion=0.5, class_weight="balanced").fit(X, Y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "labels_")


def test_sample_weight_is_routed():
    w = np.random.default_rng(0).integers(0, 3, len(Y)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        model = grown().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), model)
        pipeline.fit(X, Y, sample_weight=w)
        assert pipeline[-1].cluster_sizes_.sum() == w.sum()
        scored = model.set_score_request(sample_weight=True)
        cross_validate(scored, X, Y, params={"sample_weight": w}, cv=3, error_score="raise")


def test_pandas_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    labels = pd.Series(np.array(["x", "y", "z"])[Y])
    model = grown(max_clusters=4).set_output(transform="pandas").fit(frame, labels)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    distances = model.transform(frame)
    assert distances.columns.tolist() == [
        f"{label}_{number}"
        for label, number in zip(model.cluster_classes_, model.cluster_ids_, strict=True)
    ]
    assert model.get_feature_names_out().tolist() == distances.columns.tolist()
    assert (model.labels_ == distances.to_numpy().argmin(axis=1)).all()
    assert (model.predict(frame) == model.cluster_classes_[model.labels_]).all()
    model.fit(X, Y)
    assert not hasattr(model, "feature_names_in_")


def test_polars_frames():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({name: X[:, i] for i, name in enumerate("abcd")})
    model = grown(max_clusters=4).set_output(transform="polars").fit(frame, pl.Series(Y))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert isinstance(model.transform(frame), pl.DataFrame)
    assert (model.predict(frame) == model.cluster_classes_[model.labels_]).all()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["setosa", "versicolor", "virginica"])[Y],
        np.array(["setosa", "versicolor", "virginica"], dtype=object)[Y],
        Y * 10 - 5,
        (Y + 1).astype(np.int8),
        Y == 1,
    ],
    ids=["text", "objects", "whole numbers", "int8", "truth values"],
)
def test_label_types(labels):
    model = grown().fit(X, labels)
    assert (model.predict(X) == labels).all() or model.conflicts_
    assert model.cluster_classes_.dtype == model.classes_.dtype
    assert model.tree_.label.dtype == model.classes_.dtype
    assert model.score(X, labels) > 0.99


def test_a_class_that_kept_no_prototype_gets_probability_zero():
    rows, labels = np.array([[0.0], [0.0], [0.0], [3.0]]), np.array([0, 0, 1, 2])
    model = grown().fit(rows, labels)
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.predict_proba([[0.0], [1.0], [1e9]])[:, 1] == 0).all()
    assert (model.decision_function([[0.0], [1.0], [1e9]])[:, 1] == -1).all()


def test_probabilities_follow_the_documented_formula():
    model = grown(max_clusters=7).fit(X, Y)
    D = model.transform(X)
    near = np.stack([D[:, model.cluster_classes_ == c].min(axis=1) for c in range(3)], axis=1)
    inverse = near**-4.0  # 2 sqrt(d) with d = 4
    np.testing.assert_allclose(model.predict_proba(X), inverse / inverse.sum(axis=1, keepdims=True))
    best = np.sort(near, axis=1)
    rival = np.where(near == best[:, :1], best[:, 1:2], best[:, :1])
    expected = (rival**2 - near**2) / (rival**2 + near**2)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-12)
    two = grown(max_clusters=4).fit(X[50:], Y[50:])
    assert two.decision_function(X).shape == (150,)


def test_history_tells_each_round():
    model = grown(growth="paper").fit(X, Y)
    history = model.history_
    assert history.columns == (
        "round",
        "phase",
        "clusters",
        "mixed",
        "impurity",
        "moved",
        "inertia",
        "cost",
        "seconds",
    )
    assert history.round.tolist() == list(range(1, model.n_iter_ + 1))
    assert history.clusters[-1] == model.n_clusters_
    assert history.inertia[-1] == model.inertia_
    assert history.mixed[-1] == history.impurity[-1] == history.moved[-1] == 0
    assert history[0]["phase"] == "grow"
    assert repr(history).startswith(f"History of {model.n_iter_} rounds\n")
    assert "impurity" in dir(history)
    pytest.importorskip("pandas")
    assert history.to_pandas().shape == (model.n_iter_, 9)


@pytest.fixture
def clock(monkeypatch):
    """Let time stand still, except in what is told to take some."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

        def slow_down(self, module, name, seconds):
            function = getattr(module, name)

            def slow(*args, **kwargs):
                self.now += seconds
                return function(*args, **kwargs)

            monkeypatch.setattr(module, name, slow)

    clock = Clock()
    monkeypatch.setattr(fit_record, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("budget", "metric", "before", "phases"),
    [
        (6, "euclidean", [1.0], []),
        (6, "auto", [1 + 110.0], ["metric"]),
        ("auto", "euclidean", [1 + 1000.0], ["search"]),
        ("auto", "learned", [1 + 1000 + 110.0, 110.0], ["search", "metric"]),
    ],
)
def test_history_has_the_time_of_all_that_a_fit_does(clock, budget, metric, before, phases):
    clock.slow_down(fit, "prepare", 1.0)
    clock.slow_down(grow, "prefers_plain", 10.0)
    clock.slow_down(grow, "first_metric", 100.0)
    clock.slow_down(fit, "search", 1000.0)
    X = np.random.default_rng(0).normal(size=(500, 2))
    model = DiscriminativeKMeans(budget, metric=metric, max_iter=9).fit(X * [1, 50], X[:, 0] > 0)
    history = model.history_
    assert history.phase.tolist()[: len(phases)] == phases
    assert history.round.tolist() == [0] * len(phases) + list(range(1, model.n_iter_ + 1))
    assert history.seconds[: len(before)].tolist() == before
    assert history.seconds.sum() == clock.now
    assert repr(history).startswith(f"History of {model.n_iter_} rounds\n")


def test_history_has_the_time_of_a_refinement_that_was_ended(clock):
    clock.slow_down(refine, "_one_pass", 1.0)
    model = DiscriminativeKMeans(6, metric="euclidean")
    with listening(lambda step: step.record["phase"] == "refine" and clock.now == 3.0):
        history = model.fit(X, Y).history_
    assert "refine" not in history.phase
    assert history.seconds.tolist() == [0.0] * (len(history) - 1) + [3.0]
    with listening(lambda step: clock.now == 5.0):
        again = model.at(3, X, Y)
    assert again.history_.seconds.tolist() == [2.0]


def test_tree_tells_who_split_from_whom():
    model = grown().fit(X, Y)
    tree = model.tree_
    alive = tree.id[tree.ended == -1]
    assert sorted(model.cluster_ids_) == alive.tolist()
    labels = {row["id"]: row["label"] for row in tree}
    assert [labels[i] for i in model.cluster_ids_] == model.cluster_classes_.tolist()
    for i in model.cluster_ids_:
        assert tree.ancestors(i)[-1:] == ([0] if i else [])
        assert all(i in tree.children(p) for p in tree.ancestors(i)[:1])
    assert "alive" in repr(tree)
    with pytest.raises(KeyError, match="no prototype with id 999"):
        tree.ancestors(999)
    with pytest.raises(AttributeError, match="no column 'wrong'"):
        _ = tree.wrong
    pytest.importorskip("pandas")
    assert len(tree.to_pandas()) == len(tree)


def test_inertia_is_the_sum_of_squared_distances():
    model = grown(max_clusters=5).fit(X, Y)
    own = model.transform(X)[np.arange(len(X)), model.labels_]
    np.testing.assert_allclose(model.inertia_, (own**2).sum())
