"""A fit that is ended by force and started again ends as if nothing had happened."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from models import grown
from safetensors.numpy import save

from dkmeans.exact.grids import DataFacts
from dkmeans.exact.group_sums import GroupSums
from dkmeans.passes.results import Pieces
from dkmeans.progress import listening
from dkmeans.runners import checkpoint
from dkmeans.runners.checkpoint_file import MAGIC, CheckpointError, read
from dkmeans.runners.encoding import decode, encode
from dkmeans.runners.local import LocalRunner
from dkmeans.runners.sweep import SweepRunner

pytestmark = [
    pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning"),
    pytest.mark.usefixtures("small_samples"),
]
SETTINGS = [
    {"growth": "paper"},
    {"growth": "best", "max_clusters": 12, "refine": "margin", "max_iter": 8},
    {"growth": "best", "max_clusters": 9, "prune": True},
    {"max_clusters": "auto", "growth": "paper"},
    {"max_clusters": "auto", "refine": "margin", "max_iter": 4},
    {"metric": "cosine", "max_clusters": 9},
    {"metric": "learned", "max_clusters": 6, "max_iter": 12, "refine": "margin"},
    *(
        pytest.param(
            {"metric": "learned", "max_clusters": 6, "max_iter": 12, "refine": "margin"} | setting,
            marks=pytest.mark.study,
        )
        for setting in ({"n_components": 2}, {"metric": "auto"})
    ),
]


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Write after every pass."""
    monkeypatch.setattr(checkpoint, "MIN_INTERVAL_S", 0.0)
    monkeypatch.setattr(checkpoint, "MIN_INTERVAL_WRITES", 0)


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    X = rng.normal(size=(150, 3)) + 1.2 * y[:, None]
    X[:3] = X[10:13]
    return X, y, rng.integers(0, 3, 150).astype(float)


class Killed(BaseException):
    """What cannot be caught by accident."""


def fit_and_die(model, after, monkeypatch, *data):
    """Fit until a number of passes have been made; tell whether it died."""
    count = 0

    def die_in_time():
        nonlocal count
        count += 1
        if count > after:
            raise Killed

    with monkeypatch.context() as patch:
        for kind in (LocalRunner, SweepRunner):
            original = kind.run

            def run(self, task, original=original):
                die_in_time()
                return original(self, task)

            patch.setattr(kind, "run", run)
        try:
            model.fit(*data)
        except Killed:
            return True
    return False


