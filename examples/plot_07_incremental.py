"""
Going on with new rows and a new class
======================================

``partial_fit`` reads the new rows only. Prototypes that no new row comes near keep every bit and
their id, so that ids can be stored elsewhere; ``changes_`` tells what the call did.
"""

import matplotlib.pyplot as plt
import numpy as np

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import CellsDisplay

rng = np.random.default_rng(0)


def blob(center, n_rows=120):
    """Rows around a point."""
    return rng.normal(center, 0.6, (n_rows, 2))


X_old = np.concatenate([blob([0, 0]), blob([3, 0]), blob([0, 3]), blob([8, 1])])
y_old = np.repeat(["oak", "elm", "elm", "oak"], 120)
X_new = np.concatenate([blob([3, 3]), blob([4.2, 1.2], 60)])
y_new = np.repeat(["yew", "oak"], [120, 60])

model = DiscriminativeKMeans(
    min_cluster_size=8, max_clusters=None, refine=None, metric="euclidean"
).partial_fit(X_old, y_old)

figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
CellsDisplay.from_estimator(model, X_old, y_old, ax=axes[0])
axes[0].set_title(f"first call: {model.n_clusters_} prototypes of oak and elm")
before = dict(zip(model.cluster_ids_.tolist(), model.cluster_centers_, strict=True))

model.partial_fit(X_new, y_new)
X, y = np.concatenate([X_old, X_new]), np.concatenate([y_old, y_new])
CellsDisplay.from_estimator(model, X, y, ax=axes[1])
axes[1].set_title(f"second call: {model.n_clusters_} prototypes, yew is new")
plt.show()

# %%
# What the second call did:

model.changes_

# %%
# All others are the same to the last bit:

after = dict(zip(model.cluster_ids_.tolist(), model.cluster_centers_, strict=True))
print([i for i in before if i in after and (before[i] == after[i]).all()])
