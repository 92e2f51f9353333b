"""
The digits in forty prototypes
==============================

A model that people can look through: each prototype is an image, and stands for the rows of its
cell. The largest clusters of each class come first, titled with their lasting id and their
weight.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import ConfusionDisplay, MarginDisplay, PrototypeImagesDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = DiscriminativeKMeans(max_clusters=40, refine=None, metric="euclidean").fit(X_train, y_train)
error = 1 - model.score(X_test, y_test)
print(f"{model.n_clusters_} prototypes, {error:.1%} of new rows misclassified")

figure, ax = plt.subplots(figsize=(6.4, 11), layout="constrained")
PrototypeImagesDisplay.from_estimator(model, image_shape=(8, 8), ax=ax)
plt.show()

# %%
# What it gets wrong on new rows: which digit is taken for which, and how far rows are from their
# own class and from the nearest other one. Rows on the shaded side of the diagonal are
# misclassified.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
ConfusionDisplay.from_estimator(model, X_test, y_test, ax=left)
MarginDisplay.from_estimator(model, X_test, y_test, ax=right)
plt.show()
