"""Edits by hand: remove, merge and move prototypes. Each function returns a new `Fitted`."""

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.exact.sparse_sums import dense
from dkmeans.fitted import Fitted
from dkmeans.growth.earlier_rows import EarlierRows
from dkmeans.kernels.block import Floats
from dkmeans.prototypes import Prototypes
from dkmeans.results.fit_record import describe_changes

Ids: TypeAlias = npt.NDArray[np.int64]


def drop(model: Fitted, ids: Ids) -> Fitted:
    """Remove prototypes and what they remember."""
    stay = ~np.isin(model.prototypes.ids, ids)
    earlier = model.earlier_rows.take(~np.isin(model.earlier_rows.ids, ids))
    return _edited(model, model.prototypes.take(stay), earlier, model.sizes[stay])


def merge(model: Fitted, ids: Ids) -> Fitted:
    """Merge prototypes into the heaviest one, which moves to the mean of all their rows."""
    before, sizes = model.prototypes, model.sizes.copy()
    chosen = np.flatnonzero(np.isin(before.ids, ids))
    heir = chosen[sizes[chosen].argmax()]
    gone = chosen[chosen != heir]
    earlier = model.earlier_rows.given_to(
        np.where(
            np.isin(model.earlier_rows.ids, before.ids[gone]),
            before.ids[heir],
            model.earlier_rows.ids,
        )
    )
    own = (earlier.ids == before.ids[heir]) & (earlier.classes == before.classes[heir])
    centers = before.centers.copy()
    if own.any():
        centers[heir] = (dense(earlier.sums[:, own])[0] / earlier.weights[0, own][:, None])[0]
    sizes[heir] = sizes[chosen].sum()
    stay = np.setdiff1d(np.arange(len(before)), gone)
    return _edited(model, replace(before, centers=centers).take(stay), earlier, sizes[stay])


def set_center(model: Fitted, id: int, center: npt.NDArray[np.floating]) -> Fitted:
    """Move a prototype, with what it remembers."""
    centers = model.prototypes.centers.copy()
    centers[model.prototypes.ids == id] = center
    return _edited(
        model, replace(model.prototypes, centers=centers), model.earlier_rows, model.sizes
    )


def _edited(model: Fitted, after: Prototypes, earlier: EarlierRows, sizes: Floats) -> Fitted:
    """Replace the prototypes, and drop all statements about training rows."""
    before = model.prototypes
    centers = model.geometry.centers(after.centers, before.centers.dtype)
    after = replace(after, centers=centers)
    log = model.tree_log(model.classes)
    log.end(np.setdiff1d(before.ids, after.ids), 0)
    tree = log.to_tree(model.classes)
    was = np.flatnonzero(np.isin(before.ids, after.ids))  # both are in the order (class, id)
    stays = (before.centers[was] == after.centers).all(axis=1)
    return replace(
        model,
        prototypes=after,
        sizes=sizes,
        exemplars=np.where(stays, model.exemplars[was], -1),
        converged=False,
        tree=tree,
        changes=describe_changes(before, after, tree, log.call),
        earlier_rows=earlier,
        rejection=None,
        calibration=None,
        labels=None,
        inertia=None,
        conflicts=None,
        path=None,
        training_classes=None,
        growth_path=None,
    )
