"""The path through numbers of clusters, going back on it, and the choice of a number."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import draw_small_samples, grown
from parted import rows_of
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_moons

from dkmeans import load
from dkmeans.geometry import Euclidean
from dkmeans.growth import auto, held_out, samples, trail
from dkmeans.growth.held_out import hold_out
from dkmeans.growth.rules import Rules
from dkmeans.growth.run import Run, Sample
from dkmeans.kernels.rowhash import salted, sampling_hashes
from dkmeans.passes.sampling import DistinctHashes, WrongRows
from dkmeans.progress import listening

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
WAYS = [
    {"growth": "paper"},
    {"growth": "best"},
    {"max_clusters": 40, "growth": "best", "refine": "margin"},
    {"max_clusters": 40, "metric": "cosine"},
]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


@pytest.mark.parametrize("parameters", WAYS)
def test_each_row_tells_of_the_model_that_at_gives(digits, parameters):
    X, y = digits
    model = grown(**parameters).fit(X, y)
    path = model.path_
    assert path.columns == (
        "clusters",
        "training_error",
        "heldout_error",
        "cost",
        "inertia",
        "refined",
    )
    assert path.clusters[0] == 1
    assert path.clusters[-1] == model.n_clusters_
    assert (np.diff(path.clusters) > 0).all()
    for row in path:
        there = model.at(row["clusters"])
        assert there.n_clusters_ == row["clusters"] == len(there.cluster_centers_)
        assert there.score(X, y) == pytest.approx(1 - row["training_error"])
        assert there.inertia_ == pytest.approx(row["inertia"])
        nearest = there.transform(X).min(axis=1)
        assert there.inertia_ == pytest.approx((nearest**2).sum(), rel=1e-9)
        assert there.cluster_sizes_.tolist() == np.bincount(there.predict_cluster(X)).tolist()
        assert np.isnan(row["heldout_error"])


@settings(max_examples=strategies.examples(100), deadline=None)
@given(data=strategies.weighted(), parameters=strategies.parameters)
def test_training_error_is_that_of_the_labels_as_given(data, parameters):
    X, y, w = data
    model = grown(**parameters).fit(X, y, w)
    for row in model.path_:
        score = model.at(row["clusters"]).score(X, y, sample_weight=w)
        assert row["training_error"] == pytest.approx(1 - score, abs=1e-12)


@pytest.mark.parametrize("growth", ["paper", "best"])
def test_at_gives_what_the_same_rounds_give(digits, growth):
    X, y = digits
    model = grown(growth=growth).fit(X, y)
    for k in model.path_.clusters[1:-1]:
        there = model.at(int(k))
        with pytest.warns(UserWarning, match="max_iter"):
            same = grown(growth=growth, max_iter=there.n_iter_).fit(X, y)
        np.testing.assert_array_equal(there.cluster_centers_, same.cluster_centers_)
        np.testing.assert_array_equal(there.cluster_ids_, same.cluster_ids_)
        assert str(there.tree_) == str(same.tree_)
        numbers = ("round", "clusters", "mixed", "impurity", "moved", "inertia")
        for name in numbers:
            a, b = (getattr(m.history_, name) for m in (there, same))
            np.testing.assert_array_equal(a, b)
        assert not hasattr(there, "labels_")


def test_at_takes_the_most_clusters_that_are_at_most_k(digits):
    X, y = digits
    model = grown(50, growth="best").fit(X, y)
    counts = model.path_.clusters.tolist()
    for k in (1, 12, 16, 30, 49, 50, 1000):
        there = model.at(k)
        assert there.n_clusters_ == max(c for c in counts if c <= k)
        assert there.max_clusters == max(there.n_clusters_, 10)
    np.testing.assert_array_equal(model.at(50).labels_, model.labels_)
    np.testing.assert_array_equal(model.at(50).cluster_centers_, model.cluster_centers_)
    assert model.max_clusters == 50
    assert model.n_clusters_ == 50


@pytest.mark.parametrize("max_clusters", ["auto", 50])
def test_a_model_with_fewer_clusters_than_classes_can_be_fitted_again(digits, max_clusters):
    X, y = digits
    there = grown(max_clusters).fit(X, y).at(5)
    assert (there.n_clusters_, there.max_clusters) == (1, 10)
    assert there.fit(X, y).n_clusters_ == 10


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_model_on_the_path_is_refined_if_the_rows_are_given(digits, metric):
    X, y = digits
    w = np.arange(len(y)) % 3
    plain = grown(30, metric=metric).fit(X, y, w)
    refined = grown(30, metric=metric, refine="margin").fit(X, y, w)
    there = plain.at(30, X, y, w)
    np.testing.assert_array_equal(there.cluster_centers_, refined.cluster_centers_)
    np.testing.assert_array_equal(there.labels_, refined.labels_)
    assert there.path_.refined.tolist() == [True]
    few = refined.at(16)
    np.testing.assert_array_equal(few.cluster_centers_, plain.at(16).cluster_centers_)
    better = refined.at(16, X, y, w)
    assert better.n_clusters_ == few.n_clusters_ == 16
    assert better.cluster_ids_.tolist() == few.cluster_ids_.tolist()
    assert better.score(X, y, w) > few.score(X, y, w)
    assert set(better.changes_.change) == {"moved"}


def test_a_model_on_the_path_says_whether_it_is_refined(digits):
    X, y = digits
    model = grown(30, refine="margin").fit(X, y)
    assert model.path_.refined.tolist() == [False] * (len(model.path_) - 1) + [True]
    assert "1 of them refined" in repr(model.path_)
    few = model.at(20)
    assert (few.n_clusters_, few.max_clusters, few.refine) == (16, 16, None)
    assert (model.at(30).max_clusters, model.at(30).refine) == (30, "margin")
    assert (model.at(20, X, y).max_clusters, model.at(20, X, y).refine) == (16, "margin")
    assert "none of them refined" in repr(grown(20).fit(X, y).path_)
    found = grown("auto", refine="margin").fit(X, y)
    assert found.path_.refined.tolist() == [False] + [True] * (len(found.path_) - 1)
    assert found.at(int(found.path_.clusters[1])).refine == "margin"
    assert found.at(1).refine is None


@pytest.mark.parametrize("metric", ["euclidean", "learned"])
def test_the_history_of_a_trial_has_the_passes_that_refined_it(digits, tmp_path, metric):
    X, y = digits
    model = grown("auto", refine="margin", metric=metric).fit(X, y)
    model.save(tmp_path / "m.dkm", with_path=True)
    loaded = load(tmp_path / "m.dkm")
    trials = [k for k in model.path_.clusters.tolist() if k != model.n_clusters_]
    assert trials
    for k, refined in zip(model.path_.clusters, model.path_.refined, strict=True):
        if k == model.n_clusters_:
            continue
        for there in (model.at(k), loaded.at(k)):
            history = there.history_
            n_grown = int(np.count_nonzero(history.phase != "refine"))
            assert len(history) - n_grown == (auto.REFINE_PASSES if refined else 0)
            assert (history.phase[n_grown:] == "refine").all()
            assert (history.clusters[n_grown:] == k).all()
            assert history.round.tolist() == list(range(1, there.n_iter_ + 1))
    assert model.history_.phase[0] == "search"
    again = model.at(1).at(model.n_clusters_)  # the passes of the fit are not on the path
    assert again.n_clusters_ == model.n_clusters_
    assert (again.history_.phase == "grow").all()


def test_the_way_back_to_the_result_keeps_its_history(digits):
    X, y = digits
    model = grown(30, refine="margin").fit(X, y)
    again = model.at(16).at(30)
    assert again.history_.round.tolist() == model.history_.round.tolist()
    assert again.n_iter_ == model.n_iter_


def test_a_model_that_was_not_refined_has_no_error_of_a_refined_one(digits):
    X, y = digits
    whole = grown("auto", refine="margin").fit(X, y)
    with listening(lambda step: not step.is_trial):
        model = grown("auto", refine="margin").fit(X, y)
    assert model.n_clusters_ == whole.n_clusters_
    chosen = model.path_.clusters.tolist().index(model.n_clusters_)
    assert not model.path_.refined[chosen]
    assert np.isnan(model.path_.heldout_error[chosen])
    assert whole.path_.refined[chosen]
    assert whole.path_.heldout_error[chosen] >= 0


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "learned"])
def test_a_model_of_one_class_has_nothing_to_refine(digits, metric):
    X, y = digits
    model = grown(30, metric=metric, refine="margin").fit(X, y)
    there = model.at(5, X, y)
    np.testing.assert_array_equal(there.cluster_centers_, model.at(5).cluster_centers_)
    assert (there.n_clusters_, there.n_iter_, there.refine) == (1, 0, None)
    assert there.path_.refined.tolist() == [False]
    assert there.labels_.tolist() == [0] * len(y)
    assert there.history_.phase.tolist() == ["start"]
    assert there.history_.impurity[0] == pytest.approx(1 - there.score(X, y))
    single = grown(1, metric=metric, refine="margin").fit(X, np.zeros(len(y)))
    assert single.at(1, X, np.zeros(len(y))).n_clusters_ == 1


def test_refining_a_model_of_the_path_can_be_ended_before_the_first_pass(digits):
    X, y = digits
    model = grown(30, refine="margin").fit(X, y)
    with listening(lambda _: True):
        there = model.at(16, X, y)
    np.testing.assert_array_equal(there.cluster_centers_, model.at(16).cluster_centers_)
    assert there.refine is None
    assert there.path_.refined.tolist() == [False]
    assert there.history_.phase.tolist() == ["start"]


def test_a_learned_metric_is_refined_with_the_model(digits):
    X, y = digits
    model = grown(30, metric="learned").fit(X, y)
    few, better = model.at(16), model.at(16, X, y)
    assert few.components_.shape == better.components_.shape
    assert (few.components_ != better.components_).any()
    assert better.score(X, y) > few.score(X, y)


def test_rows_to_refine_on_have_classes_of_the_model(digits):
    X, y = digits
    model = grown(20).fit(X, y)
    with pytest.raises(ValueError, match="y has the class 10, for which the model has no"):
        model.at(20, X, np.where(np.arange(len(y)) == 3, 10, y))
    with pytest.raises(ValueError, match="X has 3 features"):
        model.at(10, X[:, :3], y)


def test_at_says_what_is_wrong(digits):
    X, y = digits
    model = grown(20)
    with pytest.raises(ValueError, match="not fitted"):
        model.at(10)
    model.fit(X, y)
    for k in (0, 2.5, "10", None):
        with pytest.raises(ValueError, match=r"k=.*integer >= 1"):
            model.at(k)
    with pytest.raises(ValueError, match="at has no use for y without X: pass the rows"):
        model.at(10, y=y)
    with pytest.raises(ValueError, match="at has no use for sample_weight without X"):
        model.at(10, sample_weight=np.ones(len(y)))
    model.partial_fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="k=3 is too small: the fewest clusters on path_ are"):
        model.at(3)
    model.drop(model.cluster_ids_[0])
    with pytest.raises(ValueError, match=r"no path .* fit again"):
        model.at(10)


def test_one_can_go_on_from_a_model_on_the_path(digits):
    X, y = digits
    model = grown(60).fit(X[:400], y[:400])
    there = pickle.loads(pickle.dumps(model.at(25)))
    before = there.n_clusters_
    there.set_params(max_clusters=30).partial_fit(X[400:], y[400:])
    assert before <= there.n_clusters_ <= 30
    assert there.cluster_sizes_.sum() == 600
    again = model.at(25).set_params(warm_start=True, max_clusters=60).fit(X[:400], y[:400])
    assert again.score(X[:400], y[:400]) > model.at(25).score(X[:400], y[:400])


def test_a_long_path_is_thinned(digits, monkeypatch):
    X, y = digits
    whole = grown().fit(X, y)
    monkeypatch.setattr(trail, "_MIN_VALUES", 1)
    monkeypatch.setattr(trail, "_MAX_TIMES_LARGEST", 3)
    thin = grown().fit(X, y)
    counts = thin.path_.clusters
    assert 3 <= len(counts) < len(whole.path_)
    assert counts[0] == 1
    assert counts[-1] == thin.n_clusters_
    assert set(counts.tolist()) <= set(whole.path_.clusters.tolist())
    for k in counts:
        np.testing.assert_array_equal(
            thin.at(int(k)).cluster_centers_, whole.at(int(k)).cluster_centers_
        )
    sizes = [w.size for w in thin._fitted.growth_path.waypoints]
    assert sum(sizes) <= 3 * max(sizes)


def items_of(X, y, w, n_classes):
    """Hashes of all rows, numbers of distinct ones by class, and a function that finds these."""
    some = w > 0
    hashes = salted(sampling_hashes(X, np.abs(X[some]).max(axis=0)), 0)
    every = DistinctHashes.of(y[some], hashes[some])

    def find(limits):
        within = every.hashes <= limits[every.classes]
        return DistinctHashes(every.classes[within], every.hashes[within])

    return hashes, np.bincount(every.classes, minlength=n_classes), find


@settings(max_examples=strategies.examples(200), deadline=None)
@given(data=strategies.weighted(max_rows=40), repeat=st.integers(1, 3), most=st.integers(1, 50))
def test_the_same_share_of_the_different_rows_of_each_class_is_held_out(data, repeat, most):
    X, y, w = data
    X = X + X.dtype.type(0)
    y = np.unique(X, axis=0, return_inverse=True)[1] % 3  # identical rows have one label
    hashes, *items = items_of(X, y, w, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out, "WANTED_ITEMS", 6)
        patch.setattr(held_out, "MAX_ITEMS", most)
        part = hold_out(*items)
        copies = (np.repeat(a, repeat, 0) for a in (X, y, w))
        again = hold_out(*items_of(*copies, 3)[1:])
    held = (hashes >= part.lowest[y]) & (hashes <= part.highest[y]) & (w > 0)
    assert part.n_items == len(np.unique(X[w > 0], axis=0))
    share = min(most / part.n_items, max(1 / 5, min(1 / 2, 6 / part.n_items)))
    for c in np.unique(y[w > 0]):
        mine, chosen = (len(np.unique(X[some & (y == c)], axis=0)) for some in (w > 0, held))
        assert chosen == (0 if mine == 1 else math.ceil(share * mine))
    np.testing.assert_array_equal(part.hashes, np.unique(hashes[held]))
    np.testing.assert_array_equal(part.hashes, again.hashes)


@settings(max_examples=strategies.examples(200), deadline=None)
@given(data=strategies.weighted(max_rows=40), seed=st.integers(0, 99))
def test_losses_are_those_of_different_rows(data, seed):
    X, _, w = data
    X = X + X.dtype.type(0)
    is_wrong = np.random.default_rng(seed).random(len(X)) < 0.5
    numbers = 3 * np.arange(len(X))  # of held-out rows among all
    some = np.flatnonzero(is_wrong)[::-1]

    class Held:
        geometry = Euclidean()

        def sampling_hashes(self, largest):
            return numbers, sampling_hashes(X, largest)

        def wrong(self, prototypes):
            return WrongRows(numbers[some], w[some])

    held = Held()
    losses = held_out.ItemLosses(held, np.abs(X).max(axis=0)).of(None, held.geometry)
    items, item = np.unique(X, axis=0, return_inverse=True)
    expected = np.bincount(item.ravel(), w * is_wrong, len(items))
    np.testing.assert_allclose(sorted(losses), sorted(expected), rtol=1e-12)


AUTO = [{"growth": "paper"}, {"growth": "best"}, {"growth": "best", "refine": "margin"}]


@pytest.mark.study
@pytest.mark.parametrize("parameters", AUTO)
def test_order_weights_and_engine_do_not_matter_to_auto(digits, parameters):
    X, y = (part[digits[1] % 7 == 1][:120] for part in digits)  # 1 and 8
    rng = np.random.default_rng(0)
    model = grown("auto", n_threads=1, **parameters).fit(X, y)
    order = rng.permutation(len(X))
    others = [
        grown("auto", n_threads=2, **parameters).fit(X[order], y[order]),
        grown("auto", memory_mb=1, **parameters).fit(X, y),
        grown("auto", **parameters).fit(np.concatenate([X, X]), np.concatenate([y, y])),
        grown("auto", **parameters).fit(X, y, np.full(len(X), 0.1)),
    ]
    for other in others:
        # Twice as many rows are rounded otherwise in refinement.
        np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, atol=1e-6)
        np.testing.assert_allclose(model.path_.heldout_error, other.path_.heldout_error)
    for other in others[:2]:
        np.testing.assert_array_equal(model.cluster_centers_, other.cluster_centers_)
    w = rng.integers(0, 3, len(X))
    weighted = grown("auto", **parameters).fit(X, y, w)
    repeated = grown("auto", **parameters).fit(np.repeat(X, w, 0), np.repeat(y, w))
    np.testing.assert_array_equal(weighted.cluster_centers_, repeated.cluster_centers_)
    sparse = grown("auto", **parameters).fit(sp.csr_matrix(X), y)
    assert sparse.n_clusters_ == model.n_clusters_


@pytest.mark.parametrize("parameters", AUTO)
def test_held_out_errors_are_those_of_rows_that_the_models_never_saw(digits, parameters):
    n = 150 if "refine" in parameters else 300
    X, y = (part[:n] for part in digits)
    y = np.where(np.random.default_rng(0).random(n) < 0.15, y[::-1], y)  # no model is perfect
    model = grown("auto", **parameters).fit(X, y)
    hashes, *items = items_of(X, y, np.ones(n), 10)
    part = hold_out(*items)
    held = (hashes >= part.lowest[y]) & (hashes <= part.highest[y])
    path = model.path_
    wrong = {}
    # The same models come out where the held-out rows are not there at all.
    largest = int(path.clusters.max())
    if "refine" not in parameters:
        other = grown(largest, **parameters).fit(X[~held], y[~held])
        for k in path.clusters:
            wrong[k] = (other.at(int(k)).predict(X[held]) != y[held]).sum()
    for row in path:
        k = row["clusters"]
        assert k <= max(10, n // 10), "at most a tenth of the rows"
        if k != model.n_clusters_:
            there = model.at(k)
            assert there.cluster_sizes_.sum() == pytest.approx((~held).sum())
            error = 1 - there.score(X[~held], y[~held])
            assert row["training_error"] == pytest.approx(error)
        if k in wrong and k < largest:  # at the end, a budget makes growth settle
            assert row["heldout_error"] == pytest.approx(wrong[k] / held.sum())
    chosen = path.clusters == model.n_clusters_
    assert path.heldout_error[chosen][0] <= 1.2 * path.heldout_error.min() + 0.02
    fixed = grown(model.n_clusters_, **parameters).fit(X, y)
    np.testing.assert_array_equal(model.cluster_centers_, fixed.cluster_centers_)
    assert model.labels_.shape == y.shape
    assert model.get_params()["max_clusters"] == "auto"


def overlapping(n, seed):
    X, y = make_blobs(n, centers=[[0, 0], [2, 0]], cluster_std=1.0, random_state=seed)
    return X, y


def flipped(n, seed):
    X, y = make_moons(n, noise=0.1, random_state=seed)
    flip = np.random.default_rng(seed).random(n) < 0.2
    return X, np.where(flip, 1 - y, y)


def many_flipped(n, seed):
    X, y = make_blobs(n, centers=8, cluster_std=1.2, random_state=3)
    order = np.random.default_rng(seed).permutation(n)
    X, y = X[order], y[order] % 4
    rng = np.random.default_rng(seed)
    flip = rng.random(n) < 0.2
    return X, np.where(flip, rng.integers(0, 4, n), y)


@pytest.mark.study
@pytest.mark.parametrize(
    ("draw", "parameters"),
    [
        (draw, parameters)
        for draw in (overlapping, flipped, many_flipped)
        for parameters in (AUTO if draw is not many_flipped else AUTO[:2])  # or it takes long
    ],
)
def test_auto_does_not_fit_noise(draw, parameters):
    X, y = draw(1000 if draw is not many_flipped else 2000, 0)
    X_test, y_test = draw(20_000, 1)
    model = grown("auto", **parameters).fit(X, y)
    error = 1 - model.score(X_test, y_test)
    best = 1.0
    for k in model.path_.clusters[model.path_.clusters >= len(model.classes_)]:
        fixed = grown(int(k), **parameters).fit(X, y)
        best = min(best, 1 - fixed.score(X_test, y_test))
    assert error <= best + 0.01
    converged = grown(growth=parameters["growth"]).fit(X, y)
    assert model.n_clusters_ <= 0.1 * converged.n_clusters_


@pytest.mark.parametrize("parameters", AUTO)
def test_the_majority_class_alone_is_no_choice(parameters):
    """One cluster errs less than the first models with a prototype of every class."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    y = (np.hypot(*(X - rng.choice([-0.6, 0.6], 2)).T) < 0.3).astype(int)  # a small disc
    model = grown("auto", **parameters).fit(X, y)
    path = model.path_
    assert path.heldout_error[path.clusters == 1] < path.heldout_error[path.clusters == 2]
    assert model.n_clusters_ > 2
    assert 1 - model.score(X, y) < 0.5 * min(y.mean(), 1 - y.mean())


