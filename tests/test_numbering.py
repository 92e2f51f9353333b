"""Numbers of rows of parts that are laid together, beside a list of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dkmeans.passes.numbering import Numbering

runs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=5)


@given(runs=runs, data=st.data())
def test_rows_have_the_numbers_that_they_had(runs, data):
    starts, sizes, last = [], [], 0
    for gap, size in runs:  # gaps are rows of other parts
        starts.append(last + gap)
        sizes.append(size)
        last = starts[-1] + size
    expected = [
        n for start, size in zip(starts, sizes, strict=True) for n in range(start, start + size)
    ]
    parts = [Numbering.starting_at(start) for start in starts]
    joined = Numbering.joined(parts, sizes)
    rows = np.arange(len(expected))
    assert joined.of(rows).tolist() == expected
    wanted = np.arange(-1, last + 2)
    found, there = joined.find(wanted, len(rows))
    assert wanted[there].tolist() == expected
    assert found[there].tolist() == rows.tolist()
    assert [len(piece) for piece in joined.split(rows)] == sizes
    some = np.array(sorted(data.draw(st.sets(st.sampled_from(expected)))) if expected else [], int)
    mine, there = joined.find(some, len(rows))
    taken = joined.taken(mine)
    numbers = taken.of(np.arange(len(some)))
    assert len(set(numbers.tolist())) == len(some)
    pieces = taken.split(some)
    for piece, start, size in zip(pieces, starts, sizes, strict=True):
        assert all(start <= number < start + size for number in piece.tolist())
