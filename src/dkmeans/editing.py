"""Corrections of fitted prototypes by hand."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from dkmeans import fitting
from dkmeans.data import validation
from dkmeans.engine import edit


class EditingMixin:
    """Methods that change single prototypes of a fitted estimator."""

    _publish: Callable[[dict[str, Any]], None]

    def drop(self, ids: Any) -> Self:
        """Remove prototypes by id, with all that they remember.

        Parameters
        ----------
        ids : int or array-like of int
            Entries of `cluster_ids_`. At least one prototype must remain.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator, without `labels_` and `inertia_`: the rows they spoke of are not kept.
        """
        return self._edit(edit.drop, validation.check_ids_to_drop(self, ids))

    def merge(self, ids: Any) -> Self:
        """Merge prototypes of one class into the heaviest, which keeps its id.

        Parameters
        ----------
        ids : array-like of int
            Two or more entries of `cluster_ids_`.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator, without `labels_` and `inertia_`: the rows they spoke of are not kept.
        """
        return self._edit(edit.merge, validation.check_ids_to_merge(self, ids))

    def set_center(self, id: int, center: Any) -> Self:
        """Put a prototype somewhere else.

        Parameters
        ----------
        id : int
            Entry of `cluster_ids_`.
        center : array-like of shape (n_features_in_,)
            Where it should be.

        Returns
        -------
        self : DiscriminativeKMeans
            The estimator, without `labels_` and `inertia_`: the rows they spoke of are not kept.
        """
        ids = validation.check_ids(self, id)
        if len(ids) > 1:
            raise ValueError(
                f"set_center moves one prototype, but id has {len(ids)} of them: call it for each."
            )
        where = validation.check_rows(self, np.reshape(center, (1, -1)))[0]
        return self._edit(edit.set_center, ids, where)

    def _edit(self, change: Callable[..., edit.Edited], *arguments: Any) -> Self:
        self._publish(fitting.edited(self, change, *arguments))
        return self
