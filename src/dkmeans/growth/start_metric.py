"""What `metric="learned"` starts from: the principal axes of standardised rows.

Features count less at the start if they hardly vary within their range, as pixels near the edge
do, and if nothing tells that they have to do with the classes: many features of pure noise would
hide a few that matter, and growth would not place prototypes along these. The descent may raise
both kinds again.
"""

from statistics import NormalDist

import numpy as np
import scipy.linalg

from dkmeans.exact.grids import Scale
from dkmeans.geometry import MAX_FEATURES, Learned
from dkmeans.kernels.block import Floats
from dkmeans.kernels.exact import ratio
from dkmeans.kernels.threads import single_threaded_blas
from dkmeans.passes import facts, features
from dkmeans.passes.contract import Runner
from dkmeans.passes.exchange import CountDistinct
from dkmeans.passes.feature_bins import CountBins
from dkmeans.passes.part import Setting

MAX_COMPONENTS = 256  # by default,
FEW_FEATURES = 256  # and with more features than this,
WIDE_COMPONENTS = 128  # or these, unless there are many classes,
COMPONENTS_PER_CLASS = 6
MIN_COMPONENTS = 64  # down to these, if it takes more multiplications to project all distinct rows:
MAX_WORK = 2.0**31  # 8 million values times a rank of 256, or 16 million times 128
FACTOR_BITS = 10  # of weights that are not whole, in the covariance
MIN_EXPONENT = -1023  # of the reach of a feature, so that two to minus it is finite
MIN_VARIANCE = 2.0**-30  # of an axis, as a share of the largest
N_BINS = 8  # of a feature, equally likely if it is Gaussian
CLEAR_SCORE = 10.0  # standard deviations above chance from which a feature counts fully
LEAST_RELEVANCE = 0.25  # of features that tell nothing by themselves


def start_metric(
    runner: Runner, n_features: int, n_components: int | None, by_class: Floats | None
) -> Learned:
    """Standardise the features of all rows, and choose the axes along which they vary most.

    Every sum is exact: neither the order of rows nor their parts change a bit.

    Parameters
    ----------
    runner : Runner
        Its rows are those that were read.
    n_features : int
    n_components : int or None
        Largest number of axes; by default 256, and mostly 64 to 128 for more features than that.
    by_class : array or None
        Class factors that the weights of the rows contain.
    """
    if n_features > MAX_FEATURES:
        raise ValueError(
            f"metric='learned' takes at most {MAX_FEATURES} features, and X has {n_features}: "
            "reduce them first, for instance with sklearn.decomposition.TruncatedSVD."
        )
    weights = runner.run(facts.FindWeightFacts(by_class))
    scale = weights.scale(by_class)
    runner.configure(Setting(scale=scale))
    heaviest = weights.factor if scale.whole else runner.run(facts.FindFacts()).heaviest
    standard = _standardised(runner, scale, heaviest)
    n_distinct = runner.exchange(CountDistinct())  # copies tell nothing new
    relevant, n_classes = _relevances(runner, standard, heaviest, n_distinct)
    standard = standard.with_components(standard.components * relevant[:, None])
    most = n_components
    if most is None:
        most = default_rank(n_distinct, n_features, n_classes)
    return _along_principal_axes(runner, standard, most, heaviest)


def is_wide(n_features: int) -> bool:
    """Tell whether rows have many features, so that passes over projected rows take long."""
    return n_features > FEW_FEATURES


def default_rank(n_distinct: int, n_features: int, n_classes: int) -> int:
    """Return the largest rank of a projection of so many distinct rows, by default.

    It takes more axes to tell many classes apart.

    Examples
    --------
    >>> default_rank(2414, 2016, 38), default_rank(20_000, 784, 10), default_rank(60_000, 784, 10)
    (228, 128, 64)
    """
    if not is_wide(n_features):
        return MAX_COMPONENTS
    most = int(MAX_WORK / (max(n_distinct, 1) * n_features))
    wide = min(max(WIDE_COMPONENTS, COMPONENTS_PER_CLASS * n_classes), MAX_COMPONENTS)
    return min(max(most, MIN_COMPONENTS), wide)


