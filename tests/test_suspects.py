"""Rows whose label is in doubt: an obvious score as the oracle, what is found, what is refused."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from strategies import coarse, examples, growths, weighted

from dkmeans import DiscriminativeKMedoids, find_suspects, load
from dkmeans.plots import SuspectImagesDisplay
from dkmeans.questions.label_noise import count_wrong

REACHES = (1, 2, 4, 8, 16)
# Where labels are wrong, fits that converge have many clusters, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")


def naive_scores(X, y, cells, weights):
    """Compute the score of each row by its definition, one row after the other."""
    X, unit = X.astype(np.float64), weights.sum() / np.count_nonzero(weights)
    return np.array([naive_score(X, y, cells, weights / unit, i) for i in range(len(X))])


def naive_score(X, y, cells, weights, i):
    """Leave the row out, group the others by cell and class, and walk outwards."""
    rest = weights.copy()
    rest[i] = 0
    met = {True: [], False: []}
    for cell, label in sorted(set(zip(cells, y, strict=True))):
        rows = (cells == cell) & (y == label)
        if rest[rows].sum() > 0:
            mean = (rest[rows, None] * X[rows]).sum(axis=0) / rest[rows].sum()
            distance = np.sqrt(((mean - X[i]) ** 2).sum())
            met[label == y[i]].append((distance, rest[rows].sum()))
    most = min(sum(w for _, w in groups) for groups in met.values())
    terms = []
    for t in REACHES:
        own, other = (reach(sorted(met[key]), min(t, most)) for key in (True, False))
        if own == other:
            terms.append(0.5)
        elif np.isinf(own) or np.isinf(other):
            terms.append(float(own > other))
        else:
            terms.append(own**2 / (own**2 + other**2))
    return np.mean(terms)


def reach(groups, weight):
    """Distance at which groups, the nearest first, have some weight together."""
    total = 0.0
    for distance, heavy in groups:
        total += heavy
        if total >= weight - 1e-9:
            return distance
    return np.inf


def scores_of(suspects):
    """Scores in the order of rows."""
    scores = np.empty(len(suspects))
    scores[suspects.row] = suspects.score
    return scores


def blobs(n=40, seed=0):
    """Three classes well apart, and rows 0, n and 2n with the label of another class."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(c, 0.4, size=(n, 2)) for c in (0.0, 5.0, 10.0)])
    true = np.repeat([0, 1, 2], n)
    y = true.copy()
    y[[0, n, 2 * n]] = [2, 0, 1]
    return X, y, true


@settings(max_examples=examples(30))
@given(weighted(values=coarse.map(lambda v: v + v**2 / 7)), growths)
def test_score_is_its_definition(data, growth):
    X, y, w = data
    model = grown(growth=growth, n_threads=1).fit(X, y, w)
    found = scores_of(model.suspects(X, y, sample_weight=w, n=len(y)))
    expected = naive_scores(X, y, model.predict_cluster(X), w)
    # Where rows are equally far but for rounding, either may be met first.
    assert_allclose(found, expected, atol=1e-5)


def test_many_groups_and_light_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    w = rng.choice([0.1, 0.2, 5.0], 120)
    model = grown().fit(X, y)
    assert model.n_clusters_ > 60
    found = scores_of(model.suspects(X, y, sample_weight=w, n=120))
    assert_allclose(found, naive_scores(X, y, model.labels_, w), atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"max_clusters": 3}, {"growth": "paper"}])
@pytest.mark.parametrize("with_rows", [True, False])
def test_finds_wrong_labels(options, with_rows):
    X, y, true = blobs()
    model = grown(**options).fit(X, y)
    suspects = model.suspects(X, y) if with_rows else model.suspects()
    assert set(suspects.row) == {0, 40, 80}
    assert_array_equal(suspects.label, y[suspects.row])
    assert_array_equal(suspects.suggested, true[suspects.row])
    assert (np.diff(suspects.score) <= 0).all()
    assert (suspects.score > 0.8).all()
    reason = "small foreign cell" if not options.get("max_clusters") else "cell of another class"
    assert set(suspects.reason) == {reason}
    assert_array_equal(suspects.cluster, model.cluster_ids_[model.labels_[suspects.row]])


