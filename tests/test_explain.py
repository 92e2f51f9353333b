"""Explanations name what decided, and the certified radius stands every attack."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from moves import broken, certified, shortest_move, space_of
from sklearn.datasets import load_digits, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from strategies import examples, labelled, weighted

from dkmeans import DiscriminativeKMeans, load
from dkmeans.kernels.sphere import unit_rows
from dkmeans.questions import certify

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
DTYPES, METRICS = (np.float64, np.float32), ("euclidean", "cosine", "learned")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:800], y[:800], X[800:]


@pytest.fixture(scope="module", params=[(d, m) for d in DTYPES for m in METRICS], ids=str)
def fitted(request, digits):
    """A model, and rows that it has not seen."""
    dtype, metric = request.param
    X, y, others = digits
    model = DiscriminativeKMeans(24, metric=metric, refine="margin", max_iter=12)
    return model.fit(X.astype(dtype), y), others.astype(dtype)


def test_columns_are_what_the_other_methods_say(fitted):
    model, X = fitted
    why, distances, each = model.explain(X), model.transform(X), np.arange(len(X))
    np.testing.assert_array_equal(why.label, model.predict(X))
    np.testing.assert_array_equal(why.prototype, model.predict_cluster(X))
    np.testing.assert_array_equal(why.id, model.cluster_ids_[why.prototype])
    np.testing.assert_array_equal(why.size, model.cluster_sizes_[why.prototype])
    np.testing.assert_array_equal(why.exemplar, model.exemplars_[why.prototype])
    np.testing.assert_array_equal(why.distance, distances[each, why.prototype])
    others = np.where(model.cluster_classes_ == why.label[:, None], np.inf, distances)
    np.testing.assert_array_equal(why.rival, others.argmin(axis=1))
    np.testing.assert_array_equal(why.rival_id, model.cluster_ids_[why.rival])
    np.testing.assert_array_equal(why.rival_label, model.cluster_classes_[why.rival])
    np.testing.assert_array_equal(why.rival_distance, others.min(axis=1))
    np.testing.assert_array_equal(why.margin, model.decision_function(X).max(axis=1))
    for name in ("distance", "rival_distance", "margin", "radius"):
        assert getattr(why, name).dtype == X.dtype, name


def test_the_radius_is_hardly_below_the_formula(fitted):
    model, X = fitted
    X = X[:200]
    why, space = model.explain(X), space_of(model)
    expected = np.array([certified(x, *space, c) for x, c in zip(X, why.label, strict=True)])
    loss = expected - why.radius
    assert (loss[expected > 0] > 0).all()
    if model.metric == "learned":  # standardised rows are rounded to a grid
        assert loss.max() < 1e-2 * np.median(expected)
        return
    assert loss.max() < (1e-9 if X.dtype == np.float64 else 2e-3)
    assert np.median(why.radius) > 2


def test_no_move_within_the_radius_changes_the_class(fitted):
    model, X = fitted
    tried, changed = broken(model, X[:30], 200, np.random.default_rng(0))
    assert tried > 7000  # for each model
    assert changed == 0


def test_moves_beyond_the_exact_distance_do_change_it(fitted):
    """So that the attacks of the other tests could succeed, and the exact move is one."""
    model, X = fitted
    why, space = model.explain(X[:40]), space_of(model)
    # Rows and moved ones are rounded to the grid of standardised values, too.
    near_share, far_share = (0.99, 1.01) if model.metric == "learned" else (0.9999, 1.0001)
    ratios = []
    for x, label, radius in zip(X, why.label, why.radius, strict=False):
        move = shortest_move(x, *space, label)
        length = np.linalg.norm(move)
        assert radius < length
        near, far = x + near_share * move, x + far_share * move
        assert model.predict([near, far]).tolist()[0] == label
        assert model.predict([near, far]).tolist()[1] != label
        ratios.append(radius / length)
    assert np.median(ratios) > 0.8


def test_one_prototype_per_class_makes_the_radius_exact(digits):
    X, y, others = digits
    model = grown(10).fit(X, y)
    why = model.explain(others[:40])
    for x, label, radius in zip(others, why.label, why.radius, strict=False):
        move = shortest_move(x, *space_of(model), label)
        assert radius == pytest.approx(np.linalg.norm(move), rel=1e-9, abs=1e-9)


@settings(max_examples=examples(150))
@given(
    data=labelled(max_rows=16),
    metric=st.sampled_from(METRICS),
    shift=st.sampled_from([0.0, 1.0, 1e4]),
    scale=st.sampled_from([1.0, 1e-30, 1e9]),
)
def test_awkward_rows_stand_attacks_too(data, metric, shift, scale):
    """Ties, duplicates, rows far from the origin, tiny and huge ones."""
    X, y = data
    X = ((X + shift) * scale).astype(X.dtype)
    model = grown(metric=metric, growth="paper").fit(X, y)
    tried, changed = broken(model, X, 20, np.random.default_rng(0))
    assert changed == 0, tried


def test_large_models_and_any_number_of_threads_give_the_same_bits(fitted, monkeypatch):
    model, X = fitted
    before = model.explain(X)
    monkeypatch.setattr(certify, "_MAX_CACHED_PAIRS", 0)
    monkeypatch.setattr(certify, "_WORK_ARRAYS", 40_000)  # tiles of few rows
    for threads in (1, 3):
        again = model.set_params(n_threads=threads).explain(X)
        for name in before.columns:
            assert getattr(again, name).tobytes() == getattr(before, name).tobytes(), name
    model.set_params(n_threads=None)


def test_sparse_rows_and_single_rows_give_the_same_bits(fitted):
    model, X = fitted
    X = X[:60]
    dense, sparse = model.explain(X), model.explain(sp.csr_matrix(X))
    for name in dense.columns:
        assert getattr(sparse, name).tobytes() == getattr(dense, name).tobytes(), name
    assert [model.explain(x[None]).radius[0] for x in X[:5]] == dense.radius[:5].tolist()


def test_one_class_cannot_change():
    model = grown().fit([[0.0], [1.0]], ["a", "a"])
    why = model.explain([[5.0], [0.5]])
    assert why[1] == {
        "label": "a",
        "prototype": 0,
        "id": 0,
        "size": 2.0,
        "exemplar": 0,
        "distance": 0.0,
        "rival": -1,
        "rival_id": -1,
        "rival_label": None,
        "rival_distance": np.inf,
        "margin": 1.0,
        "radius": np.inf,
    }
    assert "Explanation of 2 predictions" in repr(why)


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_is_certified_where_classes_meet(metric):
    X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array(["a", "b"], dtype=object)
    model = grown(metric=metric).fit(X, y)
    border = model.explain([[1.0, 1.0], [0.0, 0.0]])
    assert border.radius.tolist() == [0.0, 0.0]
    assert border[0]["label"] == "a"
    grid = 1e-4 if metric == "learned" else 1e-9
    assert model.explain([[3.0, 0.0]]).radius[0] == pytest.approx(3 / np.sqrt(2), rel=grid)
    model.set_center(int(model.cluster_ids_[1]), X[0])  # both at one place
    assert model.explain(X).radius.tolist() == [0.0, 0.0]


def test_rows_of_another_kind_are_told_apart(digits):
    X, y, _ = digits
    model = grown(10).fit(X, y)
    with pytest.raises(ValueError, match="expecting 64 features"):
        model.explain(X[:, :3])
    pandas = pytest.importorskip("pandas")
    table = model.explain(pandas.DataFrame(X[:4])).to_pandas()
    assert table.shape == (4, 12)
    assert table.label.tolist() == model.predict(X[:4]).tolist()


class TestExemplars:
    @settings(max_examples=examples(150))
    @given(
        data=weighted(),
        metric=st.sampled_from(METRICS),
        growth=st.sampled_from(["paper", "best"]),
        budget=st.none() | st.integers(4, 8),
        order=st.randoms(use_true_random=False),
    )
    def test_the_nearest_row_of_cell_and_class(self, data, metric, growth, budget, order):
        X, y, w = data
        model = grown(budget, metric=metric, growth=growth).fit(X, y, w)
        X = unit_rows(X) if metric == "cosine" else X  # rows of one direction are identical then
        seen, centers = model._fitted.geometry.rows(X), model._fitted.prototypes.centers
        rows = seen.astype(np.float64)
        takes_part = w > 0
        for group in model.conflicts_:  # those whose label loses stand for no one
            takes_part[group] &= y[group] == np.bincount(y[group], w[group]).argmax()
        for i, found in enumerate(model.exemplars_.tolist()):
            mine = (model.labels_ == i) & (y == model.cluster_classes_[i]) & takes_part
            assert (found >= 0) == mine.any()
            if found < 0:
                continue
            assert mine[found]
            squares = ((rows - centers[i].astype(np.float64)) ** 2).sum(axis=1)
            assert squares[found] <= squares[mine].min() * (1 + 1e-12)
            same = np.flatnonzero(mine & (seen[found] == seen).all(axis=1))
            assert found == same[0]
        shuffled = np.arange(len(y))
        order.shuffle(shuffled)
        again = grown(budget, metric=metric, growth=growth)
        again.fit(sp.csr_matrix(X[shuffled]), y[shuffled], w[shuffled])
        known = model.exemplars_ >= 0
        np.testing.assert_array_equal(again.exemplars_ >= 0, known)
        there = seen[shuffled][again.exemplars_[known]]
        np.testing.assert_array_equal(there, seen[model.exemplars_[known]])

    def test_a_row_stands_for_the_class_that_it_was_given(self):
        X, y = [[0.0], [0.0], [0.0], [9.0]], ["b", "a", "a", "b"]
        model = grown().fit(X, y)
        assert model.exemplars_.tolist() == [1, 3]

    def test_partial_fit_speaks_of_its_own_rows(self):
        model = grown().fit([[0.0], [9.0]], ["a", "b"])
        model.partial_fit([[9.5], [9.0], [9.2]], ["b", "b", "b"])
        assert model.exemplars_.tolist() == [-1, 2]

    def test_edits_and_the_way_of_a_fit(self, tmp_path):
        X, y = load_iris(return_X_y=True)
        model = grown(8).fit(X, y)
        before = model.exemplars_
        assert (before >= 0).all()
        assert (model.at(5).exemplars_ == -1).all()
        assert model.at(5).explain(X[:2]).exemplar.tolist() == [-1, -1]
        assert model.at(8).exemplars_.tolist() == before.tolist()
        model.save(tmp_path / "model.dkm")
        assert load(tmp_path / "model.dkm").exemplars_.tolist() == before.tolist()
        model.set_center(int(model.cluster_ids_[2]), X[0])
        assert model.exemplars_.tolist() == [*before[:2], -1, *before[3:]]
        model.drop(int(model.cluster_ids_[0]))
        assert model.exemplars_.tolist() == [before[1], -1, *before[3:]]

    def test_files_from_before_have_none(self):
        model = load(Path(__file__).parent / "data" / "model-v1.dkm")[-1]
        assert model.exemplars_.tolist() == [-1] * model.n_clusters_


class TestPictures:
    @pytest.fixture(autouse=True)
    def matplotlib(self):
        pytest.importorskip("matplotlib")

    def test_a_line_of_images_for_each_row(self, digits):
        X, y, others = digits
        model = grown(20, metric="cosine").fit(X, y)
        why = model.explain(others).take(np.array([5, 3, 4]))
        display = why.plot(image_shape=(8, 8), X_train=X, max_rows=2)
        assert len(display.ax_.images) == 2 * 4
        words = [text.get_text() for text in display.ax_.texts]
        assert words.count("winning prototype") == 1
        assert sum(text.startswith(f"taken for {why.label[0]}\nmargin") for text in words) >= 1
        assert f"training row {why.exemplar[0]}" in words
        assert any(text.endswith(f"away\n#{why.rival_id[0]}") for text in words)
        unit = X[why.exemplar[0]] / np.linalg.norm(X[why.exemplar[0]])
        np.testing.assert_allclose(display.exemplars[0], unit.reshape(8, 8), rtol=1e-12)
        assert len(why.plot(image_shape=(8, 8)).ax_.images) == 3 * 3

    def test_what_does_not_fit_is_refused(self, digits):
        X, y, others = digits
        why = grown(20).fit(X, y).explain(others[:3])
        with pytest.raises(ValueError, match="rows that the model was fitted on"):
            why.plot(image_shape=(8, 8), X_train=X[:2])
        with pytest.raises(ValueError, match="has 56 pixels"):
            why.plot(image_shape=(8, 7))
        with pytest.raises(ValueError, match="nothing to draw"):
            why.take(np.zeros(3, dtype=bool)).plot(image_shape=(8, 8))

    def test_unknown_exemplars_and_missing_rivals_leave_gaps(self, digits):
        X, _, others = digits
        model = grown().fit(X, np.zeros(len(X), dtype=int))
        model.set_center(0, X[0])
        display = model.explain(others[:1]).plot(image_shape=(8, 8), X_train=X)
        assert len(display.ax_.images) == 2  # the row and its prototype
        words = [text.get_text() for text in display.ax_.texts]
        assert "not known" in words
        assert "nearest rival" not in words

    def test_certified_accuracy(self, digits):
        from dkmeans.plots import CertifiedAccuracyDisplay, ExplanationDisplay

        X, y, _ = digits
        pipe = make_pipeline(StandardScaler(), grown(20)).fit(X, y)
        display = CertifiedAccuracyDisplay.from_estimator(pipe, X, y)
        assert display.at(0.0) == pytest.approx(pipe.score(X, y))
        right, radii = display.right, display.radii
        assert display.at(radii[7]) == pytest.approx(np.mean(right & (radii >= radii[7])))
        line = display.ax_.lines[0]
        assert line.get_ydata()[0] == pytest.approx(100 * pipe.score(X, y))
        assert line.get_ydata()[-1] == 0
        assert "after StandardScaler" in display.ax_.get_xlabel()
        shown = ExplanationDisplay.from_estimator(pipe, X, image_shape=(8, 8), X_train=X)
        assert len(shown.queries) == 8
