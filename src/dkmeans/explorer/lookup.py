"""Layers, planes, coordinates and flags that several answers need."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.explorer import requests as r
from dkmeans.explorer.draft import DROPPED, Draft
from dkmeans.explorer.planes import IDS, MapPlane
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import LAYERS, Session
from dkmeans.explorer.suspicion import suspect_rows

WRONG, SUSPECT, REJECTED, IS_DROPPED, RELABELLED = 1, 2, 4, 8, 16  # flags of rows


def layer_of(session: Session, params: dict[str, Any]) -> str:
    """Read the layer of a request."""
    layer = r.choice(params, "layer", LAYERS, "training")
    if layer not in session.layers:
        raise RequestError("There are no held-out rows.")
    return layer


def plane_of(session: Session, params: dict[str, Any]) -> MapPlane:
    """Read the plane of a request."""
    id = r.choice(params, "plane", IDS, IDS[0])
    x, y = 0, 0
    if id == "features":
        d = len(session.units.names)
        x, y = r.integer(params, "x", d, 0), r.integer(params, "y", d, min(1, d - 1))
    return session.plane(id, x, y)


def project(session: Session, plane: MapPlane, layer: str) -> npt.NDArray[np.float32]:
    """Return the coordinates of a layer's rows."""
    key = ("flat", plane_key(session, plane), layer)

    def compute() -> npt.NDArray[np.float32]:
        view = session.view(session.shown, layer)
        return plane.project(view.rows if plane.is_mapped else session.layers[layer].X)

    return session.cached(key, compute)


def flags(session: Session, draft: Draft, layer: str) -> npt.NDArray[np.uint8]:
    """Return the flags of a layer's rows."""
    found = np.zeros(len(session.layers[layer]), dtype=np.uint8)
    found[session.classes(draft, layer) != session.predicted(draft, layer)] |= WRONG
    if draft.core._fitted.rejection is not None:
        found[session.view(draft, layer).unknown] |= REJECTED
    if layer == "training":
        found[(draft.marks & DROPPED) != 0] |= IS_DROPPED
        found[draft.row_classes != session.start.row_classes] |= RELABELLED
        found[suspect_rows(session)] |= SUSPECT
    return found


def read_k(params: dict[str, Any]) -> int:
    """Read a number of prototypes."""
    value = params.get("k")
    return 1 + r.integer({"k": value - 1 if type(value) is int else value}, "k", 1 << 31)


def plane_key(session: Session, plane: MapPlane) -> Any:
    """Return what tells the plane from others; that of the prototypes moves with the model."""
    if plane.is_mapped:
        return plane.id, session.serial(session.shown.core)
    return plane.id, plane.x, plane.y
