"""A Dask cluster in short: the same bits, nothing left behind, and clear words when it is gone.

`test_dask.py` and `test_lost_workers.py` have more, by `make faults`.
"""

import gc
import pickle
import time
from contextlib import contextmanager, suppress
from copy import copy

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import config
from distributed import Client, LocalCluster, Scheduler, SpecCluster, Worker
from models import grown
from test_blocks import same

from dkmeans import load, prepare
from dkmeans.data.blocks import SourceError
from dkmeans.progress import listening
from dkmeans.results import LazyConflicts
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
    """Count the rows that workers hold: in partitions, and in the parts made of them."""

    def count(dask_worker):
        partitions = [value for value in dask_worker.data.values() if hasattr(value, "X")]
        parts = []
        for holder in filter(None, dask_worker.state.actors.values()):
            holdings = holder._holdings
            partitions += holdings.batches.values()
            for runner in holdings.sets.values():
                parts += runner.parts
        return [sum(len(one.X) for one in some) for some in (partitions, parts)]

    return np.sum([(0, 0), *client.run(count).values()], axis=0).tolist()  # there may be no workers


def are_dropped(client):
    """Tell whether workers hold no rows, once they have heard of what was released."""
    end = time.monotonic() + 120  # which a machine must be very busy to need
    while any(held_rows(client)):
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
        count = len(expected.conflicts_)
        assert repr(found.conflicts_) == f"<LazyConflicts: {count} groups, not computed>"
        same(found, expected)
        assert are_dropped(client)
        for one, two in zip(found.conflicts_.compute(), expected.conflicts_, strict=True):
            assert (one.dtype, one.tobytes()) == (two.dtype, two.tobytes())
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
    [(in_partitions, in_parts)] = during
    assert in_parts == 150
    # Dask chose where to read the partitions; one that was moved for balance is there twice.
    assert 150 <= in_partitions <= 300


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
        with pytest.raises(SourceError, match=match) as raised:
            grown(9).fit(dd.from_pandas(bad, npartitions=3), "kind", "weight")
        assert "worker" not in str(raised.value.__context__), "that there is no task is no error"

    refused(r"partition 2: .* NaN in row 0, column 'width'", "width", np.nan)
    refused(r"partition 2: sample_weight has -1.0 at row 0", "weight", -1.0)
    bad = dd.from_pandas(frame.assign(width=X[:, 1] + 1j), npartitions=3)
    with pytest.raises(SourceError, match=r"not real numbers: \['width'\]"):
        grown(9).fit(bad, "kind", "weight")
    x, y, w = (da.from_array(a, chunks=50) for a in labelled)
    kept = da.from_array(np.arange(150) != 70, chunks=50)
    with pytest.raises(SourceError, match="X has 150 rows, but sample_weight has 149"):
        grown(9).fit(x, y, w[kept])
    whole = da.from_array(np.ones(150, bool), chunks=50)
    with pytest.raises(SourceError, match=r"partition 1: sample_weight.shape == \(49,\)"):
        grown(9).fit(x[whole], y[whole], w[kept])


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
    if client.cluster.status.name == "running":
        with Client(client.cluster, set_as_default=False) as other:
            assert are_dropped(other)
    assert not [record for record in caplog.records if record.name == "dkmeans"]
    assert vars(model) == before | {"growth": "paper"}


def test_labels_are_lazy_and_not_stored(client, labelled, tmp_path):
    X, y, w = labelled
    persisted = client.persist(chunked(X, y, w))
    model, expected = grown(9).fit(*persisted), grown(9).fit(X, y, w)
    assert isinstance(model.labels_, da.Array)
    assert model.labels_.chunks == (SIZES,)
    np.testing.assert_array_equal(model.labels_.compute(), expected.labels_)
    with pytest.raises(ValueError, match=r"a fit of Dask collections, pass the training rows"):
        model.suspects()
    model.save(tmp_path / "model.dkm")
    for again in (load(tmp_path / "model.dkm"), pickle.loads(pickle.dumps(model)), copy(model)):
        assert not hasattr(again, "labels_")
        np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
        np.testing.assert_array_equal(again.exemplars_, expected.exemplars_)
        assert not hasattr(again, "conflicts_")
        np.testing.assert_array_equal(again.predict_cluster(persisted[0]), expected.labels_)
    frame = pd.DataFrame(X, columns=["height", "width", "age"]).assign(kind=y)
    of_frame = grown(9).fit(dd.from_pandas(frame, npartitions=3), "kind")
    np.testing.assert_array_equal(of_frame.labels_, grown(9).fit(X, y).labels_)


