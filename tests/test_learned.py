"""`metric="learned"`: everything that uses a learned metric."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from learned_models import geometry_for, model_with
from models import grown
from sklearn.datasets import load_digits, load_iris
from strategies import examples

from dkmeans import DiscriminativeKMeans, condense, load, save
from dkmeans.files import to_csv, to_json
from dkmeans.geometry import Learned
from dkmeans.kernels.projection import GRID

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS, LABELS = DIGITS[:500], LABELS[:500]
UNITS = 10.0 ** (np.arange(64) % 7 - 3)  # columns in units from 1e-3 to 1e3


def projection(d, p, seed=0):
    return np.random.default_rng(seed).normal(size=(d, p))


@pytest.fixture(scope="module", params=[np.float64, np.float32])
def model(request):
    X = (DIGITS * UNITS).astype(request.param)
    return model_with(projection(64, 12), X, LABELS, 30)


@pytest.fixture
def rows(model):
    return (DIGITS * UNITS).astype(model.cluster_centers_.dtype)


def test_all_ways_to_the_nearest_prototype_agree(model, rows):
    distances = model.transform(rows)
    assert distances.dtype == rows.dtype
    np.testing.assert_array_equal(model.labels_, model.predict_cluster(rows))
    np.testing.assert_array_equal(model.labels_, distances.argmin(axis=1))
    np.testing.assert_array_equal(model.predict_proba(rows).argmax(axis=1), model.predict(rows))
    for other in (sp.csr_array(rows), np.asfortranarray(rows)):
        np.testing.assert_array_equal(model.transform(other), distances)
    for n_threads in (1, 3):
        one = copy.copy(model).set_params(n_threads=n_threads)
        np.testing.assert_array_equal(one.transform(rows), distances)


def test_distances_are_those_of_the_components(model, rows):
    assert model.components_.shape == (12, 64)
    shift = model._fitted.geometry.shift
    projected = (rows.astype(np.float64) - shift) @ model.components_.T
    between = projected[:, None] - projected[None, :20]
    plain = np.linalg.norm(between, axis=2)
    moved = copy.deepcopy(model)
    for i, id in enumerate(moved.cluster_ids_[:20]):
        moved.set_center(id, rows[i])
    room = 1e-3 if rows.dtype == np.float32 else 4 * np.sqrt(64) * GRID
    np.testing.assert_allclose(moved.transform(rows)[:, :20], plain, atol=room)
    assert not moved.transform(rows)[np.arange(20), np.arange(20)].any()


def test_centers_are_shown_in_the_input_space(model, rows):
    assert model.cluster_centers_.shape == (30, 64)
    assert model.cluster_centers_.dtype == rows.dtype
    own = model.transform(model.cluster_centers_).argmin(axis=1)
    np.testing.assert_array_equal(own, np.arange(30))
    distances = model.transform(model.cluster_centers_).diagonal()
    assert distances.max() < 1e-3 * model.transform(rows).min(axis=1).mean()


def test_importances_are_the_diagonal_of_the_metric(model):
    metric = model._fitted.geometry.components @ model._fitted.geometry.components.T
    importances = model.feature_importances_
    np.testing.assert_allclose(importances, np.diag(metric) / np.trace(metric), rtol=1e-12)
    assert importances.sum() == pytest.approx(1)
    assert (importances[(DIGITS[0] == DIGITS).all(axis=0)] == 0).all()


def test_importances_of_equal_rows_are_zero():
    model = grown(metric="learned").fit(np.ones((6, 3)), [0, 1, 0, 1, 1, 0])
    assert model.feature_importances_.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_other_metrics_have_no_importances(metric):
    model = grown(metric=metric)
    assert not hasattr(model, "feature_importances_")
    model.fit([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
    assert not hasattr(model, "components_")
    with pytest.raises(AttributeError, match="metric='learned'"):
        _ = model.feature_importances_


@pytest.mark.parametrize("refused", [0, -1, 2.5, "all", True])
def test_the_number_of_components_is_checked(refused):
    with pytest.raises(ValueError, match="n_components="):
        grown(n_components=refused).fit([[0.0], [1.0]], [0, 1])


def test_edits_are_projected(model, rows):
    edited = copy.deepcopy(model)
    ids = edited.cluster_ids_[edited.cluster_classes_ == 3][:2]
    edited.merge(ids).drop(edited.cluster_ids_[0])
    assert edited.n_clusters_ == 28
    edited.set_center(edited.cluster_ids_[0], rows[7])
    np.testing.assert_array_equal(edited._fitted.prototypes.centers[0],
                                  edited._fitted.geometry.rows(rows[7:8])[0])  # fmt: skip
    assert edited.predict_cluster(rows[7:8])[0] == 0


def test_smaller_models_keep_the_metric_of_their_moment(model, rows):
    path = model._fitted.growth_path
    first = replace(path.waypoints[0], geometry=geometry_for(rows, projection(64, 12, seed=1)))
    changed = replace(
        model._fitted, growth_path=replace(path, waypoints=[first, *path.waypoints[1:]])
    )
    small = copy.deepcopy(model)._publish(changed).at(len(first))
    assert small._fitted.geometry is first.geometry
    assert model.at(20)._fitted.geometry is path.waypoints[1].geometry
    np.testing.assert_array_equal(small.predict_cluster(rows), small.transform(rows).argmin(axis=1))


def test_files_keep_every_bit(model, rows, tmp_path):
    model.save(tmp_path / "model.dkm")
    again = load(tmp_path / "model.dkm")
    assert again.metric == "learned"
    for name in ("cluster_centers_", "components_", "feature_importances_"):
        assert getattr(again, name).tobytes() == getattr(model, name).tobytes()
    assert again.transform(rows).tobytes() == model.transform(rows).tobytes()
    same = pickle.loads(pickle.dumps(model))
    assert same.transform(rows).tobytes() == model.transform(rows).tobytes()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("scale", lambda a: -a),
        ("scale", lambda a: a[:-1]),
        ("shift", lambda a: a * np.nan),
        ("center", lambda a: a.astype(np.float32)),
        ("components", lambda a: a * (1 + 2.0**-40)),
        ("components", lambda a: a[:, :0]),
        ("components", lambda a: a * 1e60),
        ("components", lambda a: a[:-1]),
    ],
)
def test_files_with_a_wrong_metric_are_refused(model, tmp_path, name, wrong):
    odd = copy.deepcopy(model)
    geometry = copy.copy(odd._fitted.geometry)
    object.__setattr__(geometry, name, wrong(getattr(geometry, name)))
    object.__setattr__(odd._fitted, "geometry", geometry)
    with pytest.raises(ValueError, match="learned metric"):
        odd.save(tmp_path / "model.dkm")


def test_exports_have_what_is_needed_to_classify_rows(model, rows):
    about = json.loads(to_json(model))
    assert about["metric"] == "learned"
    shift, components = (np.array(about["projection"][n]) for n in ("shift", "components"))
    projected = (rows - shift) @ components.T
    centers = np.array([p["center"] for p in about["prototypes"]])
    nearest = ((projected[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    labels = np.array([p["class"] for p in about["prototypes"]])[nearest]
    assert (labels == model.predict(rows)).mean() > 0.99  # but for rounding
    lines = to_csv(model).splitlines()
    first = np.array(lines[1].split(",")[3:], dtype=float)
    np.testing.assert_allclose(first, model.cluster_centers_[0], rtol=1e-6)


def test_onnx_gives_the_same_labels(model, rows):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    far = rows * np.where(np.arange(len(rows)) % 3, 1, 1e6)[:, None].astype(rows.dtype)
    for X in (rows, far):
        labels, probabilities = session.run(None, {"features": X})
        np.testing.assert_array_equal(labels, model.predict(X))
        tiny = 18 * np.finfo(rows.dtype).eps
        np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=tiny)


def test_dask_collections_get_the_same_distances(model, rows):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(rows, chunks=(130, 64))
    np.testing.assert_array_equal(model.transform(lazy).compute(), model.transform(rows))
    np.testing.assert_array_equal(model.predict(lazy).compute(), model.predict(rows))


def test_questions_use_the_learned_distances(model, rows):
    distances = model.transform(rows)
    why = model.explain(rows)
    np.testing.assert_array_equal(why.distance, distances.min(axis=1))
    assert why.centers.shape == (30, 64)
    suspects = model.suspects(rows, LABELS, n=10)
    plain = grown(30).fit(model._fitted.geometry.rows(rows), LABELS)
    expected = plain.suspects(
        plain._fitted.geometry.rows(model._fitted.geometry.rows(rows)), LABELS, n=10
    )
    np.testing.assert_array_equal(suspects.row, expected.row)
    np.testing.assert_array_equal(model.suspects(n=5).row, plain.suspects(n=5).row)
    rejecting = copy.deepcopy(model).set_rejection(rows[:200])
    assert rejecting.is_known(rows[:200]).mean() >= 0.9
    assert not rejecting.is_known(rows[:3] * 1e6).any()
    assert len(model.class_borders())


def test_rows_far_beyond_the_range_of_the_type_are_answered(model):
    most = np.finfo(model.cluster_centers_.dtype).max
    X = np.full((2, 64), most, dtype=model.cluster_centers_.dtype) * [[1], [-1]]
    assert np.isfinite(model.transform(X)).all()
    np.testing.assert_array_equal(model.explain(X).radius, 0)


@st.composite
def certified(draw):
    """Models and rows for which a wrong radius would show."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(4, 30)), draw(st.sampled_from([1, 2, 3, 8, 40]))
    p = draw(st.integers(1, min(d, 5)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    X = np.round(rng.normal(size=(n, d)), draw(st.sampled_from([0, 1, 9])))
    X = (X + draw(st.sampled_from([0.0, 50.0, 1e5]))) * 10.0 ** rng.integers(-4, 5, d)
    X = X.astype(dtype)
    y = np.arange(n) % draw(st.integers(2, 4))
    A = rng.normal(size=(d, p)) * 10.0 ** rng.integers(-2, 2, (d, 1))
    return model_with(A, X, y, 4), X, rng


@settings(max_examples=examples(150), deadline=None)
@given(certified())
def test_no_move_within_the_radius_changes_the_class(case):
    model, X, rng = case
    why = model.explain(X)
    assert (why.radius >= 0).all()
    geometry, now = model._fitted.geometry, model._fitted.prototypes.centers.astype(np.float64)
    labels = model.predict(X)
    there = np.flatnonzero(why.rival >= 0)
    assume(len(there))
    normals = (now[why.rival[there]] - now[why.prototype[there]]) @ geometry.input_components
    for directions in (normals, rng.normal(size=normals.shape)):
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        unit = np.divide(directions, lengths, out=np.zeros_like(directions), where=lengths > 0)
        for share in (1.0, 0.999):
            moved = X[there].astype(np.float64) + unit * (why.radius[there] * share)[:, None]
            np.testing.assert_array_equal(model.predict(moved), labels[there])


def test_the_radius_is_the_distance_to_the_border_but_for_rounding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * [1e-3, 1.0, 1e3, 1.0]
    y = np.repeat([0, 1], 30)
    X[y == 1, 1] += 8
    model = model_with(np.diag([0.5, 1.0, 0.2, 0.0])[:, :3], X, y, 2)
    why = model.explain(X)
    geometry, w = model._fitted.geometry, model._fitted.prototypes.centers
    normal = (w[1] - w[0]) @ geometry.input_components
    z = geometry.rows(X)
    gain = ((z - w[1]) ** 2).sum(axis=1) - ((z - w[0]) ** 2).sum(axis=1)
    exact = np.abs(gain) / (2 * np.linalg.norm(normal))
    assert (why.radius <= exact).all()
    np.testing.assert_allclose(why.radius, exact, rtol=1e-2, atol=1e-2 * exact.max())
    assert isinstance(geometry, Learned)


def test_models_on_the_way_are_kept_in_files(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = DiscriminativeKMeans(9, metric="learned").fit(X, y)
    save(model, tmp_path / "model.dkm", with_path=True)
    loaded = load(tmp_path / "model.dkm")
    for k in model.path_.clusters:
        if k >= 3:
            assert np.array_equal(loaded.at(k).transform(X), model.at(k).transform(X))


def test_models_on_the_way_may_have_another_rank(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 9)).astype(np.float32)
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * np.sin(3 * X[:, 2]), [0.0, 0.5, 1.0])
    model = DiscriminativeKMeans("auto", metric="learned", max_iter=6).fit(X, y)
    ranks = {model.at(k).components_.shape[0] for k in model.path_.clusters if k >= 4}
    assert len(ranks) > 1
    save(model, tmp_path / "model.dkm", with_path=True)
    loaded = load(tmp_path / "model.dkm")
    for k in model.path_.clusters:
        if k >= 4:
            np.testing.assert_array_equal(loaded.at(k).transform(X), model.at(k).transform(X))
            np.testing.assert_array_equal(
                loaded.at(k, X, y).cluster_centers_, model.at(k, X, y).cluster_centers_
            )


@pytest.fixture(scope="module")
def trained():
    return DiscriminativeKMeans(20, metric="learned", n_components=8).fit(DIGITS * UNITS, LABELS)


def test_models_on_the_way_of_a_fit_have_the_metric_of_their_moment(trained):
    X = DIGITS * UNITS
    for k in (10, 14, 20):
        small = trained.at(k)
        assert small.n_clusters_ <= k
        assert small.score(X, LABELS) > 0.6
        np.testing.assert_array_equal(small.predict_cluster(X), small.transform(X).argmin(axis=1))
    assert trained.at(20).components_.tobytes() == trained.components_.tobytes()


def test_the_summary_names_the_rank(trained):
    assert "learned metric of 8 components" in trained._html()


@pytest.mark.parametrize("keep", ["prototypes", "exemplars"])
def test_condense_keeps_rows_of_the_input_space(keep):
    X = DIGITS * UNITS
    small = condense(X, LABELS, 20, keep=keep, metric="learned")
    assert small.X.shape == (20, 64)
    if keep == "exemplars":
        np.testing.assert_array_equal(small.X, X[small.indices])


def test_a_warm_start_continues_from_the_metric(trained):
    X = DIGITS * UNITS
    again = copy.deepcopy(trained).set_params(warm_start=True, max_clusters=22).fit(X, LABELS)
    np.testing.assert_array_equal(again._fitted.geometry.scale, trained._fitted.geometry.scale)
    assert len(again.components_) == 8
    np.testing.assert_array_equal(again.labels_, again.transform(X).argmin(axis=1))


CORNERS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])


