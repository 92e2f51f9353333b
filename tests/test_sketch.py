"""The search by sketches against the reference: the same centres, ties included."""

from dataclasses import replace

import numpy as np
import pytest
import strategies
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from parted import rows_of

from dkmeans.kernels import compiled, sketch
from dkmeans.kernels.distances import all_distances
from dkmeans.kernels.sketch import Directions, SketchedCenters, Sketches, nearest_by_sketches
from dkmeans.passes import part, sketch_search
from dkmeans.passes.batch import Batch
from dkmeans.prototypes import Prototypes

if compiled.loops_for(np.empty((1, compiled.ENOUGH))) is None:
    pytest.skip("nothing is compiled here", allow_module_level=True)
from dkmeans.kernels import loops

values = st.sampled_from(
    [strategies.coarse, strategies.fine, strategies.far, st.floats(-1e-3, 1e-3), strategies.wild]
)


@st.composite
def rows_and_centers(draw):
    """Rows, and centres of three classes, some of them on rows or halfway between two."""
    dtype = draw(strategies.dtypes)
    shape = draw(st.integers(3, 30)), draw(st.sampled_from([1, 2, 3, 7, 40]))
    X = draw(hnp.arrays(np.float64, shape, elements=draw(values), fill=st.nothing()))
    X *= draw(st.sampled_from([1.0, 1.0, 1e-30, 1e-160, 1e15]))
    X = np.clip(X, -1e30, 1e30).astype(dtype)
    k = draw(st.integers(3, 60))
    centers = np.concatenate([X, (X[:1] + X) / 2, X * dtype(1 + 2e-7), X[::-1]])[:k]
    return X, centers, np.sort(np.arange(len(centers)) % 3)


def nearest(X, centers):
    distances = np.empty((len(X), len(centers)), dtype=X.dtype)
    all_distances(X, centers, distances)
    return distances.argmin(axis=1)  # the first on a tie


def sketched(X, centers, n_directions=sketch.N_DIRECTIONS, n_fine=None):
    fine = None if n_fine is None else sketches_along(X, n_fine)
    sketches = sketches_along(X, n_directions, fine)
    return (
        None
        if sketches is None
        else (
            sketches,
            SketchedCenters.along(centers, sketches, loops),
        )
    )


def sketches_along(X, n_directions, fine=None):
    directions = Directions.of(X, n_directions)
    if directions is None:
        return None
    there = np.empty((len(X), directions.width), dtype=X.dtype)
    directions.sketch(X, there)
    return Sketches(directions, there, fine)


@settings(max_examples=strategies.examples(1000))
@given(
    data=rows_and_centers(),
    patient=st.booleans(),
    directions=st.sampled_from([(sketch.N_DIRECTIONS, None), (1, 3), (2, 30)]),
)
def test_own_and_rival_are_those_of_the_reference(data, patient, directions):
    X, centers, classes = data
    found = sketched(X, centers, *directions)
    if found is None:
        return
    rows = np.arange(len(X))[::-1].copy()
    for c in range(3):
        mine = np.flatnonzero(classes == c)
        among = slice(mine[0], mine[-1] + 1)
        own, rival, alone = (np.full(len(X), -1) for _ in range(3))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sketch, "PROBE_ROWS", 2)
            patch.setattr(sketch, "CHUNK_ROWS", 5)
            if patient:
                patch.setattr(sketch, "MIN_CANDIDATES", len(centers))
            left = nearest_by_sketches(X, *found, rows, among, own, rival)
            left_alone = nearest_by_sketches(X, *found, rows, among, alone)
        done = np.setdiff1d(np.arange(len(X)), left)
        expected = mine[nearest(X[rows], centers[mine])]
        assert own[done].tolist() == expected[done].tolist()
        done_alone = np.setdiff1d(np.arange(len(X)), left_alone)
        assert alone[done_alone].tolist() == expected[done_alone].tolist()
        others = np.setdiff1d(np.arange(len(centers)), mine)
        expected = others[nearest(X[rows], centers[others])]
        assert rival[done].tolist() == expected[done].tolist()