def same(a, b):
    for name in ("cluster_centers_", "cluster_sizes_", "cluster_ids_", "labels_", "exemplars_"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
    assert (a.inertia_, a.n_iter_, a.converged_) == (b.inertia_, b.n_iter_, b.converged_)
    np.testing.assert_array_equal(a.path_.training_error, b.path_.training_error)
    assert a.tree_.id.tolist() == b.tree_.id.tolist()


@pytest.mark.parametrize("parameters", SETTINGS)
@pytest.mark.parametrize("blocks", [False, True])
def test_a_fit_that_dies_again_and_again(labelled, tmp_path, monkeypatch, parameters, blocks):
    X, y, w = labelled
    whole = grown(**parameters).fit(X, y, w)
    data = (X, y, w)
    if blocks:
        data = (lambda: [(X[:70], y[:70], w[:70]), (X[70:], y[70:], w[70:])],)
    path = tmp_path / "checkpoint"
    model = grown(**parameters, checkpoint=path)
    deaths, after = 0, 9
    while fit_and_die(model, after, monkeypatch, *data):
        deaths += 1
        after += 9  # to catch up takes a few passes, too
        assert not hasattr(model, "cluster_centers_")
        assert deaths < 200
    assert deaths > 2
    same(model, whole)
    assert not path.exists()


@pytest.mark.parametrize("budget", [12, "auto"])
def test_seconds_include_those_before_a_stop(labelled, tmp_path, monkeypatch, budget):
    X, y, _ = labelled
    passed = 0.0  # each pass takes a second
    original = LocalRunner.run

    def slow_run(self, task):
        nonlocal passed
        result = original(self, task)
        passed += 1
        return result

    monkeypatch.setattr(LocalRunner, "run", slow_run)
    clock = SimpleNamespace(perf_counter=lambda: passed)
    monkeypatch.setattr("dkmeans.results.fit_record.time", clock)
    whole = grown(budget, refine="margin").fit(X, y)
    at_end = passed - whole.history_.seconds.sum()  # after the last row of the history
    settings = {"refine": "margin", "checkpoint": tmp_path / "c"}
    for stops in ((15,), (40,), (20, 35, 50)):
        passed, model = 0.0, grown(budget, **settings)
        for after in stops:
            assert fit_and_die(model, after, monkeypatch, X, y)
        model.fit(X, y)
        same(model, whole)
        assert model.history_.seconds.sum() == passed - at_end
        assert (model.history_.seconds >= whole.history_.seconds).all(), "in the same rows"


def test_a_checkpoint_without_seconds(tmp_path):
    path = tmp_path / "c"
    text = json.dumps({"about": {"parameters": "x"}, "passes": [["FindFacts", 1], ["Assign", 2]]})
    # Old versions of safetensors cannot save text without arrays; a checkpoint has some.
    body = save({"a0": np.zeros(2)}, {"json": text})
    path.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
    _, entries, seconds, _ = read(path)
    assert (len(entries), seconds) == (2, [0.0, 0.0])


@pytest.mark.parametrize("after", range(10, 60, 7))
def test_passes_are_not_made_again(labelled, tmp_path, monkeypatch, after):
    X, y, _ = labelled
    passes = []
    run, replay = LocalRunner.run, LocalRunner.replay

    def counted_run(self, task):
        passes.append(task)
        return run(self, task)

    def counted_replay(self, tasks):
        passes.extend(tasks)
        replay(self, tasks)

    monkeypatch.setattr(LocalRunner, "run", counted_run)
    monkeypatch.setattr(LocalRunner, "replay", counted_replay)
    grown(12, growth="best").fit(X, y)
    whole = len(passes)
    model = grown(12, growth="best", checkpoint=tmp_path / "c")
    if not fit_and_die(model, after, monkeypatch, X, y):
        return
    passes.clear()
    model.fit(X, y)
    assert len(passes) <= whole - after + 30  # setting up, and catching up


def test_other_data_or_parameters_are_refused(labelled, tmp_path, monkeypatch):
    X, y, w = labelled
    path = tmp_path / "c"

    def begun():
        path.unlink(missing_ok=True)
        assert fit_and_die(grown(12, checkpoint=path), 20, monkeypatch, X, y)

    begun()
    content = path.read_bytes()
    other = X.copy()
    other[7, 1] += 1e-9
    for model, data, what in (
        (grown(12), (other, y), "data"),
        (grown(12), (X[::-1], y[::-1]), "data"),
        (grown(12), (X, y, w), "data"),
        (grown(13), (X, y), "parameters"),
        (grown(12, repulsion=0.5), (X, y), "parameters"),
        (grown(12), (X, y + 1), "classes"),
    ):
        with pytest.raises(CheckpointError, match=f"other {what}.*delete it"):
            model.set_params(checkpoint=path).fit(*data)
        assert path.read_bytes() == content
    grown(12, checkpoint=path, n_threads=2, memory_mb=50).fit(X, y)


def test_damaged_files_are_refused(labelled, tmp_path, monkeypatch):
    X, y, _ = labelled
    path = tmp_path / "c"
    model = grown(6, growth="paper", checkpoint=path)
    assert fit_and_die(model, 14, monkeypatch, X, y)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[:n] for n in np.linspace(0, len(whole) - 1, 60).astype(int)]
    damaged += [whole + b"x", b"something else", whole[1:]]
    damaged.append(whole.replace(b"checkpoint 2", b"checkpoint 1", 1))  # of an older version
    for at in rng.integers(0, len(whole), 200):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"damaged|not a checkpoint"):
            model.fit(X, y)
        assert not hasattr(model, "cluster_centers_")
    path.write_bytes(whole)
    same(model.fit(X, y), grown(6, growth="paper").fit(X, y))


def test_going_on_with_a_checkpoint(labelled, tmp_path, monkeypatch):
    X, y, _ = labelled
    plain = grown(9).partial_fit(X[:80], y[:80]).partial_fit(X[80:], y[80:])
    path = tmp_path / "c"
    model = grown(9, checkpoint=path).partial_fit(X[:80], y[:80])
    model.partial_fit(X[80:], y[80:])
    same(model, plain)
    assert fit_and_die(grown(9, checkpoint=path), 14, monkeypatch, X, y)
    with pytest.raises(CheckpointError, match="to go on from"):
        model.set_params(warm_start=True).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "is_trial"),
    [({"max_clusters": 12}, False), ({"max_clusters": "auto", "growth": "paper"}, True)],
)
def test_ctrl_c_writes_how_far_it_is(labelled, tmp_path, monkeypatch, parameters, is_trial):
    X, y, _ = labelled
    monkeypatch.setattr(checkpoint, "MIN_INTERVAL_S", 1e9)
    path = tmp_path / "c"
    model = grown(**parameters, checkpoint=path)

    def interrupt(step):
        assert step.is_trial == is_trial
        if step.record["round"] == (1 if is_trial else 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        model.fit(X, y)
    assert path.exists()
    same(model.fit(X, y), grown(**parameters).fit(X, y))


def unread():
    pytest.fail("the data are read before the place of the checkpoint is checked")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere/c", "there is no folder '.*nowhere'; make it first"),
        ("", "it is a folder; name a file in it"),
        ("file/c", "there is no folder '.*file'"),
        ("x" * 300, ".*too long; name a file that can be written"),
        pytest.param(
            "pipe",
            "it is a pipe, socket or device; name a file",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes"),
        ),
    ],
)
def test_a_place_that_will_not_do_is_refused_at_once(tmp_path, name, told):
    (tmp_path / "file").touch()
    if name == "pipe":
        os.mkfifo(tmp_path / name)
    place = f"{tmp_path}/{name}"
    with pytest.raises(CheckpointError, match=f"checkpoint='.*' is not accepted: {told}") as e:
        grown(9, checkpoint=place).fit(unread)
    assert isinstance(e.value, OSError)
    assert place in str(e.value)


