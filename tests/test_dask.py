"""Fits on a Dask cluster of worker processes give, bit for bit, what the rows in memory give."""

import gc
import os
import re
import signal
import time
from pathlib import Path

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster
from models import grown
from pyarrow import parquet as pq
from test_blocks import same

from dkmeans import DiscriminativeKMeans
from dkmeans.data.blocks import SourceError
from dkmeans.passes.assignment import AssignOwn
from dkmeans.passes.facts import SumWeights
from dkmeans.passes.search import FindExemplars
from dkmeans.runners import dask as runner
from dkmeans.runners.dask_requests import (
    BuildParts,
    DeriveParts,
    InspectPartitions,
    RunPass,
    SettleRange,
    Shared,
)

pytestmark = [
    pytest.mark.faults,
    pytest.mark.usefixtures("small_samples"),
    pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning"),
    # Dask itself calls pandas so when it reads Parquet.
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index"),
]
SIZES = (70, 0, 1, 59, 70)
PAPER, BEST = {"growth": "paper", "max_clusters": 9}, {"max_clusters": 8}
SETTINGS = [
    {"growth": "paper", "prune": True},
    BEST,
    {"max_clusters": 6, "refine": "margin", "max_iter": 6},
    {"max_clusters": "auto", "growth": "paper", "max_iter": 8},
    {"max_clusters": "auto", "refine": "margin", "max_iter": 6},
    {"metric": "cosine", "max_clusters": 6},
    {"metric": "learned", "max_clusters": 6, "refine": "margin"},
    {"metric": "learned", "max_clusters": 6, "n_components": 2, "refine": "margin"},
    {"metric": "auto", "max_clusters": 6, "refine": "margin"},
]


@pytest.fixture(scope="module")
def clusters():
    """A function that gives the client of two workers with so many threads each."""
    started = {}

    def client(n_threads):
        if n_threads not in started:
            cluster = LocalCluster(
                n_workers=2,
                threads_per_worker=n_threads,
                processes=True,
                dashboard_address=":0",
                silence_logs=50,  # the tests kill workers, which Dask complains about
            )
            started[n_threads] = Client(cluster, set_as_default=False), cluster
        return started[n_threads][0]

    # A LocalCluster closes workers for good that it misses a while after they were killed.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}):
        yield client
    for one, cluster in started.values():
        one.close()
        cluster.close()


@pytest.fixture
def client(clusters):
    """The client of workers with one thread, active, with both workers there."""
    one = clusters(1)
    one.wait_for_workers(2)
    with one.as_current():
        yield one


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    X = (rng.normal(size=(200, 3)) + 1.5 * y[:, None]).astype(np.float32)
    X[150:154], y[150:154] = X[:4], (y[:4] + 1) % 3  # the same rows with other labels
    return X, np.array(["red", "green", "blue"])[y], rng.integers(0, 4, 200).astype(float)


def chunked(*arrays):
    return [da.from_array(a, chunks=(SIZES, *((-1,) * (a.ndim - 1)))) for a in arrays]


def table(X, y, w):
    return pd.DataFrame(X, columns=list("abc")).assign(kind=y, weight=w)


def write(folder, *tables):
    """Write a Parquet file of each table."""
    for number, one in enumerate(tables):
        pq.write_table(
            pa.Table.from_pandas(one, preserve_index=False), folder / f"{number}.parquet"
        )
    return str(folder)


def fitted(parameters, *arguments):
    return grown(**parameters).fit(*arguments)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("parameters", SETTINGS)
def test_uneven_chunks(clusters, labelled, parameters, n_threads):
    with clusters(n_threads).as_current():
        found = fitted(parameters, *chunked(*labelled))
    expected = fitted(parameters, *labelled)
    assert expected.conflicts_
    same(found, expected)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("parameters", [PAPER, BEST])
