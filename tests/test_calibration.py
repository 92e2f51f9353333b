"""Calibrated probabilities and prediction sets: obvious oracles, and the promised coverage."""

import pickle
from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from models import grown
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from dkmeans import DiscriminativeKMedoids, load, to_onnx
from dkmeans.data.value_checks import InvalidParameterError
from dkmeans.questions.calibration import calibrate, count_items, fit_temperature
from dkmeans.questions.prediction import calibrated_probabilities, margins
from dkmeans.questions.prediction_sets import prediction_sets

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
IRIS, SPECIES = load_iris(return_X_y=True)
DIGITS, NUMBERS = load_digits(return_X_y=True)
FITTED = grown(20).fit(DIGITS[:500], NUMBERS[:500])


@st.composite
def held_out(draw):
    """Distances to classes, and true classes."""
    n, k = draw(st.integers(3, 30)), draw(st.integers(2, 4))
    values = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0])
    near = draw(arrays(np.float64, (n, k), elements=values))
    return near, draw(arrays(np.intp, n, elements=st.integers(0, k - 1)))


# --- oracles, slow and obvious ----------------------------------------------------------------


def softmax(scores):
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


def smoothed_loss(log_temperature, near, classes):
    """Log-loss of n rows as if two more, one of them wrong, were shared out among them."""
    found, total, part = margins(near), 0.0, 1 / (len(near) + 2)
    for m, y in zip(found, classes, strict=True):
        rival = max((c for c in range(len(m)) if c != y), key=lambda c: m[c])
        p = softmax(m / 2.0**log_temperature)
        with np.errstate(divide="ignore"):
            total -= (1 - part) * np.log(p[y]) + part * np.log(p[rival])
    return total


# --- the temperature --------------------------------------------------------------------------


class TestTemperature:
    @given(data=held_out())
    def test_no_other_one_has_less_log_loss(self, data):
        near, classes = data
        found = fit_temperature(near, classes)
        loss = smoothed_loss(np.log2(found), near, classes)
        best = minimize_scalar(
            smoothed_loss, bounds=(-8, 10), args=(near, classes), method="bounded"
        )
        assert loss <= best.fun * (1 + 1e-6) + 1e-6

    @given(data=held_out(), seed=st.integers(0, 99))
    def test_order_copies_and_units_of_weights_change_nothing(self, data, seed):
        near, classes = data
        rng = np.random.default_rng(seed)
        weights = rng.integers(1, 5, len(near)).astype(np.float64)
        hashes = np.arange(len(near), dtype=np.uint64)
        n_items = count_items(hashes, weights)
        found = fit_temperature(near, classes, weights, n_items)
        copies = rng.permutation(np.repeat(np.arange(len(near)), weights.astype(int)))
        n_copies = count_items(hashes[copies], None)
        assert n_copies == n_items
        assert fit_temperature(near[copies], classes[copies], None, n_copies) == found
        assert fit_temperature(near, classes, 8 * weights, n_items) == found

    def test_rows_without_errors_do_not_make_it_certain(self):
        near, classes = np.array([[1.0, 3.0], [3.0, 1.0]] * 10), np.array([0, 1] * 10)
        few = calibrated_probabilities(near, fit_temperature(near, classes))[0, 0]
        many = calibrated_probabilities(
            near, fit_temperature(np.tile(near, (20, 1)), np.tile(classes, 20))
        )[0, 0]
        assert few == pytest.approx(1 - 1 / 22)
        assert many == pytest.approx(1 - 1 / 402)

    def test_classes_without_a_prototype_do_not_count(self):
        near, classes = np.array([[1.0, 2.0], [2.0, 1.5], [2.0, 3.0]]), np.array([0, 1, 1])
        wider = np.insert(near, 1, np.inf, axis=1)
        found = fit_temperature(near, classes)
        assert fit_temperature(wider, classes * 2) == found
        assert (calibrated_probabilities(wider, found)[:, 1] == 0).all()
        assert fit_temperature(np.full((3, 1), 1.0), np.zeros(3, dtype=np.intp)) == 1.0

    def test_less_log_loss_on_new_rows(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, 1500)
        X = rng.normal(size=(1500, 30)) + y[:, None] * 0.3  # a quarter is on the wrong side
        model = grown(2).fit(X[:500], y[:500])
        shares, labels = model.predict_proba(X[1000:]), model.predict(X[1000:])
        model.calibrate(X[500:1000], y[500:1000])
        assert log_loss(y[1000:], model.predict_proba(X[1000:])) < log_loss(y[1000:], shares)
        np.testing.assert_array_equal(model.predict(X[1000:]), labels)


