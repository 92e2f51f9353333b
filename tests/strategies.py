"""Hypothesis strategies, all in one place: data as awkward as it comes."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def examples(count):
    """Number of examples: all for `make fuzz`; an eighth, always the same, for `make test`."""
    return max(10, count // 8) if settings.default.derandomize else count


dtypes = st.sampled_from([np.float64, np.float32])
repulsions = st.sampled_from([0.0, 0.25, 0.5, 1.0, 10.0, "size"])
growths = st.sampled_from(["paper", "best"])
# Ways to grow and to go on from there.
parameters = st.fixed_dictionaries(
    {
        "repulsion": repulsions,
        "growth": growths,
        "refine": st.sampled_from([None, "margin"]),
        "metric": st.sampled_from(["euclidean", "cosine", "learned"]),
    }
)

# Few distinct values: ties, duplicates, coinciding means and conflicts in plenty.
coarse = st.integers(-4, 4).map(lambda v: v / 2)
# Values of many digits, within the range that sums keep to the last bit.
fine = st.integers(-(2**26), 2**26).map(lambda v: v / 2**20)
# Far from the origin, close together.
far = st.integers(0, 6).map(lambda v: 1e6 + v * 1e-3)


@st.composite
def labelled(draw, values=None, max_rows=24, max_features=3, max_classes=4):
    """Rows and classes by number, every class present."""
    n = draw(st.integers(1, max_rows))
    d = draw(st.integers(1, max_features))
    dtype = draw(dtypes)
    elements = draw(st.sampled_from([coarse, fine, far])) if values is None else values
    X = draw(hnp.arrays(np.float64, (n, d), elements=elements))
    X = np.clip(X, -1e15, 1e15).astype(dtype)
    assume(not 0 < np.abs(X).max() < 1e-60)  # rows that are all so small are refused
    y = draw(hnp.arrays(np.int64, n, elements=st.integers(0, max_classes - 1)))
    return X, np.unique(y, return_inverse=True)[1]


@st.composite
def weighted(draw, **options):
    """The same with whole weights, zeros among them."""
    X, y = draw(labelled(**options))
    w = draw(hnp.arrays(np.float64, len(y), elements=st.integers(0, 7).map(float)))
    if not w.any():
        w[draw(st.integers(0, len(y) - 1))] = 1.0
    return X, y, w


# Anything finite whose squares do not overflow.
wild = st.floats(-1e100, 1e100) | st.floats(-1, 1) | coarse


# Combinations: fits that mix all options, on rows that mix all that is awkward.

_SHAPES = ("grid", "blobs", "whole", "sparse", "far", "units", "spread", "line", "constant")
_SCALES = (1.0, 2.0**-30, 1e-9, 1e9, 0.1)
_WEIGHTS = ("none", "whole", "equal", "tenths", "fractional", "wide")


@dataclass(frozen=True)
class Case:
    """A fit to be compared with another one: rows, options, and how it is computed.

    Its representation is an expression that makes it again.
    """

    X: np.ndarray
    y: np.ndarray  # classes by number
    weights: np.ndarray | None
    parameters: dict[str, Any]  # of the estimator
    sparse: bool  # whether rows are passed as CSR
    compiled: bool  # whether compiled loops do the work, or NumPy
    sampled: bool = False  # whether small samples are drawn

    def __repr__(self) -> str:
        shown = [f"{field.name}={_expression(getattr(self, field.name))}" for field in fields(self)]
        return f"Case({', '.join(shown)})"


def _expression(value):
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r}, dtype=np.{value.dtype})"
    return repr(value)


@st.composite
def cases(draw, max_rows=40, weights=_WEIGHTS):
    """Fits of all combinations of options.

    A seed makes a pool of rows, so that they are as varied as data are; which of them are taken,
    some more than once, is drawn one by one, so that a counterexample gets small.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, max_rows))
    n_features = draw(st.sampled_from([1, 2, 3, 4, 5, 9, 19]))
    n_pool, n_classes = draw(st.sampled_from([4, 12, 1000])), draw(st.integers(1, 5))
    y = rng.integers(0, n_classes, n_pool)
    shape, dtype = draw(st.sampled_from(_SHAPES)), draw(dtypes)
    X = _pool(rng, shape, y, n_features) * draw(st.sampled_from(_SCALES))
    if draw(st.booleans()):
        X[rng.integers(n_pool)] *= 1000  # far from all others
    taken = draw(
        hnp.arrays(np.intp, n_rows, elements=st.integers(0, n_pool - 1), fill=st.nothing())
    )
    wrong = rng.random(n_rows) < draw(st.sampled_from([0.0, 0.1, 1.0]))  # conflicts in plenty
    y = np.where(wrong, rng.integers(0, n_classes, n_rows), y[taken])
    y = np.unique(y, return_inverse=True)[1]
    w = _row_weights(rng, draw(st.sampled_from(weights)), n_rows)
    return Case(
        np.clip(X[taken], -1e12, 1e12).astype(dtype),
        y,
        w,
        _options(draw, y, np.ones(n_rows) if w is None else w),
        sparse=draw(st.booleans()),
        compiled=draw(st.booleans()),
        sampled=draw(st.booleans()),
    )