def test_unknown_chunks_sparse_blocks_and_dataframes(
    clusters, labelled, tmp_path, parameters, n_threads
):
    X, y, w = labelled
    some = X[:, 0] > 0
    lazy_X, lazy_y, lazy_w = chunked(*labelled)
    cut = np.split(np.arange(len(X)), [90, 91])
    path = write(tmp_path, *(table(X[rows], y[rows], w[rows]) for rows in cut))
    Z = np.where(X > 1, X, 0)
    with clusters(n_threads).as_current():
        kept = lazy_X[:, 0] > 0
        unknown = fitted(parameters, lazy_X[kept], lazy_y[kept], lazy_w[kept])
        sparse = fitted(parameters, da.from_array(Z, (80, -1)).map_blocks(sp.csr_array), y)
        frame = fitted(parameters, dd.read_parquet(path), "kind", "weight")
    same(unknown, fitted(parameters, X[some], y[some], w[some]))
    same(sparse, fitted(parameters, sp.csr_array(Z), y))
    same(frame, fitted(parameters, *labelled))
    assert frame.feature_names_in_.tolist() == list("abc")


def test_columns_in_chunks_and_labels_that_are_here(client, labelled):
    X, y, w = labelled
    same(fitted(BEST, da.from_array(X, chunks=(90, 2)), y, w), fitted(BEST, *labelled))


def test_stored_twice_in_sparse_blocks(client, labelled):
    X, y, _ = labelled

    def doubled(block):
        half = sp.coo_array(block / 2)
        parts = [np.concatenate([part, part]) for part in (half.data, *half.coords)]
        indptr = np.arange(len(block) + 1) * 2 * block.shape[1]
        order = np.argsort(parts[1], kind="stable")
        return sp.csr_array((parts[0][order], parts[2][order], indptr), shape=block.shape)

    lazy = da.from_array(X, (80, -1)).map_blocks(doubled, dtype=X.dtype, meta=sp.csr_array((0, 3)))
    same(fitted(BEST, lazy, y), fitted(BEST, sp.csr_array(X), y))


def test_as_the_guide_says(clusters, labelled):
    # No other client is active: the scheduler might hear of the fit before it hears of the data.
    page = (Path(__file__).parent.parent / "docs" / "how-to" / "big-data.md").read_text(
        encoding="utf-8"
    )
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    (block,) = [block for block in blocks if ">>>" not in block]
    X, y, _ = labelled
    names = dict(zip("Xy", chunked(X, y), strict=True), DiscriminativeKMeans=DiscriminativeKMeans)
    exec(block.replace("tcp://scheduler:8786", clusters(1).scheduler.address), names)
    same(names["model"], DiscriminativeKMeans(256, metric="auto", refine="margin").fit(X, y))
    names["client"].close()


def test_without_a_cluster(labelled, tmp_path):
    X, y, w = labelled
    expected = fitted(BEST, *labelled)
    with dask.config.set(scheduler="threads"):
        same(fitted(BEST, *chunked(*labelled)), expected)
        path = write(tmp_path, table(X[:90], y[:90], w[:90]), table(X[90:], y[90:], w[90:]))
        same(fitted(BEST, dd.read_parquet(path), "kind", "weight"), expected)


def test_going_on(client, labelled):
    X, y, w = labelled
    lazy = chunked(*labelled)
    one, two = (grown(12, growth="paper") for _ in range(2))
    for some in (slice(0, 120), slice(120, None), slice(0, 50)):
        one.partial_fit(X[some], y[some], sample_weight=w[some])
        two.partial_fit(lazy[0][some], lazy[1][some], sample_weight=lazy[2][some])
        same(one, two)
    one.set_params(warm_start=True).fit(X, y, w)
    two.set_params(warm_start=True).fit(*lazy)
    same(one, two)


