"""What parts keep of each row waits on a shelf, in memory or on disk, and comes back as it was."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from strategies import examples

from dkmeans import DiscriminativeKMeans
from dkmeans.data import out_of_core
from dkmeans.engine.shelf import Shelf
from dkmeans.engine.waiting import WaitingPart

PARAMETERS = [
    {"growth": "paper", "max_clusters": 12, "prune": True},
    {"max_clusters": 12, "refine": "margin"},
    {"max_clusters": "auto", "growth": "paper"},
]


def arrays():
    kinds = st.sampled_from([np.intp, np.int32, np.float64, np.bool_, np.uint64])
    return st.tuples(kinds, st.integers(0, 30_000), st.integers(0, 1000)).map(
        lambda drawn: np.random.default_rng(drawn[2]).integers(0, 2**31, drawn[1]).astype(drawn[0])
    )


@settings(max_examples=examples(100))
@given(
    steps=st.lists(st.one_of(arrays(), st.integers(0, 50)), max_size=30),
    limit=st.sampled_from([0, 10_000, 10**9]),
)
def test_arrays_come_back(steps, limit):
    """Also where others were taken away before, whose places are used again."""
    shelf, waiting = Shelf(limit), []
    for step in steps:
        if isinstance(step, np.ndarray):
            waiting.append((shelf.put(step), step))
        elif waiting:
            del waiting[step % len(waiting)]
        for ticket, array in waiting:
            back = shelf.get(ticket)
            assert back.dtype == array.dtype
            np.testing.assert_array_equal(back, array)


def test_places_are_used_again():
    shelf = Shelf(0)
    for value in range(50):
        ticket = shelf.put(np.full(100_000, value, dtype=np.float64))
        assert shelf.get(ticket)[-1] == value
    del ticket
    gc.collect()
    assert shelf._end <= 3 * 100_000 * 8


def test_little_stays_in_memory():
    shelf = Shelf(1000)
    tickets = [shelf.put(np.zeros(50)) for _ in range(3)]
    assert [ticket.array is None for ticket in tickets] == [False, False, True]


@pytest.mark.parametrize(
    ("parameters", "weighted"), zip(PARAMETERS, (True, False, True), strict=True)
)
def test_fits_on_disk_are_those_in_memory(parameters, weighted, monkeypatch):
    """And no pass writes into an array that is on the shelf, which would be lost."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:200].astype(np.float32), np.append(y[:199], 9 - y[0])
    X[199] = X[0]  # a conflict, so that classes change
    weights = np.arange(200) % 3.0 if weighted else None

    def batches():
        for start in range(0, 200, 77):
            part = slice(start, start + 77)
            yield X[part], y[part], *([weights[part]] if weighted else [])

    put_on_disk, compared = [], []
    sleep, put = WaitingPart._sleep, Shelf.put

    def checked_sleep(self, known):
        for ticket, array in known.values():
            np.testing.assert_array_equal(self._shelf.get(ticket), array)
            compared.append(len(array))
        sleep(self, known)

    def counted_put(self, array):
        ticket = put(self, array)
        put_on_disk.append(ticket.array is None)
        return ticket

    monkeypatch.setattr(WaitingPart, "_sleep", checked_sleep)
    monkeypatch.setattr(Shelf, "put", counted_put)
    monkeypatch.setattr(out_of_core, "Shelf", lambda limit: Shelf(600))
    model = DiscriminativeKMeans(**parameters).fit(batches)
    assert any(put_on_disk)
    assert len(compared) > 100
    other = DiscriminativeKMeans(**parameters).fit(X, y, weights)
    np.testing.assert_array_equal(model.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, other.labels_)
    assert model.inertia_ == other.inertia_