def _pool(rng, shape, y, d):
    n = len(y)
    blobs = rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(5, d))[y]
    match shape:
        case "grid":  # ties, coinciding means
            return rng.integers(-2, 3, (n, d)) / 2
        case "whole":
            return rng.integers(-100, 101, (n, d)).astype(float)
        case "sparse":
            return np.where(rng.random((n, d)) < 0.7, 0.0, np.rint(4 * blobs) / 4)
        case "far":  # from the origin, close together
            return 1e6 + blobs * 0.01
        case "units":  # of very different size
            return blobs * 10.0 ** rng.integers(-6, 7, d)
        case "spread":  # over many orders within a column
            return rng.choice([-1.0, 1.0], (n, d)) * 10.0 ** rng.uniform(-6, 6, (n, d))
        case "line":  # evenly spaced
            return np.arange(n)[:, None] * rng.integers(0, 3, d) + 0.5
        case "constant":
            blobs[:, rng.integers(d)] = 7.0
    return blobs


def _row_weights(rng, kind, n):
    match kind:
        case "none":
            return None
        case "whole":
            w = rng.integers(1, 5, n).astype(float)
        case "equal":
            return np.full(n, rng.choice([3.0, 0.1, 2.0]))
        case "tenths":
            w = rng.integers(1, 12, n) / 10
        case "fractional":
            w = rng.uniform(0.0, 2.0, n)
        case "wide":
            w = 10.0 ** rng.uniform(-5, 5, n)
    w[rng.random(n) < rng.choice([0.0, 0.2])] = 0.0
    if not w.any():
        w[rng.integers(n)] = 1.0
    return w


def _options(draw, y, w):
    n_classes = int(y.max()) + 1
    budget = draw(st.sampled_from([None, "most", "most", "auto"]))
    if budget == "most":
        budget = n_classes + draw(st.integers(0, 8))
    class_weight = draw(st.sampled_from([None, None, "balanced", "dict"]))
    if class_weight == "dict":
        factors = st.sampled_from([1.0, 3.0, 0.25, 0.1, 0.0])
        class_weight = {c: draw(factors) for c in range(n_classes)}
        if not any(class_weight[c] for c in y[w > 0].tolist()):
            class_weight[int(y[w.argmax()])] = 1.0
    size = draw(st.sampled_from([None, None, 1.0, 2.0, 2.5]))  # in rows of average weight
    return {
        "max_clusters": budget,
        "repulsion": draw(repulsions),
        "growth": draw(growths),
        "refine": draw(st.sampled_from([None, "margin"])),
        "metric": draw(st.sampled_from(["euclidean", "cosine", "learned"])),
        "prune": draw(st.booleans()),
        "min_cluster_size": None if size is None else size * float(w[w > 0].mean()),
        "class_weight": class_weight,
        "max_iter": draw(st.sampled_from([300, 300, 4])),
        "n_threads": 1,
    }