def test_more_precise_with_rows():
    X, true = (part[:900] for part in load_digits(return_X_y=True))
    rng = np.random.default_rng(0)
    y, wrong = true.copy(), rng.permutation(len(true))[:45]
    y[wrong] = (y[wrong] + rng.integers(1, 10, 45)) % 10
    model = grown().fit(X, y)
    precise, rough = (s.row for s in (model.suspects(X, y, n=45), model.suspects(n=45)))
    found = len(np.intersect1d(precise, wrong))
    assert found >= 43
    assert 36 <= len(np.intersect1d(rough, wrong)) < found


def test_conflicts_are_listed():
    X, y, _ = blobs()
    X[1] = X[2]
    y[2] = 1
    model = grown().fit(X, y)
    for suspects in (model.suspects(), model.suspects(X, y)):
        reasons = dict(zip(suspects.row.tolist(), suspects.reason, strict=True))
        assert reasons.pop(1) == reasons.pop(2) == "conflict"
        assert set(reasons) == {0, 40, 80}
    scores = scores_of(model.suspects(X, y, n=len(y)))
    assert scores[1] < 0.5 < scores[2]


def test_one_of_a_class_and_one_class():
    X = np.arange(6.0)[:, None]
    suspects = grown().fit(X, list("aaaaab")).suspects(X, list("aaaaab"))
    assert suspects[0] == {
        "row": 5,
        "label": "b",
        "suggested": "a",
        "cluster": 1,
        "score": 1.0,
        "reason": "only one of its class",
    }
    alone = grown().fit(X, [7] * 6)
    for suspects in (alone.suspects(X, [7] * 6, n=6), alone.suspects(n=6)):
        assert set(suspects.score) == {0.0}
        assert set(suspects.suggested) == {7}
        assert set(suspects.reason) == {"none"}


@pytest.mark.parametrize(("dtype", "metric"), [(np.float64, "euclidean"), (np.float32, "cosine")])
def test_what_changes_nothing(dtype, metric):
    X, y = load_iris(return_X_y=True)
    X, y = X.astype(dtype), y.copy()
    y[::17] = 1
    w = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(y))
    model = grown(metric=metric).fit(X, y, w)
    first = model.suspects(X, y, sample_weight=w, n=len(y))
    scores = scores_of(first)
    order = np.random.default_rng(1).permutation(len(y))
    shuffled = model.suspects(X[order], y[order], sample_weight=w[order], n=len(y))
    assert_array_equal(scores_of(shuffled), scores[order])
    heavier = model.suspects(X, y, sample_weight=4 * w, n=len(y))
    assert_array_equal(scores_of(heavier), scores)
    sparse = model.suspects(sp.csr_matrix(X), y, sample_weight=w, n=len(y))
    assert_allclose(scores_of(sparse), scores, atol=1e-12)
    model.n_threads = 1
    assert_array_equal(model.suspects(X, y, sample_weight=w, n=len(y)).score, first.score)
    names = np.array(["c", "b", "a"])[y]  # the other way round
    named = grown(metric=metric).fit(X, names, w)
    again = named.suspects(X, names, sample_weight=w, n=len(y))
    assert_allclose(scores_of(again), scores, atol=1e-12)
    assert_array_equal(again.label, names[again.row])
    own = scores_of(model.suspects(n=len(y)))
    named.n_threads = 3
    assert_allclose(scores_of(named.suspects(n=len(y))), own, atol=1e-12)
    assert X.flags.writeable
    assert model.suspects().row.dtype.kind == "i"


def test_class_weight_is_not_evidence():
    X, y, _ = blobs()
    scores = [
        scores_of(grown(class_weight=cw).fit(X, y).suspects(n=len(y)))
        for cw in (None, {0: 1.0, 1: 8.0, 2: 1.0})
    ]
    assert_allclose(scores[1], scores[0], atol=1e-9)


def test_rows_of_no_weight_are_judged_but_do_not_judge():
    X, y, true = blobs()
    w = np.ones(len(y))
    w[[0, 40, 80]] = 0
    model = grown().fit(X, y, w)
    for suspects in (model.suspects(), model.suspects(X, y, sample_weight=w)):
        assert set(suspects.row) == {0, 40, 80}
        assert_array_equal(suspects.suggested, true[suspects.row])
    kept = w > 0
    alone = model.suspects(X[kept], y[kept], n=int(kept.sum()))
    whole = scores_of(model.suspects(X, y, sample_weight=w, n=len(y)))[kept]
    assert_array_equal(scores_of(alone), whole)


