"""
Wrong labels
============

Run to convergence every training label is fitted, the wrong ones too: each gets a prototype of
its own. A budget, chosen by ``"auto"`` if you like, keeps to what new rows confirm. One label in
ten is wrong here.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.plots import CellsDisplay

X, y = make_moons(800, noise=0.15, random_state=0)
is_wrong = np.random.default_rng(0).random(len(y)) < 0.1
X_test, y_test = make_moons(4000, noise=0.15, random_state=1)  # all of them right

figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for ax, budget in zip(axes, (None, "auto"), strict=True):
    with warnings.catch_warnings(action="ignore", category=OverfittingWarning):
        model = DiscriminativeKMeans(budget, refine=None, metric="euclidean").fit(X, y ^ is_wrong)
    CellsDisplay.from_estimator(model, X, y ^ is_wrong, ax=ax)
    error = 1 - model.score(X_test, y_test)
    ax.set_title(
        f"max_clusters={budget!r}: {model.n_clusters_} prototypes\n"
        f"{error:.1%} of new rows misclassified"
    )
plt.show()

# %%
# The first of the two did not go unnoticed: such a fit ends with a warning that names the
# remedies.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    DiscriminativeKMeans(max_clusters=None, refine=None, metric="euclidean").fit(X, y ^ is_wrong)
print(caught[0].message)

# %%
# Such a model can name the rows that it does not believe. Of as many rows as labels were changed,
# from the top of the list, so many are indeed wrong:

with warnings.catch_warnings(action="ignore", category=OverfittingWarning):
    model = DiscriminativeKMeans(max_clusters=None, refine=None, metric="euclidean").fit(
        X, y ^ is_wrong
    )
suspects = model.suspects(X, y ^ is_wrong, n=int(is_wrong.sum()))
print(f"{is_wrong[suspects.row].sum()} of {len(suspects.row)}")
print(suspects)