def test_a_checkpoint_that_will_not_do_is_refused_before_data_are_read(tmp_path):
    path = tmp_path / "c"
    path.write_bytes(b"something else")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        grown(9, checkpoint=path).fit(unread)


def fill_the_disk(monkeypatch):
    def fsync(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_full_disk_leaves_the_last_checkpoint(labelled, tmp_path, monkeypatch):
    X, y, _ = labelled
    path, model = tmp_path / "c", grown(12, checkpoint=tmp_path / "c")
    assert fit_and_die(model, 20, monkeypatch, X, y)
    content = path.read_bytes()
    with monkeypatch.context() as patch:
        fill_the_disk(patch)
        with pytest.raises(CheckpointError, match=r"cannot be written \(No space left") as raised:
            model.fit(X, y)
    assert isinstance(raised.value, OSError)
    assert str(path) in str(raised.value)
    assert not hasattr(model, "cluster_centers_")
    assert os.listdir(tmp_path) == ["c"]
    assert path.read_bytes() == content
    same(model.fit(X, y), grown(12).fit(X, y))


def test_ctrl_c_on_a_full_disk_is_still_ctrl_c(labelled, tmp_path, monkeypatch, caplog):
    X, y, _ = labelled
    monkeypatch.setattr(checkpoint, "MIN_INTERVAL_S", 1e9)
    fill_the_disk(monkeypatch)

    def interrupt(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        grown(12, checkpoint=tmp_path / "c").fit(X, y)
    assert "No space left" in caplog.text


def test_a_listener_may_change_the_folder(labelled, tmp_path, monkeypatch):
    X, y, _ = labelled
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with listening(lambda step: os.chdir(tmp_path / "elsewhere")):
        grown(12, checkpoint="c").fit(X, y)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere"]


PROGRAM = """
import sys, numpy as np
from dkmeans import DiscriminativeKMeans
from dkmeans.runners import checkpoint
checkpoint.MIN_INTERVAL_S = 0.0
rng = np.random.default_rng(0)
y = rng.integers(0, 4, 20_000)
X = rng.normal(size=(20_000, 6)) + 0.8 * y[:, None]
model = DiscriminativeKMeans(
    60, refine="margin", metric="euclidean", max_iter=20, checkpoint=sys.argv[1] or None
)
model.fit(X, y)
np.save(sys.argv[2], model.cluster_centers_)
"""


@pytest.mark.faults
@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
def test_a_process_that_is_killed(tmp_path):
    path, out = tmp_path / "c", tmp_path / "out.npy"
    program = [sys.executable, "-c", PROGRAM]
    kills = 0
    while not out.exists():
        process = subprocess.Popen([*program, str(path), str(out)])
        before = path.stat().st_size if path.exists() else 0
        while process.poll() is None:
            if kills < 3 and path.exists() and path.stat().st_size > before + 20_000:
                process.send_signal(signal.SIGKILL)
                kills += 1
                process.wait()
            time.sleep(0.01)
        assert process.returncode in (0, -signal.SIGKILL)
    assert kills == 3
    subprocess.run([*program, "", str(tmp_path / "plain.npy")], check=True)
    assert np.load(out).tobytes() == np.load(tmp_path / "plain.npy").tobytes()


def test_what_passes_return_survives():
    sums = GroupSums(np.arange(2), np.ones((3, 2)), np.zeros((3, 2, 4)), np.ones((3, 2)))
    facts = DataFacts(1, 1, 4, None, np.ones(2), np.ones(2), 1.0, np.inf, False, True)
    pieces = Pieces([0, 5], [np.arange(5), np.arange(3)])
    numbers = (1.5, -np.inf, 2, True, None, "x")
    value = [(sums, facts, pieces), {3: np.zeros((0, 2), np.float32)}, numbers]
    arrays = {}
    found = decode(encode(value, arrays), arrays)
    assert repr(found) == repr(value)
    assert found[1][3].dtype == np.float32
    with pytest.raises(TypeError, match="set, which a checkpoint cannot store"):
        encode({1, 2}, arrays)


def test_rows_that_had_to_yield_yield_again(tmp_path, monkeypatch):
    X, y = np.array([[0.0], [5.0], [9.0]]), np.array([0, 1, 1])
    new, other = np.array([[0.0], [4.0], [7.0], [5.5]]), np.array([1, 0, 1, 0])
    path = tmp_path / "c"

    def start():
        return grown().fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))

    whole = start().partial_fit(new, other)
    assert [rows.tolist() for rows in whole.conflicts_] == [[0]]
    for after in range(8, 40, 3):
        model = start().set_params(checkpoint=path)
        monkeypatch.setattr(model, "fit", model.partial_fit)
        fit_and_die(model, after, monkeypatch, new, other)
        if path.exists():
            same(start().set_params(checkpoint=path).partial_fit(new, other), whole)
