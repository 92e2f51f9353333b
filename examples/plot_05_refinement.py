"""
Refinement: wider margins with the same prototypes
==================================================

``refine="margin"`` goes on where growth ends. At the same number of prototypes it moves them so
that rows lie farther from the border of their class: means no longer, but better at telling
classes apart.

Two spirals and a budget of twelve show it: means lie on the arms, and the border between two of
them is where it happens to be. Refined prototypes shape the border instead.
"""

import matplotlib.pyplot as plt
import numpy as np

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import CellsDisplay


def spirals(n_rows, seed):
    """Two arms that wind around each other."""
    rng = np.random.default_rng(seed)
    turn = 3 * np.pi * np.sqrt(rng.uniform(0.08, 1, n_rows))
    y = np.arange(n_rows) % 2
    angle = turn + np.pi * y
    arms = turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return arms + rng.normal(scale=0.5, size=(n_rows, 2)), y


X, y = spirals(800, seed=0)
X_test, y_test = spirals(4000, seed=1)

figure, axes = plt.subplots(1, 2, figsize=(11, 5.4), layout="constrained")
for ax, refine in zip(axes, (None, "margin"), strict=True):
    model = DiscriminativeKMeans(12, refine=refine, metric="euclidean").fit(X, y)
    CellsDisplay.from_estimator(model, X, y, ax=ax)
    error = 1 - model.score(X_test, y_test)
    ax.set_title(f"refine={refine!r}: {error:.1%} of new rows misclassified")
plt.show()

# %%
# ``history_`` has the cost of each pass, a smooth count of errors; the cheapest pass is kept.

is_refined = model.history_.phase == "refine"
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.semilogy(model.history_.cost[is_refined], color="#0072B2")
ax.set(xlabel="pass of refinement", ylabel="mean margin cost")
plt.show()
