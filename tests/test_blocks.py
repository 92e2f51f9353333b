"""Data that is read block by block gives, bit for bit, what the same rows in memory give."""

import errno
import io
import os
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from pyarrow import csv, feather
from pyarrow import parquet as pq

from dkmeans.data import first_pass
from dkmeans.data.blocks import SourceError
from dkmeans.data.tables import TableBlocks
from dkmeans.growth import refine
from dkmeans.progress import listening
from dkmeans.runners import merging, row_store, shelf
from dkmeans.runners.disk_budget import DiskBudget, DiskSpaceError
from dkmeans.runners.prefetch import prefetched
from dkmeans.sources import out_of_core

pytestmark = [
    pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning"),
    pytest.mark.usefixtures("small_samples"),
]
SETTINGS = [
    {"growth": "paper"},
    {"growth": "paper", "max_clusters": 9, "prune": True},
    {"growth": "best", "max_clusters": 12},
    {"growth": "best", "max_clusters": 12, "refine": "margin"},
    {"max_clusters": "auto", "refine": "margin", "max_iter": 6},
    {"metric": "cosine", "max_clusters": 9, "refine": "margin"},
    {"metric": "learned", "max_clusters": 9, "refine": "margin"},
    {"metric": "learned", "max_clusters": 9, "n_components": 2, "refine": "margin"},
    {"metric": "auto", "max_clusters": 9, "refine": "margin"},
]


def computed(values):
    """Compute what is lazy: on the cluster if there still is one, else in this process."""
    if not hasattr(values, "compute"):
        return values
    import dask
    from distributed import default_client

    try:
        scheduler = default_client()
    except ValueError:
        scheduler = "threads"
    with dask.config.set(scheduler=scheduler):  # clients of other tests may have left theirs
        return values.compute()


def same(a, b):
    """Whether two fits agree to the last bit."""
    for name in ("cluster_centers_", "cluster_sizes_", "cluster_ids_", "labels_", "exemplars_"):
        one, two = (np.asarray(computed(getattr(model, name))) for model in (a, b))
        assert one.dtype == two.dtype, name
        assert one.tobytes() == two.tobytes(), name
    assert a.cluster_classes_.tolist() == b.cluster_classes_.tolist()
    assert (a.inertia_, a.n_iter_, a.converged_) == (b.inertia_, b.n_iter_, b.converged_)
    for name in a.history_.dtype.names if hasattr(a.history_, "dtype") else ():
        if name != "seconds":
            np.testing.assert_array_equal(a.history_[name], b.history_[name])
    one, two = ([c.tolist() for c in computed(model.conflicts_)] for model in (a, b))
    assert one == two
    np.testing.assert_array_equal(a.path_.training_error, b.path_.training_error)


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = (rng.normal(size=(400, 4)) + 1.5 * y[:, None]).astype(np.float32)
    X[200:205] = X[:5]  # the same rows with other labels, in other blocks
    return X, np.array(["red", "green", "blue"])[y], rng.integers(0, 4, 400).astype(float)


def batches(X, y, w, sizes):
    """A function that makes batches."""
    ends = np.cumsum(sizes)
    cuts = [slice(b - a, b) for a, b in zip(sizes, ends, strict=True)]
    return lambda: ((X[c], y[c]) if w is None else (X[c], y[c], w[c]) for c in cuts)


