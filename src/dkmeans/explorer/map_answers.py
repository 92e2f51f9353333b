"""The map: rows, prototypes, cells and densities on a plane."""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.arguments import threads_of
from dkmeans.explorer import requests as r
from dkmeans.explorer.curves import error_curve
from dkmeans.explorer.lookup import flags, layer_of, plane_key, plane_of, project, read_k
from dkmeans.explorer.planes import MapPlane
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import Session
from dkmeans.questions import nearest_prototype

MARGIN = 0.05  # of the extent of the map, around the rows
MAX_DENSITY_CLASSES = 64


def points(session: Session, params: dict[str, Any]) -> bytes:
    """Return coordinates, classes and flags of all rows of a layer."""
    layer = layer_of(session, params)
    draft = session.shown
    flat = project(session, plane_of(session, params), layer)
    n = len(flat)
    return b"".join(
        (
            struct.pack("<I", n),
            flat[:, 0].astype("<f4").tobytes(),
            flat[:, 1].astype("<f4").tobytes(),
            session.classes(draft, layer).astype("<u2").tobytes(),
            session.predicted(draft, layer).astype("<u2").tobytes(),
            flags(session, draft, layer).tobytes(),
        )
    )


def on_plane(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Return the prototypes on a plane, and the part of it that all rows take."""
    plane = plane_of(session, params)
    prototypes = _prototypes_on(session.shown.core, session.shown.core, plane)
    key = ("extent", plane_key(session, plane))
    extent = session.cached(key, lambda: _extent(session, plane, prototypes))
    return {"prototypes": prototypes.tolist(), "extent": extent}


def regions(session: Session, params: dict[str, Any]) -> bytes:
    """Find the nearest prototype at each pixel, line by line from the top."""
    plane = plane_of(session, params)
    extent, width, height = r.grid(params)
    core = session.shown.core
    x0, x1, y0, y1 = extent
    xs = x0 + (np.arange(width) + 0.5) * ((x1 - x0) / width)
    ys = y1 - (np.arange(height) + 0.5) * ((y1 - y0) / height)
    found = np.empty((height, width), dtype="<u2")
    lines = max(1, (1 << 16) // width)
    for top in range(0, height, lines):
        some = ys[top : top + lines]
        grid = np.column_stack([np.tile(xs, len(some)), np.repeat(some, width)])
        found[top : top + lines] = _nearest(core, plane, grid).reshape(len(some), width)
    return found.tobytes()


def density(session: Session, params: dict[str, Any]) -> bytes:
    """Count rows per class and pixel, line by line from the top."""
    layer, plane = layer_of(session, params), plane_of(session, params)
    extent, width, height = r.grid(params)
    draft = session.shown
    chosen = r.integers(params, "classes", len(draft.labels), most=MAX_DENSITY_CLASSES)
    if len(chosen) * width * height > r.MAX_PIXELS * 8:
        raise RequestError("So many classes need a smaller picture: reduce width or height.")
    flat, codes = project(session, plane, layer), session.classes(draft, layer)
    x0, x1, y0, y1 = extent
    columns = np.floor((flat[:, 0] - np.float32(x0)) * np.float32(width / (x1 - x0)))
    lines = np.floor((np.float32(y1) - flat[:, 1]) * np.float32(height / (y1 - y0)))
    inside = (columns >= 0) & (columns < width) & (lines >= 0) & (lines < height)
    inside &= session.used(draft, layer)
    place = np.full(len(draft.labels), -1)
    place[chosen] = np.arange(len(chosen))
    of_class = place[codes]
    rows = np.flatnonzero(inside & (of_class >= 0))
    pixel = lines[rows].astype(np.int64) * width + columns[rows].astype(np.int64)
    size = width * height
    counts = np.bincount(of_class[rows] * size + pixel, minlength=len(chosen) * size)
    return np.minimum(counts, 65_535).astype("<u2").tobytes()


def film(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Return the prototypes and errors at k prototypes; nothing is changed."""
    plane, draft = plane_of(session, params), session.at(read_k(params))
    flat = _prototypes_on(draft.core, session.shown.core, plane)
    lines = zip(flat.tolist(), draft.prototype_classes.tolist(), strict=True)
    curve = {entry["k"]: entry for entry in error_curve(session, session.draft) or []}
    entry = curve.get(draft.core.n_clusters_, {})
    return {
        "k": draft.core.n_clusters_,
        "prototypes": [[x, y, code] for (x, y), code in lines],
        "training": entry.get("training"),
        "held_out": entry.get("held_out"),
    }


def _extent(session: Session, plane: MapPlane, prototypes: npt.NDArray[np.float64]) -> list[float]:
    low, high = prototypes.min(axis=0), prototypes.max(axis=0)
    for layer in session.layers:
        flat = project(session, plane, layer)
        if len(flat):
            low, high = np.minimum(low, flat.min(axis=0)), np.maximum(high, flat.max(axis=0))
    margin = MARGIN * np.maximum(high - low, 0.01 * float((high - low).max()) or 1.0)
    (x0, y0), (x1, y1) = low - margin, high + margin
    return [float(x0), float(x1), float(y0), float(y1)]


def _prototypes_on(core: Any, shown: Any, plane: MapPlane) -> npt.NDArray[np.float64]:
    """Return the prototypes of a model on a plane of the model that is shown."""
    centers = core._fitted.prototypes.centers
    space = core._fitted.geometry
    if plane.is_mapped:
        if space != shown._fitted.geometry:
            centers = shown._fitted.geometry.rows(space.inverse(centers))
    else:
        centers = space.inverse(centers)
    return plane.project(centers).astype(np.float64)


def _nearest(core: Any, plane: MapPlane, points: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the nearest prototype of the rows that points of a plane stand for."""
    model = core._fitted
    centers = model.prototypes.centers
    lifted = plane.lift(points).astype(centers.dtype)
    if not plane.is_mapped:
        lifted = model.geometry.rows(lifted)
    return nearest_prototype.nearest(lifted, centers, threads_of(core))[0]