def test_models_of_all_kinds(tmp_path):
    X, y, _ = blobs()
    model = grown().fit(X, y)
    expected = model.suspects()
    assert_array_equal(pickle.loads(pickle.dumps(model)).suspects().score, expected.score)
    assert_array_equal(model.at(model.n_clusters_).suspects().score, expected.score)
    model.save(tmp_path / "model.dkm")
    edited = grown().fit(X, y)
    edited.drop(edited.cluster_ids_[-1])
    on = grown().fit(X, y).partial_fit(X[:9], y[:9])
    for other in (load(tmp_path / "model.dkm"), model.at(3), edited, on):
        with pytest.raises(ValueError, match="pass the training rows"):
            other.suspects()
        assert set(other.suspects(X, y).row) == {0, 40, 80}


def test_fits_that_read_blocks_know_their_rows():
    X, y, _ = blobs()
    parts = [slice(0, 50), slice(50, 90), slice(90, 120)]
    read = grown().fit(lambda: ((X[p], y[p]) for p in parts))
    whole = grown().fit(X, y)
    assert repr(read.suspects()) == repr(whole.suspects())


def test_table():
    X, y, _ = blobs()
    suspects = grown().fit(X, y).suspects(X, y)
    table = suspects.to_pandas()
    assert list(table) == ["row", "label", "suggested", "cluster", "score", "reason"]
    assert repr(suspects).startswith("3 suspects; about 3 of 120 labels are wrong\n")
    nothing = grown().fit(X, y).suspects(n=0)
    assert len(nothing) == 0
    assert repr(nothing).startswith("0 suspects")


def test_bad_input():
    X, y, _ = blobs()
    model = grown().fit(X, y)
    with pytest.raises(ValueError, match="X is given: suspects needs the labels"):
        model.suspects(X)
    with pytest.raises(ValueError, match="X is None"):
        model.suspects(y=y)
    with pytest.raises(ValueError, match=r"n=-1 is not accepted"):
        model.suspects(n=-1)
    with pytest.raises(ValueError, match="y has 119 labels, but X has 120 rows"):
        model.suspects(X, y[1:])
    with pytest.raises(ValueError, match="label 9 in row 3"):
        model.suspects(X, np.where(np.arange(120) == 3, 9, y))
    with pytest.raises(ValueError, match="all must be numbers, or all must be text"):
        model.suspects(X, y.astype(str))
    with pytest.raises(ValueError, match="is expecting 2 features"):
        model.suspects(X[:, :1], y)
    with pytest.raises(ValueError, match="NaN in row 0"):
        model.suspects(np.where(np.arange(120)[:, None] == 0, np.nan, X), y)
    with pytest.raises(ValueError, match="fitted"):
        grown().suspects()


def test_images():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300].copy()
    y[:10] = (y[:10] + 5) % 10
    suspects = grown(20).fit(X, y).suspects(X, y)
    display = suspects.plot(X, image_shape=(8, 8), n=9)
    assert isinstance(display, SuspectImagesDisplay)
    assert len(display.ax_.images) == 9
    first = suspects[0]
    assert display.ax_.texts[0].get_text() == (
        f"row {first['row']}: {first['score']:.2f}\n{first['label']} → {first['suggested']}?"
    )
    assert_array_equal(display.images[0], X[first["row"]].reshape(8, 8))
    assert display.ax_.get_title().startswith("The first 9 of ")
    with pytest.raises(ValueError, match="has 63 pixels, but there are 64 features"):
        suspects.plot(X, image_shape=(9, 7))
    with pytest.raises(ValueError, match="must be"):
        suspects.plot(X, image_shape=(64,))


# --- how many labels are wrong ------------------------------------------------------------------


def naive_count(classes, majority, shares, n_classes):
    """Count the labels amid the deepest rows of each class, row by row."""
    totals = []
    for size in range(majority.shape[1]):
        wrong = [0.0] * n_classes
        for j in range(n_classes):
            here = [r for r in range(len(classes)) if majority[r, size] == j]
            ranked = sorted((round(shares[r, size], 9) for r in here), reverse=True)
            if not here:
                continue
            least = ranked[: max(25, int(np.ceil(0.15 * len(here))))][-1]
            deep = [r for r in here if round(shares[r, size], 9) >= max(least, 0.5)]
            for r in deep:
                if classes[r] != j:
                    wrong[classes[r]] += len(here) / len(deep)
        counts = [sum(classes == c) for c in range(n_classes)]
        totals.append(np.minimum(wrong, counts))
    return min(totals, key=sum)