class TestProbabilities:
    @given(data=held_out(), power=st.integers(-8, 4))
    def test_softmax_of_margins(self, data, power):
        near, _ = data
        found = calibrated_probabilities(near, 2.0**power)
        expected = [softmax(m / 2.0**power) for m in margins(near)]
        np.testing.assert_allclose(found, expected, atol=1e-12)

    @given(data=strategies.labelled(), power=st.integers(-10, 4))
    @settings(max_examples=strategies.examples(20))
    def test_the_predicted_class_is_the_most_probable(self, data, power):
        X, y = data
        model = grown(max_clusters=len(np.unique(y)) + 2).fit(X, y)
        near = model._class_distances(X)
        p = calibrated_probabilities(near, 2.0**power)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)


# --- the number of clusters chosen on held-out rows ---------------------------------------------


class TestAuto:
    @pytest.mark.parametrize(
        "options", [{}, pytest.param({"metric": "learned"}, marks=pytest.mark.study)]
    )
    def test_threads_order_and_csr_change_nothing(self, options):
        rng = np.random.default_rng(0)
        X, y = IRIS[::2].astype(np.float32), SPECIES[::2]
        model = grown("auto", n_threads=1, **options).fit(X, y)
        assert 0 < model.temperature_ < 1
        order = rng.permutation(len(X))
        others = (
            grown("auto", n_threads=3, **options).fit(X[order], y[order]),
            grown("auto", **options).fit(sp.csr_matrix(X), y),
            grown("auto", **options).fit(X, y, sample_weight=np.full(len(y), 4.0)),
        )
        assert [other.temperature_ for other in others] == [model.temperature_] * 3

    def test_batches_and_copies_change_nothing(self):
        X, y = IRIS[::2], SPECIES[::2]
        weights = 1 + np.arange(len(y)) % 3
        model = grown("auto").fit(X, y, sample_weight=weights)
        copies = np.repeat(np.arange(len(y)), weights)
        again = grown("auto").fit(X[copies], y[copies])
        assert again.temperature_ == model.temperature_
        blocks = grown("auto").fit(
            lambda: ((X[i : i + 40], y[i : i + 40]) for i in range(0, len(y), 40))
        )
        assert blocks.temperature_ == grown("auto").fit(X, y).temperature_

    def test_without_held_out_rows_there_is_none(self):
        model = grown("auto").fit([[0.0], [1.0]], [0, 1])
        assert not hasattr(model, "temperature_")

    @pytest.mark.parametrize("above", [2, 3])
    def test_very_few_held_out_rows_say_nothing_of_others(self, above, tmp_path):
        X = (above < IRIS).astype(float)
        model = grown("auto").fit(X, SPECIES)
        assert not hasattr(model, "temperature_")
        same = grown(model.n_clusters_).fit(X, SPECIES).predict_proba(X)
        np.testing.assert_array_equal(model.predict_proba(X), same)
        model.save(tmp_path / "m.dkm")
        np.testing.assert_array_equal(load(tmp_path / "m.dkm").predict_proba(X), same)
        session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
        _, shares = session.run(["label", "probabilities"], {"features": X})
        np.testing.assert_allclose(shares, same, atol=1e-12)

    @pytest.mark.parametrize(("n_distinct", "is_fitted"), [(8, False), (14, True)])
    def test_tables_of_few_distinct_rows(self, n_distinct, is_fitted):
        rng = np.random.default_rng(0)
        cells = np.array([[i >> j & 1 for j in range(4)] for i in range(n_distinct)], dtype=float)
        which = np.arange(2000) % n_distinct
        y = (rng.random(2000) < 0.15) ^ (which % 2 == 0)  # half of the distinct rows each
        model = grown("auto").fit(cells[which], y)
        assert hasattr(model, "temperature_") == is_fitted

    def test_prediction_sets_need_other_rows(self):
        model = grown("auto").fit(IRIS, SPECIES)
        with pytest.raises(NotFittedError, match="call calibrate with held-out rows"):
            model.predict_set(IRIS)

    @pytest.mark.parametrize(
        "change",
        [
            lambda model: model.partial_fit(IRIS[:9], SPECIES[:9]),
            lambda model: model.drop(model.cluster_ids_[-1]),
            lambda model: model.at(3),
            lambda model: model.fit(IRIS, SPECIES),
        ],
    )
    def test_other_prototypes_are_not_calibrated(self, change):
        model = grown(5).fit(IRIS, SPECIES).calibrate(IRIS, SPECIES)
        assert not hasattr(change(model), "temperature_")


