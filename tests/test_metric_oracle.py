"""The learned metric against its oracle, step by step from the same state.

Rounding would grow from step to step, as small gradients are divided by their size. So each step
is compared by itself: the oracle takes the state of the package, and both make one step. What is
exact in the package is compared to the last bit; each tolerance is a bound of what is rounded.
"""

from contextlib import contextmanager

import naive_metric as naive
import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import NaiveBest, majority_labels
from parted import parts_of, rows_of

from dkmeans.geometry import Learned
from dkmeans.growth import first_metric, refine, start_metric
from dkmeans.growth import grow as grow_module
from dkmeans.growth.descent import Model
from dkmeans.growth.metric_descent import MetricDescent
from dkmeans.growth.robust_field import RobustField
from dkmeans.growth.rules import FirstMetric, Rules
from dkmeans.growth.run import Run
from dkmeans.passes.batch import Batch
from dkmeans.prototypes import Prototypes
from dkmeans.runners.local import LocalRunner

pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")


class Data:
    """A case, with its weights as copies of rows and what each copy counts."""

    def __init__(self, case, cut=0):
        self.X, self.y, self.cut = case.X, case.y, cut
        n, w = len(self.y), case.weights
        self.n_classes = int(self.y.max()) + 1
        self.times, self.factors, self.by_class = np.ones(n), np.ones(n), None
        by_class = case.parameters["class_weight"]
        if w is not None and (w == np.rint(w)).all():
            self.times = w
        elif w is not None:
            self.factors = w
        if isinstance(by_class, dict) and self.factors.max() == self.factors.min() == 1:
            self.by_class = np.array([by_class[c] for c in range(self.n_classes)])
            self.factors = self.by_class[self.y]
        self.given = sp.csr_array(self.X) if case.sparse else self.X
        self.weights = None
        if w is not None or self.by_class is not None:
            self.weights = self.times * self.factors
        self.active = np.flatnonzero(self.times * self.factors > 0)

    def metric(self, n_components=None):
        runner = LocalRunner(parts_of(self.given, self.y, self.weights, self.n_classes, [self.cut]))
        return start_metric.start_metric(runner, self.X.shape[1], n_components, self.by_class)

    def rows(self, geometry):
        rows = rows_of(self.given, self.y, self.weights, self.n_classes, [self.cut])
        rows.by_class = self.by_class
        rows.map_rows(geometry)
        return rows


@st.composite
def data(draw, max_rows=16):
    """Rows of all kinds; class factors may leave none with a weight."""
    found = Data(draw(strategies.cases(max_rows=max_rows)))
    assume(len(found.active))
    found.cut = draw(st.integers(0, len(found.y)))
    return found


def space_of(geometry):
    lists = (getattr(geometry, name).tolist() for name in ("shift", "scale", "center"))
    return naive.Space(*lists, geometry.components)


@settings(max_examples=strategies.examples(600), deadline=None)
@given(data=data(), n_components=st.none() | st.integers(1, 3))
def test_the_start_is_that_of_the_oracle(data, n_components):
    with patched(start__CLEAR_SCORE=0.5):  # no feature of so few rows is clearly relevant
        check_start(data, n_components)


