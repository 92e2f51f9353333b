"""Identical rows with different labels, and counts of distinct rows, beside plain dictionaries."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parted import parts_of

from dkmeans.growth import identical_rows
from dkmeans.growth.identical_rows import agree_and_count, agree_on_labels
from dkmeans.passes import exchange, row_labels
from dkmeans.passes.contract import HashedRows
from dkmeans.runners import merging
from dkmeans.runners.local import LocalRunner

rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=30
)


@settings(deadline=None)
@given(
    rows=rows,
    cut=st.integers(0, 30),
    weighted=st.booleans(),
    n_hashes=st.sampled_from([1, 2, 2**64 - 1]),
    batch=st.sampled_from([1, 4, 1 << 16]),
    range_rows=st.sampled_from([3, 1 << 21]),
    found_rows=st.sampled_from([1, 5, 1 << 18]),
)
def test_identical_rows_agree_on_the_heaviest_label(
    rows, cut, weighted, n_hashes, batch, range_rows, found_rows
):
    """Also if different rows have one hash, and if they are compared in several slices."""
    X = np.array([[value, -value] for value, _, _ in rows], dtype=float)
    y = np.array([c for _, c, _ in rows])
    w = np.array([float(weight) for _, _, weight in rows]) if weighted else None
    plain = row_labels.hash_part
    with pytest.MonkeyPatch.context() as patch:
        for module in (row_labels, exchange):
            patch.setattr(module, "hash_part", lambda part: plain(part) % np.uint64(n_hashes))
        patch.setattr(identical_rows, "BATCH_VALUES", batch)
        patch.setattr(identical_rows, "MAX_FOUND_ROWS", found_rows)
        patch.setattr(merging, "RANGE_ROWS", range_rows)
        runner = LocalRunner(parts_of(X, y, w, 3, [min(cut, len(y))]))
        count = agree_and_count(LocalRunner(runner.parts))
        conflicts = agree_on_labels(runner)
        n_distinct = runner.exchange(exchange.CountDistinct())
    groups = defaultdict(list)
    for row, value in enumerate(X[:, 0].tolist()):
        if w is None or w[row]:
            groups[value].append(row)
    expected = y.copy()
    mixed = []
    for mine in groups.values():
        weights = np.bincount(y[mine], None if w is None else w[mine])
        if len(set(y[mine].tolist())) > 1:
            mixed.append(mine)
            expected[mine] = weights.argmax()
    assert [group.tolist() for group in conflicts] == sorted(mixed)
    assert count == len(mixed)
    np.testing.assert_array_equal(
        np.concatenate([state.classes for state in runner.states]), expected
    )
    if n_hashes > 2:
        assert n_distinct == len(groups)


@given(
    hashes=st.lists(st.integers(0, 2**64 - 1), max_size=20),
    n_ranges=st.sampled_from([1, 2, 7, 300]),
)
def test_ranges_of_hashes_are_the_same_everywhere(hashes, n_ranges):
    every = np.array(hashes, dtype=np.uint64)
    split = HashedRows(every, np.arange(len(every))).by_range(n_ranges)
    assert len(split) == n_ranges
    for at, some in enumerate(split):
        assert [(one >> 32) * n_ranges >> 32 for one in some.hashes.tolist()] == [at] * len(
            some.hashes
        )
        np.testing.assert_array_equal(every[some.classes], some.hashes)
    assert sum(len(some.hashes) for some in split) == len(every)


@given(
    counts=st.dictionaries(st.integers(0, 2**16 - 1), st.integers(1, 9), max_size=20),
    n_rows=st.integers(1, 30),
)
def test_slices_cover_all_hashes_and_have_few_rows(counts, n_rows):
    buckets = sorted(counts)
    seen = exchange.MixedCounts(np.array(buckets, int), np.array([counts[b] for b in buckets]))
    slices = list(seen.slices(n_rows))
    assert bool(slices) == bool(counts)
    ends = [-1] + [high for _, high in slices]
    if slices:
        assert [low for low, _ in slices] == [end + 1 for end in ends[:-1]]
        assert ends[-1] == 2**64 - 1
    for low, high in slices:
        mine = [counts[b] for b in buckets if low <= b << 48 <= high]
        assert sum(mine) <= n_rows or len(mine) == 1