@pytest.mark.parametrize("k", [4, 5, None, "auto"])
@pytest.mark.parametrize("growth", ["best", "paper"])
def test_rows_with_the_same_image_are_in_conflict(k, growth):
    """Four classes at the corners of a square, on one axis: fits used not to end."""
    model = DiscriminativeKMeans(k, metric="learned", n_components=1, growth=growth)
    model.fit(CORNERS, [0, 1, 2, 3])
    images = model._fitted.geometry.rows(CORNERS)
    expected = [np.flatnonzero(same).tolist() for same in images == images.T]
    expected = sorted({tuple(rows) for rows in expected if len(rows) > 1})
    assert expected
    assert [tuple(rows.tolist()) for rows in model.conflicts_] == expected
    assert model.converged_
    assert (model.labels_ == model.predict_cluster(CORNERS)).all()


@pytest.mark.parametrize("k", [None, 6, "auto"])
def test_identical_rows_may_share_their_image_with_others(k):
    """Rows that have agreed on a label agree anew on each projection: fits used not to end."""
    X = np.vstack([CORNERS, CORNERS[[0, 0, 1, 1, 1]]])
    y = np.array([0, 1, 2, 3, 1, 1, 0, 0, 0])
    model = DiscriminativeKMeans(k, metric="learned", n_components=1).fit(X, y)
    images = model._fitted.geometry.rows(X)[:, 0]
    expected = {tuple(np.flatnonzero(images == value).tolist()) for value in images}
    assert model.converged_
    assert {tuple(rows.tolist()) for rows in model.conflicts_} == {
        rows for rows in expected if len(set(y[list(rows)])) > 1
    }
    for rows in expected:
        votes = np.bincount(y[list(rows)])
        assert (model.predict(X[list(rows)]) == votes.argmax()).all()


