"""What is kept of each row is spilled between passes, and comes back as it was."""

import gc
import pickle
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from parted import rows_of
from sklearn.datasets import load_digits
from strategies import examples

from dkmeans.exact.grids import Scale
from dkmeans.passes import assignment, facts, margin_search, margin_sums, pruning
from dkmeans.passes.part import Part, Setting
from dkmeans.passes.row_labels import Relabel
from dkmeans.passes.row_state import RowState
from dkmeans.prototypes import Prototypes
from dkmeans.runners.disk_budget import DiskBudget, DiskSpaceError
from dkmeans.runners.replay import ReplayLog
from dkmeans.runners.shelf import Shelf
from dkmeans.runners.spill import SpilledPart
from dkmeans.sources import out_of_core

ROOM = DiskBudget(1 << 40)
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
    """Also where others were freed before, whose places are used again."""
    shelf, stored = Shelf(limit, ROOM), []
    for step in steps:
        if isinstance(step, np.ndarray):
            stored.append((shelf.put(step), step))
        elif stored:
            shelf.free(stored.pop(step % len(stored))[0])
        for ticket, array in stored:
            back = shelf.get(ticket)
            assert back.dtype == array.dtype
            np.testing.assert_array_equal(back, array)
    shelf.close()


def test_places_are_used_again():
    shelf, last = Shelf(0, ROOM), None
    for value in range(50):
        ticket = shelf.put(np.full(100_000, value, dtype=np.float64))
        assert shelf.get(ticket)[-1] == value
        if last is not None:
            shelf.free(last)
        last = ticket
    assert shelf._file_bytes < 3 * 100_000 * 8
    shelf.close()


def test_small_arrays_share_a_page():
    """Margins of a batch are many short arrays."""
    shelf = Shelf(0, ROOM)
    stored = [(shelf.put(array), array) for array in np.arange(40_000.0).reshape(400, 100)[:, ::2]]
    assert shelf._file_bytes < 1.3 * 8 * 20_000
    for ticket, array in stored:
        np.testing.assert_array_equal(shelf.get(ticket), array)
    shelf.close()


def test_the_budget_counts_what_is_in_the_file():
    budget = DiskBudget(10_000)
    shelf, other = Shelf(100, budget), Shelf(0, budget)
    shelf.put(np.zeros(10))  # in memory
    tickets = [shelf.put(np.zeros(500)) for _ in range(2)]
    with pytest.raises(DiskSpaceError, match=r"memory_mb or disk_mb, .* TMPDIR"):
        other.put(np.zeros(500))
    shelf.free(tickets[0])
    shelf.put(np.zeros(500))
    shelf.close()
    other.put(np.zeros(1000))
    other.close()
    assert budget.has(10_000)


