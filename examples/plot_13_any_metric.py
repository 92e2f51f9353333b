"""
Any metric: kernels, strings and time series
============================================

Rings and spirals cannot be told apart by a few prototypes in the plane. ``Landmarks`` turns the
similarity to some rows into features, and there the classes are compact: two prototypes are enough
for the rings.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles
from sklearn.pipeline import make_pipeline

from dkmeans import DiscriminativeKMeans, DiscriminativeKMedoids, Landmarks

rng = np.random.default_rng(0)
t = np.sqrt(rng.uniform(0.05, 1, 300)) * 3 * np.pi
arm = np.column_stack([t * np.cos(t), t * np.sin(t)]) / 10 + 0.03 * rng.normal(size=(300, 2))
spirals = np.vstack([arm, -arm]), np.repeat([0, 1], 300)
rings = make_circles(400, factor=0.5, noise=0.06, random_state=0)

figure, axes = plt.subplots(2, 2, figsize=(7, 7), layout="constrained")
for line, (X, y), k in zip(axes, (rings, spirals), (2, 4), strict=True):
    models = {
        "in the plane": DiscriminativeKMeans(max_clusters=k, refine="margin", metric="euclidean"),
        "with Landmarks": make_pipeline(
            Landmarks(60, gamma=20),
            DiscriminativeKMeans(max_clusters=k, refine="margin", metric="euclidean"),
        ),
    }
    low, high = X.min(axis=0) - 0.1, X.max(axis=0) + 0.1
    grid = np.stack(np.meshgrid(*np.linspace(low, high, 150).T), axis=-1)
    for ax, (name, model) in zip(line, models.items(), strict=True):
        model.fit(X, y)
        cells = model.predict(grid.reshape(-1, 2)).reshape(150, 150)
        ax.contourf(grid[..., 0], grid[..., 1], cells, levels=1, cmap="RdBu", alpha=0.3)
        ax.scatter(*X.T, c=y, s=6, cmap="RdBu", vmin=0, vmax=1)
        ax.set(title=f"{name}: {model.score(X, y):.0%} right", xticks=[], yticks=[])
    line[0].set_ylabel(f"{k} prototypes")
plt.show()

# %%
# Strings have no mean, but distances. ``DiscriminativeKMedoids`` takes any function of two objects;
# its prototypes are some of the words. Each is shown with the words that are nearest to it:


def edit_distance(a, b):
    """Count the letters to change, insert or remove."""
    line = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, z in enumerate(b, 1):
            new.append(min(line[j] + 1, new[-1] + 1, line[j - 1] + (x != z)))
        line = new
    return line[-1]


cities = {
    "Geneva": ["geneva", "geneve", "genf"],
    "Genoa": ["genoa", "genova", "genua"],
    "Venice": ["venice", "venezia", "venedig"],
    "Vienna": ["vienna", "vienne", "wien"],
}
letters = list("abcdefghijklmnopqrstuvwxyz")
words, y = [], []
for city, spellings in cities.items():
    for number in range(36):
        word = list(spellings[number % 3])
        if number >= 12:
            word[rng.integers(len(word))] = letters[rng.integers(26)]
        words.append("".join(word))
        y.append(city)
model = DiscriminativeKMedoids(10, metric=edit_distance).fit(words, y)

figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
ax.axis("off")
cells = []
for index, (medoid, label) in enumerate(zip(model.medoids_, model.medoid_classes_, strict=True)):
    mine = sorted({words[i] for i in np.flatnonzero(model.labels_ == index)} - {medoid})
    cells.append([label, medoid, ", ".join(mine[:6]) or "(no other word)"])
table = ax.table(
    cells, colLabels=["class", "medoid", "some of its words"], loc="center", cellLoc="left"
)
table.auto_set_font_size(False)
table.set_fontsize(9)
table.auto_set_column_width([0, 1, 2])
table.scale(1, 1.4)
plt.show()
print(model.predict(["wein", "genoha", "veneziia"]))

# %%
# Curves of different lengths are compared by dynamic time warping. Each panel is a medoid, thick,
# above the curves that are nearest to it:


def time_warping(a, b):
    """Return the least sum of squares along any alignment, and its root."""
    costs = np.full((len(a) + 1, len(b) + 1), np.inf)
    costs[0, 0] = 0
    for i, x in enumerate(a, 1):
        for j, z in enumerate(b, 1):
            before = min(costs[i - 1, j], costs[i, j - 1], costs[i - 1, j - 1])
            costs[i, j] = (x - z) ** 2 + before
    return np.sqrt(costs[-1, -1])


shapes = {
    "one wave": [lambda t: np.sin(2 * np.pi * t), lambda t: -np.sin(2 * np.pi * t)],
    "two waves": [lambda t: np.sin(4 * np.pi * t), lambda t: -np.sin(4 * np.pi * t)],
}
curves, y = [], []
for name, both in shapes.items():
    for number in range(24):
        t = np.linspace(0, 1, rng.integers(18, 33)) ** rng.uniform(0.6, 1.6)
        curves.append(both[number % 2](t) + rng.normal(0, 0.15, len(t)))
        y.append(name)
model = DiscriminativeKMedoids(4, metric=time_warping).fit(curves, y)

figure, axes = plt.subplots(
    1, model.n_medoids_, figsize=(9, 2.4), sharey=True, layout="constrained"
)
for index, ax in enumerate(axes):
    for i in np.flatnonzero(model.labels_ == index):
        ax.plot(curves[i], color="0.75", lw=0.8)
    color = "C0" if model.medoid_classes_[index] == "one wave" else "C3"
    ax.plot(model.medoids_[index], color=color, lw=2.5)
    ax.set_title(f"{model.medoid_classes_[index]}: {model.medoid_sizes_[index]:.0f} curves")
plt.show()
