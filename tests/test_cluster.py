"""A Dask cluster in short: the same bits, nothing left behind, and clear words when it is gone.

`test_dask.py` and `test_lost_workers.py` have more, by `make faults`.
"""

import gc
import time
from contextlib import contextmanager, suppress

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from models import grown
from test_blocks import same

from dkmeans.data.blocks import SourceError
from dkmeans.progress import listening
from dkmeans.runners import dask
from dkmeans.runners.dask import ClusterError, Crew

SIZES = (70, 0, 1, 59, 20)


@contextmanager
def a_cluster(*, processes):
    """Start two workers of one thread each, and give their client, which is active."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=processes,
            dashboard_address=":0",
            silence_logs=50,  # some tests close what is in use, which Dask complains about
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        yield client


@pytest.fixture
def client():
    """The client of workers in this process, which start in no time."""
    with a_cluster(processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    X = (rng.normal(size=(150, 3)) + 1.5 * y[:, None]).astype(np.float32)
    X[100:104], y[100:104] = X[:4], (y[:4] + 1) % 3  # the same rows with other labels
    return X, np.array(["red", "green", "blue"])[y], rng.integers(0, 4, 150).astype(float)


def chunked(*arrays):
    return [da.from_array(a, chunks=(SIZES, *((-1,) * (a.ndim - 1)))) for a in arrays]


def held_rows(client):
    """Count the rows that workers hold."""

    def count(dask_worker):
        found = [value for value in dask_worker.data.values() if hasattr(value, "X")]
        for holder in filter(None, dask_worker.state.actors.values()):
            holdings = holder._holdings
            found += holdings.batches.values()
            for runner in holdings.sets.values():
                found += runner.parts
        return sum(len(one.X) for one in found)

    return sum(client.run(count).values())


def are_dropped(client):
    """Tell whether workers hold no rows, once they have heard of what was released."""
    end = time.monotonic() + 120  # which a machine must be very busy to need
    while held_rows(client):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_worker_processes_give_the_same_bits_and_drop_the_rows(labelled):
    X, y, w = labelled
    bad = X.copy()
    bad[100, 1] = np.nan
    frame = pd.DataFrame(X, columns=["height", "width", "age"]).assign(kind=y, weight=w)
    with a_cluster(processes=True) as client:
        persisted = client.persist(chunked(*labelled))
        found = grown(9).fit(*persisted)
        assert are_dropped(client)
        expected = grown(9).fit(*labelled)
        assert expected.conflicts_
        same(found, expected)
        answer = found.predict(persisted[0])  # what the user persisted is still there
        assert isinstance(answer, da.Array)
        np.testing.assert_array_equal(answer.compute(), expected.predict(X))

        paper = grown(9, growth="paper")
        paper.fit(dd.from_pandas(frame, npartitions=3), "kind", "weight")
        assert are_dropped(client)
        same(paper, grown(9, growth="paper").fit(*labelled))
        assert paper.feature_names_in_.tolist() == ["height", "width", "age"]

        with pytest.raises(SourceError, match=r"In partition 3: .*NaN in row 29, column 1"):
            grown(9).fit(*chunked(bad, y))
        assert are_dropped(client)


@pytest.mark.parametrize("answers", [True, False])
def test_workers_merge_their_results(client, labelled, monkeypatch, answers):
    """And the driver asks each of them where one does not answer another."""
    monkeypatch.setattr(dask, "MIN_TREE_WORKERS", 2)
    merged = []
    plain = dask.MergePeers.execute

    def watched(self, holdings):
        merged.append(len(self.peers))
        return plain(self, holdings) if answers else None

    monkeypatch.setattr(dask.MergePeers, "execute", watched)
    persisted = client.persist(chunked(*labelled[:2]))
    found = grown(9, growth="paper").fit(*persisted)
    same(found, grown(9, growth="paper").fit(*labelled[:2]))
    assert set(merged) <= {0, 1}
    assert merged
    assert are_dropped(client)


@pytest.fixture
def no_garbage_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _broken(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 3:
        raise OSError("disk on fire")
    return block


@pytest.mark.usefixtures("no_garbage_collection")
def test_workers_drop_the_rows_however_a_fit_ends(client, labelled):
    X, y = chunked(*labelled[:2])
    during = []

    def interrupt(step):
        during.append(held_rows(client))
        raise KeyboardInterrupt

    grown(9).fit(X, y)
    assert are_dropped(client)
    broken = X.map_blocks(_broken, dtype=X.dtype, meta=labelled[0][:0])
    with pytest.raises(SourceError, match="disk on fire"):
        grown(9).fit(broken, y)
    assert are_dropped(client)
    with pytest.raises(ValueError, match="max_clusters=2 is less"):
        grown(2).fit(X, y)
    assert are_dropped(client)
    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        grown(9).fit(X, y)
    assert are_dropped(client)
    assert during == [300]  # as batches, and as parts of the same memory


@pytest.mark.usefixtures("no_garbage_collection")
def test_workers_drop_the_rows_that_a_fit_was_waiting_for(client, labelled, monkeypatch):
    whole, waited = Crew._wait, []

    def interrupt(self, futures):
        whole(self, futures)
        waited.append(len(futures))
        if len(waited) == 2:  # for those who hold the partitions
            raise KeyboardInterrupt

    monkeypatch.setattr(Crew, "_wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        grown(9).fit(*chunked(*labelled))
    assert waited == [len(SIZES), 2]
    assert are_dropped(client)


@pytest.mark.parametrize("with_cluster", [True, False])
def test_values_that_will_not_do_are_told_by_name(request, labelled, with_cluster):
    if with_cluster:
        request.getfixturevalue("client")
    X, y, w = labelled
    frame = pd.DataFrame(X, columns=["height", "width", "age"]).assign(kind=y, weight=w)

    def refused(match, name, value):
        bad = frame.copy()
        bad.loc[100, name] = value
        with pytest.raises(SourceError, match=match):
            grown(9).fit(dd.from_pandas(bad, npartitions=3), "kind", "weight")

    refused(r"partition 2: .* NaN in row 0, column 'width'", "width", np.nan)
    refused(r"partition 2: sample_weight has -1.0 at row 0", "weight", -1.0)
    bad = dd.from_pandas(frame.assign(width=X[:, 1] + 1j), npartitions=3)
    with pytest.raises(SourceError, match=r"not real numbers: \['width'\]"):
        grown(9).fit(bad, "kind", "weight")
    x, y, w = (da.from_array(a, chunks=50) for a in labelled)
    short = w[da.from_array(np.arange(150) != 70, chunks=50)]
    with pytest.raises(SourceError, match=r"partition 1: sample_weight.shape == \(49,\)"):
        grown(9).fit(x, y, short)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda client: client.close(), "client was closed, or lost its scheduler"),
        (lambda client: client.cluster.close(), "client was closed, or lost its scheduler"),
        (lambda client: client.restart(wait_for_workers=False), "cluster dropped the rows"),
    ],
    ids=["client closed", "cluster closed", "restarted"],
)
def test_a_cluster_that_is_gone_is_told_in_one_sentence(client, labelled, caplog, end, told):
    X, y, _ = labelled
    model = grown(4).fit(X, y)
    before = dict(vars(model))

    def hear(step):
        if step.record["round"] == 2:
            with suppress(TimeoutError):
                end(client)

    with pytest.raises(ClusterError, match=told) as raised, listening(hear):
        model.set_params(growth="paper").fit(*chunked(X, y))
    assert "\n" not in str(raised.value)
    assert not [record for record in caplog.records if record.name == "dkmeans"]
    assert vars(model) == before | {"growth": "paper"}