@pytest.mark.parametrize("value", [1e6, 1e9])
@pytest.mark.parametrize("where", [0, (0, 1), (slice(0, 15), 1)], ids=["row", "value", "some"])
def test_auto_is_not_deceived_by_outliers(where, value):
    """Next to a distant row, all other rows have few images, on which they agree on labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
    X[where] = value
    plain = DiscriminativeKMeans(8, metric="euclidean").fit(X, y)
    model = DiscriminativeKMeans(8).fit(X, y)
    assert model.metric_ == "euclidean"
    assert not model.conflicts_
    np.testing.assert_array_equal(model.cluster_centers_, plain.cluster_centers_)


@pytest.mark.parametrize("n_components", [None, 1])
def test_conflicts_of_dask_collections_are_those_of_images(n_components):
    da = pytest.importorskip("dask.array")
    X = np.array([[0.0], [1e-9], [2.0], [2 + 1e-9], [3.0], [4.0]])  # equal but for rounding
    y = np.array([0, 1, 0, 1, 0, 1])
    if n_components is not None:
        X, y = np.vstack([CORNERS, CORNERS]), np.array([0, 1, 2, 3, 0, 1, 3, 3])
    model = DiscriminativeKMeans(4, metric="learned", n_components=n_components)
    expected = [rows.tolist() for rows in model.fit(X, y).conflicts_]
    assert expected
    model.fit(da.from_array(X, chunks=(3, X.shape[1])), da.from_array(y, chunks=3))
    assert len(model.conflicts_) == len(expected)
    assert [rows.tolist() for rows in model.conflicts_.compute()] == expected
