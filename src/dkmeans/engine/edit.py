"""Changes by hand: removing, merging and moving prototypes."""

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dkmeans.engine.memory import Memory
from dkmeans.kernels.block import Floats
from dkmeans.model.prototypes import Prototypes

Ids: TypeAlias = npt.NDArray[np.int64]
Edited: TypeAlias = tuple[Prototypes, Memory, Floats]  # the last are the sizes


def drop(prototypes: Prototypes, memory: Memory, sizes: Floats, ids: Ids) -> Edited:
    """Forget prototypes and what they remember."""
    stay = ~np.isin(prototypes.ids, ids)
    return prototypes.take(stay), memory.take(~np.isin(memory.ids, ids)), sizes[stay]


def merge(prototypes: Prototypes, memory: Memory, sizes: Floats, ids: Ids) -> Edited:
    """Let the heaviest take over the memory of the others, and move to the mean of all of it."""
    chosen = np.flatnonzero(np.isin(prototypes.ids, ids))
    heir = chosen[sizes[chosen].argmax()]
    gone = chosen[chosen != heir]
    memory = memory.given_to(
        np.where(np.isin(memory.ids, prototypes.ids[gone]), prototypes.ids[heir], memory.ids)
    )
    own = (memory.ids == prototypes.ids[heir]) & (memory.classes == prototypes.classes[heir])
    centers = prototypes.centers.copy()
    if own.any():
        centers[heir] = (memory.sums[0, own] / memory.weights[0, own][:, None])[0]
    sizes = sizes.copy()
    sizes[heir] = sizes[chosen].sum()
    stay = np.setdiff1d(np.arange(len(prototypes)), gone)
    return replace(prototypes, centers=centers).take(stay), memory, sizes[stay]


def set_center(
    prototypes: Prototypes,
    memory: Memory,
    sizes: Floats,
    ids: Ids,
    center: npt.NDArray[np.floating],
) -> Edited:
    """Put a prototype somewhere else, with what it remembers."""
    centers = prototypes.centers.copy()
    centers[prototypes.ids == ids[0]] = center
    return replace(prototypes, centers=centers), memory, sizes