# --- prediction sets --------------------------------------------------------------------------


class TestSets:
    @given(
        data=held_out(),
        alpha=st.sampled_from(["0.05", "0.1", "0.25", "0.5"]),
        per=st.sampled_from(["all", "class"]),
    )
    @settings(max_examples=strategies.examples(40))
    def test_whichever_row_is_the_new_one_enough_sets_hold_its_class(self, data, alpha, per):
        """If all orders are equally likely, the promise is this count: no chance in the test."""
        near, classes = data
        n = len(classes)
        missed = np.zeros(n, dtype=bool)
        for new in range(n):
            rest = np.arange(n) != new
            scores = calibrate(near[rest], classes[rest]).scores
            sets = prediction_sets(near[[new]], scores, float(alpha), per)
            missed[new] = not sets[0, classes[new]]
        groups = (
            [np.arange(n)] if per == "all" else [np.flatnonzero(classes == c) for c in range(4)]
        )
        for group in groups:
            assert missed[group].sum() <= Fraction(alpha) * len(group)

    def test_coverage_on_digits(self):
        model = pickle.loads(pickle.dumps(FITTED)).calibrate(DIGITS[500:1000], NUMBERS[500:1000])
        new, codes = DIGITS[1000:], NUMBERS[1000:]
        sizes = []
        for alpha in (0.2, 0.1, 0.05, 0.01):
            sets = model.predict_set(new, alpha)
            assert (sets.shape, sets.dtype) == ((len(new), 10), bool)
            assert sets[np.arange(len(new)), codes].mean() > 1 - alpha - 0.05
            sizes.append(sets.sum(axis=1).mean())
        assert sizes == sorted(sizes)

    def test_a_class_with_too_few_rows_is_in_all_sets(self):
        some = (NUMBERS[500:1000] != 3) | (np.arange(500) < 60)
        model = pickle.loads(pickle.dumps(FITTED))
        model.calibrate(DIGITS[500:1000][some], NUMBERS[500:1000][some])
        sets = model.predict_set(DIGITS[1000:], 0.05, per="class")
        assert sets.all(axis=0).tolist() == [c == 3 for c in range(10)]

    @pytest.mark.parametrize("alpha", [0, 1, -0.1, "0.1", None, np.nan])
    def test_a_wrong_alpha_is_refused(self, alpha):
        with pytest.raises(InvalidParameterError, match=r"alpha=.*between 0 and 1"):
            FITTED.predict_set(DIGITS, alpha)

    def test_other_errors(self):
        with pytest.raises(InvalidParameterError, match="per='row'"):
            FITTED.predict_set(DIGITS, per="row")
        with pytest.raises(NotFittedError, match="call calibrate"):
            FITTED.predict_set(DIGITS)
        with pytest.raises(ValueError, match="label 11 in row 1"):
            FITTED.calibrate(DIGITS[:2], [1, 11])
        with pytest.raises(ValueError, match="y has 3 labels, but X has 2 rows"):
            FITTED.calibrate(DIGITS[:2], [1, 1, 2])
        with pytest.raises(NotFittedError):
            grown().calibrate(DIGITS, NUMBERS)