def test_a_full_disk_ends_the_fit_in_one_sentence(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    X, y = load_digits(return_X_y=True)
    model = grown(12).fit(X, y)
    before = model.cluster_centers_
    monkeypatch.setattr("dkmeans.runners.shelf.tempfile.TemporaryFile", full)
    monkeypatch.setattr(out_of_core, "MIN_SPILL_BYTES", 0)
    model.set_params(memory_mb=0.01, growth="paper")
    with pytest.raises(DiskSpaceError, match=r"No space left on device.*memory_mb or disk_mb"):
        model.fit(lambda: [(X, y)])
    assert model.cluster_centers_ is before


def test_small_arrays_stay_in_memory():
    shelf = Shelf(1000, ROOM)
    tickets = [shelf.put(np.zeros(50)) for _ in range(3)]
    assert [ticket.array is None for ticket in tickets] == [False, False, True]
    shelf.free(tickets[0])
    assert shelf.put(np.zeros(50)).array is not None
    shelf.close()


def test_what_stays_in_memory_anyway_is_not_copied():
    shelf, whole = Shelf(0, ROOM), np.arange(10.0)
    view, matrix = whole[2:5], np.ones((3, 2))
    assert shelf.get(shelf.put(view)) is view
    assert shelf.get(shelf.put(matrix)) is matrix


def test_a_visit_writes_only_what_it_replaces(monkeypatch):
    shelf, put = Shelf(0, ROOM), []
    original = Shelf.put
    monkeypatch.setattr(Shelf, "put", lambda self, a: put.append(a) or original(self, a))
    y, weights = np.arange(50) % 2, np.ones(50)
    part = Part.of(None, y, weights, n_classes=2)
    spilled = SpilledPart(part, RowState.start(y), shelf)
    assert len(put) == 4  # classes given and used, labels twice, and squares are one array each
    put.clear()

    def look(part, state):
        assert part.given is state.classes
        assert part.full_weights is part.weights
        assert state.cells.labels is state.cells.previous
        return state, int(state.classes.sum())

    assert spilled.visit(look, Setting(), None) == 25
    assert not put

    def relabel(part, state):
        return state.with_labels(state.cells.labels + 1), None

    spilled.visit(relabel, Setting(), None)
    assert len(put) == 1
    assert spilled.visit(
        lambda _, state: (state, state.cells.labels.tolist()), Setting(), None
    ) == ([1] * 50)
    spilled.close()
    assert sum(size * len(free) for size, free in shelf._free.items()) == shelf._file_bytes
    shelf.close()


def test_margins_are_loaded_when_they_are_needed(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    prototypes = Prototypes(X[:3], np.array([0, 0, 1]), np.arange(3))
    setting = rows_of(X, y, None, 2).runner.parts[0].setting
    shelf, got = Shelf(0, ROOM), []
    spilled = SpilledPart(Part.of(None, y, None, n_classes=2), RowState.start(y), shelf)
    for number in (1, 2):
        spilled.visit(margin_search.FindMargins(prototypes, number).visit, setting, X)
        spilled.visit(assignment.AssignOwn(prototypes).visit, setting, X)
    original = Shelf.get
    monkeypatch.setattr(Shelf, "get", lambda self, t: got.append(t) or original(self, t))
    spilled.visit(assignment.AssignOwn(prototypes).visit, setting, X)
    without = len(got)
    moved = spilled.visit(margin_sums.CountMoved((1,), (2,)).visit, setting, None)
    assert (moved, len(got) - without) == (0, without + 2 * 5)
    assert len(spilled.tickets) == without + 2 * 5
    shelf.close()


def test_a_visit_leaves_no_array_in_memory():
    """Without the help of the garbage collector."""
    shelf, y = Shelf(0, ROOM), np.arange(500) % 2
    X = np.random.default_rng(0).normal(size=(500, 2))
    prototypes = Prototypes(X[:3], np.array([0, 0, 1]), np.arange(3))
    setting = rows_of(X, y, None, 2).runner.parts[0].setting
    spilled = SpilledPart(Part.of(None, y, None, n_classes=2), RowState.start(y), shelf)
    spilled.visit(margin_search.FindMargins(prototypes, 1).visit, setting, X)
    alive = []

    def look(part, state):
        found = state.margins(1)
        alive.extend(map(ref, (state, found, found.near, state.cells.labels, part.given)))
        return state, None

    gc.collect()
    gc.disable()
    try:
        spilled.visit(look, setting, None)
        assert [one() for one in alive] == [None] * 5
    finally:
        gc.enable()
    shelf.close()


def test_an_error_in_a_visit_leaves_the_state():
    shelf, y = Shelf(0, ROOM), np.arange(5)
    spilled = SpilledPart(Part.of(None, y, None, n_classes=5), RowState.start(y), shelf)

    def fail(part, state):
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        spilled.visit(fail, Setting(), None)
    assert spilled.visit(lambda _, s: (s, s.classes.tolist()), Setting(), None) == y.tolist()
    shelf.close()


def test_all_arrays_per_row_are_spilled():
    """Those of pruning included: nothing as long as the rows stays in memory."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
    prototypes = Prototypes(X[:3], np.array([0, 0, 1]), np.arange(3))
    tasks = [
        assignment.Gather(X[:1]),
        assignment.Assign(prototypes, np.array([0])),
        assignment.KeepCells(),
        assignment.AssignOwn(prototypes),
        margin_search.FindMargins(prototypes, 1),
        facts.MeasureSpread(X[:1]),
        pruning.TryWithout(prototypes, 0, np.array([1, 2])),
        pruning.Inherit(),
        pruning.TryWithout(prototypes, 1, np.array([0, 2])),
    ]
    rows = rows_of(X, y, np.ones(500), 2)
    setting = replace(rows.runner.parts[0].setting, scale=Scale(whole=True, n_terms=500))
    shelf = Shelf(0, ROOM)
    part = Part.of(None, y, np.ones(500), n_classes=2)
    spilled = SpilledPart(part, RowState.start(y), shelf)
    for task in tasks:
        spilled.visit(task.visit, setting, X)
        assert all(ticket.array is None or ticket.array.size < 100 for ticket in spilled.tickets)
    assert len(spilled._stored.pickled) < 3000
    assert len(spilled.tickets) > 15
    shelf.close()


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

    on_disk, compared = [], []
    visit, put = SpilledPart.visit, Shelf.put

    def checked_visit(self, action, setting, X):
        before = [(ticket, self._shelf.get(ticket).copy()) for ticket in self.tickets]
        result = visit(self, action, setting, X)
        kept = {id(ticket) for ticket in self.tickets}
        for ticket, array in before:
            if id(ticket) in kept:
                np.testing.assert_array_equal(self._shelf.get(ticket), array)
                compared.append(len(array))
        in_memory = [t for t in self.tickets if t.array is not None]
        assert sum(t.nbytes for t in in_memory) <= 600
        uncounted = [t.array for t in in_memory if not t.nbytes and t.array.size]
        assert all(array.ndim == 2 or array.base is not None for array in uncounted)
        return result

    def counted_put(self, array):
        ticket = put(self, array)
        on_disk.append(ticket.array is None)
        return ticket

    monkeypatch.setattr(SpilledPart, "visit", checked_visit)
    monkeypatch.setattr(Shelf, "put", counted_put)
    monkeypatch.setattr(out_of_core, "Shelf", lambda limit, budget: Shelf(600, budget))
    model = grown(**parameters).fit(batches)
    assert any(on_disk)
    assert len(compared) > 100
    other = grown(**parameters).fit(X, y, weights)
    np.testing.assert_array_equal(model.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, other.labels_)
    assert model.inertia_ == other.inertia_


def test_large_arrays_of_a_replay_log_are_on_disk():
    some = np.arange(1 << 13)
    log = ReplayLog()
    for rows in (some, some[:5]):
        log.add(Relabel(rows, rows % 3))
    large, small = log.tasks()
    assert small.rows.base is some
    for found, expected in ((large.rows, some), (large.classes, some % 3)):
        assert type(found.base) is not np.ndarray  # but a memory map
        for one in (found, pickle.loads(pickle.dumps(found))):
            assert one.dtype == expected.dtype
            np.testing.assert_array_equal(one, expected)
