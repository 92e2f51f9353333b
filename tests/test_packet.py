"""What is sent to workers and back: the same values, in few bytes."""

import pickle
import sys

import numpy as np
import pytest

from dkmeans.exact.packed import MIN_PACKED, Packed, unpacked
from dkmeans.runners.dask_requests import RunPass, Shared
from dkmeans.runners.dask_worker import Answer
from dkmeans.runners.packet import Packet
from dkmeans.runners.worker_proxy import WorkerProxy


def sparse_array(dtype, n_values=100, shape=(4, MIN_PACKED)):
    rng = np.random.default_rng(0)
    array = np.zeros(shape, dtype=dtype)
    array.reshape(-1)[rng.choice(array.size, n_values, replace=False)] = rng.normal(size=n_values)
    array[0, :3] = -0.0, np.nan, np.inf
    return array


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_are_the_same_to_the_last_bit(dtype):
    array = sparse_array(dtype)
    packed = Packed.of(array)
    assert isinstance(packed, Packed)
    found = unpacked(packed)
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(MIN_PACKED - 1),
        np.ones((2, MIN_PACKED)),
        np.zeros((2, MIN_PACKED), dtype=np.int64),
        np.zeros((2, MIN_PACKED)).T,
    ],
    ids=["small", "full", "integers", "transposed"],
)
def test_other_arrays_are_sent_as_they_are(array):
    assert Packed.of(array) is array


def test_a_packet_restores_its_value():
    array, labels = sparse_array(np.float32), np.arange(2 * MIN_PACKED)
    value = {"centers": array, "again": array, "labels": labels, "small": np.arange(3.0)}
    pickled = pickle.dumps(Packet(value))
    assert len(pickled) < labels.nbytes + array.nbytes // 4
    found = pickle.loads(pickled)
    assert list(found) == list(value)
    for name, one in value.items():
        assert found[name].tobytes() == one.tobytes()
    assert found["again"] is found["centers"]


class Counted:
    """Counts how often it is pickled."""

    count = 0

    def __reduce__(self):
        Counted.count += 1
        return Counted, ()


def test_a_request_to_all_workers_is_pickled_once():
    request = Shared(RunPass(3, Counted()))
    for _ in range(3):
        found = pickle.loads(pickle.dumps(request))
        assert isinstance(found, Shared)
        assert isinstance(found.request, RunPass)
        assert found.request.number == 3
    assert Counted.count == 1


def test_answers_with_results_or_errors():
    array = sparse_array(np.float64)
    pickled = pickle.dumps(Answer(None, [array]))
    assert len(pickled) < array.nbytes // 4
    found = pickle.loads(pickled)
    assert found.error is None
    assert found.results[0].tobytes() == array.tobytes()
    found = pickle.loads(pickle.dumps(Answer(ValueError("no"), [])))
    assert str(found.error) == "no"
    assert found.results == []


class Holding:
    """Answers in this process, and keeps what it was called with, as Dask's cycles do."""

    def __init__(self):
        self.called_with = []

    def answer(self, request):
        self.called_with.append(request)
        return self

    def result(self, timeout):
        return Answer(None, [pickle.loads(pickle.dumps(self.called_with[-1]))])


def test_requests_are_dropped_once_they_are_answered():
    holder, request = Holding(), RunPass(0, "task")
    worker = WorkerProxy([0], None)
    worker._actor = holder
    wait_for = worker.ask(request)
    assert sys.getrefcount(request) == 3  # here, in the letter and as the argument of this call
    assert wait_for() == request
    assert sys.getrefcount(request) == 2
