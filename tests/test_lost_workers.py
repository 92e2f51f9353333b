"""Workers that are lost, at every moment of a fit: holders in this process that forget all."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from models import grown
from test_blocks import same

from dkmeans.growth import best
from dkmeans.runners import dask as runner
from dkmeans.runners.dask_requests import DeriveParts, MergePeers, SettleRange
from dkmeans.runners.dask_worker import Holder
from dkmeans.runners.worker_proxy import raise_lost
from dkmeans.sources import dask_cluster as source

pytestmark = [
    pytest.mark.faults,
    pytest.mark.usefixtures("small_samples"),
    pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning"),
]
SIZES = (40, 1, 0, 39, 20)


class LocalWorker(runner.WorkerProxy):
    """A holder in this process, which dies when it is told to."""

    def __init__(self, numbers, holder, doom):
        super().__init__(numbers, None)
        self.holder, self.doom, self.dead = holder, doom, False

    def settle(self):
        pass

    @property
    def peer(self):
        return LocalPeer(self)

    def fetched(self, call, at):
        """Tell that another worker fetches something."""
        if self.dead:
            raise OSError("gone")

    def ask(self, request):
        self.dead = self.dead or self.doom(self)
        if self.dead:
            return partial(raise_lost, OSError("gone"))
        answer = self.holder.answer(request)
        assert answer.error is None, answer.error
        return lambda: answer.results[0]


class LocalPeer:
    """What another worker calls a worker by."""

    def __init__(self, worker):
        self.worker = worker

    def kept(self, call, at):
        self.worker.fetched(call, at)
        return self.worker.holder.kept(call, at)


class LocalFuture:
    """A partition that has been computed in this process."""

    status = "finished"

    def __init__(self, batch):
        self.value = batch.compute(scheduler="synchronous")


class LocalClient:
    """Computes partitions in this process."""

    status = "running"

    def compute(self, batches):
        return [LocalFuture(batch) for batch in batches]

    def cancel(self, futures):
        for future in futures:
            future.status = "cancelled"

    def nthreads(self):
        return {"here": 1}


def held(partitions, numbers):
    columns = [tuple(future.value for future in partitions.columns[n]) for n in numbers]
    return Holder(numbers, columns, partitions.read)


@pytest.fixture
def fit(monkeypatch):
    """A function that does something with two holders, of which one dies before some passes."""

    def run(action, when=(), always=False):
        passes, lost = [], []

        def doom(held):
            dies = len(passes) - 1 in when and (len(passes) % 2) == (1 in held.numbers)
            if dies and (always or len(passes) not in lost):
                lost.append(len(passes))
                return True
            return False

        def hold(self, numbers, place=None):
            numbers = list(numbers)
            groups = [[n for n in numbers if n % 2 == side] for side in (0, 1)]
            return [
                LocalWorker(mine, held(self._partitions, mine), doom) for mine in groups if mine
            ]

        whole = runner.Crew._ask

        def ask(self, request_for, workers=None):
            passes.append(request_for)
            return whole(self, request_for, workers)

        with monkeypatch.context() as patch:
            patch.setattr(source, "active_client", LocalClient)
            patch.setattr(runner.Crew, "_hold", hold)
            patch.setattr(runner.Crew, "_ask", ask)
            return action(), len(passes), len(lost)

    return run


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 100)
    X = np.round(rng.normal(size=(100, 2)) + y[:, None], 1)
    X[50:54], w = X[:4], rng.integers(0, 3, 100).astype(float)
    return X, y, w


def lazy(*arrays):
    return [da.from_array(a, chunks=(SIZES, *((-1,) * (a.ndim - 1)))) for a in arrays]


@pytest.mark.parametrize(
    ("parameters", "step"),
    [
        ({"growth": "paper", "prune": True}, 5),
        ({"growth": "paper", "max_clusters": 9, "prune": True}, 2),
        ({"max_clusters": 8, "prune": True}, 11),
        ({"max_clusters": 6, "refine": "margin"}, 83),
        ({"max_clusters": "auto", "growth": "paper"}, 37),
        ({"max_clusters": "auto"}, 701),
        ({"metric": "cosine", "max_clusters": 6}, 9),
        ({"metric": "learned", "max_clusters": 6, "refine": "margin"}, 9),
    ],
)
def test_a_worker_may_be_lost_at_any_moment(fit, rows, parameters, step):
    def whole():
        return grown(**parameters).fit(*rows)

    def parted():
        return grown(**parameters).fit(*lazy(*rows))

    expected = whole()
    found, n_passes, _ = fit(parted)
    same(found, expected)
    for n in range(0, n_passes, step):
        found, _, n_lost = fit(parted, {n, n + 3})
        assert n_lost == 2 - (n + 3 >= n_passes)
        same(found, expected)


@pytest.mark.parametrize("request_kind", [MergePeers, SettleRange])
@pytest.mark.parametrize("side", ["the one that fetches", "the one that is asked"])
def test_a_worker_may_be_lost_while_others_fetch(fit, rows, monkeypatch, side, request_kind):
    monkeypatch.setattr(runner, "MIN_TREE_WORKERS", 2)
    calls, deadly, fetching = [], set(), []
    ask, fetched = LocalWorker.ask, LocalWorker.fetched

    def asking(self, request):
        fetching[:] = [type(request)]
        if side == "the one that fetches" and isinstance(request, request_kind):
            note(self)
        return ask(self, request)

    def fetching_from(self, call, at):
        if side == "the one that is asked" and fetching == [request_kind]:
            note(self)
        fetched(self, call, at)

    def note(worker):
        if not worker.dead:
            calls.append(worker)
            worker.dead = len(calls) in deadly

    monkeypatch.setattr(LocalWorker, "ask", asking)
    monkeypatch.setattr(LocalWorker, "fetched", fetching_from)
    parameters = {"max_clusters": "auto", "growth": "paper", "max_iter": 3}

    def parted():
        calls.clear()
        return grown(**parameters).fit(*lazy(*rows))

    expected = grown(**parameters).fit(*rows)
    same(fit(parted)[0], expected)
    assert calls
    for n in range(1, len(calls) + 1, 1 + len(calls) // 8):
        deadly = {n}
        same(fit(parted)[0], expected)


def test_workers_that_cannot_reach_each_other_are_given_up(fit, rows, monkeypatch):
    def refuse(*_):
        raise OSError("no route to host")

    monkeypatch.setattr(LocalWorker, "fetched", refuse)
    model = grown(8)
    with pytest.raises(runner.ClusterError, match="cannot send rows to each other"):
        fit(lambda: model.fit(*lazy(*rows)))
    assert not hasattr(model, "cluster_centers_")


def test_rows_that_gave_way_stay_so(fit, rows):
    X, y, w = rows

    def go_on(cut):
        model = grown(growth="paper").fit(X, y, w)
        # The same rows with other labels, heavier than what is remembered.
        return model.partial_fit(*cut(X, (y + 1) % 3), sample_weight=cut(10 * w)[0])

    expected = go_on(lambda *arrays: arrays)
    assert expected.conflicts_
    found, n_passes, _ = fit(lambda: go_on(lazy))
    same(found, expected)
    for n in range(0, n_passes, 7):
        same(fit(lambda: go_on(lazy), {n})[0], expected)


def test_who_keeps_dying_is_given_up(fit, rows):
    model = grown(8)
    with pytest.raises(runner.ClusterError, match=r"died 5 times in a row.*\[1, 3\]"):
        fit(lambda: model.fit(*lazy(*rows)), {4}, always=True)
    assert not hasattr(model, "cluster_centers_")


def test_sets_that_no_one_uses_are_dropped(fit, rows, monkeypatch):
    most = []
    derive = DeriveParts.execute

    def watched(self, holdings):
        derive(self, holdings)
        most.append(len(holdings.sets))

    monkeypatch.setattr(DeriveParts, "execute", watched)
    monkeypatch.setattr(best, "ROWS_PER_PROTOTYPE", 2)
    fit(lambda: grown(6, growth="best").fit(*lazy(*rows)))
    assert len(most) > 2 * 2, "several samples, on two workers"
    assert max(most) == 3  # of all rows, of a sample, and of the rows that check it