class Killer:
    """Kills the worker that holds partition 0 before some of the passes."""

    def __init__(self, monkeypatch, when):
        self.passes, self.killed = [], 0
        ask = runner.Crew._ask

        def asked(crew, request_for, *workers):
            number = len(self.passes)
            held = next(worker for worker in crew._workers if 0 in worker.numbers)
            request = request_for(held)
            request = request.request if isinstance(request, Shared) else request
            kind = type(request.task if isinstance(request, RunPass) else request)
            self.passes.append(kind)
            if when(number, kind):
                self.kill(crew.client, held)
            return ask(crew, request_for, *workers)

        monkeypatch.setattr(runner.Crew, "_ask", asked)

    def kill(self, client, held):
        (worker,) = client.who_has([held.future])[held.future.key]
        os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)
        self.killed += 1


@pytest.mark.parametrize(
    "moments", [(InspectPartitions,), (BuildParts, SumWeights), (AssignOwn, FindExemplars)]
)
def test_killed_workers(client, labelled, monkeypatch, moments):
    left = list(moments)
    killer = Killer(monkeypatch, lambda _, kind: kind in left and not left.remove(kind))
    found = fitted(BEST, *chunked(*labelled))
    assert killer.killed == len(moments)
    same(found, fitted(BEST, *labelled))


def test_killed_while_rows_are_held_out(client, labelled, monkeypatch):
    parameters = SETTINGS[3]
    folds = []
    killer = Killer(
        monkeypatch, lambda _, kind: kind is DeriveParts and not folds.append(0) and len(folds) == 2
    )
    same(fitted(parameters, *chunked(*labelled)), fitted(parameters, *labelled))
    assert killer.killed == 1


def test_killed_in_the_middle_of_a_pass(client, labelled, tmp_path):
    """A worker dies between two partitions of one pass, once."""
    flag = tmp_path / "not yet"
    flag.touch()

    def set_a_trap():
        from dkmeans.passes.grouping import SumSquares

        plain = SumSquares.visit

        def trapped(self, part, state):
            if part.numbering.numbers[0]:
                try:
                    os.unlink(flag)
                    os.kill(os.getpid(), signal.SIGKILL)
                except FileNotFoundError:
                    pass
            return plain(self, part, state)

        SumSquares.visit = trapped

    client.run(set_a_trap)
    found = fitted(PAPER, *chunked(*labelled))
    assert not flag.exists()
    same(found, fitted(PAPER, *labelled))


def test_who_keeps_dying_is_given_up(client, labelled, monkeypatch):
    killer = Killer(monkeypatch, lambda number, _: number >= 3)
    model = grown(**PAPER)
    with pytest.raises(runner.ClusterError, match=r"died 5 times in a row over the partitions .*0"):
        model.fit(*chunked(*labelled))
    assert killer.killed == 5
    assert not hasattr(model, "cluster_centers_")


def test_a_cluster_without_workers_is_given_up(labelled, monkeypatch):
    monkeypatch.setattr(runner, "NO_WORKERS_TIMEOUT_S", 0.2)
    cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=":0", silence_logs=50)
    with (
        cluster,
        Client(cluster, set_as_default=False) as one,
        one.as_current(),
        pytest.raises(runner.ClusterError, match="no workers for"),
    ):
        fitted(PAPER, *chunked(*labelled))