@pytest.mark.parametrize("class_weight", [None, {"red": 0.0}])
def test_conflicts_are_found_when_they_are_asked_for(client, labelled, monkeypatch, class_weight):
    """Also those of `partial_fit`, where rows may equal earlier ones, and of rows of length one."""
    X, y, w = labelled
    other = np.roll(["red", "green", "blue"], 1)[np.searchsorted(["blue", "green", "red"], y)]
    options = {"class_weight": class_weight, "metric": "cosine", "growth": "paper"}
    read = prepare._read
    calls = []
    monkeypatch.setattr(prepare, "_read", lambda *a: calls.append(a) or read(*a))
    found, expected = grown(40, **options), grown(40, **options)
    for part in ((X, y, w), (2 * X, other, 10 * w)):
        found.partial_fit(*chunked(*part[:2]), sample_weight=chunked(part[2])[0])
        expected.partial_fit(*part[:2], sample_weight=part[2])
        calls.clear()
        assert len(found.conflicts_) == len(expected.conflicts_)
        assert bool(found.conflicts_) == bool(expected.conflicts_)
        assert not calls
        groups = [group.tolist() for group in expected.conflicts_]
        assert [group.tolist() for group in found.conflicts_] == groups
        assert [group.tolist() for group in found.conflicts_[::-1]] == groups[::-1]
        assert len(calls) == 1
    assert groups


def test_conflicts_of_rows_that_have_changed_are_an_error():
    with pytest.raises(ValueError, match=r"have 1 groups .* but had 2 during the fit"):
        LazyConflicts(2, lambda: [np.arange(2)]).compute()


def test_chunks_and_kinds_of_labels_do_not_matter(client, labelled):
    X, y, w = labelled
    expected = grown(9).fit(X, y, w)
    lazy_X, _, lazy_w = chunked(X, y, w)
    same(grown(9).fit(lazy_X, da.from_array(y, chunks=40), da.from_array(w, chunks=99)), expected)
    same(grown(9).fit(lazy_X, da.from_array(y.astype(object), chunks=33), w), expected)
    kept = da.from_array(np.ones(len(X), bool), chunks=40)
    unknown = [da.from_array(a, chunks=40)[kept] for a in (X, y, w)]
    same(grown(9).fit(*client.persist(unknown)), expected)
    frame = pd.DataFrame(X, columns=["height", "width", "age"])
    frame = frame.assign(kind=pd.Categorical(y, ["red", "green", "blue", "grey"]), weight=w)
    lazy = client.persist(dd.from_pandas(frame, npartitions=4))
    same(grown(9).fit(lazy, "kind", "weight"), expected)
    codes = np.unique(y, return_inverse=True)[1].astype(np.int8)
    numbers = grown(9).fit(lazy_X, da.from_array(codes, chunks=150), lazy_w)
    same(numbers, grown(9).fit(X, codes, w))


@pytest.mark.parametrize("dtype", [object, "U9", np.uint8, np.float32, "category"])
def test_classes_have_the_type_of_labels_in_memory(client, labelled, dtype):
    X, y, _ = labelled
    codes = np.unique(y, return_inverse=True)[1]
    if dtype == "category":
        labels = pd.Series(y).astype(dtype)
        lazy = dd.from_pandas(labels, npartitions=5)
    else:
        labels = (codes if np.dtype(dtype).kind in "uf" else y).astype(dtype)
        lazy = da.from_array(labels, chunks=40)
    expected = grown(4, growth="paper").fit(X, labels).classes_
    found = [grown(4, growth="paper").fit(da.from_array(X, chunks=(30, 3)), lazy).classes_]
    if dtype != "category":
        halves = [(X[some], labels[some]) for some in (slice(0, 60), slice(60, 150))]
        found.append(grown(4, growth="paper").fit(lambda: halves).classes_)
    for classes in found:
        assert classes.dtype == expected.dtype
        np.testing.assert_array_equal(classes, expected)


def test_unknown_chunks_may_differ(labelled):
    X, y, w = labelled
    expected = grown(9, growth="paper").fit(X, y, w)

    def known(values, chunks):
        return da.from_array(values, chunks=(chunks, *((-1,) * (values.ndim - 1))))

    def unknown(values, chunks):
        return known(values, chunks)[known(np.ones(150, bool), chunks)]

    def frame(values, n):
        kind = pd.Series if values.ndim == 1 else pd.DataFrame
        return dd.from_pandas(kind(values), npartitions=n)

    categories = frame(y, 3).astype("category")
    with a_cluster(processes=True):
        for rows, labels, weights in (
            (unknown(X, 40), known(y, 60), unknown(w, 25)),
            (unknown(X, SIZES), unknown(y, 60), w),
            (known(X, 40), unknown(y, (9, 1, 70, 70)), unknown(w, 40)),
            (frame(X, 3), known(y, (60, 60, 30)), frame(w, 5)),
            (known(X, 40), categories, known(w, 41)),
        ):
            same(grown(9, growth="paper").fit(rows, labels, weights), expected)
            score = expected.score(X, y, w)
            assert expected.score(rows, labels, weights) == score
    with pytest.raises(SourceError, match="X has 150 rows, but y has 149"):
        grown(9).fit(unknown(X, 40), known(y[1:], 60))


