"""Hypothesis strategies, all in one place: data as awkward as it comes."""

import os

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def examples(count):
    """So many examples for people; a quarter, always the same, in continuous integration."""
    return max(20, count // 4) if os.environ.get("CI") else count


dtypes = st.sampled_from([np.float64, np.float32])
repulsions = st.sampled_from([0.0, 0.25, 0.5, 1.0, 10.0, "size"])
growths = st.sampled_from(["paper", "best"])
# Ways to grow and to go on from there.
parameters = st.fixed_dictionaries(
    {
        "repulsion": repulsions,
        "growth": growths,
        "refine": st.sampled_from([None, "margin"]),
        "metric": st.sampled_from(["euclidean", "cosine"]),
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