def _broken(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 3:
        raise OSError("disk on fire")
    return block


def refused(match, *arguments):
    model = grown(9)
    with pytest.raises(SourceError, match=match):
        model.fit(*arguments)
    assert not hasattr(model, "cluster_centers_")


@pytest.mark.parametrize("with_cluster", [True, False])
def test_what_is_wrong_is_said(request, labelled, tmp_path, with_cluster):
    if with_cluster:
        request.getfixturevalue("client")
    X, y, w = labelled
    lazy_X, lazy_y = chunked(X, y)
    broken = lazy_X.map_blocks(_broken, dtype=X.dtype, meta=X[:0])
    refused("Partition 3 cannot be read.*disk on fire", broken, lazy_y)
    bad = X.copy()
    bad[100, 2] = np.nan
    refused("In partition 3: .*NaN in row 29, column 2", *chunked(bad, y))
    refused("y is missing", lazy_X)
    refused("200 rows, but y has 199", lazy_X, y[:-1])
    refused("200 rows, but y has 150", lazy_X, lazy_y[:150])
    refused("two dimensions", lazy_X[:, 0], lazy_y)
    refused("is of type <U5", lazy_y[:, None], lazy_y)
    whole = table(X, y, w)
    frame = dd.from_pandas(whole, npartitions=3)
    refused("y='kid' is no column", frame, "kid")
    refused("sample_weight='heavy' is no column", frame, "kind", "heavy")
    refused(r"not numbers: \['kind'\]", frame, frame["kind"])
    refused(
        r"y must be a single column, .* as in df\['kind'\]", frame[list("abc")], frame[["kind"]]
    )
    refused("two dimensions, but the Dask Series has 1", frame["a"], frame["kind"])
    refused("array or dataframe, but it is a Dask Bag", frame.to_bag(), y)
    refused("array or dataframe, but it is a Dask Delayed", frame.to_delayed()[0], y)
    refused(
        "y must be an array or a Dask series, but it is a Dask Delayed", lazy_X, dask.delayed(y)
    )
    for odd in (frame.to_bag(), dask.delayed(X)):
        with pytest.raises(SourceError, match="X must be a Dask array or dataframe"):
            grown(9).fit(X, y).predict(odd)
    missing = whole.assign(kind=whole["kind"].where(whole["a"] < whole["a"].max()))
    refused("1 labels are missing in partition", dd.from_pandas(missing, npartitions=3), "kind")
    # Files that differ: in columns, in types, in being readable at all.
    halves = whole[:100], whole[100:]
    path = write(tmp_path, halves[0], halves[1].drop(columns=["b"]))
    refused(r"artition 1.*b", dd.read_parquet(path), "kind", "weight")
    path = write(tmp_path, halves[0], halves[1].drop(columns=["kind"]))
    refused(r"artition 1.*kind", dd.read_parquet(path), "kind", "weight")
    path = write(tmp_path, halves[0], halves[1].rename(columns={"a": "b", "b": "a"}))
    mixed = fitted({"max_clusters": 9}, dd.read_parquet(path), "kind", "weight")
    again = pd.concat([halves[0], halves[1].rename(columns={"a": "b", "b": "a"})])
    same(mixed, fitted({"max_clusters": 9}, again[list("abc")], y, w))  # by name, not by place
    path = write(tmp_path, *halves)
    frame = dd.read_parquet(path)
    raw = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(raw[:500] + bytes(len(raw) - 1500) + raw[-1000:])
    refused("artition 1 cannot be read", frame, "kind", "weight")


def test_an_empty_file_does_no_harm(client, labelled, tmp_path):
    X, y, w = labelled
    whole = table(X, y, w)
    path = write(tmp_path, whole[:0], whole[:150], whole[:0], whole[150:])
    same(fitted(BEST, dd.read_parquet(path), "kind", "weight"), fitted(BEST, *labelled))
    refused("no rows", dd.from_pandas(whole[:0], npartitions=1), "kind", "weight")


def test_one_call_per_worker_and_pass_and_nothing_is_left_behind(client, labelled, monkeypatch):
    def n_tasks():
        gc.collect()
        return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    calls, before = [], n_tasks()
    ask = runner.WorkerProxy.ask

    def counted(worker, request):
        calls.append(request)
        return ask(worker, request)

    monkeypatch.setattr(runner.WorkerProxy, "ask", counted)
    killer = Killer(monkeypatch, lambda *_: False)
    fitted(BEST, *chunked(*labelled))
    assert len(killer.passes) > 20
    settling = [request for request in calls if isinstance(request, SettleRange)]
    assert len(settling) == 2 * 2  # mixed hashes are counted, then found
    assert len(calls) - len(settling) == 2 * len(killer.passes)
    for _ in range(50):  # releases take a moment to arrive
        if n_tasks() <= before:
            break
        time.sleep(0.1)
    assert n_tasks() <= before


METHODS = ["predict", "predict_cluster", "transform", "predict_proba", "decision_function"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_answers_are_lazy(client, labelled, method, n_classes):
    X, y, _ = labelled
    if n_classes == 2:
        y = np.where(y == "red", "red", "other")
    model = grown(9).fit(X, y)
    ask, expected = getattr(model, method), getattr(model, method)(X)
    lazy = da.from_array(X, chunks=(SIZES, 2))
    answer = ask(lazy)
    assert isinstance(answer, da.Array)
    assert (answer.shape, answer.dtype, answer.chunks[0]) == (expected.shape, expected.dtype, SIZES)
    assert sum("DiscriminativeKMeans" in str(key) for key in dict(answer.__dask_graph__())) == 1
    computed = answer.compute()
    assert computed.dtype == expected.dtype
    np.testing.assert_array_equal(computed, expected)
    some = X[:, 0] > 0
    unknown = ask(lazy[lazy[:, 0] > 0])
    assert np.isnan(unknown.shape[0])
    np.testing.assert_array_equal(unknown.compute(), expected[some])
    sparse = da.from_array(X, (80, -1)).map_blocks(sp.csr_array)
    np.testing.assert_array_equal(ask(sparse).compute(), ask(sp.csr_array(X)))


def test_answers_about_dataframes(client, labelled):
    X, y, _ = labelled
    frame = pd.DataFrame(X, columns=list("abc"))
    model = grown(9).fit(frame, y)
    lazy = dd.from_pandas(frame, npartitions=3)
    for method in METHODS:
        answer, expected = getattr(model, method)(lazy), getattr(model, method)(frame)
        assert isinstance(answer, da.Array)
        assert (answer.dtype, answer.ndim) == (expected.dtype, expected.ndim)
        np.testing.assert_array_equal(answer.compute(), expected)
    labels = dd.from_pandas(pd.Series(y), npartitions=3)
    weights = np.arange(len(y))
    for more in ((), (weights,)):
        expected = model.score(frame, y, *more)
        assert model.score(lazy, labels, *more) == expected
        assert model.score(lazy, y, *(da.from_array(w) for w in more)) == expected
    with pytest.raises(SourceError, match="no column 'c', which the model was fitted on"):
        model.predict(lazy[["a", "b"]])
    with pytest.raises(SourceError, match="not numbers"):
        model.predict(lazy.assign(c="x"))
    with pytest.warns(UserWarning, match="valid feature names"):
        answer = model.predict(lazy.to_dask_array())
    np.testing.assert_array_equal(answer.compute(), model.predict(frame))
    np.testing.assert_array_equal(model.predict(lazy[lazy["a"] > 99]).compute(), np.empty(0, "U5"))


def test_answers_do_not_carry_the_training_rows_or_follow_the_estimator(labelled):
    X, y, _ = labelled
    X, y = np.tile(X, (50, 1)), np.tile(y, 50)
    model = grown(9).fit(X, y)
    answer = model.predict_cluster(da.ones((4, 3), chunks=2))
    assert len(cloudpickle.dumps(dict(answer.__dask_graph__()))) < 10_000
    before = model.predict_cluster(np.ones((4, 3)))
    model.set_center(model.cluster_ids_[before[0]], [99.0, 99.0, 99.0])
    np.testing.assert_array_equal(answer.compute(scheduler="synchronous"), before)


def test_answers_need_a_fit_and_the_right_features(labelled):
    X, y, _ = labelled
    lazy = da.from_array(X, chunks=50)
    with pytest.raises(ValueError, match="not fitted"):
        grown().predict(lazy)
    model = grown(9).fit(X, y)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict(lazy[:, :2])
    with pytest.raises(ValueError, match="X must have two dimensions, but the Dask Array has 1"):
        model.predict(lazy[:, 0])
