"""Errors along the growth of a model."""

from typing import Any

import numpy as np

from dkmeans.data.arguments import threads_of
from dkmeans.explorer.draft import Draft
from dkmeans.explorer.session import Session
from dkmeans.plots.inputs import evenly_spaced
from dkmeans.questions import nearest_prototype

_WORK = 2e8  # multiplications for the held-out errors of all models on the way
_MIN_ROWS = 500


def error_curve(session: Session, draft: Draft) -> list[dict[str, Any]] | None:
    """List the models that growth passed through, with their errors; None if they are not known.

    Training errors are those of the fit. Held-out errors are those of evenly spaced rows, if there
    are so many that all of them would take long.
    """
    core = draft.core
    if core._fitted.growth_path is None or not hasattr(core, "path_"):
        return None
    key = ("path", session.serial(core), draft.merged)
    return session.cached(key, lambda: _compute(session, draft))


def _compute(session: Session, draft: Draft) -> list[dict[str, Any]]:
    path = draft.core.path_
    held_out = _held_out_errors(session, draft)
    refined = getattr(path, "refined", path.clusters < 0)  # older files do not tell
    return [
        {
            "k": int(k),
            "training": float(error),
            "held_out": held_out.get(int(k)),
            "refined": bool(is_refined),
        }
        for k, error, is_refined in zip(path.clusters, path.training_error, refined, strict=True)
    ]


def _held_out_errors(session: Session, draft: Draft) -> dict[int, float]:
    layer = session.layers.get("held_out")
    growth = draft.core._fitted.growth_path
    if layer is None:
        return {}
    total = sum(len(point) for point in growth.waypoints)
    d = draft.core._fitted.prototypes.centers.shape[1]
    rows = evenly_spaced(len(layer), max(_MIN_ROWS, int(_WORK / (total * d))))
    X, codes = layer.X[rows], draft.counts_as[layer.codes[rows]]
    known = draft.counts_as[draft.model_classes]
    errors, mapped, space = {}, X, None
    for point in growth.waypoints:
        if space is None or point.geometry != space:
            space = point.geometry
            mapped = space.rows(X, threads_of(draft.core))
        centers = point.prototypes.centers
        cells, _ = nearest_prototype.nearest(mapped, centers, threads_of(draft.core))
        found = known[point.prototypes.classes[cells]]
        errors[len(point)] = float(np.mean(found != codes))
    return errors