def check_start(data, n_components):
    """Compare the metric that a fit starts from."""
    X, y = data.X[data.active], data.y[data.active]
    times, factors = data.times[data.active], data.factors[data.active]
    found = data.metric(n_components)
    for j, (low, high, mean, variance) in enumerate(naive.moments(X, times * factors)):
        # Values and their squares are rounded to 40 bits of their range, times the largest factor.
        has_zero = low <= 0 <= high
        reach = max(abs(low), abs(high)) if has_zero else high - low
        grain = 2.0**-38 * times.sum() * factors.max() / (times * factors).sum()
        assert abs(found.center[j] - float(mean)) <= grain * reach + 4e-16 * abs(mean)
        assert abs(found.scale[j] ** 2 - float(variance)) <= 4 * grain * reach**2
        assert (found.scale[j] == 0) >= (low == high)
        assert found.shift[j] == (0 if has_zero else found.center[j])
    # From here on, with the same means and deviations.
    space = space_of(found)
    assert found.rows(data.given).tobytes() == space.rows(data.X).tobytes()
    assert found.standardised(data.X).tolist() == [space.standard(x) for x in data.X]
    counted = naive.whole_weights(times.tolist(), factors.tolist())
    weights = naive.range_weights(X, found.scale.tolist())
    relevant = naive.relevances(space, X, y.tolist(), counted)
    weights = naive.rounded_columns([[w * r] for w, r in zip(weights, relevant, strict=True)])
    check_axes(found, weights, naive.covariance(space, X, counted), n_components)


def check_axes(found, weights, covariance, n_components):
    """Components are weights times the longest axes of weighted features."""
    rounding = 2.0**-24 * weights.sum()  # of the entries of a column
    covariance = covariance * weights * weights.T
    variances = np.linalg.eigvalsh(covariance)[::-1]
    least, p = start_metric.MIN_VARIANCE * variances[0], found.components.shape[1]
    assume(not ((variances > least / 8) & (variances < 8 * least)).any())  # a matter of rounding
    most = 256 if n_components is None else n_components  # there are few rows and features
    assert p == max(1, min(int((variances > least).sum()), most))
    if p == len(weights):
        np.testing.assert_allclose(found.components, np.diag(weights[:, 0]), atol=rounding)
        return
    assert not found.components[weights[:, 0] == 0].any()
    there = weights[:, 0] > 2 * rounding
    if not there.all():
        return  # features that hardly count are rounded away
    axes = found.components / weights
    rounding *= np.sqrt(len(weights)) / weights.min()
    assume(rounding < 1e-4)
    np.testing.assert_allclose(axes.T @ axes, np.eye(p), atol=8 * rounding)
    along = covariance @ axes - axes * variances[:p]
    np.testing.assert_allclose(along, 0, atol=16 * (rounding + 1e-12) * variances[0])
    assert (axes.max(axis=0) >= np.abs(axes).max(axis=0) - 2 * rounding).all()


# Refinement


def some_prototypes(rng, data, geometry, n_more):
    """Prototypes near rows of each class, and some more; none if only one class has weight."""
    chosen = [rng.choice(data.active[data.y[data.active] == c]) for c in set(data.y[data.active])]
    chosen += rng.choice(data.active, n_more).tolist()
    chosen = sorted(chosen, key=lambda r: data.y[r])
    Z = geometry.rows(data.X[chosen])
    centers = (Z + 0.3 * rng.normal(size=Z.shape)).astype(Z.dtype)
    return Prototypes(centers, data.y[chosen].astype(np.intp), np.arange(len(chosen)))


def moving(descent):
    """What the descent is made of, for the oracle."""
    prototypes, metric = descent._smoothed, descent._smoothed_metric
    return naive.Moving(
        descent._place.copy(),
        descent._good.copy(),
        descent._components.copy(),
        prototypes._mean.copy(),
        prototypes._size[:, 0].copy(),
        metric._mean.copy(),
        float(metric._size[0, 0]),
        prototypes._n_steps,
        descent._bound,
    )


def check_same(found, expected, scale):
    """Compare two states; a step is a ratio of sums over all entries, in any order."""
    for name in ("place", "good"):
        a, b = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * scale)
    norm = np.linalg.norm(expected.components)
    np.testing.assert_allclose(found.components, expected.components, rtol=0, atol=1e-12 * norm)
    for name in ("mean", "size", "metric_mean", "metric_size"):
        a, b = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14 * np.abs(b).max(initial=0.0))
    assert (found.n_steps, found.bound) == (expected.n_steps, expected.bound)