# --- files and other estimators ---------------------------------------------------------------


class TestFiles:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_model_files_and_onnx(self, tmp_path, dtype):
        X = IRIS.astype(dtype)
        names = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
        model = grown(6).fit(X[::2], names[::2]).calibrate(X[1::2], names[1::2])
        model.save(tmp_path / "model.dkm")
        again = load(tmp_path / "model.dkm")
        assert again.temperature_ == model.temperature_
        expected = model.predict_proba(X)
        assert again.predict_proba(X).tobytes() == expected.tobytes()
        for per in ("all", "class"):
            sets = model.predict_set(X, 0.1, per=per)
            np.testing.assert_array_equal(again.predict_set(X, 0.1, per=per), sets)
        session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
        label, shares = session.run(["label", "probabilities"], {"features": X})
        assert label.tolist() == model.predict(X).tolist()
        bound = (8 + 3 + 8 / model.temperature_) * np.finfo(dtype).eps
        np.testing.assert_allclose(shares, expected, rtol=0, atol=bound)

    def test_onnx_on_prototypes_ties_and_one_class(self):
        for y, rows in (([0, 0, 1, 1], [[0.0], [1.5], [3.0], [4.0]]), ([0] * 4, [[0.0], [9.0]])):
            X = np.array([[0.0], [0.0], [3.0], [3.0]])
            model = grown().fit(X, y).calibrate(X, y)
            session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
            _, shares = session.run(["label", "probabilities"], {"features": np.array(rows)})
            np.testing.assert_allclose(shares, model.predict_proba(np.array(rows)), atol=1e-12)

    def test_damaged_calibration_is_refused(self, tmp_path):
        from dkmeans.files import calibrated
        from dkmeans.files.refusal import RefusedError

        model = grown(6).fit(IRIS, SPECIES).calibrate(IRIS, SPECIES)
        arrays_, entry = calibrated.describe(model._fitted.calibration)
        for wrong in ({"temperature": 0.0}, {"temperature": "1"}, {}, [], {"temperature": np.nan}):
            with pytest.raises(RefusedError):
                calibrated.rebuild(dict(arrays_), wrong, 3)
        for name, values in arrays_.items():
            for bad in (values[:-1], values[::-1].copy(), values + 7, values.astype(np.int8)):
                with pytest.raises(RefusedError):
                    calibrated.rebuild(arrays_ | {name: bad}, entry, 3)

    def test_medoids(self, tmp_path):
        model = DiscriminativeKMedoids(6).fit(IRIS[::2], SPECIES[::2])
        before, labels = model.predict_proba(IRIS), model.predict(IRIS)
        model.calibrate(IRIS[1::2], SPECIES[1::2])
        assert (model.predict_proba(IRIS) != before).any()
        np.testing.assert_array_equal(model.predict(IRIS), labels)
        model.save(tmp_path / "model.dkm")
        again = load(tmp_path / "model.dkm")
        assert again.predict_proba(IRIS).tobytes() == model.predict_proba(IRIS).tobytes()
        sets = model.predict_set(IRIS, 0.05)
        np.testing.assert_array_equal(again.predict_set(IRIS, 0.05), sets)
        assert not hasattr(model.fit(IRIS, SPECIES), "temperature_")
