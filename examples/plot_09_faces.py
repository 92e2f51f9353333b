"""
Faces under many lights
=======================

The paper's own field: telling people apart whose faces are lit from all sides. ``dkmeans
reproduce`` runs its experiments on Extended Yale B, or on faces that it renders; a few of these
are used here, so that nothing need be downloaded. Light from the side makes two people more alike
than one person under two lights, so one mean per person will not do.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestCentroid

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import PrototypeImagesDisplay
from dkmeans_paper.rendered import rendered_faces

faces = rendered_faces(6)
images = faces.images.astype(np.float32)

# Slow changes of brightness tell of the light, the others of the face; length tells of neither.
detail = (images - gaussian_filter(images, (0, 4, 4))).reshape(len(images), -1)
detail /= np.linalg.norm(detail, axis=1, keepdims=True)

rows = train_test_split(np.arange(len(images)), stratify=faces.person, random_state=0)
train, test = rows
centroid = NearestCentroid().fit(detail[train], faces.person[train])
model = DiscriminativeKMeans(18, refine="margin", metric="euclidean").fit(
    detail[train], faces.person[train]
)
for name, classifier in (("one mean per person", centroid), ("three prototypes per person", model)):
    error = 1 - classifier.score(detail[test], faces.person[test])
    print(f"{name}: {error:.1%} of {len(test)} new pictures misclassified")

# %%
# What each prototype stands for: the mean picture of the rows in its cell.

model = DiscriminativeKMeans(18, refine=None, metric="euclidean").fit(
    detail[train], faces.person[train]
)
means = [images[train][model.labels_ == i].mean(axis=0) for i in range(model.n_clusters_)]
figure, axes = plt.subplots(3, 6, figsize=(9, 5.6), layout="constrained")
for ax in axes.flat:
    ax.set_axis_off()
for person in model.classes_:
    for ax, i in zip(
        axes[:, person], np.flatnonzero(model.cluster_classes_ == person), strict=False
    ):
        ax.imshow(means[i], cmap="gray")
        ax.set_title(f"person {person}: {model.cluster_sizes_[i]:.0f}", fontsize=9)
plt.show()

# %%
# The prototypes themselves, high-pass filtered:

figure, ax = plt.subplots(figsize=(6.4, 9), layout="constrained")
PrototypeImagesDisplay.from_estimator(model, image_shape=images.shape[1:], cmap="gray", ax=ax)
plt.show()
