"""
Which classes meet, and fewer rows that say the same
====================================================

``class_borders`` tells which pairs of classes share a border, and how many prototypes it took to
tell them apart.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from dkmeans import DiscriminativeKMeans, condense
from dkmeans.plots import ClassBordersDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = DiscriminativeKMeans(max_clusters=60, refine=None, metric="euclidean").fit(X_train, y_train)
print(model.class_borders())

figure, ax = plt.subplots(figsize=(6.6, 5.4), layout="constrained")
ClassBordersDisplay.from_estimator(model, ax=ax)
plt.show()

# %%
# ``condense`` gives a small labelled data set in place of a large one, for any method that
# compares rows with rows. Here 1-NN keeps a twentieth of the rows, or all of them:

small = condense(X_train, y_train)
for name, rows, labels in (("condensed", small.X, small.y), ("all rows", X_train, y_train)):
    error = 1 - KNeighborsClassifier(1).fit(rows, labels).score(X_test, y_test)
    print(f"{name:10s} {len(rows):5d} rows, {error:.1%} of new rows misclassified")
