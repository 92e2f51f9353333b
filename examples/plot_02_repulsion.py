r"""
What repulsion does
===================

The first split of two classes, with means :math:`m_1` and :math:`m_2` in the cluster. The
children are put beyond these means, away from each other: :math:`m_1 - w\,(m_2 - m_1)` and
:math:`m_2 - w\,(m_1 - m_2)`. The weight :math:`w` is the parameter ``repulsion``. Crosses are the
means.

With a constant, both children move alike, and the border between them stays where it was. With
``"size"``, the default, :math:`w` is the share of the other class in the cluster: the child of
the larger class hardly moves, that of the smaller one makes way, and the border goes with it.
"""

import matplotlib.pyplot as plt
import numpy as np

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import CellsDisplay

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal([-1, 0], 0.7, (270, 2)), rng.normal([1, 0], 0.4, (30, 2))])
y = np.repeat(["many", "few"], [270, 30])

figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained", sharey=True)
for ax, repulsion in zip(axes, (0.0, 0.5, "size"), strict=True):
    model = DiscriminativeKMeans.paper(2, repulsion=repulsion).fit(X, y)
    CellsDisplay.from_estimator(model, X, y, ax=ax)
    for label in model.classes_:
        ax.plot(*X[y == label].mean(axis=0), "kx", markersize=9, markeredgewidth=2)
    ax.set_title(f"repulsion={repulsion!r}: {100 * (1 - model.score(X, y)):.1f} % misclassified")
plt.show()