@pytest.mark.parametrize("parameters", AUTO)
def test_auto_goes_on_where_only_many_clusters_pay(parameters):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (1500, 2))  # a checkerboard of 25 cells
    y = np.floor(X).sum(axis=1).astype(int) % 2
    model = grown("auto", **parameters).fit(X, y)
    path = model.path_
    assert path.heldout_error[path.clusters < 8].min() > 0.3
    assert model.n_clusters_ > 20
    assert 1 - model.score(X, y) < 0.2


def test_auto_works_on_the_smallest_sets():
    for X, y in (
        ([[0.0]], [0]),
        ([[0.0], [1.0]], [0, 1]),
        ([[0.0], [0.0], [0.0]], [0, 1, 1]),
        ([[0.0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]),
    ):
        for parameters in AUTO:
            model = grown("auto", **parameters).fit(X, y)
            assert model.n_clusters_ >= 1
            assert len(model.predict(X)) == len(X)


def test_going_on_keeps_to_the_number_once_chosen(digits):
    X, y = digits
    model = grown("auto").fit(X[:500], y[:500])
    chosen = model.n_clusters_
    with pytest.warns(UserWarning, match="chosen on the first rows .* set max_clusters"):
        model.partial_fit(X[500:], y[500:])
    assert model.n_clusters_ <= chosen
    again = grown("auto", warm_start=True).fit(X[:500], y[:500])
    assert again.fit(X, y).n_clusters_ <= chosen


def test_the_path_is_drawn(digits):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    X, y = digits
    model = grown("auto").fit(X, y)
    display = model.path_.plot()
    labels = display.ax_.get_legend_handles_labels()[1]
    assert labels == ["training rows", "held-out rows"]
    drawn = display.ax_.lines[1].get_ydata()
    shown = model.path_.clusters > 1
    np.testing.assert_allclose(drawn, 100 * model.path_.heldout_error[shown])
    ax = Figure().subplots()
    from dkmeans.plots.path import PathDisplay

    other = PathDisplay.from_estimator(model, ax=ax)
    assert other.ax_ is ax
    assert f"{model.n_clusters_} clusters" in str(other.ax_.get_legend_handles_labels()[1])


def test_refined_points_are_filled_and_others_hollow(digits):
    pytest.importorskip("matplotlib")
    X, y = digits
    model = grown(20, refine="margin").fit(X, y)
    display = model.path_.plot()
    hollow, filled = display.ax_.lines
    assert [hollow.get_label(), filled.get_label()] == [
        "training rows, as grown",
        "training rows, refined",
    ]
    assert hollow.get_markerfacecolor() == "white"
    assert filled.get_markerfacecolor() == filled.get_color() == hollow.get_color()
    assert filled.get_xdata().tolist() == [20]
    assert hollow.get_xdata().tolist() == model.path_.clusters[1:-1].tolist()


@pytest.fixture
def searching_on_samples(monkeypatch):
    """Search the number of clusters on samples of few rows."""
    monkeypatch.setattr(auto, "SAMPLE_ROWS", 90)
    monkeypatch.setattr(auto, "GROWN_SAMPLE_ROWS", 90)
    monkeypatch.setattr(auto, "MIN_CLASS_ROWS", 2)


def sampled_rows(X, n_rows):
    """Find the rows of a sample, and the share of all rows: the smallest that is large enough.

    It is at most a half.
    """
    hashes = salted(sampling_hashes(X, np.abs(X).max(axis=0)), samples.SALT)
    for share in sorted({m * 2.0**-e for m in range(8, 17) for e in range(4, 12)}):
        chosen = hashes < share * 2.0**64
        if chosen.sum() >= n_rows or share == 0.5:
            return chosen, share


def test_a_search_on_a_sample_sees_neither_other_rows_nor_those_held_out(searching_on_samples):
    X, y = make_moons(500, noise=0.2, random_state=0)
    model = grown("auto", refine="margin").fit(X, y)
    hashes, *items = items_of(X, y, np.ones(len(y)), 2)
    part = hold_out(*items)
    held = (hashes >= part.lowest[y]) & (hashes <= part.highest[y])
    others = np.flatnonzero(~held)
    chosen, share = sampled_rows(X[others], 90)
    A, a = X[others[chosen]], y[others[chosen]]
    assert 90 <= len(A) < 120

    path, tried = model.path_, {}
    small = grown(10).fit(A, a).set_params(refine="margin", max_iter=auto.REFINE_PASSES)
    for row in path:
        k = row["clusters"]
        if 1 < k < small.n_clusters_ and k != model.n_clusters_:
            tried[k] = there = model.at(k)
            alike = small.at(k, A, a)
            np.testing.assert_array_equal(there.cluster_centers_, alike.cluster_centers_)
            assert row["training_error"] == pytest.approx(1 - alike.score(A, a))
            assert row["heldout_error"] == pytest.approx(1 - alike.score(X[held], y[held]))
            assert there.cluster_sizes_.sum() == pytest.approx(len(A) / share)
    # The number for all rows is larger than the choice, as far as that has more than one per class.
    (search,) = (row for row in model.history_ if row["phase"] == "search")
    ratio = len(X) / (share * len(others))
    assert model.n_clusters_ == 2 + round((search["clusters"] - 2) * ratio**0.5)
    assert search["clusters"] in tried
    fixed = grown(model.n_clusters_, refine="margin").fit(X, y)
    np.testing.assert_array_equal(model.cluster_centers_, fixed.cluster_centers_)


@pytest.mark.parametrize("wanted", [110, 200])
def test_a_search_without_refinement_has_a_sample_of_its_own(
    searching_on_samples, monkeypatch, wanted
):
    monkeypatch.setattr(auto, "GROWN_SAMPLE_ROWS", wanted)
    X, y = make_moons(500, noise=0.2, random_state=0)
    model = grown("auto").fit(X, y)
    hashes, *items = items_of(X, y, np.ones(len(y)), 2)
    part = hold_out(*items)
    held = (hashes >= part.lowest[y]) & (hashes <= part.highest[y])
    others = np.flatnonzero(~held)
    chosen, share = sampled_rows(X[others], wanted)
    assert (share == 0.5) == (wanted == 200)
    small = grown(10).fit(X[others[chosen]], y[others[chosen]])
    tried = [k for k in model.path_.clusters if 1 < k < 10 and k != model.n_clusters_]
    assert tried
    for k in tried:
        expected = small.at(k).cluster_centers_
        np.testing.assert_array_equal(model.at(k).cluster_centers_, expected)


@pytest.mark.parametrize(
    ("metric", "refine"),
    [
        ("euclidean", "margin"),
        ("euclidean", None),
        pytest.param("learned", "margin", marks=pytest.mark.study),
    ],
)
def test_nothing_but_values_matters_to_a_search_on_a_sample(searching_on_samples, metric, refine):
    def fitted(X, y, w=None, **engine):
        return grown("auto", refine=refine, metric=metric, max_iter=9, **engine).fit(X, y, w)

    X, y = flipped(400, 0)
    X = np.round(X, 2).astype(np.float32)
    parts = [(X[at : at + 150], y[at : at + 150]) for at in range(0, 400, 150)]
    rng = np.random.default_rng(0)
    order, w = rng.permutation(len(X)), rng.integers(0, 3, len(X)).astype(float)
    whole, weighted = fitted(X, y, n_threads=1), fitted(X, y, w)
    alike = [
        (whole, fitted(X[order], y[order], n_threads=2)),
        (whole, fitted(sp.csr_matrix(X), y)),
        (whole, fitted(X, y, np.full(len(y), 0.25))),
        (whole, fitted(lambda: parts, None, memory_mb=1)),
        (weighted, fitted(np.repeat(X, w.astype(int), 0), np.repeat(y, w.astype(int)))),
    ]
    for one, other in alike:
        np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
        np.testing.assert_array_equal(one.path_.heldout_error, other.path_.heldout_error)
        np.testing.assert_array_equal(one.path_.clusters, other.path_.clusters)


@pytest.mark.parametrize("refine", [None, "margin"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_conflicts_in_a_class_that_is_drawn_more_often(monkeypatch, class_weight, refine):
    """Weights of a sample are still whole: three copies give the same bits as a weight of 3."""
    draw_small_samples(monkeypatch, 80)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 3))
        y = ((X[:, 0] > 0) ^ (X[:, 1] > 0.3)).astype(int)
        y[:16] = 2
        X[:8] = X[200:208]  # identical to rows of other classes
        w = rng.integers(1, 4, 400)
        model = grown("auto", class_weight=class_weight, refine=refine, max_iter=20)
        one = clone(model).fit(X, y, w.astype(float))
        copies = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        assert len(one.path_) >= 3
        assert one.path_.clusters.tolist() == copies.path_.clusters.tolist()
        for k in one.path_.clusters.tolist():
            found, expected = (m.at(k).cluster_centers_ for m in (one, copies))
            np.testing.assert_array_equal(found, expected)


def test_the_least_weight_of_a_cluster_is_scaled_to_samples_of_samples():
    """Shares are those of all rows."""
    X, y = make_moons(60, noise=0.2, random_state=0)
    rules = Rules("size", 9, 9, min_weights=np.array([8.0, 4.0]))
    run = Run(rows_of(X, y, None, 2), rules)
    some = run.on_sample(Sample(run.rows, 0.5), run.rules)
    few = some.on_sample(Sample(run.rows, 0.125), some.rules)
    assert some.rules.min_weights.tolist() == [4.0, 2.0]
    assert few.rules.min_weights.tolist() == [1.0, 0.5]


def test_there_is_no_sample_of_most_rows():
    """With many small classes, of which all rows would be drawn."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    for n_classes, is_small in ((3, False), (30, True)):
        rows = rows_of(X, np.arange(600) % n_classes, None, n_classes)
        assert (samples.plan_sample(rows, 200, 16, 0.5) is None) == is_small
