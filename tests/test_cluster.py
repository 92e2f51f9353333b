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
from test_blocks import same

from dkmeans import DiscriminativeKMeans
from dkmeans.progress import listening
from dkmeans.readers.blocks import SourceError
from dkmeans.runners.dask import ClusterError

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


def test_worker_processes_give_the_same_bits_and_lazy_answers(labelled):
    X, *_ = labelled
    with a_cluster(processes=True):
        for growth in ("paper", "best"):
            found = DiscriminativeKMeans(9, growth=growth).fit(*chunked(*labelled))
            expected = DiscriminativeKMeans(9, growth=growth).fit(*labelled)
            assert expected.conflicts_
            same(found, expected)
            answer = found.predict(*chunked(X))
            assert isinstance(answer, da.Array)
            np.testing.assert_array_equal(answer.compute(), expected.predict(X))


def held_rows(client):
    """Count rows that workers hold, once they have heard of what was released."""

    def count(dask_worker):
        batches = [value.X for value in dask_worker.data.values() if hasattr(value, "X")]
        holders = [actor for actor in dask_worker.state.actors.values() if actor is not None]
        sets = [one for holder in holders for one in holder._holdings.sets.values()]
        return sum(map(len, batches)) + sum(len(part.X) for one in sets for part in one.parts)

    for _ in range(100):
        found = sum(client.run(count).values())
        if not found:
            break
        time.sleep(0.02)
    return found


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

    DiscriminativeKMeans(9).fit(X, y)
    assert held_rows(client) == 0
    broken = X.map_blocks(_broken, dtype=X.dtype, meta=labelled[0][:0])
    with pytest.raises(SourceError, match="disk on fire"):
        DiscriminativeKMeans(9).fit(broken, y)
    assert held_rows(client) == 0
    with pytest.raises(ValueError, match="max_clusters=2 is less"):
        DiscriminativeKMeans(2).fit(X, y)
    assert held_rows(client) == 0
    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        DiscriminativeKMeans(9).fit(X, y)
    assert held_rows(client) == 0
    assert during == [300]  # as batches, and as parts of the same memory


def test_a_value_that_is_not_finite_is_told_by_name(client, labelled):
    X, y, _ = labelled
    frame = pd.DataFrame(X, columns=["height", "width", "age"]).assign(kind=y)
    frame.loc[100, "width"] = np.nan
    with pytest.raises(SourceError, match=r"partition 2: .* NaN in row 0, column 'width'"):
        DiscriminativeKMeans(9).fit(dd.from_pandas(frame, npartitions=3), "kind")


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
    model = DiscriminativeKMeans(4).fit(X, y)
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
