"""Details of one row or one prototype."""

import math
from typing import Any

import numpy as np

from dkmeans.data.arguments import threads_of
from dkmeans.explorer import requests as r
from dkmeans.explorer.draft import Draft
from dkmeans.explorer.lookup import flags, layer_of
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import Session
from dkmeans.plots.inputs import dense
from dkmeans.questions.explain import explain
from dkmeans.questions.prediction import class_probabilities

_CLASSES = 5  # most probable classes of a row
_FEATURES = 200  # features that decide
_NEAREST = 8  # rows
_NEIGHBOURS = 5  # prototypes
_IMAGES = 500  # at once


def row(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Tell the values of a row, its prediction, and why."""
    layer = layer_of(session, params)
    data = session.layers[layer]
    at = r.integer(params, "row", len(data))
    draft = session.shown
    core, X = draft.core, data.X[[at]]
    threads = threads_of(core)
    why = explain(core._fitted, X, threads, features=True)
    mapped = session.view(draft, layer).rows[[at]]
    shares = class_probabilities(core._fitted, mapped, threads)[0]
    places = draft.counts_as[draft.model_classes]
    order = np.argsort(-shares, kind="stable")[:_CLASSES]
    own, rival = int(why.prototype[0]), int(why.rival[0])
    found = exemplars(session, draft)
    return {
        "row": at,
        "name": f"row {data.place(at) + 1}",
        "class": int(session.classes(draft, layer)[at]),
        "predicted": int(session.predicted(draft, layer)[at]),
        "probabilities": [[int(places[c]), float(shares[c])] for c in order],
        "prototype": own,
        "exemplar": _exemplar(found[own]),
        "rival": None if rival < 0 else rival,
        "rival_exemplar": None if rival < 0 else _exemplar(found[rival]),
        "margin": _finite(why.margin[0]),
        "radius": _finite(why.radius[0]),
        "radius_on_plane": _on_plane(session, why.radius[0]),
        "values": [list(pair) for pair in data.values(at, session.units.names)],
        "features": _parts(session, why, rival),
        "nearest": _nearest(session, draft, layer, at),
        "image": _image(session, X),
        "flags": int(flags(session, draft, layer)[at]),
    }


def prototype(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Show a prototype in original units, its rows, and its place in the tree."""
    draft = session.shown
    core = draft.core
    index = r.integer(params, "index", core.n_clusters_)
    view = session.view(draft, "training")
    mine = draft.used & (view.cells == index)
    counts = np.bincount(draft.row_classes[mine], minlength=len(draft.labels))
    own, members = int(draft.prototype_classes[index]), int(mine.sum())
    center, id = core.cluster_centers_[[index]], int(core.cluster_ids_[index])
    centers = core._fitted.prototypes.centers.astype(np.float64)
    gaps = np.linalg.norm(centers - centers[index], axis=1)
    gaps[index] = np.inf
    near = np.argsort(gaps, kind="stable")[: min(_NEIGHBOURS, len(gaps) - 1)]
    parent = int(core.tree_.parent[id])
    return {
        "index": index,
        "id": id,
        "name": draft.names.get(id),
        "class": own,
        "members": members,
        "purity": float(counts[own] / members) if members else None,
        "values": [list(pair) for pair in session.units.shown(center)[0]],
        "image": _image(session, center),
        "exemplar": _exemplar(exemplars(session, draft)[index]),
        "parent": None if parent < 0 else parent,
        "children": core.tree_.children(id),
        "neighbours": [{"index": int(i), "distance": float(gaps[i])} for i in near],
        "class_counts": [
            [int(c), int(counts[c])] for c in np.argsort(-counts, kind="stable") if counts[c]
        ],
    }


def images(session: Session, params: dict[str, Any]) -> bytes:
    """Return images of some rows, one after the other."""
    if session.images is None:
        raise RequestError("Rows are no images: no image_shape was given.")
    data = session.layers[layer_of(session, params)]
    rows = params.get("rows")
    r.integers(params, "rows", len(data), most=_IMAGES)  # in any order, and more than once
    return session.images.bytes(data.X[np.array(rows)]).tobytes()


def exemplars(session: Session, draft: Draft) -> Any:
    """Return the training row nearest to each prototype, of its cell and class; -1 if none."""
    view = session.view(draft, "training")
    own = draft.used & (draft.row_classes == draft.prototype_classes[view.cells])
    return session.cached(("exemplars", session.version), lambda: view.exemplars(own))


def _parts(session: Session, why: Any, rival: int) -> list[list[Any]]:
    if rival < 0:
        return []
    parts = why.parts[0]
    order = np.argsort(-np.abs(parts), kind="stable")[:_FEATURES]
    return [[session.units.names[j], float(parts[j])] for j in order]


def _nearest(session: Session, draft: Draft, layer: str, at: int) -> list[dict[str, Any]]:
    """List the nearest training rows, without the row itself."""
    point = session.view(draft, layer).rows[[at]]
    rows, distances = session.view(draft, "training").nearest_rows(point, _NEAREST + 1)
    return [
        {"row": int(i), "distance": float(d), "class": int(draft.row_classes[i])}
        for i, d in zip(rows, distances, strict=True)
        if layer != "training" or i != at
    ][:_NEAREST]


def _on_plane(session: Session, radius: Any) -> list[float] | None:
    """Return the radius along both axes of the plane of features, if there are just two."""
    if len(session.units.names) != 2 or not math.isfinite(radius):
        return None
    return [float(radius * factor) for factor in session.units.factor]


def _image(session: Session, X: Any) -> list[int] | None:
    return None if session.images is None else session.images.bytes(dense(X))[0].tolist()


def _exemplar(row: Any) -> dict[str, int] | None:
    return None if row < 0 else {"row": int(row)}


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
