"""
Growth, round by round
======================

All rows start in one cluster. A cluster that mixes classes splits, and its children push each
other apart; a cluster of one class moves to its mean. Rounds follow until no cluster is mixed.

Here is the algorithm as the paper has it (``growth="paper"``) on two moons. Watch the prototypes
gather where the classes meet, and stay few where they do not.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import GrowthDisplay, TreeDisplay

X, y = make_moons(500, noise=0.15, random_state=0)
model = DiscriminativeKMeans.paper()

figure, ax = plt.subplots(figsize=(12.8, 8.6), layout="constrained")
GrowthDisplay.from_estimator(model, X, y, ax=ax)
plt.show()

# %%
# A fit keeps a record of this: ``history_`` has a row per round,

model.fit(X, y).history_

# %%
# and ``tree_`` knows who split from whom. Ids last, over all later calls too.

figure, ax = plt.subplots(figsize=(9, 6), layout="constrained")
TreeDisplay.from_estimator(model, ax=ax)
plt.show()
