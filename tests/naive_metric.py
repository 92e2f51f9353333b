"""The learned metric, slow and obvious: its start, its gradient and steps, and its short fit.

Constants are those of the package, so that a change of one needs no change here; rules are not.
Rows of weight 0 are left out by whoever calls.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import scipy.linalg
from naive import (
    NaiveRefinement,
    distance,
    margins,
    relative,
    robust_cost,
    sampling_hash,
    scramble,
    squared,
)

from dkmeans.exact.grids import TERM_BITS
from dkmeans.growth import (
    decorrelation,
    descent,
    first_metric,
    metric_descent,
    refine,
    robust_field,
    start_metric,
)
from dkmeans.growth.held_out import ROUNDING_TOLERANCE
from dkmeans.kernels.projection import COLUMN_BITS, GRID, MIN_UNIT, SATURATION
from dkmeans.passes import features, metric_gradient

GOLDEN = 0x9E3779B97F4A7C15


# What rows are compared by


@dataclass
class Space:
    """Standardised and projected rows."""

    shift: list
    scale: list
    center: list
    components: np.ndarray  # shape (d, p), rounded

    def standard(self, x):
        """In standard deviations, on a grid."""
        found = []
        for v, shift, scale in zip(x, self.shift, self.scale, strict=True):
            units = (float(v) - shift) * (1 / GRID / scale) if scale > 0 else 0.0
            most = SATURATION / GRID
            found.append(round(min(max(units, -most), most)) * GRID)
        return found

    def image(self, x):
        """Sums of products over the features, in order; in float64 they are exact within 2**10."""
        found = [0.0] * self.components.shape[1]
        for value, row in zip(self.standard(x), self.components.tolist(), strict=True):
            found = [total + value * a for total, a in zip(found, row, strict=True)]
        return found

    def rows(self, X):
        return np.array([self.image(x) for x in X]).astype(X.dtype) + X.dtype.type(0)

    def with_components(self, components):
        counting = [
            [float(v) if scale > 0 else 0.0 for v in row]
            for row, scale in zip(components, self.scale, strict=True)
        ]
        return replace(self, components=rounded_columns(counting))


def rounded_columns(components):
    """To so many bits of the sum of the magnitudes of each column."""
    columns = []
    for column in zip(*components, strict=True):
        total = 0.0
        for v in column:
            total += abs(v)
        unit = math.ldexp(1.0, max(math.frexp(total)[1] - COLUMN_BITS, MIN_UNIT))
        columns.append([round(v / unit) * unit for v in column])
    return np.array(columns).T


# The start


def moments(X, w):
    """Exact mean and variance of each column; a range with 0 is not shifted."""
    total, found = sum(map(Fraction, w)), []
    for column in X.T:
        values = [Fraction(float(v)) for v in column]
        mean = sum(Fraction(a) * v for a, v in zip(w, values, strict=True)) / total
        variance = sum(Fraction(a) * (v - mean) ** 2 for a, v in zip(w, values, strict=True))
        low, high = float(min(values)), float(max(values))
        found.append((low, high, mean, variance / total))
    return found


def range_weights(X, scale):
    """Features that hardly vary within their range count less."""
    weights = []
    for column, deviation in zip(X.T, scale, strict=True):
        width = float(column.max()) - float(column.min())
        weights.append(math.sqrt(deviation / width) if width > 0 else 0.0)
    return rounded_columns([[v] for v in weights])[:, 0].tolist()


def whole_weights(times, factors):
    """Copies of each row, times its factor on a coarse grid."""
    unit = max(factors) * 2.0**-start_metric.FACTOR_BITS
    return [int(t * round(f / unit)) for t, f in zip(times, factors, strict=True)]


def bins(space, X):
    """Bin of each value; equally likely ones if features are Gaussian."""
    quantiles = [NormalDist().inv_cdf(b / start_metric.N_BINS) for b in range(1, 8)]
    middle = space.standard(space.center)
    return [
        [sum(v >= m + q for q in quantiles) for v, m in zip(space.standard(x), middle, strict=True)]
        for x in X
    ]


def relevances(space, X, y, weights):
    """Chi-squared statistics of bins and classes, above chance."""
    total, n_distinct = sum(weights), len({tuple(map(float, x)) for x in X})
    scores = []
    for column in zip(*bins(space, X), strict=True):
        seen, of_bin, of_class = {}, {}, {}
        for b, c, w in zip(column, y, weights, strict=True):
            seen[b, c] = seen.get((b, c), 0) + w
            of_bin[b] = of_bin.get(b, 0) + w
            of_class[c] = of_class.get(c, 0) + w
        of_bin, of_class = ({k: v for k, v in d.items() if v} for d in (of_bin, of_class))
        chi = 0
        for b in of_bin:
            for c in of_class:
                expected = Fraction(of_bin[b] * of_class[c], total**2)
                chi += (Fraction(seen.get((b, c), 0), total) - expected) ** 2 / expected
        freedom = (len(of_bin) - 1) * (len(of_class) - 1)
        excess = n_distinct * float(chi) - freedom
        scores.append(excess / math.sqrt(2 * freedom) if freedom else 0.0)
    least, clear = start_metric.LEAST_RELEVANCE, start_metric.CLEAR_SCORE
    found = [min(max(score / clear, least), 1.0) for score in scores]
    return [v / max(found) for v in found]


def covariance(space, X, weights):
    """Exact covariance of rounded features, as floats."""
    most, grid = features.MAX_DEVIATIONS, features.PRODUCT_GRID
    rows = [
        [round(min(max(v, -most), most) / grid) * Fraction(grid) for v in space.standard(x)]
        for x in X
    ]
    total, d = sum(weights), X.shape[1]

    def mean(values):
        return sum(w * v for w, v in zip(weights, values, strict=True)) / Fraction(total)

    means = [mean(column) for column in zip(*rows, strict=True)]
    return np.array(
        [
            [float(mean([r[i] * r[j] for r in rows]) - means[i] * means[j]) for j in range(d)]
            for i in range(d)
        ]
    )


# The descent


def decorrelated(covariance):
    """Power of the covariance, in mean variances and with a ridge."""
    varying = [v for v in np.diag(covariance) if v > 0]
    if not varying:
        return np.eye(len(covariance))
    ratios = covariance / (sum(varying) / len(varying))
    ridge = decorrelation.RIDGE * np.eye(len(covariance))
    return np.real(scipy.linalg.fractional_matrix_power(ratios + ridge, decorrelation.POWER))


@dataclass
class Found:
    """What the rows of a batch tell."""

    gradient: np.ndarray  # with respect to prototypes
    noise: np.ndarray  # what rounding may change of it, shape (k, p)
    products: np.ndarray  # with respect to the projection, and to a shift of all rows: (d + 1, p)
    slack: np.ndarray  # what rounding may change of them
    largest: float
    low: np.ndarray
    high: np.ndarray
    wins: set


@dataclass
class Moving:
    """Prototypes and projection during the descent, and what their steps are made of.

    Places are relative to the image of the mean row.
    """

    place: np.ndarray
    good: np.ndarray
    components: np.ndarray  # not rounded
    mean: np.ndarray
    size: np.ndarray
    metric_mean: np.ndarray
    metric_size: float
    n_steps: int
    bound: float


class NaiveMetricRefinement(NaiveRefinement):
    """Descent on the robust margin cost, for prototypes and projection together.

    `times` and `factors` are the weights: copies of a row, and what each of them counts.
    """

    def __init__(self, X, y, times, factors, space, centers, classes):
        self.raw, self.space, self.start = X, space, space
        w = [float(t * f) for t, f in zip(times, factors, strict=True)]
        self.times, self.factors = times, factors
        n_more = space.components.size
        Z = space.rows(X)
        super().__init__(Z, y, w, centers, classes, None, X.dtype.type, n_more)
        active = Z[self.active]
        self.largest = np.abs(active).max(axis=0).tolist()
        standard = [abs(v) for r in self.active for v in space.standard(X[r])]
        self.standard_reach = max(standard)
        self.norm = math.sqrt(math.fsum(v * v for v in space.components.ravel()))
        self.first_step = metric_descent.FIRST_STEP * math.sqrt(self.spread / self.d)
        weights = whole_weights([times[r] for r in self.active], [factors[r] for r in self.active])
        self.matrix = decorrelated(covariance(space, X[self.active], weights))
        # Batches are drawn in the space of the start, and stay when it changes.
        self.hashes = [sampling_hash(z, self.largest, 0) for z in Z]

    @property
    def metric_step(self):
        """Relative to the entries of the projection of decorrelated features."""
        entries = np.linalg.solve(self.matrix, self.start.components).ravel()
        return metric_descent.FIRST_METRIC_STEP * math.sqrt(np.mean(entries**2))

    def batch(self, number, n_batches, salt):
        """Rows of a batch; the salt is the number of the pass."""
        drawn = [scramble(h ^ (salt + 1) * GOLDEN % 2**64) % n_batches for h in self.hashes]
        return [r for r in self.active if drawn[r] == number]

    def move_to(self, space):
        self.space, self.X = space, space.rows(self.raw)

    def pulls(self, centers, rows, slope):
        """Yield each row with its prototypes, and the derivatives of its cost."""
        tau = math.pi / 2 * self.variance * slope**2
        for r, (own, rival, near, far, winner) in self.margins(centers, rows).items():
            gap = squared(centers[own], centers[rival])
            f = robust_cost(near, far, gap, slope, self.variance, self.d, self.least)
            sums = max(near + far + 2 * self.d * self.variance, self.least)
            root = math.sqrt(sums**2 + tau * gap)
            steep, tilt = slope * f * (1 - f), (near - far) * sums / root**3
            yield r, own, rival, winner, steep * (1 / root - tilt), -steep * (1 / root + tilt), sums

    def bound_of_rows(self, centers):
        """Bound on the gradients of rows that the descent begins with."""
        found = self.margins(centers, self.active)
        return max(
            (
                self.factors[r]
                * (abs(a) * math.sqrt(found[r][2]) + abs(b) * math.sqrt(found[r][3]))
                for r, *_, a, b, _ in self.pulls(centers, self.active, robust_field.FINAL_SLOPE)
            ),
            default=0.0,
        )

    def found(self, centers, rows, slope, bound):
        k, p, d = len(centers), self.d, self.raw.shape[1]
        top = 2.0**metric_gradient.VALUE_BITS
        most = metric_gradient.MAX_DEVIATIONS
        products, slack = np.zeros((d + 1, p)), np.zeros((d + 1, p))
        strength, largest, wins, seen = np.zeros(k), 0.0, set(), []
        for r, own, rival, winner, by_near, by_far, sums in self.pulls(centers, rows, slope):
            z = self.X[r].astype(float)
            g = by_near * (z - centers[own]) + by_far * (z - centers[rival])
            g = g * self.factors[r]
            largest = max(largest, np.abs(g).max())
            scaled = g * (top / bound if bound else 0.0)
            lower, middle, upper = (
                np.rint(np.clip(scaled + step, -top, top)) for step in (-1e-6, 0.0, 1e-6)
            )
            x = np.array([min(max(v, -most), most) for v in self.space.standard(self.raw[r])])
            x = np.append(np.rint(x * (top / most)), 1.0)
            products += self.times[r] * np.outer(x, middle)
            slack += self.times[r] * np.outer(np.abs(x), upper - lower)
            for i, pull in ((own, by_near), (rival, by_far)):
                strength[i] += self.w[r] * abs(pull) * math.sqrt(sums) / self.weight
            wins.add(winner)
            seen.append(z)
        unit = most * bound / top**2 / self.weight
        floor = max(2 * p * self.variance, self.least)
        grain = 2.0 ** (1 - TERM_BITS) * slope / (2 * floor)
        reach = self.standard_reach * np.abs(self.space.components).sum(axis=0)
        noise = robust_field.GRADIENT_NOISE * strength[:, None] + grain * reach
        gap_pull = slope * math.pi / 2 * self.variance * slope**2 / (8 * floor**2)
        noise = noise + 2.0 ** (1 - TERM_BITS) * gap_pull * np.ptp(centers, axis=0)
        return Found(
            self.gradient(centers, rows, slope),
            noise,
            products * unit,
            slack * unit,
            largest,
            np.min(seen, axis=0, initial=np.inf),
            np.max(seen, axis=0, initial=-np.inf),
            wins,
        )

    def beginning(self, centers):
        place = np.array(centers, dtype=float) - self.mean_image()
        zeros = np.zeros_like(self.space.components)
        return Moving(
            place,
            place.copy(),
            self.space.components.copy(),
            np.zeros_like(place),
            np.zeros(len(place)),
            zeros,
            0.0,
            0,
            self.bound_of_rows(centers),
        )

    def mean_image(self):
        return np.array(self.space.image(self.space.center))

    def centers(self, now):
        stored = (now.place + self.mean_image()).astype(self.dtype)
        return stored.astype(float)

    def step(self, now, found, share):
        """Return what a step makes of prototypes and projection; moves to its space."""
        n_steps = now.n_steps + 1
        mean, size, steps = smoothed(
            now.mean, now.size, found.gradient, np.mean(found.gradient**2, axis=1), n_steps
        )
        good, winners = now.good.copy(), sorted(found.wins)
        good[winners] = now.place[winners]
        offset, width = self.mean_image(), found.high - found.low
        center = (found.low + found.high) / 2 - offset
        place = now.place - share * self.first_step * steps
        place = np.minimum(np.maximum(place, center - width), center + width)
        # Features are not shifted where that would make sparse rows dense; as if they were:
        middle = np.array(self.space.standard(self.space.center))
        gradient = self.matrix @ (found.products[:-1] - middle[:, None] * found.products[-1])
        metric_mean, metric_size, metric_steps = smoothed(
            now.metric_mean, now.metric_size, gradient, np.mean(gradient**2), n_steps
        )
        moved = now.components - share * self.metric_step * self.matrix @ metric_steps
        ratio = self.norm / math.sqrt(math.fsum(v * v for v in moved.ravel()))
        self.move_to(self.space.with_components((moved * ratio).tolist()))
        bound = metric_descent.BOUND_RATIO * found.largest if found.largest > 0 else now.bound
        return Moving(
            place * ratio,
            good * ratio,
            moved * ratio,
            mean,
            size,
            metric_mean,
            metric_size,
            n_steps,
            bound,
        )


def smoothed(mean, size, gradient, power, n_steps):
    """Running mean and size of a gradient, and the step: their ratio without the bias to 0."""
    a, b = descent.GRADIENT_DECAY, descent.SIZE_DECAY
    mean, size = a * mean + (1 - a) * gradient, b * size + (1 - b) * power
    root = np.sqrt(size / (1 - b**n_steps))
    scale = np.where(root > 0, root, np.inf)
    return mean, size, mean / (1 - a**n_steps) / np.reshape(scale, (-1, 1))


def revived(now, won):
    """Prototypes that won no row in a pass go back to where they last did."""
    idle = [i for i in range(len(now.place)) if i not in won]
    place, mean = now.place.copy(), now.mean.copy()
    place[idle], mean[idle] = now.good[idle], 0.0
    return replace(now, place=place, mean=mean)


# The plan, and the result


def plan(n_distinct, n_features, step, least_batches, max_iter):
    """Numbers of batches in a pass, and of passes, for a step of the projection."""
    rows = refine.WIDE_BATCH_ROWS if n_features > 256 else refine.BATCH_ROWS
    by_rows = min(max(n_distinct // rows, 1), refine.MAX_BATCHES)
    n_batches = max(by_rows, min(least_batches, n_distinct // refine.MIN_BATCH_ROWS))
    least = refine.LEAST_PASSES
    ratio = by_rows if step >= 1 else n_batches
    n_passes = math.ceil(refine.PASSES * (least + (1 - least) / ratio))
    return n_batches, min(n_passes, max_iter)


def is_over(costs, n_passes):
    """Whether all passes are done, or the cost does not fall any more in the second half."""
    if len(costs) >= n_passes:
        return True
    if len(costs) <= max(refine.STALE_PASSES, n_passes // 2):
        return False
    return not costs[-1] < (1 - refine.MIN_FALL) * costs[-1 - refine.STALE_PASSES]


# The short fit


@dataclass
class ShortFit:
    """What is fitted before growth."""

    purpose: str  # "axes along prototypes", "axes", "step" or "range"
    clusters: int
    passes: int


def short_fits(n_distinct, shape, n_classes, budget, n_components, max_iter, or_by_range):
    """What `first_metric` fits, the step of the projection unless it is chosen, and what they see.

    `shape` is that of the projection, `budget` may be None. If fits are compared, they do not see
    some of the rows.
    """
    m, budget = first_metric, math.inf if budget is None else budget
    if n_components is not None and n_components < shape[1]:
        most = max(m.PROTOTYPES_PER_CLASS * n_classes, m.PROTOTYPES_PER_AXIS * n_components)
        return [ShortFit("axes along prototypes", most, min(m.PASSES, max_iter))], 1.0, True
    is_small, is_checked = n_distinct < m.ROWS_PER_ENTRY * math.prod(shape), True
    if n_distinct < m.MIN_CHECKED_ROWS:
        if is_small:
            return [], m.SMALL_STEP, True
        is_checked = False
    if n_distinct < m.MIN_ROWS:
        return [], 1.0, True
    fit = ShortFit("axes", min(m.PROTOTYPES_PER_CLASS * n_classes, budget), min(m.PASSES, max_iter))
    if is_small:
        most = min(m.STEP_PROTOTYPES_PER_CLASS * n_classes, budget)
        fit = ShortFit("step", most, min(m.STEP_PASSES, max_iter))
    if not (is_checked and or_by_range):
        return [fit], 1.0, not is_small
    return [fit, ShortFit("range", fit.clusters, min(m.RANGE_PASSES, max_iter))], 1.0, False


def unseen(Z):
    """Rows that check a fit: those with the highest hashes, of their images."""
    largest = np.abs(Z).max(axis=0).tolist()
    hashes = [sampling_hash(z, largest, 0) for z in Z]
    distinct = sorted(set(hashes))
    first = distinct[int((1 - first_metric.CHECKED_SHARE) * len(distinct))]
    return [r for r, h in enumerate(hashes) if h >= first]


def plain_cost(data, rows, state, space):
    """Margin cost, without noise, of rows that a fit has not seen; 1 with one class."""
    classes = state.prototypes.classes.tolist()
    if len(set(classes)) < 2:
        return 1.0
    Z, w = space.rows(data.X), data.times * data.factors
    about = state.prototypes.centers.tolist(), classes, Z.dtype.type
    found, total = margins(Z, data.y.tolist(), rows.tolist(), *about), 0.0
    for r in rows.tolist():
        margin = relative(*found[r][2:4]) if r in found else math.inf
        total += w[r] / (1 + math.exp(-robust_field.FINAL_SLOPE * margin))
    return total / w[rows].sum()


def chosen_step(usual, small):
    """The usual step has to be clearly better on rows that neither fit has seen."""
    return 1.0 if usual < first_metric.CLEAR_RATIO * small else first_metric.SMALL_STEP


def by_range(space, X):
    """Features are divided by their range among some rows."""
    weights = []
    for column, deviation in zip(X.T, space.scale, strict=True):
        width = float(column.max()) - float(column.min())
        weights.append(deviation / width if width > 0 else 0.0)
    columns = [[w if i == j else 0.0 for j in range(len(weights))] for i, w in enumerate(weights)]
    kept = [column for column, w in zip(columns, weights, strict=True) if w > 0]
    return space.with_components(list(zip(*kept, strict=True)))


def errors(data, rows, state, space):
    """Rows that a model classifies wrongly, and the weight of each."""
    Z, w = space.rows(data.X), data.times * data.factors
    centers, classes = state.prototypes.centers.tolist(), state.prototypes.classes.tolist()
    found = {}
    for r in rows.tolist():
        distances = [distance(Z[r], c, Z.dtype.type) for c in centers]
        found[r] = 0.0 if classes[distances.index(min(distances))] == data.y[r] else w[r]
    return found


def prefers_range(Z, by_range, learned):
    """Features by range, unless what is learned errs less by more than one standard error.

    The errors are those of `errors`; rows with the same image `Z` count as one.
    """
    items = {}
    for r, z in enumerate(Z.tolist()):
        if r in learned:
            items[tuple(z)] = items.get(tuple(z), 0.0) + by_range[r] - learned[r]
    error = math.sqrt(math.fsum(v * v for v in items.values()))
    return math.fsum(items.values()) <= error * ROUNDING_TOLERANCE


def first_axes(components, centers, n_components, short):
    """Lengths of the axes to choose from, how many are taken, and the metric of those.

    With a limited rank these are the axes along which prototypes differ most, else all that are
    not short.
    """
    if short.purpose == "axes along prototypes":
        centers = np.asarray(centers, dtype=float)
        _, lengths, axes = np.linalg.svd(centers - centers.mean(axis=0), full_matrices=True)
        lengths = np.append(lengths, np.zeros(len(axes) - len(lengths)))
        kept = components @ axes[:n_components].T
        return lengths, n_components, kept @ kept.T
    u, lengths, _ = np.linalg.svd(components, full_matrices=False)
    n_kept = int((lengths >= first_metric.LEAST_AXIS * lengths[0]).sum())
    kept = u[:, :n_kept] * lengths[:n_kept]
    return lengths, n_kept, kept @ kept.T
