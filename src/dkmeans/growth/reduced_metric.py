"""A start of low rank for `metric="learned"`, from a short fit of full rank.

The axes along which rows vary most need not tell classes apart. So a short fit learns a metric of
full rank with few prototypes, on a sample if there are many rows. Which prototype is nearest
depends on nothing but the differences between prototypes: the start is the projection to the axes
along which they vary most.
"""

from contextlib import nullcontext

import numpy as np

from dkmeans.geometry import Learned
from dkmeans.growth.grow import grow
from dkmeans.growth.rows import Rows
from dkmeans.growth.rules import Rules
from dkmeans.growth.run import Run, State
from dkmeans.growth.samples import plan_sample
from dkmeans.growth.start_metric import fixed_signs
from dkmeans.kernels.threads import single_threaded_blas

PROTOTYPES_PER_CLASS = 8
PROTOTYPES_PER_AXIS = 2  # at least, to tell which axes matter
PASSES = 20
SAMPLE_ROWS = 16384  # distinct ones
MIN_CLASS_ROWS = 64
NO_PREFERENCE = 1e-9  # variance of all axes, relative to that of prototypes: for too few of these


def reduce_rank(rows: Rows, geometry: Learned, n_components: int) -> Learned:
    """Learn a metric with few prototypes, and keep some of its axes.

    Parameters
    ----------
    rows : Rows
        Mapped by the geometry. Afterwards they are mapped by the result.
    geometry : Learned
        Where to start.
    n_components : int
        Rank of the result, at most.
    """
    if geometry.components.shape[1] <= n_components:
        return geometry
    most = max(PROTOTYPES_PER_CLASS * rows.n_classes, PROTOTYPES_PER_AXIS * n_components)
    rules = Rules("size", most, PASSES, growth="best", refine="margin", geometry=geometry)
    plan = plan_sample(rows, SAMPLE_ROWS, MIN_CLASS_ROWS)
    with nullcontext(rows) if plan is None else rows.drawn(plan.draw) as some:
        *_, state = grow(Run(some, rules))
    assert isinstance(state, State)
    reduced = _along_prototypes(state, n_components)
    rows.map_rows(reduced)
    return reduced


def _along_prototypes(state: State, n_components: int) -> Learned:
    """Project to the axes along which the prototypes of a state vary most."""
    geometry, centers = state.geometry, state.prototypes.centers.astype(np.float64)
    assert isinstance(geometry, Learned)
    steps = centers - centers.mean(axis=0)
    with single_threaded_blas:
        products = steps.T @ steps
        products += NO_PREFERENCE * (np.trace(products) or 1.0) * np.eye(len(products))
        axes = np.linalg.eigh(products)[1][:, ::-1][:, :n_components]
        components = geometry.components @ axes
    return geometry.with_components(fixed_signs(components))