def test_a_dask_frame_may_have_more_columns(client, labelled):
    """Questions take the columns that the model was fitted on, by their names."""
    X, y, w = labelled
    names = ["height", "width", "age"]
    plain = pd.DataFrame(X, columns=names)
    model = grown(9).fit(plain, y).set_rejection(plain)
    wide = plain.assign(kind=pd.Categorical(y), weight=w, age2=0)[
        ["kind", "age", "weight", "width", "height", "age2"]
    ]
    lazy = dd.from_pandas(wide, npartitions=3)
    assert model.score(lazy, "kind") == model.score(plain, y)
    assert model.score(lazy, "kind", "weight") == model.score(plain, y, w)
    assert model.score(lazy, lazy["kind"], w) == model.score(plain, y, w)
    for method in ("predict", "transform", "unknown_score"):
        answer = getattr(model, method)(lazy)
        np.testing.assert_array_equal(answer.compute(), getattr(model, method)(plain))
    assert (model.explain(lazy).radius == model.explain(plain).radius).all()
    for ask in (model.predict, model.explain, lambda d: model.score(d, "kind")):
        with pytest.raises(SourceError, match="no column 'width', which the model was fitted on"):
            ask(lazy.drop(columns="width"))


def test_the_score_of_partitions_is_computed_on_their_workers(client, labelled):
    X, y, w = labelled
    model = grown(9).fit(X, y)
    w = w + np.random.default_rng(0).random(150)
    came = []
    gather = client._gather

    async def watched(*arguments, **named):
        found = await gather(*arguments, **named)
        came.append(found)
        return found

    client._gather = watched
    assert model.score(*chunked(X, y, w)) == model.score(X, y, w)
    assert 0 < len(pickle.dumps(came)) < 2000
    assert model.score(*chunked(X, y)) == model.score(X, y)
    bad = w.copy()
    bad[100] = np.nan
    with pytest.raises(SourceError, match="In partition 3: sample_weight has nan at row 29"):
        model.score(*chunked(X, y, bad))
    with pytest.raises(SourceError, match=r"In partition \d: y has labels such as 0"):
        model.score(chunked(X)[0], chunked(w.astype(int))[0] * 0)
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        model.score(*chunked(X, y, 0 * w))


@pytest.mark.parametrize(
    ("weights", "class_weight"),
    [
        ([0.1, 0.7, 2.0], None),
        ([1.0, 2.0, 3.0], "balanced"),
        ([1 / 3, np.pi, 1e-30], {"red": 3.0, "blue": 0.5, "green": 1}),
    ],
)
def test_weights_stay_with_the_workers(client, labelled, weights, class_weight):
    X, y, w = labelled
    w = np.array([0.0, *weights])[w.astype(int)]
    parameters = {"class_weight": class_weight, "growth": "paper"}
    lazy = client.persist(chunked(X, y, w))
    same(grown(9, **parameters).fit(*lazy), grown(9, **parameters).fit(X, y, w))
    if class_weight != "balanced":  # which needs all rows at once
        one, two = (grown(9, half_life=100.0, **parameters) for _ in range(2))
        for some in (slice(None), slice(0, 50)):
            one.partial_fit(X[some], y[some], sample_weight=w[some])
            two.partial_fit(lazy[0][some], lazy[1][some], sample_weight=lazy[2][some])
        same(two, one)


def test_codes_of_labels_are_found_again_where_a_worker_was_lost(client, labelled, monkeypatch):
    X, y, w = labelled
    w = w + np.arange(150) / 7
    inspect = dask.InspectPartitions.execute

    def forgetful(self, holdings):
        found = inspect(self, holdings)
        holdings.codes.clear()
        return found

    monkeypatch.setattr(dask.InspectPartitions, "execute", forgetful)
    settings = {"growth": "paper", "class_weight": "balanced"}
    same(grown(9, **settings).fit(*chunked(X, y, w)), grown(9, **settings).fit(X, y, w))


