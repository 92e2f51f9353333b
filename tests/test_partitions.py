"""Which worker holds which partitions, beside what makes it right."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dkmeans.data.first_pass import distinct_labels
from dkmeans.runners.partitions import MAX_EXCESS, balance

WORKERS = ["a", "b", "c"]
threads = st.dictionaries(st.sampled_from(WORKERS), st.integers(1, 4), min_size=1)
placed = st.lists(st.tuples(st.sampled_from([*WORKERS, ""]), st.integers(0, 20)), max_size=12)


@given(partitions=placed, n_threads=threads)
def test_no_worker_has_much_more_than_its_share(partitions, n_threads):
    where = {number: worker for number, (worker, _) in enumerate(partitions)}
    sizes = {number: size for number, (_, size) in enumerate(partitions)}
    chosen = balance(where, sizes, n_threads)
    assert list(chosen) == list(where)
    if not sum(sizes.values()):
        return
    assert set(chosen.values()) <= set(n_threads)
    share = sum(sizes.values()) / sum(n_threads.values())
    for worker, count in n_threads.items():
        mine = [sizes[number] for number in chosen if chosen[number] == worker]
        # The last partition that a worker was given may be a large one.
        assert sum(mine) <= (1 + MAX_EXCESS) * share * count + max(sizes.values()) * (count + 1)
    if all(
        sum(sizes[n] for n in where if where[n] == w) <= (1 + MAX_EXCESS) * share * n_threads[w]
        for w in n_threads
    ) and set(where.values()) <= set(n_threads):
        assert chosen == where, "nothing is moved without need"


def test_equal_partitions_are_shared_by_threads():
    where = dict.fromkeys(range(8), "a")
    chosen = balance(where, dict.fromkeys(range(8), 100), {"a": 1, "b": 3})
    assert sorted(chosen.values()) == ["a"] * 2 + ["b"] * 6


@given(
    y=st.lists(st.integers(-3, 6), min_size=1, max_size=20),
    dtype=st.sampled_from([np.int8, ">i2", np.int64, np.uint64, np.float64, "U3"]),
    offset=st.sampled_from([0, 100, 2**40]),
)
def test_labels_are_found_as_by_sorting(y, dtype, offset):
    shift = 3 + (offset if np.dtype(dtype).itemsize == 8 and dtype is not np.float64 else 0)
    labels = (np.array(y, dtype=np.int64) + shift).astype(dtype)
    for one, two in zip(
        distinct_labels(labels), np.unique(labels, return_inverse=True), strict=True
    ):
        np.testing.assert_array_equal(one, two)
        assert one.dtype == two.dtype


def test_labels_at_the_ends_of_their_type():
    for dtype in (np.int8, np.int64, np.uint8, np.uint64):
        info = np.iinfo(dtype)
        y = np.array([info.max, info.min, info.max, info.min + 1], dtype)
        labels, codes = distinct_labels(y)
        assert labels.tolist() == [info.min, info.min + 1, info.max]
        assert codes.tolist() == [2, 0, 2, 1]
        for end in (info.max, info.min):
            assert distinct_labels(np.full(3, end, dtype))[0].tolist() == [end]
        wide = np.resize(np.arange(info.min, info.min + 250, dtype=object), 600).astype(dtype)
        np.testing.assert_array_equal(distinct_labels(wide)[0], np.unique(wide))