@settings(max_examples=strategies.examples(200), deadline=None)
@given(
    data=data(),
    seed=st.integers(0, 2**32 - 1),
    n_more=st.integers(0, 4),
    n_batches=st.integers(1, 3),
    shape=st.sampled_from(["start", "full", "narrow"]),
)
def test_steps_are_those_of_the_oracle(data, seed, n_more, n_batches, shape):
    rng = np.random.default_rng(seed)
    geometry = data.metric()
    if shape != "start":  # the start is diagonal, mostly
        d = len(geometry.scale)
        p = d if shape == "full" else max(1, d // 3)
        geometry = geometry.with_components(rng.normal(size=(d, p)))
    prototypes = some_prototypes(rng, data, geometry, n_more)
    assume(len(np.unique(prototypes.classes)) > 1)
    field = RobustField(data.rows(geometry), prototypes, learns_metric=True)
    assume(field.spread > 0)
    weights = data.times.tolist(), data.factors.tolist()
    about = prototypes.centers, prototypes.classes.tolist()
    oracle = naive.NaiveMetricRefinement(data.X, data.y, *weights, space_of(geometry), *about)
    assume(all(oracle.batch(b, n_batches, number) for b in range(n_batches) for number in (0, 1)))
    assert field.spread == pytest.approx(oracle.spread, rel=1e-6)
    variance = field.final_cost.variance
    extent = float(np.abs(oracle.X).max()) + float(np.abs(prototypes.centers).max())
    # Squared distances are rounded to a grid that follows from the largest, whatever its weight.
    grid = 2.0**-48 * oracle.d * extent**2
    assert variance == pytest.approx(oracle.variance, rel=1e-6, abs=1e-9 * field.spread + grid)
    oracle.spread, oracle.variance, oracle.least = field.spread, variance, field.final_cost.least
    oracle.first_step = naive.metric_descent.FIRST_STEP * np.sqrt(field.spread / oracle.d)

    heard = []
    gradient_of = field.metric_gradient

    def listening(*about):
        heard.append(gradient_of(*about))
        return heard[-1]

    field.metric_gradient = listening
    descent = MetricDescent(field, Model(prototypes, geometry))
    matrix = descent._decorrelation(np.eye(len(geometry.scale)))
    np.testing.assert_allclose(matrix, oracle.matrix, rtol=0, atol=1e-9)
    oracle.matrix = matrix
    now = moving(descent)
    start = oracle.beginning(prototypes.centers)
    assert now.bound == pytest.approx(start.bound, rel=1e-9, abs=1e-300)
    start.bound = now.bound
    check_same(now, start, extent)
    for number in range(2):
        won = set()
        for batch in range(n_batches):
            now = moving(descent)
            rows = oracle.batch(batch, n_batches, number)
            centers = oracle.centers(now)
            assert (descent.model.prototypes.centers == centers).all()
            slope = 10.0 + 7 * number
            expected = oracle.found(centers, rows, slope, now.bound)
            share = 1 - 0.3 * number
            step = descent.step(slope, share, Batch(batch, n_batches, number))
            found = heard.pop()
            check_gradient(found, expected, field, oracle, centers, rows)
            expected.gradient, expected.products = found.gradient, found.products
            expected.largest = found.largest
            after = oracle.step(now, expected, share)
            extent = max(extent, float(np.abs(oracle.X).max()))
            check_same(moving(descent), after, extent)
            assert set(np.flatnonzero(step.margins.wins)) == expected.wins
            won |= expected.wins
            # Rounding of the unrounded components may move a rounded one by a unit.
            space = space_of(descent.model.geometry)
            unit = 2.0**-23 * np.abs(space.components).sum(axis=0)
            assert (np.abs(space.components - oracle.space.components) <= unit).all()
            oracle.move_to(space)
        now = moving(descent)
        wins = np.isin(np.arange(len(now.place)), sorted(won))
        descent.revive(wins)
        check_same(moving(descent), naive.revived(now, won), extent)


def check_gradient(found, expected, field, oracle, centers, rows):
    """Compare what the rows of a batch tell."""
    assert (np.abs(found.gradient - expected.gradient) <= 4 * expected.noise).all()
    room = expected.slack + 1e-9 * np.abs(expected.products).max(initial=0.0)
    assert (np.abs(found.products - expected.products) <= room).all()
    assert found.largest == pytest.approx(expected.largest, rel=1e-6, abs=1e-300)
    assert found.low.tolist() == expected.low.tolist()
    assert found.high.tolist() == expected.high.tolist()
    cost = oracle.cost(centers, rows, naive.robust_field.FINAL_SLOPE)
    others = 1 - sum(oracle.w[r] for r in rows) / oracle.weight
    assert field.unpaid(found.paid) == pytest.approx(cost + others, rel=1e-8, abs=1e-9)


# The plan and the result


@settings(max_examples=strategies.examples(400), deadline=None)
@given(
    n_distinct=st.integers(1, 100_000),
    n_features=st.sampled_from([2, 256, 257]),
    step=st.sampled_from([0.1, 1.0]),
    least=st.integers(1, 6),
    max_iter=st.integers(1, 300),
    costs=st.lists(st.sampled_from([0.5, 0.4999, 0.499, 0.3, 0.2]), max_size=70),
)
def test_the_plan_is_that_of_the_oracle(n_distinct, n_features, step, least, max_iter, costs):
    ones = np.ones(n_features)
    geometry = Learned.of_features(ones, ones, ones, ones, ones[:, None])
    rules = Rules("size", 9, 9, geometry=geometry, metric_step=step, metric_batches=least)
    plan = refine._Plan.of(n_distinct, refine._Batches.for_metric(rules), max_iter)
    expected = naive.plan(n_distinct, n_features, step, least, max_iter)
    assert (plan.n_batches, plan.n_passes) == expected
    costs = sorted(costs, reverse=True)
    assert plan.is_over(costs) == naive.is_over(costs, plan.n_passes)


class Heard(MetricDescent):
    """A descent whose models are kept: those before each step, and the last one."""

    descents: tuple = ()

    def __init__(self, *about):
        super().__init__(*about)
        self.models = [self.model]
        self.slopes = []
        Heard.descents = (*Heard.descents, self)

    def step(self, slope, share, batch):
        self.slopes.append((slope, share, batch))
        return super().step(slope, share, batch)

    def revive(self, wins):
        super().revive(wins)
        self.models.append(self.model)


@contextmanager
def patched(**constants):
    """Change constants `module__NAME`, and listen to descents."""
    modules = {"refine": refine, "first": first_metric, "start": start_metric}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in constants.items():
            module, constant = name.split("__", 1)
            patch.setattr(modules[module], constant, value)
        patch.setattr(refine, "MetricDescent", Heard)
        patch.setattr(Heard, "descents", ())
        yield


@settings(max_examples=strategies.examples(400), deadline=None)
@given(
    data=data(max_rows=24),
    n_more=st.integers(0, 4),
    n_batches=st.integers(1, 2),
)
def test_the_result_is_that_of_the_oracle(data, n_more, n_batches):
    """The model with the least cost counts: at the start, at the end or, without batches, between.

    If a prototype of it wins no row, another model or place is taken, at a cost that is not above
    that of the best model whose prototypes all win some.
    """
    geometry = data.metric()
    # No prototypes could separate rows with the same image.
    w = (data.times * data.factors).tolist()
    data.y = np.array(majority_labels(geometry.rows(data.X), data.y.tolist(), w)[0])
    budget = len(np.unique(data.y[data.active])) + n_more
    small = {"BATCH_ROWS": 4, "MAX_BATCHES": n_batches, "MIN_BATCH_ROWS": 8, "PASSES": 6}
    with patched(**{f"refine__{name}": value for name, value in small.items()}):
        run = Run(data.rows(geometry), Rules("size", budget, 9, geometry=geometry, growth="best"))
        *_, state = grow_module.grow(run)
        steps = list(refine.refine_margins(run, state))
        if not Heard.descents:
            return  # one class, or all rows equal
        (descent,) = Heard.descents
        *passes, last = steps
        oracle = naive.NaiveMetricRefinement(
            data.X,
            data.y,
            data.times.tolist(),
            data.factors.tolist(),
            space_of(geometry),
            state.prototypes.centers,
            state.prototypes.classes.tolist(),
        )
        n_distinct = len({oracle.hashes[r] for r in oracle.active})
        n_features = data.X.shape[1]
        count, n_passes = naive.plan(n_distinct, n_features, 1.0, Rules.metric_batches, 9)
        costs = [step.cost for step in passes]
        assert naive.is_over(costs, n_passes)
        assert not any(naive.is_over(costs[:n], n_passes) for n in range(len(costs)))
        # Slopes increase, and steps decrease, evenly over all passes.
        for i, (slope, share, batch) in enumerate(descent.slopes):
            done = i / (count * n_passes)
            assert (batch.number, batch.count, batch.salt) == (i % count, count, i // count)
            assert slope == pytest.approx(refine.SLOPES[0] * (1 - done) + refine.SLOPES[1] * done)
            assert share == pytest.approx(1 - done)
    field = RobustField(data.rows(geometry), state.prototypes, learns_metric=True)
    oracle.variance, oracle.least = field.final_cost.variance, field.final_cost.least

    def seen(prototypes, geometry):
        oracle.move_to(space_of(geometry))
        centers = prototypes.centers.astype(float)
        wins = {winner for *_, winner in oracle.margins(centers, oracle.active).values()}
        cost = oracle.cost(centers, oracle.active, naive.robust_field.FINAL_SLOPE)
        return cost, len(wins) == len(centers)

    models = descent.models if count == 1 else [descent.models[0], descent.models[-1]]
    candidates = [seen(model.prototypes, model.geometry) for model in models]
    least = min(cost for cost, _ in candidates)
    sound = min(cost for cost, wins in candidates if wins)
    cost, wins = seen(last.prototypes, last.geometry)
    assert wins
    assert last.margin_cost == pytest.approx(cost, rel=1e-8, abs=1e-9)
    assert cost <= sound + 1e-9
    if least == sound:
        assert cost == pytest.approx(least, rel=1e-8, abs=1e-9)


# The short fit


SMALL = {
    "first__PROTOTYPES_PER_CLASS": 3,
    "first__STEP_PROTOTYPES_PER_CLASS": 2,
    "first__PASSES": 4,
    "first__STEP_PASSES": 3,
    "first__RANGE_PASSES": 5,
    "first__MIN_CHECKED_ROWS": 12,
    "first__MIN_ROWS": 8,
    "refine__BATCH_ROWS": 20,
    "refine__MIN_BATCH_ROWS": 8,
}


@settings(max_examples=strategies.examples(800), deadline=None)
@given(
    data=data(max_rows=24),
    budget=st.none() | st.integers(5, 9),
    n_components=st.none() | st.integers(1, 3),
    rows_per_entry=st.sampled_from([0.2, 1.0]),
    clear_ratio=st.sampled_from([0.3, 0.85, 3.0]),
    or_by_range=st.booleans(),
)
def test_the_short_fits_are_those_of_the_oracle(
    data, budget, n_components, rows_per_entry, clear_ratio, or_by_range
):
    geometry = data.metric()
    w = (data.times * data.factors).tolist()
    Z = space_of(geometry).rows(data.X)
    data.y = np.array(majority_labels(Z, data.y.tolist(), w)[0])
    about = FirstMetric(n_components, or_by_range=or_by_range)
    rules = Rules("size", budget, 30, geometry=geometry, first_metric=about)
    n_distinct = len({tuple(z) for z in Z[data.active].tolist()})
    shorts, refined = [], []  # what is grown first, and what it ends with

    def grown(run):
        before = run.rows.geometry
        *_, state = grow_module.grow(run)
        shorts.append((run.rules, before, state))
        return state

    def refining(run, state):
        refined.append((run.rules, refined_state(run, state)))
        return refined[-1][1]

    refined_state = first_metric.refined_state
    changes = SMALL | {"first__ROWS_PER_ENTRY": rows_per_entry, "first__refined_state": refining}
    changes |= {"first__CLEAR_RATIO": clear_ratio}
    with patched(**changes):
        # All classes count, even those of rows without weight.
        shape = geometry.components.shape
        expected, step, sees_all = naive.short_fits(
            n_distinct, shape, data.n_classes, budget, n_components, 30, or_by_range
        )
        found = first_metric.first_metric(Run(data.rows(geometry), rules), grown)
    assert len(shorts) == len(expected)
    if not shorts:
        assert (found.geometry, found.step) == (geometry, step)
        return
    checked = [] if sees_all else naive.unseen(Z[data.active])
    others, seen = data.active[checked], np.delete(data.active, checked).tolist()
    for one, (short, before, state) in zip(expected, shorts, strict=True):
        assert (short.max_clusters, short.max_iter) == (one.clusters, one.passes)
        images, labels = Z, data.y
        if one.purpose == "range":
            space = naive.by_range(space_of(geometry), data.X[seen])
            np.testing.assert_array_equal(before.components, space.components)
            images = space.rows(data.X)
            labels = np.array(majority_labels(images, data.y.tolist(), w)[0])
        else:
            assert before is geometry
        check_growth(state, images[seen], labels[seen], [w[r] for r in seen], one)
    plain = refined.pop() if len(expected) > 1 else None
    (learned_rules, learned), *small = refined
    assert (learned_rules.metric_step, learned_rules.metric_batches) == (1.0, 4)
    if expected[0].purpose == "step":
        ((small_rules, careful),) = small
        with patched(**changes):
            assert small_rules.metric_step == first_metric.SMALL_STEP
            costs = [
                naive.plain_cost(data, others, one, space_of(one.geometry))
                for one in (learned, careful)
            ]
            assume(abs(costs[0] - clear_ratio * costs[1]) > 1e-6)
            step = naive.chosen_step(*costs)
        learned = learned if step == 1 else careful
    if plain is not None:
        plain_rules, plain = plain
        assert (plain_rules.metric_step, plain_rules.metric_batches) == (0.0, 1)
        losses = [
            naive.errors(data, others, one, space_of(one.geometry)) for one in (plain, learned)
        ]
        if naive.prefers_range(Z, *losses):
            assert (found.geometry, found.step) == (plain.geometry, 0.0)
            return
    assert found.step == step
    if expected[0].purpose == "step":
        assert found.geometry is geometry
        return
    lengths, p, metric = naive.first_axes(
        learned.geometry.components, learned.prototypes.centers, n_components, expected[0]
    )
    components = found.geometry.components
    gap = lengths[p - 1] - lengths[p] if p < len(lengths) else lengths[0]
    assume(gap > 1e-3 * lengths[0])  # which axes there are is a matter of rounding otherwise
    assert components.shape[1] == p
    scale = np.abs(metric).max()
    np.testing.assert_allclose(components @ components.T, metric, atol=1e-5 * scale)
    if p < learned.geometry.components.shape[1]:
        assert (components[np.abs(components).argmax(axis=0), np.arange(p)] > 0).all()


def check_growth(state, Z, y, w, expected):
    """A short fit grows as any other does, in the space of the start."""
    classes, y = np.unique(y, return_inverse=True)
    oracle = NaiveBest(
        Z, y, w, repulsion="size", max_clusters=expected.clusters, max_iter=expected.passes
    )
    protos = oracle.fit().protos
    assert classes[[p.cls for p in protos]].tolist() == state.prototypes.classes.tolist()
    np.testing.assert_array_equal([p.center for p in protos], state.prototypes.centers)