@pytest.mark.study
@pytest.mark.parametrize("parameters", SETTINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_batches(labelled, parameters, weighted):
    X, y, w = labelled
    w = w if weighted else None
    whole = grown(**parameters).fit(X, y, w)
    # Read again in every pass; kept in a file; and kept in memory, as it is little.
    for n_threads, memory_mb, disk_mb in ((1, 0.01, 0), (2, 0.01, None), (2, None, 0)):
        model = grown(**parameters, n_threads=n_threads, memory_mb=memory_mb, disk_mb=disk_mb)
        same(model.fit(batches(X, y, w, [150, 0, 1, 99, 150])), whole)


@pytest.mark.study
@pytest.mark.parametrize("parameters", SETTINGS[:4])
def test_sparse_batches(labelled, parameters):
    X, y, _ = labelled
    X = np.where(X > 1, X, 0)
    whole = grown(**parameters).fit(sp.csr_array(X), y)
    parts = batches(sp.csr_array(X), y, None, [100, 100, 200])
    for disk_mb in (0, None):
        model = grown(**parameters, memory_mb=0.005, disk_mb=disk_mb)
        same(model.fit(parts), whole)


def test_batches_may_come_in_one_array(labelled):
    """Filled anew for each of them, as some readers do."""
    X, y, _ = labelled

    def batches():
        rows, labels = np.empty((100, 4), dtype=np.float32), np.empty(100, dtype=y.dtype)
        for start in range(0, 400, 100):
            rows[:], labels[:] = X[start : start + 100], y[start : start + 100]
            yield rows, labels

    whole = grown(9).fit(X, y)
    for memory_mb in (0.01, None):
        same(grown(9, memory_mb=memory_mb).fit(batches), whole)


def test_rows_are_read_once_if_there_is_room(labelled):
    """In memory, or in a temporary file; or else in every pass."""
    X, y, _ = labelled
    times = {}
    for memory_mb, disk_mb in ((None, 0), (0.01, None), (0.01, 1), (0.01, 0), (0.01, 0.005)):
        count = []

        def read(count=count):
            count.append(0)
            return [(X[:150], y[:150]), (X[150:], y[150:])]

        model = grown(9, growth="paper", memory_mb=memory_mb, disk_mb=disk_mb)
        same(model.fit(read), grown(9, growth="paper").fit(X, y))
        times[memory_mb, disk_mb] = len(count)
    assert times[None, 0] == times[0.01, None] == times[0.01, 1] == 1
    assert times[0.01, 0] == times[0.01, 0.005] > 5


def test_state_of_rows_comes_before_rows_in_the_budget(monkeypatch):
    monkeypatch.setattr(out_of_core, "MIN_SPILL_BYTES", 0)
    rng = np.random.default_rng(0)
    y = np.arange(10_000) % 3
    X = rng.normal(size=(len(y), 4)) + y[:, None]
    state = out_of_core.PAPER_STATE_BYTES * len(X)
    whole, times = grown(9, growth="paper").fit(X, y), []
    for room in (0, state + X.nbytes // 2, state + X.nbytes):  # for the state, and for both
        count = []

        def read(count=count):
            count.append(0)
            return zip(np.split(X, 10), np.split(y, 10), strict=True)

        model = grown(9, growth="paper", memory_mb=0.1, disk_mb=room / 2**20)
        told = pytest.raises(DiskSpaceError, match=r"memory_mb or disk_mb, .* TMPDIR .*\.$")
        with nullcontext() if room else told:
            same(model.fit(read), whole)
        times.append(len(count))
    assert times[0] == 2  # to find no room for rows, and none for the state
    assert times[1] > 5
    assert times[2] == 1


@pytest.mark.parametrize("kind", ["arrays", "CSR", "learned"])
def test_rows_of_batches_lie_together_if_there_is_room(kind, monkeypatch):
    """So a pass of refinement reads a slow source once or twice, not once for each batch."""
    monkeypatch.setattr(out_of_core, "MIN_SPILL_BYTES", 0)
    monkeypatch.setattr(refine, "BATCH_ROWS", 100)
    rng = np.random.default_rng(0)
    y, weights = rng.integers(0, 3, 900), rng.integers(1, 4, 900).astype(float)
    X = rng.normal(size=(900, 6)) + y[:, None]
    X[X < 0] = 0
    X = sp.csr_array(X) if kind == "CSR" else X
    metric = "learned" if kind == "learned" else "euclidean"
    parameters = {"growth": "paper", "refine": "margin", "metric": metric, "max_iter": 6}
    whole = grown(9, **parameters).fit(X, y, weights)
    state = 4 * out_of_core.FULL_STATE_BYTES * 900
    rows = 12 * X.nnz + 4 * 900 if kind == "CSR" else X.nbytes
    monkeypatch.setattr(out_of_core, "FULL_STATE_BYTES", state // 900)  # parts are small here
    times = []
    for share in (0.0, 0.55, 0.9):
        count, budgets, of = [], [], DiskBudget.of

        def noted(disk_mb, budgets=budgets, of=of):
            budgets.append(of(disk_mb))
            return budgets[-1]

        def read(count=count):
            count.append(0)
            return batches(X, y, weights, [300, 200, 0, 400])()

        with monkeypatch.context() as patch:
            patch.setattr(DiskBudget, "of", noted)
            disk_mb = (state + share * rows) / 2**20
            same(grown(9, **parameters, memory_mb=0.01, disk_mb=disk_mb).fit(read), whole)
        assert all(budget.has(budget.limit) for budget in budgets)
        times.append(len(count))
    assert times[2] > 1
    n_passes = int((whole.history_.phase == "refine").sum()) - 1  # the last one is all rows
    assert n_passes > 3
    assert times[0] - times[1] >= 5 * n_passes
    assert times[0] - times[2] >= 6 * n_passes


def test_a_full_disk_is_no_error(labelled, monkeypatch):
    X, y, _ = labelled
    written = []

    class Full(io.BytesIO):
        def write(self, data):
            written.append(len(data))
            if len(written) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            return len(data)

    monkeypatch.setattr(row_store.tempfile, "TemporaryFile", lambda **_: Full())
    model = grown(9, growth="paper", memory_mb=0.01)
    model.fit(batches(X, y, None, [150, 150, 100]))
    same(model, grown(9, growth="paper").fit(X, y))
    assert len(written) == 2


class FullDisk(io.RawIOBase):
    """A file to which nothing can be written."""

    def readable(self):
        return True

    def writable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        return offset

    def truncate(self, size=None):
        return size

    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("n_rows", [20, 200])  # less than the buffer of a file, and more
def test_a_full_disk_is_told_once(labelled, monkeypatch, n_rows):
    """Files are closed although bytes in their buffers cannot be written."""
    X, y, _ = labelled
    sizes = [n_rows] * (len(X) // n_rows)
    full = lambda **_: io.BufferedRandom(FullDisk())  # noqa: E731
    monkeypatch.setattr(row_store.tempfile, "TemporaryFile", full)
    model = grown(9, growth="paper", memory_mb=0.005)
    model.fit(batches(X, y, None, sizes))  # without room for rows, but with room for their state
    same(model, grown(9, growth="paper").fit(X, y))
    monkeypatch.setattr(out_of_core, "MIN_SPILL_BYTES", 0)
    with pytest.raises(DiskSpaceError, match="No space left on device"):
        model.set_params(memory_mb=0.001).fit(batches(X, y, None, sizes))
    changes = np.zeros(shelf.MIN_FILE_BYTES)
    assert shelf.on_disk(changes) is changes


def test_small_inputs_need_no_folder_for_temporary_files(labelled, monkeypatch):
    X, y, _ = labelled

    def no_folder():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", no_folder)
    model = grown(9, growth="paper").fit(batches(X, y, None, [200, 200]))
    same(model, grown(9, growth="paper").fit(X, y))
    monkeypatch.setattr(out_of_core, "MIN_SPILL_BYTES", 0)
    with pytest.raises(DiskSpaceError, match=r"for which there is no folder .* TMPDIR"):
        model.set_params(memory_mb=0.001).fit(batches(X, y, None, [200, 200]))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("fails", [False, True])
def test_files_are_gone_after_a_fit(labelled, fails, tmp_path, monkeypatch):
    X, y, _ = labelled
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def files():
        found = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return [name for name in found if name.startswith(str(tmp_path))]

    seen = []

    def hear(step):
        seen.append(files())
        if fails:
            raise RuntimeError("stop")

    model = grown(9, memory_mb=0.01)
    expected = pytest.raises(RuntimeError, match="stop") if fails else nullcontext()
    with expected, listening(hear):
        model.fit(batches(X, y, None, [200, 200]))
    assert len(set(seen[0])) == 1  # a map of a file has a handle of its own
    assert not files()


@settings(max_examples=strategies.examples(50), deadline=None)
@given(data=st.data())
def test_rows_come_back_in_blocks_of_any_size(data):
    seed, width = data.draw(st.integers(0, 1000)), data.draw(st.integers(1, 5))
    sizes = data.draw(st.lists(st.integers(1, 400), min_size=1, max_size=5))
    cuts = data.draw(st.lists(st.integers(0, sum(sizes)), max_size=4))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(sum(sizes), width)).astype(np.float32)
    least = data.draw(st.sampled_from([-9, 0, 9]))
    X[least > X] = 0
    kind = data.draw(st.sampled_from([np.asarray, np.asfortranarray, sp.csr_array]))
    store = row_store.RowStore(0, DiskBudget(10**9))
    for block in np.split(X, np.cumsum(sizes)[:-1]):
        assert store.add(kind(block))
    wanted = np.diff([0, *sorted(cuts), len(X)]).tolist()
    for _ in range(2):
        found = [b.toarray() if sp.issparse(b) else b for b in store.read(wanted)]
        assert [len(block) for block in found] == wanted
        np.testing.assert_array_equal(np.concatenate(found), X)
    store.close()


def test_blocks_that_are_laid_together_are_freed_one_by_one(monkeypatch):
    store, wholes, left = row_store.RowStore(10**9, DiskBudget(0)), [], []

    def empty(shape, dtype):
        wholes.append(np.full(shape, -1, dtype))
        return wholes[-1]

    for number in range(4):
        block = np.full((5, 2), number, dtype=np.float32)
        weakref.finalize(block, lambda: left.append(int((wholes[0] < 0).sum())))
        store.add(block)
    del block
    with monkeypatch.context() as patch:
        patch.setattr(row_store.np, "empty", empty)
        (found,) = store.read([20])
    assert left == [30, 20, 10, 0]
    np.testing.assert_array_equal(found[:, 1], np.repeat(np.arange(4), 5))


@pytest.mark.study
@settings(max_examples=strategies.examples(30), deadline=None)
@given(data=strategies.weighted(), parameters=strategies.parameters, cut=st.integers(0, 30))
def test_parts_do_not_matter(data, parameters, cut):
    X, y, w = data
    sizes = [min(cut, len(X)), len(X) - min(cut, len(X))]
    whole = grown(**parameters).fit(X, y, w)
    model = grown(**parameters, memory_mb=1e-5, disk_mb=cut % 2)
    same(model.fit(batches(X, y, w, sizes)), whole)


def table(X, y, w=None):
    """An Arrow table with features a, b, ..., and the columns kind and weight."""
    columns = {name: X[:, j] for j, name in zip(range(X.shape[1]), "abcdefgh", strict=False)}
    columns |= {"kind": y} | ({} if w is None else {"weight": w})
    return pa.table(columns)


WRITERS = {
    ".parquet": lambda t, path: pq.write_table(t, path, row_group_size=70),
    ".csv": csv.write_csv,
    ".tsv": lambda t, path: csv.write_csv(t, path, csv.WriteOptions(delimiter="\t")),
    ".feather": lambda t, path: feather.write_feather(t, path, chunksize=70),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("files", [1, 3])
def test_tables(labelled, tmp_path, kind, files):
    X, y, w = labelled
    parameters = SETTINGS[3 if (files, kind) == (3, ".parquet") else 1]
    if kind in (".csv", ".tsv"):
        X = X.astype(np.float64)
    for number, part in enumerate(np.array_split(np.arange(len(X)), files)):
        WRITERS[kind](table(X[part], y[part], w[part]), tmp_path / f"part-{number}{kind}")
    path = tmp_path if files > 1 else tmp_path / f"part-0{kind}"
    whole = grown(**parameters).fit(X, y, w)
    memory_mb = 0.01 if files == 1 else 0.05  # so little that rows are read again, or not
    model = grown(**parameters, memory_mb=memory_mb).fit(path, "kind", "weight")
    same(model, whole)
    assert model.feature_names_in_.tolist() == list("abcd")


def test_dictionary_encoded_labels_and_chosen_columns(labelled, tmp_path):
    X, y, _ = labelled
    whole = table(X, y).append_column("note", pa.array(["x"] * len(X)))
    encoded = whole.set_column(4, "kind", whole["kind"].dictionary_encode())
    pq.write_table(encoded, tmp_path / "t.parquet")
    with pytest.raises(SourceError, match=r"not numbers: \['note'\]"):
        grown(9).fit(str(tmp_path / "t.parquet"), "kind")
    blocks = TableBlocks(tmp_path / "t.parquet", "kind", columns=["c", "a"])
    expected = grown(9).fit(np.ascontiguousarray(X[:, [2, 0]]), y)
    same(grown(9).fit(blocks), expected)


def test_memory_maps(labelled, tmp_path):
    X, y, w = labelled
    mapped = np.memmap(tmp_path / "x", X.dtype, "w+", offset=24, shape=X.shape)
    mapped[:] = X
    mapped.flush()
    mapped = np.memmap(tmp_path / "x", X.dtype, "r", offset=24, shape=X.shape)
    whole = grown(12).fit(X, y, w)
    same(grown(12, memory_mb=0.005).fit(mapped, y, w), whole)
    same(
        grown(12, growth="paper", memory_mb=0.001).fit(mapped[::-1], y[::-1], w[::-1]),
        grown(12, growth="paper").fit(X[::-1], y[::-1], w[::-1]),
    )
    with pytest.raises(SourceError, match="y has the shape"):
        grown(12, memory_mb=0.002).fit(mapped, y[:-1])


def test_memory_maps_are_read_in_place(labelled, tmp_path, monkeypatch):
    X, y, w = labelled
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    stored, add = [], row_store.RowStore.add

    def noted(store, rows):
        stored.append(len(rows))
        return add(store, rows)

    monkeypatch.setattr(row_store.RowStore, "add", noted)
    paper = {"growth": "paper", "memory_mb": 0.003}
    whole = grown(9, growth="paper").fit(X[30:], y[30:], w[30:])
    same(grown(9, **paper).fit(mapped[30:], y[30:], w[30:]), whole)
    same(grown(9, **paper).fit(tmp_path / "x.npy", y), grown(9, growth="paper").fit(X, y))
    assert not stored
    for rows, more in ((mapped[::-1], {}), (mapped, {"metric": "cosine"})):
        model = grown(9, **paper, **more).fit(rows, y)
        same(model, grown(9, growth="paper", **more).fit(np.array(rows), y))
        assert sum(stored) == len(X)
        stored.clear()


def test_large_results_are_merged_at_once(monkeypatch):
    class Concatenate:
        largest = 0

        def merge(self, results):
            self.largest = max(self.largest, len(results))
            return np.concatenate(results)

    parts = [np.full(10, float(number)) for number in range(20)]
    expected = np.concatenate(parts).tolist()
    for limit, most in ((merging.MERGE_BYTES, 16), (100, 2)):
        monkeypatch.setattr(merging, "MERGE_BYTES", limit)
        task = Concatenate()
        assert merging.merge_all(task, iter(parts)).tolist() == expected
        assert task.largest == most


@given(
    kind=st.sampled_from(["i1", "u1", "i8", "u8"]),
    least=st.sampled_from([0.0, 0.5, 1.0]),
    steps=st.lists(st.integers(0, 300), min_size=1, max_size=30),
)
def test_distinct_labels(kind, least, steps):
    limits = np.iinfo(kind)
    first = limits.min + int(least * (limits.max - limits.min) // 1)
    y = np.array([min(max(first + step, limits.min), limits.max) for step in steps], dtype=kind)
    labels, codes = first_pass.distinct_labels(y)
    expected, places = np.unique(y, return_inverse=True)
    assert (labels.dtype, labels.tolist()) == (y.dtype, expected.tolist())
    assert codes.tolist() == places.tolist()


def test_memory_maps_are_what_is_read_not_their_files(labelled, tmp_path):
    X, y = labelled[0][:100], labelled[1][:100]
    path, other = tmp_path / "x.npy", tmp_path / "other.npy"
    np.save(path, X)
    np.save(other, X[::-1])
    kept, changed = np.load(path, mmap_mode="r"), np.load(path, mmap_mode="c")
    changed[:, :2] = 0
    other.replace(path)
    for rows in (kept, changed, changed[::-1]):
        model = grown(9, growth="paper", memory_mb=0.001).fit(rows, y)
        same(model, grown(9, growth="paper").fit(np.array(rows), y))
    assert not changed[:, :2].any()


def shuffled(passes, X, y, w):
    order = np.random.default_rng(passes).permutation(len(X))
    return [(X[o], y[o], w[o]) for o in np.split(order, 4)]


def other_rows(passes, X, y, w):
    X = X.copy()
    X[350, 2] = np.nan if passes > 1 else X[350, 2]
    return [(X[:300], y[:300], w[:300]), (X[300:], y[300:], w[300:])]


def other_labels(passes, X, y, w):
    return [(X, np.roll(y, passes), w)]


def other_weights(passes, X, y, w):
    return [(X, y.astype(object), np.where(w == 2, passes, w))]


def more_rows(passes, X, y, w):
    return [(X[: 300 + passes], y[: 300 + passes], w[: 300 + passes])]


def more_blocks(passes, X, y, w):
    return [(X, y, w)] * passes


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        (shuffled, "batch 0 has other rows and labels and weights than in the first pass"),
        (other_rows, "batch 1 has other rows than in the first pass"),
        (other_labels, "batch 0 has other labels than"),
        (other_weights, "batch 0 has other weights than"),
        (more_rows, "batch 0 has 302 rows, but had 301 in the first pass"),
        (more_blocks, "batch 1 was not there in the first pass"),
    ],
)
def test_every_pass_must_give_the_same_blocks(labelled, batches, told):
    """If there is no room to keep the rows of the first pass."""
    passes = []

    def read():
        passes.append(0)
        return batches(max(1, len(passes) - 1), *labelled)  # the first reading finds no room

    model = grown(9, memory_mb=0.001, disk_mb=0)
    with pytest.raises(SourceError, match=rf"^The data changed .*{told}.*do not shuffle") as raised:
        model.fit(read)
    assert "\n" not in str(raised.value)
    assert not hasattr(model, "cluster_centers_")


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".feather"])
def test_files_must_not_change_during_a_fit(labelled, tmp_path, kind):
    X, y, _ = labelled
    path, other = tmp_path / f"t{kind}", tmp_path / f"other{kind}"
    changed = X.copy()
    changed[200, 1] += 1
    text = pa.array(["x"] * len(X))
    for now, told in (
        (table(changed, y), "rows from .* has other rows than in the first pass"),
        (table(X, y).drop_columns(["b"]), "olumn 'b'"),
        (table(X, y).set_column(1, "b", text), "olumn 'b' is of type string|invalid value 'x'"),
    ):
        WRITERS[kind](table(X, y), path)
        WRITERS[kind](now, other)

        def hear(step, other=other):
            if other.exists():
                other.replace(path)

        model = grown(9, growth="paper", memory_mb=0.001, disk_mb=0)
        with pytest.raises(SourceError, match=told) as raised, listening(hear):
            model.fit(path, "kind")
        assert str(path) in str(raised.value)
        assert not hasattr(model, "cluster_centers_")


def test_batches_may_have_one_weight_or_none(labelled):
    X, y, _ = labelled
    w = np.repeat([2.0, 3.0], 200)
    halves = slice(0, 200), slice(200, 400)
    parts = [(X[c], y[c], weight) for c, weight in zip(halves, (2.0, 3), strict=True)]
    same(grown(9).fit(lambda: parts), grown(9).fit(X, y, w))
    parts = [(X[c], y[c], None) for c in halves]
    same(grown(9).fit(lambda: parts), grown(9).fit(X, y))


def test_going_on_with_blocks(labelled):
    X, y, w = labelled
    one, two = (grown(12, growth="paper") for _ in range(2))
    one.partial_fit(X[:200], y[:200], sample_weight=w[:200])
    two.partial_fit(batches(X[:200], y[:200], w[:200], [120, 80]))
    same(one, two)
    one.partial_fit(X[200:], y[200:], sample_weight=w[200:])
    two.partial_fit(batches(X[200:], y[200:], w[200:], [50, 150]))
    same(one, two)
    with pytest.raises(SourceError, match="4"):
        two.partial_fit(lambda: [(X[:, :3], y)])


def test_what_is_wrong_is_said(labelled, tmp_path):
    X, y, w = labelled
    model = grown(9)

    def refused(match, *arguments):
        with pytest.raises(SourceError, match=match):
            model.fit(*arguments)
        assert not hasattr(model, "cluster_centers_")

    refused("only once", iter([(X, y)]))
    refused("must be a tuple", lambda: [X])
    refused("as many labels", lambda: [(X, y[:-1])])
    refused("3 features", lambda: [(X, y), (X[:, :3], y)])
    refused("is of type float64", lambda: [(X, y), (X.astype(float), y)])
    refused("all blocks need weights", lambda: [(X, y), (X, y, w)])
    refused(r"In batch 1: sample_weight.shape == \(399,\)", lambda: [(X, y, w), (X, y, w[1:])])
    refused(r"In batch 1: .*nan at row 0", lambda: [(X, y, w), (X, y, np.full(400, np.nan))])
    refused("In batch 0: sample_weight must be numbers: they are complex", lambda: [(X, y, w + 1j)])
    refused("In batch 0: sample_weight must be numbers", lambda: [(X, y, y)])
    refused("In batch 0: X must be real .*complex64", lambda: [(X + np.complex64(1j), y)])
    refused("In batch 0: X must be numbers, but column 0 holds", lambda: [(y[:, None], y)])
    refused("In batch 0: y contains None", lambda: [(X[:2], np.array(["a", None]))])
    refused("no features", lambda: [(X[:, :0], y)])
    refused("no rows", lambda: [])
    refused("leave y", lambda: [(X, y)], y)
    np.save(tmp_path / "x.npy", X)
    refused("y is missing", tmp_path / "x.npy", None)
    (tmp_path / "x.npy").unlink()
    bad = X.copy()
    bad[7, 2] = np.nan
    refused(r"batch 1.*NaN in row 7, column 2", lambda: [(X, y), (bad, y)])
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(table(X, y), first)
    refused("no file or folder", tmp_path / "nothing.parquet", "kind")
    refused("name of the label column", first, y)
    refused("Did you mean 'kind'", first, "knd")
    pq.write_table(table(X, y).drop_columns(["b"]), second)
    refused("b.parquet has no column 'b'", tmp_path, "kind")
    pq.write_table(table(X.astype(np.float64), y), second)
    refused("type double in .*b.parquet, but float", tmp_path, "kind")
    second.write_bytes(first.read_bytes()[:-100])
    refused("b.parquet cannot be read", tmp_path, "kind")
    second.write_bytes(first.read_bytes()[:2000] + bytes(500) + first.read_bytes()[2500:])
    refused("b.parquet", tmp_path, "kind")
    missing = table(X, y).set_column(4, "kind", pa.array([None, *y[1:]]))
    pq.write_table(missing, second)
    refused("b.parquet: column 'kind' has a missing label in row 1", tmp_path, "kind")
    (tmp_path / "c.csv").write_text("a,kind\n1,x\n")
    refused("csv and parquet files", tmp_path, "kind")
    pq.write_table(table(X[:0], y[:0]), second)  # an empty file is no harm
    (tmp_path / "c.csv").unlink()
    same(grown(9).fit(tmp_path, "kind"), grown(9).fit(X, y))


@pytest.mark.parametrize("n_rows", [400, 50])
def test_blocks_warn_of_many_classes_as_arrays_do(labelled, n_rows):
    """scikit-learn may warn of a regression target where there are many classes of few rows."""
    X, y = labelled[0][:n_rows], np.arange(n_rows) % 30

    def warned(*data):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            grown(30).fit(*data)
        return [str(one.message) for one in caught if "regression" in str(one.message)]

    assert warned(lambda: [(X, y)]) == warned(X, y)


def test_reading_ahead_passes_errors_on_and_stops():
    def some():
        yield from range(3)
        raise OSError("gone")

    with prefetched(some()) as numbers:
        assert [next(numbers) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(OSError, match="gone"):
            next(numbers)
    with prefetched(iter(range(1000))) as numbers:
        assert next(numbers) == 0
    assert not [t for t in threading.enumerate() if t.name.startswith("dkmeans-reader")]


LIMITED = """
import sys, re
from dkmeans import DiscriminativeKMeans
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) / 1024
def fit(folder):
    DiscriminativeKMeans(6, growth="paper", memory_mb=48).fit(sys.argv[1] + folder, "kind")
for _ in range(2):  # compiles what there is to compile, and fills the pools of the reader
    fit("/small")
before = peak()
fit("/large")
print(peak() - before)
"""


@pytest.mark.faults
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_far_below_the_size_of_the_data(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 15_000)
    X = (rng.normal(size=(len(y), 400)) + y[:, None]).astype(np.float32)
    columns = pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])} | {"kind": y})
    for folder, files in (("small", 1), ("large", 12)):
        (tmp_path / folder).mkdir()
        for number in range(files):
            pq.write_table(columns, tmp_path / folder / f"{number}.parquet")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = files * X.nbytes / 2**20  # 275 MiB; the budget for blocks is 48
    assert float(done.stdout) < rows / 2