@settings(max_examples=examples(30))
@given(st.integers(0, 10**6))
def test_count_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 120), rng.integers(1, 4)
    classes, majority = rng.integers(0, k, n), rng.integers(0, k, (n, 2))
    shares = rng.integers(0, 9, (n, 2)) / 8
    found = count_wrong(classes, majority, shares, k)
    assert_allclose(found, naive_count(classes, majority, shares, k))
    order = rng.permutation(n)
    assert_allclose(count_wrong(classes[order], majority[order], shares[order], k), found)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
def test_as_many_are_listed_as_are_wrong(share):
    X, true = (part[:900] for part in load_digits(return_X_y=True))
    rng = np.random.default_rng(1)
    wrong = rng.random(900) < share
    y = np.where(wrong, (true + rng.integers(1, 10, 900)) % 10, true)
    suspects = grown(60).fit(X, y).suspects(X, y)
    assert abs(len(suspects) - wrong.sum()) <= 10 + 0.2 * wrong.sum()
    assert wrong[suspects.row].sum() >= 0.7 * wrong.sum()
    noise = suspects.noise
    assert_array_equal(noise.rows, np.bincount(y))
    assert abs(noise.wrong.sum() - wrong.sum()) <= 10 + 0.2 * wrong.sum()
    assert repr(noise).startswith(f"About {noise.wrong.sum():.0f} of 900 labels are wrong")


def test_few_are_listed_where_classes_overlap():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 400)
    X = rng.normal(size=(800, 2)) + 1.3 * np.outer(y, [1, 0])  # a quarter is on the wrong side
    suspects = grown(growth="paper").fit(X, y).suspects(X, y)
    assert len(suspects) < 80
    assert (suspects.score > 0.5).all()


def test_frames_keep_their_index():
    pd = pytest.importorskip("pandas")
    X, y, _ = blobs()
    names = [f"r{i}" for i in range(len(y))]
    frame, labels = pd.DataFrame(X, index=names, columns=["a", "b"]), pd.Series(y, index=names)
    model = grown().fit(frame, labels)
    expected = {"r0", "r40", "r80"}
    assert set(model.suspects(frame, labels).index) == expected
    assert set(model.suspects(frame, y).to_frame().index) == expected
    medoids = DiscriminativeKMedoids(4).fit(frame, labels)
    assert set(medoids.suspects(frame, labels).to_frame().index) == expected
    assert model.suspects().index is None


class TestProbabilities:
    def test_any_classifier(self):
        rng = np.random.default_rng(2)
        some = rng.permutation(1797)[:900]
        X, true = (part[some] for part in load_digits(return_X_y=True))
        wrong = rng.random(900) < 0.1
        y = np.where(wrong, (true + rng.integers(1, 10, 900)) % 10, true)
        shares = cross_val_predict(KNeighborsClassifier(10), X, y, cv=3, method="predict_proba")
        suspects = find_suspects(shares, y)
        assert wrong[suspects.row].mean() > 0.8
        assert wrong[suspects.row].sum() > 0.8 * wrong.sum()
        assert suspects.columns == ("row", "label", "suggested", "score", "reason")
        assert len(find_suspects(shares, y, n=7)) == 7

    def test_scores_and_names(self):
        shares = [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.0, 1.0, 0.0]]
        found = find_suspects(shares, ["c", "c", "b"], classes=["a", "b", "c"], n=3)
        assert found.row.tolist() == [0, 1, 2]
        assert_allclose(found.score, [0.75, 0.3, 0])
        assert found.suggested.tolist() == ["a", "a", "a"]
        assert found.reason.tolist() == ["another class is likelier", "none", "none"]

    def test_bad_input(self):
        with pytest.raises(ValueError, match=r"shape \(2, 3\), but there are 2 classes"):
            find_suspects(np.ones((2, 3)), [0, 1])
        with pytest.raises(ValueError, match="negative, infinite or NaN"):
            find_suspects([[0.5, np.nan], [1, 0]], [0, 1])
        with pytest.raises(ValueError, match="sorted"):
            find_suspects([[0.5, 0.5]], ["a"], classes=["b", "a"])
        with pytest.raises(ValueError, match="y has 1 labels, but X has 2 rows"):
            find_suspects([[0.5, 0.5], [1, 0]], ["a"], classes=["a", "b"])
        with pytest.raises(ValueError, match="n=-1"):
            find_suspects([[1.0]], ["a"], n=-1)