@settings(max_examples=strategies.examples(400))
@given(data=rows_and_centers())
def test_sketches_are_nearer_than_rows(data):
    X, centers, _ = data
    found = sketched(X, centers)
    if found is None:
        return
    (sketches, packed), wide = found, np.longdouble
    scale = wide(sketches.directions.scale)
    a = sketches.values[:, :-1].astype(wide)
    b = -packed.values[:-1].T.astype(wide)
    for row, there in zip(X.astype(wide), a, strict=True):
        square = float(there @ there)
        if not square + packed.bounds[sketch.SQUARE] < packed.bounds[sketch.OVERFLOW]:
            continue
        near = np.sqrt(((there - b) ** 2).sum(axis=1))
        real = scale * np.sqrt(((row - centers.astype(wide)) ** 2).sum(axis=1))
        error = np.empty(1)
        last = np.array([float(there[-1])])
        loops.sketch_errors(np.array([square]), last, packed.bounds, error)
        assert (near <= real + error[0] + packed.bounds[sketch.CENTER]).all()


@pytest.mark.parametrize("directions", [(sketch.N_DIRECTIONS, None), (5, 30)])
def test_few_centres_are_compared_where_rows_vary_along_few_directions(directions):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 10)) @ rng.normal(size=(10, 300)) + 0.1 * rng.normal(size=(400, 300))
    centers, compared = X[::4], []
    (sketches, packed), rows = sketched(X, centers, *directions), np.arange(len(X))

    class Counting:
        @staticmethod
        def search_candidates(*arguments):
            compared.append(loops.search_candidates(*arguments))
            return compared[-1]

    packed = replace(packed, loops=Counting)
    own = np.empty(len(X), dtype=np.intp)
    assert not len(nearest_by_sketches(X, sketches, packed, rows, slice(0, len(centers)), own))
    assert own.tolist() == nearest(X, centers).tolist()
    assert sum(compared) < 3 * len(X)


def test_rows_that_vary_in_all_directions_are_left():
    X = np.random.default_rng(0).normal(size=(2000, 300))
    (sketches, packed), rows = sketched(X, X[:200]), np.arange(200, 2000)
    own = np.empty(len(rows), dtype=np.intp)
    left = nearest_by_sketches(X, sketches, packed, rows, slice(0, 200), own)
    assert len(left) == len(rows) - sketch.PROBE_ROWS


FAR_APART = np.array([[0], [1e-30], [0], [0], [0], [2e-11]], dtype=np.float32)


@settings(max_examples=strategies.examples(200))
@example(data=(FAR_APART, FAR_APART, np.array([0, 0, 1, 1, 2, 2])), seed=0, weighted=False)
@given(data=rows_and_centers(), seed=st.integers(0, 99), weighted=st.booleans())
def test_passes_find_the_same_with_and_without(data, seed, weighted):
    X, centers, classes = data
    X, centers = np.clip(X, -1e15, 1e15), np.clip(centers, -1e15, 1e15)
    rng = np.random.default_rng(seed)
    y = np.unique(rng.integers(0, 4, len(X)), return_inverse=True)[1]
    w = np.append(1.0, rng.integers(0, 3, len(X) - 1)) if weighted else None
    prototypes = Prototypes(centers, classes, np.arange(len(centers)))
    results = []
    for least in (1, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "ENOUGH", 1)
            patch.setattr(part, "MIN_FEATURES", least)
            patch.setattr(part, "MIN_FINE_FEATURES", least)
            patch.setattr(sketch_search, "MIN_COMPARED", 1)
            rows = rows_of(X, y, w, 4, [len(X) // 3])
            sums = rows.assign_own(prototypes)
            labels = rows.cells()
            number, counts = rows.find_margins(prototypes)
            fine = rows.margin_search(prototypes, Batch(0, 1, 0))
            counts = np.append(counts, rows.run(fine))
            states = rows.runner.states
            margins = [state.margins(n) for state in states for n in (number, fine.number)]
        results.append((sums, labels, counts, margins))
    one, other = results
    assert one[1].tolist() == other[1].tolist()
    assert one[2].tolist() == other[2].tolist()
    assert one[0].sums.tobytes() == other[0].sums.tobytes()
    for mine, theirs in zip(one[3], other[3], strict=True):
        for name in ("own", "rival", "near", "far", "wins"):
            assert getattr(mine, name).tolist() == getattr(theirs, name).tolist()
