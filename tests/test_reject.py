"""Rows of no known class: thresholds by an obvious oracle, and the promised rate kept exactly."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from scipy.stats import binom
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.exceptions import NotFittedError

from dkmeans import load
from dkmeans.questions import reject as rejection

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
IRIS, SPECIES = load_iris(return_X_y=True)
DIGITS, NUMBERS = load_digits(return_X_y=True)
RATES = ("0.04", "0.1", "0.25", "0.5", "0.9")


# --- oracles, slow and obvious ----------------------------------------------------------------


def naive_scores(model, X, references=None):
    """sqrt(D N) D / R by loops, D^2 / R without references, and the nearest prototypes."""
    scores, cells = [], []
    for row in np.asarray(X, dtype=np.float64):
        far = np.sqrt(((model.cluster_centers_ - row) ** 2).sum(axis=1))
        i = int(far.argmin())
        rivals = far[model.cluster_classes_ != model.cluster_classes_[i]]
        other = far[i]
        if references is not None:
            others = np.sqrt(((references - row) ** 2).sum(axis=1))
            other = others[others > 0].min()
        between = far[i] / rivals.min() if len(rivals) else 1.0
        scores.append(np.sqrt(far[i] * other) * between)
        cells.append(i)
    return np.array(scores), np.array(cells)


def merged(groups, least):
    """Put the smallest groups together until none is too small; groups are (index, rows)."""
    small = [g for g in groups if len(g[1]) < least]
    rest = sorted((g for g in groups if len(g[1]) >= least), key=lambda g: (len(g[1]), g[0]))
    if not small:
        return [[g] for g in groups]
    while sum(len(g[1]) for g in small) < least and rest:
        small.append(rest.pop(0))
    return [small, *([g] for g in rest)]


def partition(cells, classes, per, least):
    """Divide rows into groups by their cells, without regard to anything else."""
    n, k = len(cells), len(classes)
    if per == "all":
        return [list(range(n))]
    by_class = [
        (c, [r for r in range(n) if classes[cells[r]] == c]) for c in sorted(set(classes.tolist()))
    ]
    blocks = []
    for together in merged(by_class, least):
        rows = [r for _, mine in together for r in mine]
        if per == "class" or len(together) > 1:
            blocks.append(rows)
            continue
        ((c, _),) = together
        cells_of = [(i, [r for r in rows if cells[r] == i]) for i in range(k) if classes[i] == c]
        blocks += [[r for _, mine in block for r in mine] for block in merged(cells_of, least)]
    return blocks


def rejected(new, scores, cells, classes, rate, per):
    """Tell whether a row is rejected: whether its rank among its group and itself is that high."""
    rate = Fraction(rate)
    least = -(-rate.denominator // rate.numerator)
    everyone = np.append(cells, new[1])
    blocks = partition(everyone, classes, per, least)
    (mine,) = (block for block in blocks if len(everyone) - 1 in block)
    others = [scores[r] for r in mine if r < len(cells)]
    p_value = Fraction(1 + sum(s >= new[0] for s in others), 1 + len(others))
    return p_value <= rate


@st.composite
def held_out(draw):
    """Scores with ties, cells of few and many rows, classes with and without prototypes."""
    k = draw(st.integers(1, 6))
    classes = np.sort(draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)))
    n = draw(st.integers(1, 40))
    favourite = draw(st.integers(0, k - 1))  # else no cell would ever be large
    cell = st.integers(0, k - 1) | st.just(favourite)
    cells = np.array(draw(st.lists(cell, min_size=n, max_size=n)))
    scores = np.array(draw(st.lists(st.integers(0, 12), min_size=n, max_size=n)), dtype=float)
    return scores, cells, np.array(classes)


cases = given(data=held_out(), rate=st.sampled_from(RATES), per=st.sampled_from(rejection.LEVELS))


# --- the promise ------------------------------------------------------------------------------


class TestThresholds:
    @cases
    @settings(max_examples=strategies.examples(50))
    def test_they_reject_what_the_oracle_rejects(self, data, rate, per):
        scores, cells, classes = data
        if len(scores) < rejection.least_rows(float(rate)):
            return
        chosen = rejection.choose(scores, cells, classes, float(rate), per)
        for i in range(len(classes)):
            for score in (*np.unique(scores), -1.0, 100.0):
                expected = rejected((score, i), scores, cells, classes, rate, per)
                assert (score > chosen.values[i]) == expected

    @cases
    @settings(max_examples=strategies.examples(50))
    def test_whichever_row_is_the_new_one_no_more_are_rejected_than_promised(self, data, rate, per):
        """If all orders are equally likely, the promise is this count: no chance in the test."""
        scores, cells, classes = data
        n = len(scores)
        if n - 1 < rejection.least_rows(float(rate)):
            return
        bad = np.zeros(n, dtype=bool)
        for new in range(n):
            rest = np.arange(n) != new
            chosen = rejection.choose(scores[rest], cells[rest], classes, float(rate), per)
            bad[new] = scores[new] > chosen.values[cells[new]]
        assert bad.sum() <= Fraction(rate) * n
        least = rejection.least_rows(float(rate)) + 1
        for block in partition(cells, classes, per, least):  # and so for each group
            assert bad[block].sum() <= Fraction(rate) * len(block)
        if per == "all" and len(np.unique(scores)) == n:
            assert bad.sum() == Fraction(rate) * n // 1

    @pytest.mark.parametrize("per", ["class", "all"])
    def test_references_keep_the_promise(self, per):
        """Whichever row is the new one: few prototypes, so that only some rows are references."""
        model = grown(10).fit(DIGITS[:300], NUMBERS[:300])
        rows, n = DIGITS[300:520], 220
        bad = 0
        for new in range(n):
            model.set_rejection(np.delete(rows, new, axis=0), false_alarm_rate=0.1, per=per)
            bad += not model.is_known(rows[[new]])[0]
        assert 100 < len(model.rejection_.references) < 200
        assert 0 < bad <= 0.1 * n

    def test_on_held_out_digits_too(self):
        model = grown(20).fit(DIGITS[:500], NUMBERS[:500])
        scores, cells = rejection.score_strangeness(model._fitted, DIGITS[500:620], 1)
        codes = model.cluster_classes_
        for per in rejection.LEVELS:
            bad = 0
            for new in range(len(scores)):
                rest = np.arange(len(scores)) != new
                chosen = rejection.choose(scores[rest], cells[rest], codes, 0.05, per)
                bad += scores[new] > chosen.values[cells[new]]
            assert 0 < bad <= 0.05 * len(scores)
        chosen = rejection.choose(
            *rejection.score_strangeness(model._fitted, DIGITS[:500], 1), codes, 0.05, "all"
        )
        assert (scores > chosen.values[cells]).mean() > 0.1  # training rows do not serve

    @pytest.mark.parametrize("rate", [0.02, 0.2])
    @pytest.mark.parametrize("per", rejection.LEVELS)
    def test_new_rows_from_the_same_source_keep_the_rate(self, rate, per):
        X, y = make_blobs(14_600, centers=4, n_features=3, cluster_std=2.0, random_state=1)
        model = grown(9).fit(X[:1000], y[:1000])
        scores, cells = rejection.score_strangeness(model._fitted, X[1000:], 1)
        repeats = np.arange(len(scores)).reshape(-1, 68)  # each with rows of its own
        bad = np.zeros(len(repeats), dtype=bool)
        rates = np.zeros(len(repeats))
        for at, rows in enumerate(repeats):
            held, new = rows[:-1], rows[-1]
            chosen = rejection.choose(scores[held], cells[held], model.cluster_classes_, rate, per)
            bad[at] = scores[new] > chosen.values[cells[new]]
            rates[at] = chosen.rates[cells[new]]
        # So far out by chance once in a million times; the seeds make it never or always.
        assert bad.sum() <= binom.ppf(1 - 1e-6, len(bad), rate)
        assert bad.sum() >= binom.ppf(1e-6, len(bad), rates.min())
        assert (rates <= rate).all()

    def test_small_groups_share_a_threshold_and_it_is_told(self):
        classes = np.array([0, 0, 0, 1, 1, 2])
        cells = np.repeat(np.arange(6), [30, 5, 16, 9, 10, 3])
        scores = np.arange(len(cells), dtype=float)
        chosen = rejection.choose(scores, cells, classes, 0.05, "prototype")
        names = np.array(rejection.LEVELS)[chosen.levels].tolist()
        # 19 rows are enough. Class 2 has too few, and needs the smallest class beside it.
        assert names == ["prototype", "class", "class", "all", "all", "all"]
        assert chosen.rows.tolist() == [30, 21, 21, 22, 22, 22]
        assert chosen.values.tolist() == [29, 50, 50, 72, 72, 72]
        np.testing.assert_allclose(chosen.rates, 1 / (chosen.rows + 1))

    def test_a_rate_means_what_is_written(self):
        # In floating point 0.29 * 100 is less than 29.
        scores = np.arange(99.0)
        nobody = np.zeros(99, dtype=np.intp)
        chosen = rejection.choose(scores, nobody, np.zeros(1, dtype=np.intp), 0.29, "all")
        assert (scores > chosen.values[0]).sum() == 28  # of 99, and the new one is the 29th
        assert rejection.least_rows(0.05) == 19
        assert rejection.least_rows(0.07) == 14


# --- the methods ------------------------------------------------------------------------------


def halves(X, y):
    return X[::2], y[::2], X[1::2]


class TestMethods:
    @pytest.mark.parametrize("per", rejection.LEVELS)
    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_scores_are_those_of_loops(self, per, metric):
        X, y, held = halves(IRIS, SPECIES)
        model = grown(7, metric=metric).fit(X, y)
        model.set_rejection(held, false_alarm_rate=0.1, per=per)
        there = held, X + np.array([0.3, -0.3, 0.1, 0.2])
        if metric == "cosine":
            there = [Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in there]
        assert len(model.rejection_.references) > 40
        old, new = (naive_scores(model, Z, model.rejection_.references) for Z in there)
        np.testing.assert_allclose(
            model.unknown_score(there[1]), new[0] / model.rejection_.threshold[new[1]], rtol=1e-9
        )
        known = [
            not rejected((s, i), *old, model.cluster_classes_, "0.1", per)
            for s, i in zip(*new, strict=True)
        ]
        assert model.is_known(there[1]).tolist() == known
        assert 0 < sum(known) < len(known)

    def test_answers_agree(self):
        X, y, held = halves(IRIS, SPECIES)
        model = grown(7).fit(X, y).set_rejection(held, false_alarm_rate=0.2)
        known = model.is_known(held)
        assert (known == (model.unknown_score(held) <= 1)).all()
        assert np.isclose((~known).mean(), 0.2, atol=0.05)
        for per in rejection.LEVELS:  # thresholds are rows, so someone is just known
            model.set_rejection(held, false_alarm_rate=0.2, per=per)
            assert (model.unknown_score(held) == 1).any()
        table = model.rejection_
        assert table.id.tolist() == model.cluster_ids_.tolist()
        assert table.label.tolist() == model.cluster_classes_.tolist()
        assert "at most 19.74%" in repr(table)
        assert len(table.to_pandas()) == 7

    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_order_threads_and_sparsity_do_nothing(self, dtype, metric):
        X, y, held = halves(DIGITS[:600].astype(dtype), NUMBERS[:600])
        model = grown(24, metric=metric).fit(X, y)
        later = DIGITS[600:800].astype(dtype)
        expected = copy.copy(model).set_rejection(held, false_alarm_rate=0.1)
        scores = expected.unknown_score(later)
        assert scores.dtype == dtype
        ways = {
            "order": (held[::-1], later, {}),
            "threads": (held, later, {"n_threads": 1}),
            "sparse": (sp.csr_matrix(held), sp.csr_matrix(later), {}),
            "alone": (held, None, {}),
        }
        for name, (rows, asked, options) in ways.items():
            model.set_params(**options).set_rejection(rows, false_alarm_rate=0.1)
            for column in ("threshold", "rows", "rate", "per"):
                mine, theirs = (getattr(m.rejection_, column) for m in (model, expected))
                assert (mine == theirs).all(), (name, column)
            if asked is None:
                found = np.concatenate([model.unknown_score(row[None]) for row in later[:20]])
                assert (found == scores[:20]).all()
            else:
                assert (model.unknown_score(asked) == scores).all(), name

    def test_one_class(self):
        X = IRIS[SPECIES == 0]
        model = grown(1).fit(X[:25], np.zeros(25))
        model.set_rejection(X[25:], false_alarm_rate=0.1)
        assert model.rejection_.references is not None
        scores, _ = naive_scores(model, X[25:], model.rejection_.references)
        np.testing.assert_allclose(model.rejection_.threshold, np.sort(scores)[-2:-1])
        assert not model.is_known(IRIS[SPECIES == 2]).any()

    def test_a_threshold_of_zero(self):
        X, y = [[0.0], [4.0]], ["a", "b"]
        model = grown().fit(X, y).set_rejection(X, false_alarm_rate=0.4)
        scores = model.unknown_score([[0.0], [1e-9], [2.0], [4.0]])
        assert scores.tolist() == [0, np.finfo(float).max, np.finfo(float).max, 0]
        assert model.predict_or_reject([[0.0], [1.0]]).tolist() == ["a", None]

    def test_classes_without_rows_are_no_rivals(self):
        model = grown(2).fit(IRIS, np.where(SPECIES == 0, "a", "b"))
        model.drop(model.cluster_ids_[model.cluster_classes_ == "a"])
        model.set_rejection(IRIS)
        expected, _ = naive_scores(model, IRIS)
        np.testing.assert_allclose(rejection.score_strangeness(model._fitted, IRIS, 1)[0], expected)

    def test_dask_is_answered_lazily(self):
        da = pytest.importorskip("dask.array")
        X, y, held = halves(IRIS, SPECIES)
        model = grown(5).fit(X, y).set_rejection(held, false_alarm_rate=0.2)
        rows = da.from_array(IRIS, chunks=(40, 2))
        assert (model.unknown_score(rows).compute() == model.unknown_score(IRIS)).all()
        assert (model.is_known(rows).compute() == model.is_known(IRIS)).all()
        for marker in (None, -1):
            found = model.predict_or_reject(rows, rejected=marker).compute()
            assert found.tolist() == model.predict_or_reject(IRIS, marker).tolist()


class TestLabels:
    @pytest.mark.parametrize(
        ("labels", "marker", "kind"),
        [
            ([1, 2], None, "O"),
            ([1, 2], -1, "i"),
            ([1, 2], np.int8(-1), "i"),
            (np.array([1, 2], dtype=np.int8), 1000, "i"),
            (np.array([1, 2**63 + 1], dtype=np.uint64), -1, "O"),
            ([1.0, 2.0], -1, "f"),
            ([1.0, 2.0], np.nan, "f"),
            ([False, True], None, "O"),
            (["a", "b"], None, "O"),
            (["a", "b"], "none of the known", "U"),
            (np.array(["a", "b"], dtype=object), "none", "O"),
        ],
    )
    def test_the_marker_does_not_change_other_labels(self, labels, marker, kind):
        labels = np.asarray(labels)
        y = labels[(SPECIES > 0).astype(int)]
        model = grown(4).fit(IRIS[::2], y[::2])
        model.set_rejection(IRIS[1::2], false_alarm_rate=0.2)
        found, known = model.predict_or_reject(IRIS, marker), model.is_known(IRIS)
        assert found.dtype.kind == kind
        assert found[known].tolist() == model.predict(IRIS)[known].tolist()
        assert 0 < known.sum() < len(known)
        same = {repr(np.asarray(value).item()) for value in found[~known]}
        assert same == {repr(np.asarray(marker, dtype=found.dtype).item())}

    @pytest.mark.parametrize(
        ("labels", "marker", "message"),
        [
            ([1, 2], 2, "rejected=2 is one of the class labels"),
            ([1, 2], 1.0, "rejected=1.0 is not accepted"),
            ([1, 2], "none", "such as 1"),
            ([1, 2], True, "rejected=True is not accepted"),
            ([1.0, 2.0], 2, "one of the class labels"),
            ([False, True], -1, "it must be None"),
            (["a", "b"], "b", "one of the class labels"),
            (["a", "b"], -1, "such as 'a'"),
        ],
    )
    def test_markers_that_could_be_mistaken_are_refused(self, labels, marker, message):
        y = np.asarray(labels)[(SPECIES > 0).astype(int)]
        model = grown(4).fit(IRIS, y).set_rejection(IRIS)
        with pytest.raises(ValueError, match=message):
            model.predict_or_reject(IRIS, marker)


class TestKeeping:
    def model(self):
        X, y, held = halves(IRIS, SPECIES)
        return grown(8).fit(X, y).set_rejection(held, false_alarm_rate=0.1)

    def test_thresholds_come_back_from_files(self, tmp_path):
        model = self.model()
        model.save(tmp_path / "model.dkm")
        for again in (load(tmp_path / "model.dkm"), pickle.loads(pickle.dumps(model))):
            assert again.rejection_.columns == model.rejection_.columns
            assert list(again.rejection_) == list(model.rejection_)
            assert (again.unknown_score(IRIS) == model.unknown_score(IRIS)).all()
        model.fit(IRIS, SPECIES).save(tmp_path / "model.dkm")
        assert not hasattr(load(tmp_path / "model.dkm"), "rejection_")

    @pytest.mark.parametrize(
        "change",
        [
            lambda m: m.fit(IRIS, SPECIES),
            lambda m: m.partial_fit(IRIS, SPECIES),
            lambda m: m.drop(m.cluster_ids_[0]),
            lambda m: m.set_center(m.cluster_ids_[0], IRIS[0]),
            lambda m: m.at(5),
            clone,
        ],
        ids=["fit", "partial_fit", "drop", "set_center", "at", "clone"],
    )
    def test_other_prototypes_have_no_thresholds(self, change):
        changed = change(self.model())
        for method in (changed.is_known, changed.unknown_score, changed.predict_or_reject):
            with pytest.raises(NotFittedError):
                method(IRIS)

    def test_the_same_prototypes_keep_them(self):
        model = self.model()
        assert (model.at(8).is_known(IRIS) == model.is_known(IRIS)).all()

    def test_what_is_wrong_is_said_and_nothing_is_changed(self):
        model = self.model()
        before = model.rejection_
        wrong = {
            "false_alarm_rate=0 ": {"false_alarm_rate": 0},
            "false_alarm_rate=1.5": {"false_alarm_rate": 1.5},
            "false_alarm_rate='5%'": {"false_alarm_rate": "5%"},
            "false_alarm_rate=nan": {"false_alarm_rate": np.nan},
            "per='row'": {"per": "row"},
            r"per=\['class'\]": {"per": ["class"]},
            "needs at least 999 held-out rows, but X has 150": {"false_alarm_rate": 0.001},
        }
        for message, options in wrong.items():
            with pytest.raises(ValueError, match=message):
                model.set_rejection(IRIS, **options)
        with pytest.raises(ValueError, match="3 features"):
            model.set_rejection(IRIS[:, :3])
        with pytest.raises(ValueError, match="NaN"):
            model.set_rejection(np.full((30, 4), np.nan))
        assert model.rejection_ is before
        with pytest.raises(NotFittedError):
            grown().set_rejection(IRIS)
