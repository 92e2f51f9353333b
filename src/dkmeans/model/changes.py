"""What a call did to each prototype."""

import numpy as np

from dkmeans.model.prototypes import Prototypes
from dkmeans.model.table import Table
from dkmeans.model.tree import Tree


class Changes(Table):
    """One row per change that a call made; prototypes that stayed as they were are not listed.

    Attributes
    ----------
    id : int
        Which prototype.
    label : class label
        Its class.
    change : str
        "added", "moved", "split" (it has new children) or "removed". One that split and moved has
        two rows.
    distance : float
        How far it moved, else NaN.
    """

    def _headline(self) -> str:
        kinds, counts = np.unique(self.change, return_counts=True)
        listed = ", ".join(f"{n} {kind}" for kind, n in zip(kinds, counts, strict=True))
        return f"Changes: {listed or 'none'}"


def describe_changes(
    before: Prototypes | None, after: Prototypes, tree: Tree, call: int
) -> Changes:
    """Compare prototypes before and after a call."""
    old = {} if before is None else dict(zip(before.ids.tolist(), before.centers, strict=True))
    new = dict(zip(after.ids.tolist(), after.centers, strict=True))
    rows: list[tuple[int, str, float]] = []
    for i, center in new.items():
        if i not in old:
            rows.append((i, "added", np.nan))
        elif not np.array_equal(center, old[i]):
            rows.append((i, "moved", float(np.linalg.norm(center.astype(float) - old[i]))))
    parents = set(tree.parent[(tree.call == call) & np.isin(tree.id, after.ids)].tolist())
    rows += [(i, "split", np.nan) for i in old if i in parents]
    rows += [(i, "removed", np.nan) for i in old if i not in new]
    rows.sort(key=lambda row: row[:2])
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    return Changes(
        id=ids,
        label=tree.label[ids],
        change=np.array([row[1] for row in rows], dtype="U7"),
        distance=np.array([row[2] for row in rows], dtype=np.float64),
    )