def test_a_task_of_the_cluster_may_fit(client, labelled):
    """Even where it has the only thread of the only worker: it waits for other tasks there."""
    X, y, w = labelled
    expected = grown(9).fit(X, y, w)
    client.cluster.scale(1)
    end = time.monotonic() + 60
    while len(client.nthreads()) > 1 and time.monotonic() < end:
        time.sleep(0.01)

    def work():
        lazy = chunked(X, y, w)
        model = grown(9).fit(*lazy)
        return model.cluster_centers_, model.explain(lazy[0]).radius, model.score(*lazy)

    # The task's client, of a worker in this process, would leave its scheduler to other tests.
    with config.set(scheduler=None):
        centers, radius, score = client.submit(work, pure=False).result(timeout=120)
    np.testing.assert_array_equal(centers, expected.cluster_centers_)
    np.testing.assert_array_equal(radius, expected.explain(X).radius)
    assert score == expected.score(X, y, w)
    assert client.submit(sum, [1, 2], pure=False).result(timeout=60) == 3  # the thread is back


@pytest.mark.parametrize("how", ["fresh", "balanced", "going on"])
def test_what_travels_does_not_grow_with_distinct_weights(client, monkeypatch, how):
    ask, n_bytes = Crew._ask, []

    def watched(self, request_for, workers=None):
        results = ask(self, request_for, workers)
        asked = [request_for(one) for one in self._workers if workers is None or one in workers]
        n_bytes.append(len(pickle.dumps((asked, results))))
        return results

    monkeypatch.setattr(Crew, "_ask", watched)
    most = []
    for n in (1000, 4000):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, n)
        X, w = rng.normal(size=(n, 3)) + y[:, None], rng.random(n)
        lazy = [da.from_array(a, chunks=n // 4) for a in (X, y, w)]
        settings = {"growth": "paper"}
        if how == "balanced":
            settings["class_weight"] = how
        one, two = grown(4, **settings), grown(4, **settings)
        if how == "going on":
            settings["half_life"] = 100.0
            one, two = (m.set_params(**settings).partial_fit(X[:9], y[:9]) for m in (one, two))
        n_bytes.clear()
        if how == "going on":
            one.partial_fit(*lazy[:2], sample_weight=lazy[2])
            two.partial_fit(X, y, sample_weight=w)
        else:
            one.fit(*lazy)
            two.fit(X, y, w)
        same(one, two)
        most.append(max(n_bytes))
    assert most[1] < most[0] + 1000  # a byte of every row were 3,000 more


@pytest.mark.faults
def test_uneven_workers(labelled):
    """Workers get rows by their threads."""
    spec = {
        n: {"cls": Worker, "options": {"nthreads": n_threads}} for n, n_threads in enumerate((1, 3))
    }
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": ":0"}}
    held = []

    def hear(step):
        held.append(client.run(rows_by_worker))

    with (
        SpecCluster(spec, scheduler, silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        lazy = client.persist([da.from_array(a, chunks=10) for a in labelled])
        with listening(hear):
            found = grown(9).fit(*lazy)
        same(found, grown(9).fit(*labelled))
    threads, counts = zip(*sorted(held[0].values()), strict=True)
    assert threads == (1, 3)
    assert counts == (40, 110)


def rows_by_worker(dask_worker):
    parts = [
        part
        for holder in filter(None, dask_worker.state.actors.values())
        for part in holder._holdings.sets[0].parts
    ]
    assert all(part.n_threads <= dask_worker.state.nthreads for part in parts)
    return dask_worker.state.nthreads, sum(len(part) for part in parts)


@pytest.mark.faults
@pytest.mark.parametrize("counts", [(4, 1), (1, 4), (3, 2, 1)])
@pytest.mark.parametrize(
    "parameters", [{"max_clusters": 9, "growth": "paper"}, {"max_clusters": "auto"}]
)
def test_workers_come_and_go(labelled, counts, parameters):
    """The cluster grows and shrinks during a fit."""
    left = list(counts)

    def hear(step):
        if left:
            wanted = left.pop(0)
            client.cluster.scale(wanted)
            end = time.monotonic() + 30
            while len(client.nthreads()) != wanted and time.monotonic() < end:
                time.sleep(0.01)
            assert len(client.nthreads()) == wanted

    with a_cluster(processes=False) as client:
        lazy = client.persist(chunked(*labelled))
        with listening(hear):
            found = grown(**parameters).fit(*lazy)
        assert not left
        same(found, grown(**parameters).fit(*labelled))
        assert are_dropped(client)


@pytest.mark.faults
def test_a_cluster_that_adapts(labelled):
    with a_cluster(processes=False) as client:
        client.cluster.adapt(minimum=0, maximum=3, interval="10ms", wait_count=1)
        for growth in ("paper", "best"):
            found = grown(9, growth=growth).fit(*chunked(*labelled))
            same(found, grown(9, growth=growth).fit(*labelled))
