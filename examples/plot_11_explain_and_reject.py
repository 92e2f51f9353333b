"""
Why this class, or none of them?
================================

``explain`` names what decided about a row: the nearest prototype, the training row that stands for
it, and the nearest prototype of another class; and a radius within which no change of the row gives
another class. Here are the two digits that are closest to the border, and the safest one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import CertifiedAccuracyDisplay, ExplanationDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = DiscriminativeKMeans(max_clusters=40, refine=None, metric="euclidean").fit(X_train, y_train)
why = model.explain(X_test)
rows = X_test[np.argsort(why.radius)[[0, 1, -1]]]

figure, ax = plt.subplots(figsize=(6.6, 6), layout="constrained")
shown = {"image_shape": (8, 8), "X_train": X_train}
ExplanationDisplay.from_estimator(model, rows, **shown, ax=ax)
plt.show()

# %%
# How many rows are right, and stay right whatever is done to them within some distance:

figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
CertifiedAccuracyDisplay.from_estimator(model, X_test, y_test, ax=ax)
plt.show()

# %%
# A model that has never seen a seven takes it for another digit, unless it may say "none of
# these". The threshold comes from held-out rows of the known digits, for a false-alarm rate of 5 %.

known = y_train != 7
X_fit, X_held, y_fit, _ = train_test_split(X_train[known], y_train[known], random_state=0)
model = (
    DiscriminativeKMeans(max_clusters=90, refine=None, metric="euclidean")
    .fit(X_fit, y_fit)
    .set_rejection(X_held, per="all")
)
score = model.unknown_score(X_test)

figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
bins = np.linspace(0, score.max(), 40)
ax.hist(score[y_test != 7], bins, color="#0072B2", label="known digits")
ax.hist(score[y_test == 7], bins, color="#D55E00", alpha=0.8, hatch="//", label="sevens")
ax.axvline(1, color="black", linestyle="--", label="rejected beyond")
ax.set(xlabel="unknown_score", ylabel="rows", title="Sevens that were never seen")
ax.legend()
plt.show()

rejected = ~model.is_known(X_test)
print(f"rejected: {rejected[y_test != 7].mean():.1%} of known digits")
print(f"rejected: {rejected[y_test == 7].mean():.1%} of sevens")