def _standardised(runner: Runner, scale: Scale, heaviest: float) -> Learned:
    """Find means and standard deviations; the only component has the weights of the features."""
    box = runner.run(facts.FindBox())
    has_zero = (box.low <= 0) & (box.high >= 0)
    origin = np.where(has_zero, 0.0, np.where(box.low > 0, box.low, box.high))
    reach = np.maximum(np.abs(box.low - origin), np.abs(box.high - origin))
    exponents = np.maximum(np.frexp(reach)[1], MIN_EXPONENT)
    units = scale.units(heaviest)
    weight = runner.run(facts.SumWeights(units))
    sums = runner.run(features.SumMoments(origin, np.ldexp(1.0, -exponents), units))
    first, second = np.split(ratio(sums, weight[:, None]), 2)
    deviations = np.ldexp(np.sqrt(np.maximum(second - first * first, 0.0)), exponents)
    deviations[box.low == box.high] = 0.0
    means = origin + np.ldexp(first, exponents)
    # Nearly constant features, such as pixels near the edge, would count too much.
    width = box.high - box.low
    shares = np.divide(deviations, width, out=np.zeros_like(width), where=width > 0)
    weights = np.sqrt(shares)[:, None]
    return Learned.of_features(means, deviations, box.low, box.high, weights)


def _relevances(
    runner: Runner, standard: Learned, heaviest: float, n_distinct: int
) -> tuple[Floats, int]:
    """Return how much each feature counts by what its values alone tell of the classes.

    The second value is the number of classes that have rows with a weight.

    The measure is the chi-squared statistic of bins and classes, relative to its distribution for
    independent ones. It sees dependencies of any shape, but none that takes two features.
    """
    middle = standard.standardised(standard.center[None])[0]
    quantiles = [NormalDist().inv_cdf(share) for share in np.arange(1, N_BINS) / N_BINS]
    unit = heaviest * 2.0**-FACTOR_BITS
    edges = middle[:, None] + quantiles
    counts = runner.run(CountBins(standard.shift, standard.scale, edges, unit))
    shares = counts / counts[0].sum()
    bins, classes = shares.sum(axis=2, keepdims=True), shares.sum(axis=1, keepdims=True)
    expected = bins * classes
    squares = np.square(shares - expected)
    ratios = np.divide(squares, expected, out=np.zeros_like(squares), where=expected > 0)
    freedom = np.maximum(np.count_nonzero(bins > 0, axis=(1, 2)) - 1.0, 0.0)
    n_classes = int(np.count_nonzero(classes[0] > 0))
    freedom *= n_classes - 1
    excess = n_distinct * ratios.sum(axis=(1, 2)) - freedom
    noise = np.sqrt(2 * freedom)
    scores = np.divide(excess, noise, out=np.zeros_like(noise), where=noise > 0)
    relevances = np.clip(scores / CLEAR_SCORE, LEAST_RELEVANCE, 1.0)
    return relevances / relevances.max(), n_classes


def _along_principal_axes(
    runner: Runner,
    standard: Learned,
    most: int,
    heaviest: float,
) -> Learned:
    """Project to the axes of largest variance; the largest entry of each is positive."""
    d = len(standard.scale)
    unit = heaviest * 2.0**-FACTOR_BITS
    sums = runner.run(features.SumProducts(standard.shift, standard.scale, unit))
    weights = standard.components
    covariance = features.covariance_of(sums) * weights * weights.T
    with single_threaded_blas:
        variances, axes = scipy.linalg.eigh(covariance, subset_by_index=(max(0, d - most), d - 1))
    rank = int(np.count_nonzero(variances > MIN_VARIANCE * variances[-1]))
    chosen = axes[:, ::-1][:, : max(1, min(rank, most))]
    if chosen.shape[1] == d:
        return standard.with_components(np.eye(d) * weights)
    return standard.with_components(weights * fixed_signs(chosen))


def fixed_signs(axes: Floats) -> Floats:
    """Return columns with such signs that the largest entry of each is positive."""
    largest = np.abs(axes).argmax(axis=0)
    return np.where(axes[largest, np.arange(axes.shape[1])] < 0, -axes, axes)
