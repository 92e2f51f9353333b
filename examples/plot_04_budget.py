"""
Choosing the budget
===================

How many prototypes? One fit passes through many numbers of them, and ``path_`` keeps them all:
``at(k)`` gives the model with at most ``k``, without fitting again. ``max_clusters="auto"`` looks
at held-out rows and takes the fewest that err hardly more than the best.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import PathDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

largest = DiscriminativeKMeans(max_clusters=160, refine=None, metric="euclidean").fit(
    X_train, y_train
)
for k in largest.path_.clusters:
    if k >= 10:
        error = 1 - largest.at(int(k)).score(X_test, y_test)
        print(f"{k:4d} prototypes: {error:.1%} of new rows misclassified")

# %%
# Training error alone would have us take them all. On held-out rows the gain fades, and more
# prototypes mean more memory and more time for each prediction.

auto = DiscriminativeKMeans("auto", refine=None, metric="euclidean").fit(X_train, y_train)
print(f"chosen: {auto.n_clusters_}, {1 - auto.score(X_test, y_test):.1%} of new rows misclassified")

figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
PathDisplay.from_estimator(auto, ax=ax)
plt.show()
