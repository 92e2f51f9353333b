"""Which classes of a fitted estimator meet, and what it cost to tell them apart."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from dkmeans import fitting
from dkmeans.data import validation
from dkmeans.engine.facing import find_facing
from dkmeans.kernels.block import Indices
from dkmeans.model.borders import ClassBorders


class BorderingMixin:
    """A method that compares the prototypes of different classes."""

    classes_: Any
    tree_: Any

    def class_borders(self) -> ClassBorders:
        """List the pairs of classes that meet, the one that cost the most prototypes first.

        Two prototypes *face* each other if no third one is nearer to both than they are to each
        other; the point midway between them is then on the border of their cells. Classes meet
        if prototypes of theirs face each other, if one cost the other a prototype, or if rows of
        one lie in cells of the other.

        Every class needs one prototype: its oldest one counts for nobody. Every further one counts
        for the class of its parent in `tree_`, if that is another class, as in the paper's
        splits. If it is the same one, as `growth="best"` splits clusters of one class, it counts
        for the class of the nearest prototype of another class (the lowest class on a tie). So
        the column `prototypes` adds up to `n_clusters_` less the number of classes that have any.

        Returns
        -------
        borders : ClassBorders
            A table with the columns a, b, prototypes, facing, gap, a_in_b and b_in_a; it has
            `to_pandas()` and `plot()`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from dkmeans import DiscriminativeKMeans
        >>> iris = load_iris()
        >>> names = iris.target_names[iris.target]
        >>> DiscriminativeKMeans(max_clusters=10).fit(iris.data, names).class_borders()
        Borders between 2 pairs of classes
                 a           b  prototypes  facing     gap  a_in_b  b_in_a
        versicolor   virginica           7       1  0.5022    0.02    0.02
            setosa  versicolor           0       1   2.389       0       0
        """
        check_is_fitted(self)
        now = fitting.prototypes(self, self.classes_)
        n_classes, threads = len(self.classes_), validation.threads_of(self)
        facing = find_facing(now.centers, now.classes, n_classes, threads)
        cost = self._costs(now.ids, now.classes, facing.rivals)
        stray = fitting.strays(self)
        a, b = np.nonzero(np.triu(facing.pairs + cost + (stray + stray.T > 0), 1))
        table = ClassBorders(
            a=self.classes_[a],
            b=self.classes_[b],
            prototypes=cost[a, b],
            facing=facing.pairs[a, b],
            gap=facing.gaps[a, b],
            a_in_b=stray[a, b],
            b_in_a=stray[b, a],
        )
        return table.take(np.lexsort((b, a, table.gap, -table.facing, -table.prototypes)))

    def _costs(
        self, ids: npt.NDArray[np.int64], classes: Indices, rivals: Indices
    ) -> npt.NDArray[np.int64]:
        """Count prototypes by the pair of classes that they were added for."""
        of_all = np.searchsorted(self.classes_, self.tree_.label)
        parents = self.tree_.parent[ids]
        of_parents = np.where(parents < 0, classes, of_all[parents])
        against = np.where(of_parents == classes, rivals, of_parents)
        oldest = np.unique(classes, return_index=True)[1]  # as ids rise within a class
        more = np.setdiff1d(np.arange(len(ids)), oldest)
        more = more[against[more] >= 0]  # a class that is alone has no rival
        counts = np.zeros((len(self.classes_),) * 2, dtype=np.int64)
        np.add.at(counts, (classes[more], against[more]), 1)
        return counts + counts.T
