"""The sample of rows that a first pass keeps: small, and evenly spaced."""

import numpy as np
import pytest
import scipy.sparse as sp

from dkmeans.data import row_sample
from dkmeans.data.row_sample import RowSample, sample_of, sample_of_part, stacked


def test_a_sample_is_small_and_evenly_spaced(monkeypatch):
    monkeypatch.setattr(row_sample, "MAX_ROWS", 50)
    numbers = np.arange(1_000.0)[:, None]
    for sizes in ([1_000], [1] * 1_000, [49, 3, 700, 248], [333, 1, 0, 666]):
        sample = RowSample()
        for part in np.split(numbers, np.cumsum(sizes)[:-1]):
            sample.add(part)
        np.testing.assert_array_equal(sample.rows(), numbers[::32])
    np.testing.assert_array_equal(sample_of(numbers), numbers[::32])
    assert RowSample().rows() is None


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_sample_of_wide_rows_has_few(monkeypatch, kind):
    monkeypatch.setattr(row_sample, "MAX_VALUES", 10_000)
    monkeypatch.setattr(row_sample, "SHARE_THAT_TRAVELS", 1)
    wide = kind(np.ones((500, 100)))
    sample = RowSample()
    sample.add(wide[:300])
    sample.add(wide[300:])
    assert sample.rows().shape == sample_of(wide).shape == (63, 100)
    parts = [sample_of_part(wide[i : i + 1], 1 / 500, f"partition {i}") for i in range(500)]
    assert 80 < stacked(parts).shape[0] < 120
    assert {part.shape[0] for part in parts} == {0, 1}
